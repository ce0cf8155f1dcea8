//! Parking: rules l04, l08, l10, l14.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::types::Uuid;
use weir_kernel::{RefusalCode, WorkId};
use weir_pg::Tx;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::wait_condition::Condition;
use weir_proto::types::v1::{AttemptOutcome, InputState, WorkState};
use weir_rpc::Problem;
use weir_work::Won;

use crate::waiting::{ASKED, TENANT, commit, condition, ended, event, own, request, seconds};
use crate::world::{World, lease, reason};

#[tokio::test]
async fn l10_parking_consumes_what_the_claim_presented() {
    let world = World::new().await;
    let work = world.queued(2).await;
    let held = lease(&world.claim_one().await);
    let late = world.more(work, 1).await;
    let wait = world
        .park(pb::ParkRequest {
            timeout: seconds(60),
            ..request(&held, &[own(), event("side", "event.type == 'x'")])
        })
        .await
        .expect("parked");
    assert_eq!(wait.wait, format!("{work}/1"));
    assert_eq!((wait.work, wait.attempt), (work.to_string(), 1));
    assert_eq!(
        wait.conditions,
        [
            "any further input of the work",
            "an event of scope `side` where `event.type == 'x'`"
        ]
    );
    let seen = world.get(work).await;
    assert_eq!(
        (seen.state(), seen.tries, seen.open_inputs, seen.revision),
        (WorkState::Waiting, 0, 1, 3)
    );
    let blocked = seen.blocked_by.expect("it says by what");
    assert_eq!(blocked.kind, "wait");
    assert_eq!(blocked.until, wait.due_at);
    assert_eq!(
        blocked.detail,
        format!(
            "wait `{work}/1` for any further input of the work, or an event of scope `side` where `event.type == 'x'`"
        )
    );
    let inputs = world.inputs(work).await;
    let states: Vec<_> = inputs.iter().map(|i| (i.state(), i.attempt)).collect();
    assert_eq!(
        states,
        [
            (InputState::Consumed, 1),
            (InputState::Consumed, 1),
            (InputState::Queued, 0)
        ],
        "{late} came later"
    );
    let attempts = world.attempts(work).await;
    assert_eq!(attempts[0].outcome(), AttemptOutcome::Parked);
    assert_eq!(world.count("SELECT count(*) FROM weir.ready").await, 0);
    assert!(
        world.claim().await.is_empty(),
        "a waiting work is not claimable"
    );
    assert_eq!(
        world.count("SELECT asked - checked FROM weir.wait").await,
        1,
        "its first check is due"
    );
}

#[tokio::test]
async fn l10_unrouted_own_input_does_not_refuse_it() {
    let world = World::new().await;
    let (work, other) = (world.queued(1).await, world.queued(1).await);
    let [first, second] = <[_; 2]>::try_from(world.claim().await).expect("two works");
    for id in [work, other] {
        world.unrouted(id, 1, None).await;
        world.unrouted(id, 2, None).await;
        world.unrouted(id, 3, Some(1)).await;
    }
    world
        .run("UPDATE weir.pending SET next_try = 'infinity', failures = 4 WHERE state = 2")
        .await;
    world
        .park(request(&lease(&first), &[own()]))
        .await
        .expect("unrouted input can win it");
    let timeout = pb::ParkRequest {
        timeout: seconds(1),
        ..request(&lease(&second), &[])
    };
    world.park(timeout).await.expect("nor here");
    let due = "SELECT count(*) FROM weir.pending WHERE state = 1 AND next_try = '-infinity'";
    assert_eq!(
        world.count(due).await,
        5,
        "deferred events of both, and the one in backoff whose routes are not asked any more"
    );
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.pending WHERE failures = 4")
            .await,
        2
    );
}

