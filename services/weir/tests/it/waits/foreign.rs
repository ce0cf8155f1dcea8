//! Waits that events elsewhere, ends and timeouts win.

use std::time::Duration;

use weir_proto::lifecycle::v1::wait_condition::Condition;
use weir_proto::lifecycle::v1::{self as lifecycle, FailureKind};
use weir_proto::types::v1::{Disposition, WorkState};

use super::arrange::{
    WAITING, becomes, checked, claim, claimed, emit, inputs, lease, of, own, park, parked,
    publish_into, said, try_park, uids, woken,
};
use crate::routing::arrange::{fail, read};
use crate::support::{Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn r44_an_event_is_routed_by_its_own_routes_and_wakes_whoever_subscribed() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let filter = r#"event.type == "start" && event.data.n > 1"#;
    let (first, one) = parked(&weir, "1", "k1", &[of("t", filter)]).await;
    let (second, two) = parked(&weir, "2", "k2", &[of("t", filter), own()]).await;
    let (third, _) = parked(&weir, "3", "k3", &[of("t", r#"event.type == "stop""#)]).await;
    let data = |id: &str, data: &str| event(id, "start", data);
    let publish = async |e| weir.try_publish("t", e, &[]).await.expect("accepted").uid;
    let small = publish(data("a", r#"{"n":1}"#)).await;
    let other = publish(data("b", r#"{"m":2}"#)).await;
    let winner = publish(data("c", r#"{"n":2}"#)).await;
    let late = publish(data("d", r#"{"n":3}"#)).await;
    for work in [&first, &second] {
        becomes(&weir, work, WorkState::Ready).await;
    }
    for _ in 0..2 {
        let claimed = claim(&weir).await.expect("woken");
        let work = &lease(&claimed).work;
        let wait = if *work == first { &one } else { &two };
        assert!(*work == first || *work == second);
        assert_eq!(uids(&claimed), [claimed.trigger.as_str(), winner.as_str()]);
        let bridge = read(&weir, &claimed.trigger).await;
        assert_eq!((bridge.parent.as_str(), bridge.depth), (winner.as_str(), 1));
        let said = said(&bridge);
        assert_eq!(said["won_by"], "event");
        assert_eq!(said["wait"], wait.wait.as_str());
        assert_eq!(
            weir.complete(&claimed).await.expect("leased"),
            WorkState::Completed
        );
        // The winner is no input of the Work: it belongs to its own.
        assert_eq!(inputs(&weir, work).await.len(), 2);
    }
    let record = weir.record(&winner).await;
    assert_eq!(
        record.disposition(),
        Disposition::Start,
        "by its own routes"
    );
    let also: Vec<_> = record
        .also
        .iter()
        .map(|a| (a.scope.as_str(), a.work.as_str(), a.wait.as_str()))
        .collect();
    assert_eq!(
        also,
        [
            ("s", first.as_str(), one.wait.as_str()),
            ("s", second.as_str(), two.wait.as_str())
        ]
    );
    for uid in [small, other, late] {
        assert!(weir.record(&uid).await.also.is_empty());
    }
    assert_eq!(weir.work(&third).await.state(), WorkState::Waiting);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_the_lookback_is_the_claim_and_reaches_what_came_before_the_parking() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let before = publish_into(&weir, "t", "before", "go", &[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let during = publish_into(&weir, "t", "during", "go", &[]).await;
    weir.record(&during).await;
    park(&weir, &attempt, &[of("t", r#"event.type == "go""#)]).await;
    let attempt = woken(&weir, &lease(&attempt).work).await;
    assert_eq!(uids(&attempt)[1], during);
    assert!(weir.record(&before).await.also.is_empty());
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_since_moves_the_lookback_later() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    publish_into(&weir, "t", "early", "go", &[]).await;
    weir.db.advance(Duration::from_secs(5)).await;
    let since = weir.db.now().await;
    let request = lifecycle::ParkRequest {
        lease: attempt.lease.clone(),
        conditions: vec![lifecycle::WaitCondition {
            condition: Some(of("t", "")),
        }],
        timeout: None,
        since: Some(prost_types::Timestamp {
            seconds: since.timestamp(),
            nanos: since.timestamp_subsec_nanos().cast_signed(),
        }),
    };
    weir.user.executor().park(request).await.expect("leased");
    checked(&weir).await;
    let work = &lease(&attempt).work;
    assert_eq!(weir.work(work).await.state(), WorkState::Waiting);
    let late = publish_into(&weir, "t", "late", "whatever", &[]).await;
    assert_eq!(uids(&woken(&weir, work).await)[1], late);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_only_events_of_the_named_emitter_count() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let emitter = claimed(&weir, "1", "k1").await;
    let condition = Condition::Event(lifecycle::EventCondition {
        scope: "s".to_owned(),
        filter: String::new(),
        emitter: lease(&emitter).work.clone(),
    });
    let (work, _) = parked(&weir, "2", "k2", &[condition]).await;
    weir.routed("3", "start", &["k3"]).await;
    checked(&weir).await;
    assert_eq!(weir.work(&work).await.state(), WorkState::Waiting);
    let emitted = emit(&weir, &emitter, event("e", "note", "{}"), &[], "")
        .await
        .expect("leased");
    weir.db
        .wait_until("it is woken", async |_| {
            weir.work(&work).await.state() == WorkState::Ready
        })
        .await;
    let bridge = weir.inputs(&work).await.pop().expect("the bridge");
    let bridge = read(&weir, &bridge).await;
    assert_eq!(
        (bridge.parent.as_str(), bridge.depth),
        (emitted.as_str(), 2)
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_the_end_of_a_work_wakes_who_waits_for_it_however_it_ends() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    for (i, ending) in ["completed", "failed", "ended before"].iter().enumerate() {
        let id = |what: &str| format!("{what}{i}");
        let other = claimed(&weir, &id("o"), &id("o")).await;
        if i == 2 {
            weir.complete(&other).await.expect("leased");
        }
        let waiting = claimed(&weir, &id("w"), &id("w")).await;
        let ended = Condition::EndedWork(lease(&other).work.clone());
        park(&weir, &waiting, &[ended]).await;
        let work = &lease(&waiting).work;
        match i {
            0 => {
                checked(&weir).await;
                assert_eq!(weir.work(work).await.state(), WorkState::Waiting);
                weir.complete(&other).await.expect("leased");
            }
            1 => {
                checked(&weir).await;
                fail(&weir, &other, FailureKind::Permanent).await;
            }
            _ => {}
        }
        let attempt = woken(&weir, work).await;
        assert_eq!(attempt.inputs.len(), 1, "{ending}: no event won");
        let said = said(&attempt.inputs[0]);
        assert_eq!(said["won_by"], "ended_work", "{ending}");
        assert_eq!(said["ended_work"], lease(&other).work.as_str(), "{ending}");
        weir.complete(&attempt).await.expect("leased");
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_a_timeout_wakes_when_it_is_due_and_not_before() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let minute = Some(Duration::from_secs(60));
    try_park(&weir, &attempt, &[own()], minute)
        .await
        .expect("leased");
    let work = &lease(&attempt).work;
    weir.db.advance(Duration::from_secs(50)).await;
    checked(&weir).await;
    assert_eq!(weir.work(work).await.state(), WorkState::Waiting);
    weir.db.advance(Duration::from_secs(11)).await;
    let attempt = woken(&weir, work).await;
    assert_eq!(said(&attempt.inputs[0])["won_by"], "timeout");
    let bridge = read(&weir, &attempt.trigger).await;
    assert_eq!(
        bridge.depth, 1,
        "it derives from what triggered the parked attempt"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_the_timeout_wins_only_if_it_was_due_before_every_candidate() {
    for (early, winner) in [(true, "own_input"), (false, "timeout")] {
        let mut weir = Weir::with(WAITING).await;
        weir.register(&[]).await;
        let attempt = claimed(&weir, "1", "k").await;
        // Nobody looks until both candidates are there: the process is down.
        let minute = Some(Duration::from_secs(60));
        if early {
            weir.routed("2", "context", &["k"]).await;
        }
        let mut hold = weir.db.hold().await;
        let (tenant, scope) = crate::routing::arrange::numbers(&weir, "s").await;
        // What wakes takes the scope's order lock; parking does not.
        hold.hold_scope_order(tenant, scope).await;
        try_park(&weir, &attempt, &[own()], minute)
            .await
            .expect("leased");
        weir.db.advance(Duration::from_secs(61)).await;
        hold.release().await;
        if !early {
            weir.publish("2", "context", &["k"]).await;
        }
        let attempt = woken(&weir, &lease(&attempt).work).await;
        assert_eq!(said(&attempt.inputs[0])["won_by"], winner);
        weir.take_running().stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_a_lookback_in_the_future_keeps_nobody_busy() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let attempt = claimed(&weir, "1", "k").await;
    let since = weir.db.now().await + Duration::from_secs(3_600);
    let request = lifecycle::ParkRequest {
        lease: attempt.lease.clone(),
        conditions: vec![lifecycle::WaitCondition {
            condition: Some(of("t", "")),
        }],
        timeout: None,
        since: Some(prost_types::Timestamp {
            seconds: since.timestamp(),
            nanos: 0,
        }),
    };
    weir.user.executor().park(request).await.expect("leased");
    for id in ["2", "3"] {
        publish_into(&weir, "t", id, "go", &[]).await;
        // The subscription has seen them, though they do not count.
        checked(&weir).await;
    }
    assert_eq!(
        weir.work(&lease(&attempt).work).await.state(),
        WorkState::Waiting
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_bridges_wake_nobody_so_two_waits_for_any_event_do_not_drive_each_other() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let any = || [of("s", "")];
    // Both are claimed before either parks: a lookback begins at the claim.
    for (id, key) in [("1", "k1"), ("2", "k2")] {
        weir.routed(id, "start", &[key]).await;
    }
    let mut works = Vec::new();
    for _ in 0..2 {
        works.push(claim(&weir).await.expect("ready"));
    }
    for attempt in &works {
        park(&weir, attempt, &any()).await;
    }
    let [first, second] = [0, 1].map(|i: usize| lease(&works[i]).work.clone());
    checked(&weir).await;
    weir.routed("3", "drop", &[]).await;
    for work in [&first, &second] {
        becomes(&weir, work, WorkState::Ready).await;
    }
    for _ in 0..2 {
        let attempt = claim(&weir).await.expect("woken");
        park(&weir, &attempt, &any()).await;
    }
    checked(&weir).await;
    for work in [&first, &second] {
        assert_eq!(weir.work(work).await.state(), WorkState::Waiting);
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c02_a_work_that_keeps_waking_itself_by_timeouts_grows_no_chain() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let mut attempt = claimed(&weir, "1", "k").await;
    let work = lease(&attempt).work.clone();
    for _ in 0..4 {
        let minute = Some(Duration::from_secs(60));
        try_park(&weir, &attempt, &[], minute)
            .await
            .expect("leased");
        weir.db.advance(Duration::from_secs(61)).await;
        attempt = woken(&weir, &work).await;
        assert_eq!(read(&weir, &attempt.trigger).await.depth, 1);
    }
    weir.stop().await;
}
