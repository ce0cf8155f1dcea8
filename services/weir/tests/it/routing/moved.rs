//! Decisions about a Work that changes between the snapshot and the commit, with two replicas (rules r01, r09, r15),
//! and handlers that hang for their whole deadline (rules r04, r20). A Work is never rebound here: `RebindWork` is
//! not built.

use std::time::Duration;

use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::types::v1::{Disposition, PendingState, WorkState};

use super::arrange::{
    ALL, SCRIPTED, cancel, decided, fail, hanging_in, patient, publish, read, renew, running,
    stands,
};
use super::script::Say;
use crate::support::{Replica, Weir};

/// Two replicas with the executor registered.
async fn two() -> (Weir, Replica) {
    let weir = Weir::with(&patient()).await;
    weir.register(&ALL).await;
    let second = weir.another().await;
    (weir, second)
}

/// Publishes an event that both replicas are in the middle of deciding: the handler will take it.
async fn midway(weir: &Weir, id: &str, key: &str) -> String {
    weir.handlers.script.say(id, [Say::Match]);
    weir.handlers.script.close(id);
    let uid = publish(weir, id, "x", "{}", &[key]).await;
    hanging_in(weir, 2, id).await;
    uid
}

fn states(weir: &Weir, id: &str) -> Vec<String> {
    let calls = weir.handlers.script.calls(id);
    calls.into_iter().filter_map(|c| c.state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_work_cancelled_mid_decision_takes_nothing() {
    let (weir, second) = two().await;
    let (ready, running_work) = (
        weir.routed("r", "start", &["r"]).await.work,
        weir.routed("w", "other", &["w"]).await.work,
    );
    weir.claim_of("other").await.expect("ready");
    for (id, key, work) in [("of ready", "r", ready), ("of running", "w", running_work)] {
        let uid = midway(&weir, id, key).await;
        cancel(&weir, &work).await;
        weir.handlers.script.open(id);
        let record = decided(&weir, &uid).await;
        assert_eq!(
            (record.disposition(), record.reason.as_str(), &record.work),
            (Disposition::Terminal, "terminal", &work),
            "{id}"
        );
        assert!(record.route.is_empty() && record.binding.is_empty(), "{id}");
        assert_eq!(weir.inputs(&work).await.len(), 1, "{id}");
        assert_eq!(weir.work(&work).await.state(), WorkState::Cancelled);
        assert_eq!(states(&weir, id).len(), 2, "no route was asked again: {id}");
    }
    assert_eq!(weir.count("intent").await, 0);
    second.stop().await;
    weir.stop().await;
}

/// Unrouted input refuses Complete (rule l06); only what is in conflict does not, and a new generation decides it.
#[tokio::test(flavor = "multi_thread")]
async fn r15_a_work_completed_mid_decision_takes_nothing() {
    let (weir, second) = two().await;
    let (work, claimed) = running(&weir, "1", "a").await;
    weir.routed("2", "start", &["b"]).await;
    let torn = publish(&weir, "torn", "attach", r#"{"key":"b"}"#, &["a"]).await;
    stands(&weir, &torn, PendingState::Conflict).await;
    weir.handlers.script.say("torn", [Say::Match]);
    weir.handlers.script.close("torn");
    let asks = patient().replace(
        "{ slot: attach, when: 'event.type == \"attach\"', binding: b, attach: ['event.data.key'] }",
        "{ slot: attach, handler: { rust: scripted }, timeout: 60s, binding: b }",
    );
    assert_ne!(asks, patient());
    weir.apply(&asks, 1).await;
    hanging_in(&weir, 2, "torn").await;
    let state = weir
        .complete(&claimed)
        .await
        .expect("a conflict does not refuse it");
    assert_eq!(state, WorkState::Completed);
    weir.handlers.script.open("torn");
    let record = decided(&weir, &torn).await;
    assert_eq!(
        (record.disposition(), &record.work, record.generation),
        (Disposition::Terminal, &work, 2)
    );
    assert_eq!(weir.inputs(&work).await.len(), 1);
    assert_eq!(states(&weir, "torn"), ["running", "running"]);
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_a_claim_mid_decision_turns_input_into_an_intent_on_the_new_attempt() {
    let (weir, second) = two().await;
    let work = weir.routed("w", "start", &["k"]).await.work;
    let first = midway(&weir, "first", "k").await;
    let lost = weir.claim().await.expect("ready");
    weir.handlers.script.open("first");
    assert_eq!(
        decided(&weir, &first).await.disposition(),
        Disposition::Inject
    );
    assert_eq!(renew(&weir, &lost).await.0, std::slice::from_ref(&first));

    // The same between two attempts: only the epoch tells them apart.
    let next = midway(&weir, "next", "k").await;
    weir.db.advance(Duration::from_secs(31)).await;
    let taken = weir.claim().await.expect("its lease is over");
    weir.handlers.script.open("next");
    assert_eq!(
        decided(&weir, &next).await.disposition(),
        Disposition::Inject
    );
    assert_eq!(
        renew(&weir, &taken).await.0,
        std::slice::from_ref(&next),
        "the first intent died with its attempt"
    );
    assert_eq!(weir.inputs(&work).await[1..], [first, next]);
    let attempts: Vec<i32> = sqlx::query_scalar("SELECT attempt FROM weir.intent ORDER BY attempt")
        .fetch_all(weir.db.pool())
        .await
        .expect("intents");
    assert_eq!(attempts.last(), Some(&2));
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_nothing_is_deferred_for_an_attempt_that_ended_mid_decision() {
    let (weir, second) = two().await;
    let work = weir.routed("w", "other", &["k"]).await.work;
    let claimed = weir.claim_of("other").await.expect("ready");
    let uid = midway(&weir, "e", "k").await;
    fail(&weir, &claimed, FailureKind::Retryable).await;
    weir.handlers.script.open("e");
    let record = decided(&weir, &uid).await;
    assert_eq!(
        (record.disposition(), record.binding.as_str(), &record.work),
        (Disposition::Queue, "b", &work)
    );
    assert_eq!(
        states(&weir, "e").first().map(String::as_str),
        Some("running")
    );
    assert_eq!(states(&weir, "e").last().map(String::as_str), Some("ready"));
    second.stop().await;
    weir.stop().await;
}

/// The deadline passes for real; nothing here measures it.
#[tokio::test(flavor = "multi_thread")]
async fn r20_a_handler_that_hangs_for_its_whole_deadline_delays_only_its_own_event() {
    let config = SCRIPTED.replace(
        "handler: { rust: scripted },",
        "handler: { rust: scripted }, timeout: 300ms,",
    );
    assert_ne!(config, SCRIPTED);
    let weir = Weir::with(&config).await;
    weir.register(&ALL).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let held = weir.routed("held", "start", &["h"]).await.work;
    script.say("hangs", [Say::Match]);
    script.close("hangs");
    let hangs = publish(&weir, "hangs", "x", "{}", &["h"]).await;
    hanging_in(&weir, 2, "hangs").await;
    let behind = publish(&weir, "behind", "start", "{}", &["h"]).await;

    // Other Work starts, runs and ends until the deadline has passed in both replicas.
    let mut rounds = 0;
    let backs_off = async || {
        let pending = read(&weir, &hangs).await.pending;
        pending.is_some_and(|p| p.state() == PendingState::Backoff)
    };
    while rounds == 0 || !backs_off().await {
        rounds += 1;
        let key = format!("o/{rounds}");
        let other = weir.routed(&key, "start", &[&key]).await.work;
        assert_ne!(other, held);
        let later = weir.routed(&format!("{key} more"), "start", &[&key]).await;
        assert_eq!(later.work, other);
        while weir.work(&other).await.state() != WorkState::Completed {
            let claimed = weir.claim().await.expect("the others are ready");
            let lease = claimed.lease.as_ref().expect("always there");
            if lease.work == held {
                // It cannot complete before its input is decided; its attempt just goes on.
                continue;
            }
            weir.complete(&claimed).await.expect("nothing blocks it");
        }
    }
    let pending = read(&weir, &hangs).await.pending.expect("it backs off");
    assert!(pending.failures >= 1, "{pending:?}");
    assert_eq!(
        pending.last_error,
        "handler_timeout: no decision within 300ms"
    );
    assert!(read(&weir, &behind).await.route.is_none());
    assert!(
        script.hanging("hangs") >= 2,
        "the calls themselves still hang"
    );

    script.open("hangs");
    weir.db.advance(Duration::from_secs(600)).await;
    assert_eq!(decided(&weir, &hangs).await.work, held);
    assert_eq!(decided(&weir, &behind).await.work, held);
    assert_eq!(weir.inputs(&held).await[1..], [hangs, behind]);
    second.stop().await;
    weir.stop().await;
}