#[tokio::test]
async fn l10_a_repeat_answers_the_same_wait() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let asked = pb::ParkRequest {
        timeout: seconds(60),
        ..request(&held, &[own()])
    };
    let first = world.park(asked.clone()).await.expect("parked");
    assert_eq!(world.park(asked.clone()).await.expect("again"), first);
    let other = pb::ParkRequest {
        timeout: seconds(61),
        ..asked.clone()
    };
    assert_eq!(reason(world.park(other).await), "REQUEST_CONFLICT");
    assert_eq!(reason(world.complete(&held).await), "LEASE_LOST");
    world.wake(work, 1, Won::TimedOut).await;
    let second = world.claim_and_park(&[own()]).await;
    assert_eq!(second.wait, format!("{work}/2"));
    assert_eq!(
        world.park(asked.clone()).await.expect("after a wake, too"),
        first
    );
    let stale = pb::ParkRequest {
        lease: Some(weir_proto::types::v1::Lease {
            epoch: 9,
            ..held.clone()
        }),
        ..asked
    };
    assert_eq!(reason(world.park(stale).await), "LEASE_LOST");
}

#[tokio::test]
async fn l02_parking_needs_a_live_lease() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    world.expire().await;
    assert_eq!(
        reason(world.park(request(&held, &[own()])).await),
        "LEASE_LOST"
    );
    assert_eq!(
        reason(
            world
                .foreign_executor()
                .park(request(&held, &[own()]))
                .await
        ),
        "WORK_NOT_FOUND"
    );
    assert_eq!(world.get(work).await.state(), WorkState::Ready);
    assert_eq!(world.count("SELECT count(*) FROM weir.wait").await, 0);
}

#[tokio::test]
async fn l10_conditions_are_checked_before_the_attempt_ends() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let unknown = Uuid::now_v7();
    let fault = async |conditions: &[pb::WaitCondition]| {
        let refused = world.park(request(&held, conditions)).await;
        let problem = Problem::from(&refused.expect_err("refused"));
        assert_eq!(problem.reason, "INVALID_REQUEST");
        problem.violations[0].clone()
    };
    assert_eq!(fault(&[]).await.field, "conditions");
    assert_eq!(fault(&vec![own(); 33]).await.field, "conditions");
    let empty = pb::WaitCondition { condition: None };
    assert_eq!(fault(&[own(), empty]).await.field, "conditions[1]");
    let reads_work = fault(&[event("root", "has(work.id)")]).await;
    assert_eq!(reads_work.field, "conditions[0].event.filter");
    let filter = fault(&[event("root", "event.type ==\n nothing")]).await;
    assert_eq!(filter.field, "conditions[0].event.filter");
    assert!(
        filter.description.contains("line 2, column 2"),
        "{}",
        filter.description
    );
    assert_eq!(
        fault(&[event("", "")]).await.field,
        "conditions[0].event.scope"
    );
    assert_eq!(
        fault(&[ended(work)]).await.field,
        "conditions[0].ended_work"
    );
    for timeout in [
        prost_types::Duration {
            seconds: 0,
            nanos: 999_999,
        },
        prost_types::Duration {
            seconds: 367 * 86_400,
            nanos: 0,
        },
    ] {
        let request = pb::ParkRequest {
            timeout: Some(timeout),
            ..request(&held, &[])
        };
        let problem = Problem::from(&world.park(request).await.expect_err("refused"));
        assert_eq!(problem.violations[0].field, "timeout");
    }
    let ahead = world.db.now().await.timestamp() + 367 * 86_400;
    let request_since = pb::ParkRequest {
        since: Some(prost_types::Timestamp {
            seconds: ahead,
            nanos: 0,
        }),
        ..request(&held, &[own()])
    };
    let problem = Problem::from(&world.park(request_since).await.expect_err("refused"));
    assert_eq!(problem.violations[0].field, "since");
    let refused = async |condition| reason(world.park(request(&held, &[condition])).await);
    assert_eq!(refused(event("nowhere", "")).await, "SCOPE_NOT_FOUND");
    assert_eq!(refused(ended(unknown)).await, "WORK_NOT_FOUND");
    let emitted = Condition::Event(pb::EventCondition {
        scope: "root".to_owned(),
        filter: String::new(),
        emitter: unknown.to_string(),
    });
    assert_eq!(refused(condition(emitted)).await, "WORK_NOT_FOUND");
    assert_eq!(
        world.complete(&held).await.expect("still live"),
        WorkState::Completed
    );
}

