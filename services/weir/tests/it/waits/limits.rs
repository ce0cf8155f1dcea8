//! Wakes that the causal limits refuse (rules l11, r17, r42).

use std::time::Duration;

use weir_proto::types::v1::{Disposition, WorkState};

use super::arrange::{
    WAITING, becomes, checked, claimed, emit, inputs, lease, of, own, park, parked, publish_into,
    release, scripted, uids, woken,
};
use crate::routing::arrange::read;
use crate::routing::script::Say;
use crate::support::{Weir, event};

fn narrow(depth: i32, rate: i32) -> String {
    WAITING.replace(
        "depth: 32, derived_per_minute: 128",
        &format!("depth: {depth}, derived_per_minute: {rate}"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn l11_a_wake_that_the_limits_refuse_holds_the_work_with_the_reason() {
    let weir = Weir::with(&narrow(0, 128)).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[of("t", "")]).await;
    let go = publish_into(&weir, "t", "go", "go", &[]).await;
    becomes(&weir, &work, WorkState::Held).await;
    let held = weir.work(&work).await;
    assert_eq!(held.held_reason, "wake_refused_depth");
    assert!(weir.record(&go).await.also.is_empty(), "nobody was woken");
    assert_eq!(inputs(&weir, &work).await.len(), 1, "there is no bridge");
    assert_eq!(weir.count("causal_refusal").await, 1, "and a diagnostic");
    // A held Work is not looked at.
    publish_into(&weir, "t", "go again", "go", &[]).await;
    checked(&weir).await;
    assert_eq!(weir.count("causal_refusal").await, 1);

    // Released under the same limits it is refused again; under others it is woken by the same winner.
    assert_eq!(release(&weir, &work).await, WorkState::Waiting);
    becomes(&weir, &work, WorkState::Held).await;
    weir.apply(WAITING, 1).await;
    assert_eq!(release(&weir, &work).await, WorkState::Waiting);
    let attempt = woken(&weir, &work).await;
    assert_eq!(uids(&attempt)[1], go);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_an_own_event_whose_bridge_is_refused_is_context_and_holds_the_work() {
    let weir = Weir::with(&narrow(0, 128)).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    checked(&weir).await;
    let record = scripted(&weir, "2", &["k"], Say::Skip("no".to_owned())).await;
    assert_eq!(record.disposition(), Disposition::Queue);
    assert_eq!(
        (record.route.as_str(), record.reason.as_str()),
        ("", "context")
    );
    assert_eq!(record.work, work);
    assert_eq!(
        weir.handlers.script.calls("2").len(),
        1,
        "the routes are asked"
    );
    becomes(&weir, &work, WorkState::Held).await;
    assert_eq!(weir.work(&work).await.held_reason, "wake_refused_depth");
    weir.apply(WAITING, 1).await;
    assert_eq!(release(&weir, &work).await, WorkState::Waiting);
    let attempt = woken(&weir, &work).await;
    assert_eq!(uids(&attempt), [attempt.trigger.as_str(), &record.event]);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_a_route_still_takes_an_own_event_whose_bridge_is_refused() {
    let weir = Weir::with(&narrow(0, 128)).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    checked(&weir).await;
    let dropped = weir.routed("2", "drop", &["k"]).await;
    assert_eq!(dropped.disposition(), Disposition::Drop);
    assert_eq!(weir.work(&work).await.state(), WorkState::Waiting);
    let context = weir.routed("3", "context", &["k"]).await;
    assert_eq!(context.disposition(), Disposition::Queue);
    assert_eq!(context.route, "context");
    becomes(&weir, &work, WorkState::Held).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l11_a_spent_minute_of_the_winners_root_refuses_the_bridge() {
    let weir = Weir::with(&narrow(32, 1)).await;
    weir.register(&[]).await;
    // The minute has a whole one to go (rule c02).
    let into: f64 = sqlx::query_scalar("SELECT extract(second FROM weir.clock())::float8")
        .fetch_one(weir.db.pool())
        .await
        .expect("a clock");
    weir.db.advance(Duration::from_secs_f64(60.5 - into)).await;
    let emitter = claimed(&weir, "1", "k1").await;
    let (work, _) = parked(&weir, "2", "k2", &[of("t", "")]).await;
    // Emitting spends the root's minute; the bridge would be the second.
    emit(&weir, &emitter, event("e", "note", "{}"), &[], "t")
        .await
        .expect("the one of this minute");
    becomes(&weir, &work, WorkState::Held).await;
    assert_eq!(weir.work(&work).await.held_reason, "wake_refused_rate");
    // The next minute has a token; the same winner wakes it (rule c06).
    weir.db.advance(Duration::from_secs(60)).await;
    assert_eq!(release(&weir, &work).await, WorkState::Waiting);
    becomes(&weir, &work, WorkState::Ready).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c01_what_a_woken_attempt_emits_derives_from_the_bridge() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    checked(&weir).await;
    let root = weir.routed("2", "context", &["k"]).await.event;
    let attempt = woken(&weir, &work).await;
    let emitted = emit(&weir, &attempt, event("e", "note", "{}"), &[], "")
        .await
        .expect("leased");
    let emitted = read(&weir, &emitted).await;
    assert_eq!(emitted.parent, attempt.trigger);
    assert_eq!((emitted.root.as_str(), emitted.depth), (root.as_str(), 2));
    let attempt_again = attempt;
    park(&weir, &attempt_again, &[own()]).await;
    assert_eq!(lease(&attempt_again).work, work);
    weir.stop().await;
}
