//! Handlers of the process and the samples that handlers offer (rules r46, r52).

use std::time::Duration;

use chrono::{DateTime, Utc};
use tonic::{Code, Status};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::extension::v1::HandlerSample;
use weir_proto::types::v1::{Disposition, WorkState};
use weir_rpc::Problem;

use super::arrange::{SCRIPTED, publish};
use super::remote_server::Remote;
use super::script::Say;
use crate::support::{Weir, event};

fn config(url: &str, name: &str) -> String {
    format!(
        r#"
scopes:
  - name: root
    sources: [ {{ name: hub, match: {{ source: 'hub/*' }} }} ]
    bindings: {{ b: {{ executor: e }} }}
    routes:
      - {{ slot: last, handler: {{ rust: takes }}, binding: b }}
  - name: s
    parent: root
    bindings: {{ a: {{ executor: e }} }}
    routes:
      - {{ slot: cel, when: 'false', binding: b }}
      - {{ slot: none, handler: {{ rust: fails }}, binding: b }}
      - {{ slot: away, handler: {{ remote: "{url}", name: score }}, timeout: 1s, binding: b }}
      - {{ slot: last, handler: {{ rust: {name} }}, binding: b }}
      - {{ slot: more, handler: {{ rust: takes }}, binding: b }}
"#
    )
}

fn offered(name: &str, event: CloudEvent) -> HandlerSample {
    HandlerSample {
        name: name.to_owned(),
        event: Some(event),
        keys: vec!["hub/1".to_owned()],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r46_samples_are_built_from_the_scope_with_the_routers_clock_in_route_order() {
    let remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "takes")).await;
    // The router's clock is the database's.
    weir.db.advance(Duration::from_secs(86_400)).await;
    remote.offer(Ok(vec![offered("remote", event("r", "x", "{}"))]));
    let before = weir.db.now().await;
    let samples = weir.samples("s").await.expect("all offer");
    let after = weir.db.now().await;
    let named: Vec<(&str, &str)> = samples
        .iter()
        .map(|s| (s.route.as_str(), s.name.as_str()))
        .collect();
    // The slot that the scope overrides stands where its ancestor has it.
    let expected = [
        ("last", "one"),
        ("last", "two"),
        ("away", "remote"),
        ("more", "one"),
        ("more", "two"),
    ];
    assert_eq!(named, expected);
    assert_eq!(
        (&samples[0].keys, &samples[3].keys),
        (&vec!["s/last".to_owned()], &vec!["s/more".to_owned()])
    );
    let Some(Data::TextData(data)) = &samples[0].event.as_ref().expect("always there").data else {
        panic!("JSON is text: {samples:?}");
    };
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["bindings"], serde_json::json!(["a", "b"]));
    let at: DateTime<Utc> = data["at"].as_str().expect("text").parse().expect("a time");
    assert!(before <= at && at <= after, "{before} {at} {after}");
    let asked = remote.sample_calls().remove(0);
    assert_eq!(
        (
            asked.name.as_str(),
            asked.scope.as_str(),
            asked.route.as_str()
        ),
        ("score", "s", "away")
    );
    assert_eq!(
        (asked.bindings, asked.sources),
        (vec!["a".to_owned(), "b".to_owned()], vec!["hub".to_owned()])
    );
    let told = asked.now.expect("it is told the time");
    let told =
        DateTime::from_timestamp(told.seconds, told.nanos.cast_unsigned()).expect("in range");
    assert!(before <= told && told <= after);

    // They can be published as they are.
    for sample in samples {
        let keys: Vec<&str> = sample.keys.iter().map(String::as_str).collect();
        let event = sample.event.expect("always there");
        weir.try_publish("s", event, &keys).await.expect("accepted");
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r46_a_handler_that_offers_nothing_is_left_out_and_one_that_fails_is_named() {
    let mut remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "takes")).await;
    // It does not implement the method.
    assert_eq!(weir.samples("s").await.expect("none is fine").len(), 4);
    assert_eq!(weir.samples("root").await.expect("known").len(), 2);
    let unknown = weir.samples("nowhere").await.expect_err("no such scope");
    assert_eq!(Problem::from(unknown).reason, "SCOPE_NOT_FOUND");

    let refused = async || {
        let status = weir.samples("s").await.expect_err("a handler fails");
        let code = status.code();
        let problem = Problem::from(status);
        assert_eq!(problem.reason, "SAMPLES_FAILED");
        (code, problem.message)
    };
    let bad = [
        (
            offered("", event("1", "x", "{}")),
            "samples[0].name is required",
        ),
        (
            offered("n", event("", "x", "{}")),
            "samples[0].event.id is required",
        ),
        (
            offered("n", event("1", "core.x", "{}")),
            "samples[0].event.type is reserved",
        ),
    ];
    for (sample, expected) in bad {
        remote.offer(Ok(vec![sample]));
        let (code, message) = refused().await;
        assert_eq!(code, Code::FailedPrecondition);
        let named = format!("route `away` offers no samples: handler_invalid: {expected}");
        assert!(message.starts_with(&named), "{message}");
    }
    let many = (0..101).map(|n| offered("n", event(&n.to_string(), "x", "{}")));
    remote.offer(Ok(many.collect()));
    assert!(refused().await.1.contains("101 samples, the limit is 100"));
    remote.offer(Err(Status::new(Code::Internal, "no table")));
    let (code, message) = refused().await;
    assert_eq!(code, Code::Unavailable);
    assert_eq!(
        message,
        "route `away` offers no samples: handler_failed: INTERNAL: no table"
    );
    remote.stop().await;
    assert_eq!(refused().await.0, Code::Unavailable);
    remote.restart().await;
    remote.offer(Ok(Vec::new()));

    weir.apply(&config(&remote.url(), "panics"), 1).await;
    let (code, message) = refused().await;
    assert_eq!(code, Code::FailedPrecondition);
    assert!(
        message.starts_with("route `last` offers no samples: handler_panic: "),
        "{message}"
    );
    weir.apply(&config(&remote.url(), "absent"), 2).await;
    assert!(
        refused()
            .await
            .1
            .contains("handler_missing: handler `absent`")
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r52_a_registered_rust_handler_decides_with_event_keys_and_work() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    script.say("1", [Say::Match]);
    let uid = publish(&weir, "1", "x", r#"{"key":"d/1"}"#, &["k/1"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (
            record.disposition(),
            record.route.as_str(),
            record.reason.as_str()
        ),
        (Disposition::Start, "scripted", "as told")
    );
    let work = weir.work(&record.work).await;
    assert_eq!(
        (work.state(), work.keys),
        (WorkState::Ready, vec!["d/1".to_owned(), "k/1".to_owned()])
    );

    script.say("2", [Say::Skip("not mine".to_owned())]);
    let uid = publish(&weir, "2", "y", "{}", &["k/1"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(record.disposition(), Disposition::Unmatched);
    assert_eq!(
        record.refusals.last().expect("it declined").reason,
        "not mine"
    );
    let seen = script.all_calls();
    let told: Vec<_> = seen
        .iter()
        .map(|c| {
            (
                c.id.as_str(),
                c.kind.as_str(),
                c.state.as_deref(),
                c.dry_run,
            )
        })
        .collect();
    assert_eq!(
        told,
        [("1", "x", None, false), ("2", "y", Some("ready"), false)]
    );
    weir.stop().await;
}