/// Rules l10 and a03: nothing accepted from the lookback on is behind the subscription.
#[tokio::test]
async fn l10_a_subscription_begins_at_the_lookback() {
    let world = World::new().await;
    world.accept(2, b"{}").await;
    world.accept(2, b"{}").await;
    world.db.advance(Duration::from_secs(1)).await;
    for _ in 0..4 {
        world.queued(1).await;
    }
    let works = world.claim().await;
    world.db.advance(Duration::from_secs(1)).await;
    let seen = "SELECT seen_seq FROM weir.wait_sub WHERE kind = 2 ORDER BY work_id DESC LIMIT 1";
    let park = async |i: usize, since: Option<i64>| {
        let request = pb::ParkRequest {
            since: since.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
            ..request(&lease(&works[i]), &[own(), event("side", "")])
        };
        world.park(request).await.expect("parked");
        world.count(seen).await
    };
    assert_eq!(park(0, None).await, 2, "nothing since: the head");
    world.accept(2, b"{}").await;
    assert_eq!(park(1, None).await, 2, "just before the third");
    assert_eq!(park(2, Some(0)).await, 2, "the lookback is never earlier");
    let later = world.db.now().await.timestamp() + 60;
    assert_eq!(park(3, Some(later)).await, 3, "and may be later");
    let since = "SELECT count(*) FROM weir.wait WHERE since > weir.clock()";
    assert_eq!(world.count(since).await, 1);
}

#[tokio::test]
async fn l08_cancel_removes_waits_and_subscriptions() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own(), event("side", "")]).await;
    let watcher = world.queued(1).await;
    world.claim_and_park(&[ended(work)]).await;
    world.cancel(work).await;
    let rest = "SELECT count(*) FROM weir.wait_sub WHERE kind < 3";
    assert_eq!(world.count(rest).await, 0);
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.wait WHERE state = 4")
            .await,
        1
    );
    assert_eq!(world.count(ASKED).await, 2, "{watcher} is to be checked");
    assert_eq!(world.get(watcher).await.state(), WorkState::Waiting);
    assert_eq!(
        world.get(work).await.blocked_by.expect("it says").kind,
        "nothing"
    );
}

#[tokio::test]
async fn l14_release_goes_back_to_waiting() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.accept(2, b"{}").await;
    let wait = world.claim_and_park(&[own(), event("side", "")]).await;
    let mut connection = world.db.connect().await;
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    let locked = weir_work::lock_one(&mut tx, TENANT, WorkId(work))
        .await
        .expect("it is there");
    weir_work::hold_refused(&mut tx, TENANT, &locked, 1, RefusalCode::Depth)
        .await
        .expect("it waits");
    commit(&mut tx).await;
    let held = world.get(work).await;
    assert_eq!(held.state(), WorkState::Held);
    let blocked = held.blocked_by.expect("it says by what");
    assert_eq!(blocked.kind, "held");
    assert!(
        blocked.detail.starts_with("wake_refused_depth; wait `")
            && blocked.detail.contains(&wait.wait),
        "{}",
        blocked.detail
    );
    world.unrouted(work, 2, None).await;
    let seen = world.release_work(work).await;
    assert_eq!(
        (seen.state(), seen.held_reason.as_str()),
        (WorkState::Waiting, "")
    );
    let open = "SELECT count(*) FROM weir.wait WHERE state = 1 AND asked = checked + 1 AND refusal IS NULL";
    assert_eq!(world.count(open).await, 1, "a check is due");
    assert_eq!(
        world
            .count("SELECT seen_seq FROM weir.wait_sub WHERE kind = 2")
            .await,
        1,
        "and looks from the lookback on"
    );
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.pending WHERE state = 1")
            .await,
        1
    );
    assert_eq!(
        world.count("SELECT count(*) FROM weir.input").await,
        1,
        "the control event is no input of it"
    );
}
