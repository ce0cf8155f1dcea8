//! The whole way, as an operator walks it.

use weir_proto::causal::v1 as causal;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1 as types;

use crate::outside::{deliver, send};
use crate::support::{CONFIG, Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_becomes_work_that_runs_and_an_operator_traces_skips_and_reroutes() {
    let weir = Weir::start().await;
    weir.register(&[]).await;

    // Before: what would become of it.
    let trace = weir.trace("start", "{}", &["issue/1"]).await;
    assert_eq!(
        trace.effect.expect("always there").kind(),
        types::EffectKind::Start
    );

    // Publish, and see it start a Work.
    let record = weir.routed("1", "start", &["issue/1"]).await;
    assert_eq!(record.disposition(), types::Disposition::Start);
    let claimed = weir.claim().await.expect("queued");
    assert_eq!(
        claimed.lease.as_ref().expect("always there").work,
        record.work
    );
    assert_eq!(
        claimed.inputs.iter().map(|e| &e.uid).collect::<Vec<_>>(),
        [&record.event]
    );
    assert_eq!(claimed.keys, ["issue/1"]);
    let trace = weir.trace("start", "{}", &["issue/1"]).await;
    let effect = trace.effect.expect("always there");
    assert_eq!(
        (effect.kind(), effect.work.as_str()),
        (types::EffectKind::Queue, record.work.as_str())
    );

    // It emits, and what it emits is its own next input.
    let emission = causal::Emission {
        event: Some(CloudEvent {
            source: String::new(),
            ..event("done", "start", "{}")
        }),
        keys: vec!["issue/1".to_owned()],
        targets: None,
    };
    let request = causal::EmitRequest {
        lease: claimed.lease.clone(),
        events: vec![emission],
        ..Default::default()
    };
    let answer = weir
        .user
        .causal()
        .emit(request)
        .await
        .expect("accepted")
        .into_inner();
    let emitted = answer.results[0].accepted.clone().expect("accepted").uid;
    assert_eq!(weir.record(&emitted).await.work, record.work);
    assert_eq!(
        weir.complete(&claimed).await.expect("it holds the lease"),
        types::WorkState::Ready
    );
    let next = weir.claim().await.expect("queued");
    assert_eq!(
        weir.complete(&next).await.expect("it holds the lease"),
        types::WorkState::Completed
    );
    let work = weir.work(&record.work).await;
    assert_eq!(
        (work.state(), work.attempts, work.open_inputs),
        (types::WorkState::Completed, 2, 0)
    );
    let request = lifecycle::ListInputsRequest {
        work: record.work.clone(),
        ..Default::default()
    };
    let inputs = weir
        .user
        .work()
        .list_inputs(request)
        .await
        .expect("known")
        .into_inner()
        .inputs;
    assert!(
        inputs
            .iter()
            .all(|i| i.state() == types::InputState::Consumed),
        "{inputs:?}"
    );

    // The same again is answered, what is new is late: the key is owned for ever (rules r08, r15).
    assert_eq!(weir.publish("1", "start", &["issue/1"]).await, record.event);
    assert_eq!(
        weir.routed("2", "start", &["issue/1"]).await.disposition(),
        types::Disposition::Terminal
    );
    let trace = weir.trace("start", "{}", &["issue/1"]).await;
    assert_eq!(
        trace.effect.expect("always there").kind(),
        types::EffectKind::Drop
    );

    // A handler that fails: the operator skips one event, repairs the rest and reroutes what had failed.
    let broken = CONFIG.replace(
        "handler: { rust: panics }, binding: b, disabled: true",
        "handler: { rust: fails }, binding: b",
    );
    weir.apply(&broken, 1).await;
    let stuck = weir.publish("3", "start", &["issue/3"]).await;
    assert!(
        weir.pending(&stuck)
            .await
            .last_error
            .contains("handler_failed")
    );
    let skipped = weir
        .skip(&stuck)
        .await
        .expect("unrouted")
        .record
        .expect("always there");
    assert_eq!(skipped.disposition(), types::Disposition::Skipped);
    let invalid = CONFIG.replace(
        "handler: { rust: panics }, binding: b, disabled: true",
        "handler: { rust: malformed }, binding: b",
    );
    weir.apply(&invalid, 2).await;
    let failed = weir.routed("4", "start", &["issue/4"]).await;
    assert_eq!(
        (failed.disposition(), failed.reason.as_str()),
        (types::Disposition::Failed, "handler_invalid")
    );
    weir.apply(CONFIG, 3).await;
    for uid in [&stuck, &failed.event] {
        let copy = weir.reroute(uid).await.expect("routed without effect");
        assert!(copy.copied && copy.event != *uid);
        assert_eq!(
            weir.record(&copy.event).await.disposition(),
            types::Disposition::Start
        );
    }
    assert!(
        weir.skip(&failed.event).await.is_err(),
        "only an unrouted event is skipped"
    );

    // Every event has ended in exactly one disposition, and each operator action is on record.
    let undecided: i64 =
        sqlx::query_scalar("SELECT count(*) FROM weir.event WHERE disposition IS NULL")
            .fetch_one(weir.db.pool())
            .await
            .expect("events");
    assert_eq!(
        (
            undecided,
            weir.count("pending").await,
            weir.count("audit").await
        ),
        (0, 0, 3)
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_webhook_becomes_work_that_a_worker_drains() {
    let weir = Weir::with(weir_routing::tenant::DEMO).await;
    let body = |action: &str, n: i32| {
        format!(
            r#"{{"action":"{action}","issue":{{"number":{n},"node_id":"I_{n}"}},"repository":{{"full_name":"o/r"}},"sender":{{"type":"User"}}}}"#
        )
    };
    let mut works = Vec::new();
    for (id, action, n) in [("1", "opened", 1), ("2", "labeled", 1), ("3", "opened", 2)] {
        let reply = deliver(
            &weir,
            "github",
            "github",
            &[("x-github-delivery", id)],
            &body(action, n),
        )
        .await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        let uid = reply.json()["uid"].as_str().expect("a uid").to_owned();
        works.push(weir.record(&uid).await.work);
    }
    assert!(
        !works[0].is_empty() && works[0] == works[1] && works[1] != works[2],
        "an issue's events share one work: {works:?}"
    );
    let again = deliver(
        &weir,
        "github",
        "github",
        &[("x-github-delivery", "1")],
        &body("opened", 1),
    )
    .await
    .json();
    assert_eq!(again["deduplicated"].as_bool(), Some(true));

    let register = lifecycle::RegisterExecutorRequest {
        executor: "command".to_owned(),
        capabilities: vec![
            lifecycle::Capability::Inject.into(),
            lifecycle::Capability::Interrupt.into(),
        ],
        request_id: String::new(),
    };
    weir.user
        .executor()
        .register_executor(register)
        .await
        .expect("registered");
    let mut inputs = 0;
    while let Some(claimed) = weir.claim_of("triage").await {
        inputs += claimed.inputs.len();
        assert_eq!(
            weir.complete(&claimed).await.expect("it holds the lease"),
            types::WorkState::Completed
        );
    }
    assert_eq!((inputs, weir.count("work").await), (3, 2));
    for (work, open) in [(&works[0], 0), (&works[2], 0)] {
        let work = weir.work(work).await;
        assert_eq!(
            (work.state(), work.open_inputs),
            (types::WorkState::Completed, open)
        );
    }

    // An operator over plain HTTP.
    let me = [("x-weir-tenant", "demo"), ("x-weir-actor", "me")];
    let reply = deliver(
        &weir,
        "github",
        "github",
        &[("x-github-delivery", "4"), ("x-github-event", "star")],
        "{}",
    )
    .await;
    let uid = reply.json()["uid"].as_str().expect("a uid").to_owned();
    weir.record(&uid).await;
    let route = send(
        &weir.url,
        http::Method::GET,
        &format!("/v1/events/{uid}/route"),
        &me,
        "",
    )
    .await;
    assert!(
        route.json()["record"]["disposition"].is_string(),
        "{}",
        route.text()
    );
    let skip = send(
        &weir.url,
        http::Method::POST,
        &format!("/v1/events/{uid}/skip"),
        &me,
        r#"{"reason":"late"}"#,
    )
    .await;
    assert_eq!(
        (skip.status, skip.reason().as_str()),
        (400, "ALREADY_ROUTED")
    );
    let list = routing::ListEventsRequest {
        unrouted: true,
        ..Default::default()
    };
    assert!(
        weir.user
            .events()
            .list_events(list)
            .await
            .expect("a list")
            .into_inner()
            .events
            .is_empty()
    );
    weir.stop().await;
}
