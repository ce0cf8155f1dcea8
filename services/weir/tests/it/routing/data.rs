//! What expressions make of an event's data (rule r50).

use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::types::v1::{Disposition, VerdictOutcome};

use super::arrange::publish;
use crate::support::{Weir, event};

const CONFIG: &str = r#"
scopes:
  - name: s
    bindings: { b: { executor: e } }
    routes:
      - { slot: deep, when: 'event.type == "deep" && event.data.a.b == 1', binding: b }
      - { slot: index, when: 'event.type == "index" && event.data.list[2] == 1', binding: b }
      - { slot: sum, when: 'event.type == "sum" && event.data.n + 1 > 1', binding: b }
      - { slot: ratio, when: 'event.type == "ratio" && 10 / event.data.n > 1', binding: b }
      - { slot: text, when: 'event.type == "text" && event.data.n', binding: b }
      - { slot: held, when: 'event.type == "work" && work.state == "held"', binding: b }
      - { slot: new, when: 'event.type == "work" && !has(work.state)', binding: b }
      - { slot: any, when: 'event.type == "any"', binding: b }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn r50_missing_fields_are_skips_with_their_reason_and_type_errors_fail() {
    let weir = Weir::with(CONFIG).await;
    let reason = async |id: &str, kind: &str, data: &str, slot: &str| {
        let uid = publish(&weir, id, kind, data, &[]).await;
        let record = weir.record(&uid).await;
        assert_eq!(record.disposition(), Disposition::Unmatched, "{id}");
        record
            .refusals
            .into_iter()
            .find(|r| r.route == slot)
            .expect("it declined")
            .reason
    };
    assert_eq!(
        reason("1", "deep", "{}", "deep").await,
        "no such field event.data.a"
    );
    assert_eq!(
        reason("2", "deep", r#"{"a":{}}"#, "deep").await,
        "no such field event.data.a.b"
    );
    assert_eq!(
        reason("3", "deep", r#"{"a":{"b":2}}"#, "deep").await,
        "condition is false"
    );
    assert_eq!(
        reason("4", "index", r#"{"list":[1,2]}"#, "index").await,
        "no such field event.data.list[2]"
    );
    // The Work's snapshot is `{}` where there is none.
    assert_eq!(weir.routed("5", "work", &["k"]).await.route, "new");
    let second = weir.routed("6", "work", &["k"]).await;
    assert_eq!(
        (second.disposition(), second.work.is_empty()),
        (Disposition::Unmatched, false)
    );

    for (id, kind, data) in [
        ("7", "sum", r#"{"n":"text"}"#),
        ("8", "ratio", r#"{"n":0}"#),
        ("9", "text", r#"{"n":"text"}"#),
    ] {
        let uid = publish(&weir, id, kind, data, &[]).await;
        let record = weir.record(&uid).await;
        let found = (
            record.disposition(),
            record.reason.as_str(),
            record.route.as_str(),
            record.attempts,
        );
        assert_eq!(
            found,
            (Disposition::Failed, "handler_invalid", kind, 1),
            "{id}"
        );
        assert!(
            !record.error.is_empty() && !record.error.contains('\n'),
            "{}",
            record.error
        );
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r50_data_that_cannot_be_read_is_absent_and_harms_no_other_route() {
    let weir = Weir::with(CONFIG).await;
    let nested = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let unreadable: [(&str, Option<Data>); 4] = [
        ("not json", Some(Data::TextData("{".to_owned()))),
        (
            "repeated keys",
            Some(Data::TextData(r#"{"a":{"b":1},"a":{"b":1}}"#.to_owned())),
        ),
        ("nested", Some(Data::TextData(nested))),
        ("bytes", Some(Data::BinaryData(vec![0xff, 0xfe]))),
    ];
    for (id, data) in unreadable {
        let sent = CloudEvent {
            data: data.clone(),
            ..event(id, "deep", "")
        };
        let uid = weir
            .try_publish("s", sent, &[])
            .await
            .expect("accepted")
            .uid;
        let record = weir.record(&uid).await;
        assert_eq!(record.disposition(), Disposition::Unmatched, "{id}");
        assert_eq!(record.refusals[0].reason, "data_unreadable", "{id}");
        assert_eq!(
            record.refusals[1].reason, "condition is false",
            "it did not need the data: {id}"
        );
        let kept = super::arrange::read(&weir, &uid).await.event.expect("kept");
        assert_eq!(kept.data, data, "{id}");
        // A route that does not look into it takes the event.
        let sent = CloudEvent {
            data,
            ..event(&format!("{id} any"), "any", "")
        };
        let uid = weir
            .try_publish("s", sent, &[])
            .await
            .expect("accepted")
            .uid;
        assert_eq!(weir.record(&uid).await.route, "any");
    }
    // An event without data has no data; that is no fault of it.
    let uid = weir
        .try_publish(
            "s",
            CloudEvent {
                data: None,
                ..event("none", "deep", "")
            },
            &[],
        )
        .await
        .expect("accepted")
        .uid;
    let record = weir.record(&uid).await;
    assert!(
        record.refusals[0]
            .reason
            .starts_with("no such field event.data"),
        "{}",
        record.refusals[0].reason
    );

    let traced = weir.trace("deep", "{", &[]).await;
    let deep = traced
        .verdicts
        .iter()
        .find(|v| v.route == "deep")
        .expect("asked");
    assert_eq!(
        (deep.outcome(), deep.reason.as_str()),
        (VerdictOutcome::Skip, "data_unreadable")
    );
    weir.stop().await;
}
