//! Traces of events that meet waits (rules r42–r44).

use std::time::Duration;

use weir_proto::gateway::v1 as gateway;
use weir_proto::types::v1::{Disposition, Effect, EffectKind, VerdictOutcome, WorkState};

use super::arrange::{
    WAITING, becomes, checked, claimed, emit, hold_work, lease, of, own, parked, publish_into,
    try_park, woken,
};
use crate::outside::rows;
use crate::routing::arrange::numbers;
use crate::support::{Weir, event};

fn effect(trace: &gateway::TraceEventResponse) -> &Effect {
    trace.effect.as_ref().expect("always there")
}

async fn trace_into(weir: &Weir, scope: &str, kind: &str) -> gateway::TraceEventResponse {
    let request = gateway::TraceEventRequest {
        scope: scope.to_owned(),
        event: Some(event("traced", kind, "{}")),
        ..Default::default()
    };
    let answer = weir.user.control().trace_event(request).await;
    answer.expect("traceable").into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_a_trace_of_an_event_that_wins_its_works_wait_says_wake_and_all_routes_bypassed() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    checked(&weir).await;
    let before = rows(&weir.db).await;
    let trace = weir.trace("whatever", "{}", &["k"]).await;
    assert_eq!(rows(&weir.db).await, before);
    let effect = effect(&trace);
    assert_eq!(effect.kind(), EffectKind::Wake);
    assert_eq!(
        (effect.work.as_str(), effect.reason.as_str()),
        (work.as_str(), "wait_won")
    );
    assert!(effect.also.is_empty());
    let bypassed = VerdictOutcome::Bypassed;
    assert!(trace.verdicts.iter().all(|v| v.outcome() == bypassed));
    assert_eq!(trace.verdicts.len(), 5);
    let record = weir.routed("2", "whatever", &["k"]).await;
    assert_eq!(record.disposition(), Disposition::Wake);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r43_when_the_timeout_won_first_also_says_so_and_the_routes_decide_for_a_ready_work() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let minute = Some(Duration::from_secs(60));
    let wait = try_park(&weir, &attempt, &[own()], minute)
        .await
        .expect("leased");
    checked(&weir).await;
    // Nobody wakes it yet.
    let (tenant, scope) = numbers(&weir, "s").await;
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    weir.db.advance(Duration::from_secs(61)).await;
    let trace = weir.trace("context", "{}", &["k"]).await;
    let effect = effect(&trace);
    assert_eq!(
        (effect.kind(), effect.route.as_str()),
        (EffectKind::Queue, "context")
    );
    let also: Vec<_> = effect.also.iter().map(|a| a.wait.as_str()).collect();
    assert_eq!(also, [wait.wait.as_str()]);
    let unmatched = weir.trace("whatever", "{}", &["k"]).await;
    assert_eq!(
        unmatched.effect.expect("always there").kind(),
        EffectKind::Unmatched
    );
    hold.release().await;
    let record = weir.routed("2", "context", &["k"]).await;
    assert_eq!(
        (record.disposition(), record.route.as_str()),
        (Disposition::Queue, "context")
    );
    woken(&weir, &lease(&attempt).work).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r43_an_own_event_that_comes_while_another_winner_waits_to_wake_is_routed_after_it() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let minute = Some(Duration::from_secs(60));
    try_park(&weir, &attempt, &[own()], minute)
        .await
        .expect("leased");
    checked(&weir).await;
    let work = lease(&attempt).work.clone();
    // The wake stands at the Work's lock; the event is decided meanwhile.
    let hold = hold_work(&weir, &work).await;
    weir.db.advance(Duration::from_secs(61)).await;
    weir.db.wait_until_blocked(1).await;
    hold.release().await;
    let record = weir.routed("2", "whatever", &["k"]).await;
    assert_eq!(
        record.disposition(),
        Disposition::Unmatched,
        "on the ready Work"
    );
    becomes(&weir, &work, WorkState::Ready).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r44_a_trace_says_which_other_works_the_event_would_wake() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, wait) = parked(&weir, "1", "k", &[of("t", r#"event.type == "start""#)]).await;
    checked(&weir).await;
    let trace = trace_into(&weir, "t", "start").await;
    let seen = effect(&trace);
    assert_eq!(seen.kind(), EffectKind::Start, "by its own routes");
    let also: Vec<_> = seen
        .also
        .iter()
        .map(|a| (a.scope.as_str(), a.work.as_str(), a.wait.as_str()))
        .collect();
    assert_eq!(also, [("s", work.as_str(), wait.wait.as_str())]);
    assert_eq!(
        trace.verdicts[0].outcome(),
        VerdictOutcome::Match,
        "verdicts are kept"
    );
    let other = trace_into(&weir, "t", "stop").await;
    assert!(effect(&other).also.is_empty());
    // Somebody has won it already, and nobody has woken the Work yet.
    let (tenant, scope) = numbers(&weir, "s").await;
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    publish_into(&weir, "t", "2", "start", &[]).await;
    assert!(
        effect(&trace_into(&weir, "t", "start").await)
            .also
            .is_empty()
    );
    hold.release().await;
    woken(&weir, &work).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_behind_a_winner_whose_bridge_is_refused_the_effect_is_queue() {
    let weir = Weir::with(&WAITING.replace("depth: 32", "depth: 1")).await;
    weir.register(&[]).await;
    // The attempt's own tree is at its limit: what it emits stands at depth 1, its bridge would at 2.
    let attempt = claimed(&weir, "1", "k").await;
    emit(&weir, &attempt, event("e", "note", "{}"), &[], "t")
        .await
        .expect("at the limit");
    let (tenant, scope) = numbers(&weir, "s").await;
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    try_park(&weir, &attempt, &[own(), of("t", "")], None)
        .await
        .expect("leased");
    let work = lease(&attempt).work.clone();
    let trace = weir.trace("whatever", "{}", &["k"]).await;
    let seen = effect(&trace);
    assert_eq!(
        (seen.kind(), seen.reason.as_str()),
        (EffectKind::Queue, "context")
    );
    assert_eq!(seen.work, work);
    hold.release().await;
    becomes(&weir, &work, WorkState::Held).await;
    assert_eq!(weir.work(&work).await.held_reason, "wake_refused_depth");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r43_a_trace_behind_an_own_event_that_is_undecided_says_that_the_other_wins() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, wait) = parked(&weir, "1", "k", &[own()]).await;
    checked(&weir).await;
    let hold = hold_work(&weir, &work).await;
    let first = weir.publish("2", "context", &["k"]).await;
    weir.db.wait_until_blocked(1).await;
    let trace = weir.trace("context", "{}", &["k"]).await;
    let seen = effect(&trace);
    assert_eq!(seen.kind(), EffectKind::Queue);
    assert_eq!(seen.also.len(), 1);
    assert_eq!(seen.also[0].wait, wait.wait);
    hold.release().await;
    assert_eq!(weir.record(&first).await.disposition(), Disposition::Wake);
    weir.stop().await;
}
