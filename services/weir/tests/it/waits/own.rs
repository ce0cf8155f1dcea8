//! A Work's own input wins its wait.

use weir_proto::types::v1::{Disposition, EffectKind, InputState, WorkState};

use super::arrange::{
    WAITING, becomes, checked, claimed, inputs, kind, of, own, park, parked, said, scripted, uids,
    woken,
};
use crate::routing::arrange::read;
use crate::routing::script::Say;
use crate::support::Weir;

#[tokio::test(flavor = "multi_thread")]
async fn r17_an_event_that_wins_its_own_works_wait_is_routed_wake_and_no_route_is_asked() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, wait) = parked(&weir, "1", "k", &[own()]).await;
    assert_eq!(wait.wait, format!("{work}/1"));
    assert_eq!(weir.work(&work).await.state(), WorkState::Waiting);
    checked(&weir).await;

    let record = scripted(&weir, "2", &["k", "k2"], Say::Skip("no".to_owned())).await;
    assert_eq!(record.disposition(), Disposition::Wake);
    assert_eq!(
        (record.work.as_str(), record.route.as_str()),
        (work.as_str(), "")
    );
    assert_eq!(
        (record.binding.as_str(), record.reason.as_str()),
        ("b", "wait_won")
    );
    assert!(
        weir.handlers.script.calls("2").is_empty(),
        "no route is asked"
    );
    // It is input of the Work with all its keys (rule r08).
    assert_eq!(weir.work(&work).await.keys, ["k", "k2"]);

    let claimed = woken(&weir, &work).await;
    assert_eq!(uids(&claimed), [claimed.trigger.as_str(), &record.event]);
    let bridge = read(&weir, &claimed.trigger).await;
    assert_eq!(
        (bridge.parent.as_str(), bridge.depth),
        (record.event.as_str(), 1),
        "the bridge derives from the winner"
    );
    let said = said(&bridge);
    assert_eq!(said["won_by"], "own_input");
    assert_eq!(said["event"], record.event.as_str());
    assert_eq!(said["wait"], wait.wait.as_str());
    let route = bridge.route.expect("a bridge is accepted routed");
    assert_eq!(route.disposition(), Disposition::Queue, "rule r27");
    assert_eq!(route.work, work);

    assert_eq!(
        weir.complete(&claimed).await.expect("leased"),
        WorkState::Completed
    );
    let all = inputs(&weir, &work).await;
    assert_eq!(all.len(), 3);
    assert!(
        all.iter().all(|i| i.state() == InputState::Consumed),
        "{all:?}"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_own_input_that_nobody_consumed_wins_whenever_it_was_accepted() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let late = weir.routed("2", "context", &["k"]).await;
    let later = weir.routed("3", "context", &["k"]).await;
    park(&weir, &attempt, &[own()]).await;
    let work = late.work.clone();
    let attempt = woken(&weir, &work).await;
    // The least (accepted_at, uid) wins; what else is queued follows it.
    assert_eq!(
        uids(&attempt),
        [attempt.trigger.as_str(), &late.event, &later.event]
    );
    let record = read(&weir, &late.event).await.route.expect("routed before");
    assert_eq!(
        record.disposition(),
        Disposition::Queue,
        "what was decided stays"
    );
    assert_eq!(record.also.len(), 1, "and it is said that it won");
    // Both are consumed with the attempt; parking again finds nothing.
    park(&weir, &attempt, &[own()]).await;
    checked(&weir).await;
    assert_eq!(weir.work(&work).await.state(), WorkState::Waiting);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_while_the_wait_is_for_something_else_the_routes_decide_and_input_is_context() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[of("t", r#"event.type == "go""#)]).await;
    let context = weir.routed("2", "context", &["k"]).await;
    assert_eq!(context.disposition(), Disposition::Queue);
    let unmatched = scripted(&weir, "3", &["k"], Say::Skip("no".to_owned())).await;
    assert_eq!(unmatched.disposition(), Disposition::Unmatched);
    let dropped = weir.routed("4", "drop", &["k"]).await;
    assert_eq!(dropped.disposition(), Disposition::Drop);
    checked(&weir).await;
    assert_eq!(
        weir.work(&work).await.state(),
        WorkState::Waiting,
        "the wait still decides"
    );
    let elsewhere = weir.routed("5", "other", &["k"]).await;
    assert_eq!(elsewhere.disposition(), Disposition::Queue);

    let go = super::arrange::publish_into(&weir, "t", "6", "go", &[]).await;
    let attempt = woken(&weir, &work).await;
    assert_eq!(
        uids(&attempt),
        [
            attempt.trigger.as_str(),
            go.as_str(),
            context.event.as_str()
        ],
        "bridge, winner, and the context of the attempt's binding"
    );
    assert_eq!(
        weir.complete(&attempt).await.expect("leased"),
        WorkState::Ready
    );
    let rest = weir
        .claim_of("other")
        .await
        .expect("context of another binding");
    assert_eq!(uids(&rest), [elsewhere.event.as_str()]);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_parking_again_waits_anew_and_a_second_event_wakes_again() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    for round in 2..5 {
        let record = weir.routed(&round.to_string(), "context", &["k"]).await;
        assert_eq!(record.disposition(), Disposition::Wake);
        let attempt = woken(&weir, &work).await;
        assert_eq!(uids(&attempt), [attempt.trigger.as_str(), &record.event]);
        let wait = park(&weir, &attempt, &[own()]).await;
        assert_eq!(wait.wait, format!("{work}/{round}"));
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_of_two_own_events_the_first_wakes_and_the_second_is_queued() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    checked(&weir).await;
    let uids_of = crate::routing::arrange::publish_together(
        &weir,
        &[
            ("2", "context", "{}", &["k"]),
            ("3", "context", "{}", &["k"]),
        ],
    )
    .await;
    let first = weir.record(&uids_of[0]).await;
    let second = weir.record(&uids_of[1]).await;
    assert_eq!(first.disposition(), Disposition::Wake);
    assert_eq!(second.disposition(), Disposition::Queue);
    becomes(&weir, &work, WorkState::Ready).await;
    let attempt = woken(&weir, &work).await;
    assert_eq!(
        uids(&attempt),
        [attempt.trigger.as_str(), &uids_of[0], &uids_of[1]]
    );
    assert_eq!(kind(&attempt.inputs[1]), "context");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_an_own_event_that_matches_a_subscription_to_its_own_scope_wakes_by_being_routed() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let filter = r#"event.type == "context""#;
    let (work, _) = parked(&weir, "1", "k", &[of("s", filter)]).await;
    checked(&weir).await;
    let trace = weir.trace("context", "{}", &["k"]).await;
    let effect = trace.effect.expect("always there");
    assert_eq!(effect.kind(), EffectKind::Wake);
    assert!(effect.also.is_empty(), "its own wait is its effect");
    // Own input of another kind is context; the one that matches wins, and is given once.
    let other = weir.routed("2", "start", &["k"]).await;
    assert_eq!(other.disposition(), Disposition::Queue);
    let record = weir.routed("3", "context", &["k"]).await;
    assert_eq!(record.disposition(), Disposition::Wake);
    assert!(record.also.is_empty());
    let attempt = woken(&weir, &work).await;
    assert_eq!(
        uids(&attempt),
        [
            attempt.trigger.as_str(),
            record.event.as_str(),
            other.event.as_str()
        ]
    );
    assert_eq!(
        weir.complete(&attempt).await.expect("leased"),
        WorkState::Completed
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l04_what_is_over_is_not_read_again_however_often_a_work_was_woken() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own()]).await;
    for round in 2..6 {
        weir.routed(&round.to_string(), "context", &["k"]).await;
        let attempt = woken(&weir, &work).await;
        park(&weir, &attempt, &[own()]).await;
    }
    let (consumed, last): (i64, i64) = sqlx::query_as("SELECT consumed, last_input FROM weir.work")
        .fetch_one(weir.db.pool())
        .await
        .expect("one work");
    assert_eq!(
        (consumed, last),
        (9, 9),
        "bridges and winners are behind the mark"
    );
    let all = inputs(&weir, &work).await;
    assert!(all.iter().all(|i| i.state() == InputState::Consumed));
    weir.stop().await;
}
