//! Leases and the ends of attempts: rules l02, l06, l07, o08.

use std::time::Duration;

use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{AttemptOutcome, Lease, WorkState};
use weir_rpc::Problem;

use crate::world::{World, lease, reason, uids};

#[tokio::test]
async fn l02_a_stale_epoch_changes_nothing() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let first = lease(&world.claim_one().await);
    world.expire().await;
    let second = lease(&world.claim_one().await);
    let before = world.get(work).await;
    assert_eq!(reason(world.complete(&first).await), "LEASE_LOST");
    assert_eq!(reason(world.fail(&first).await), "LEASE_LOST");
    assert_eq!(reason(world.renew(&first).await), "LEASE_LOST");
    let mixed = Lease {
        epoch: second.epoch,
        ..first.clone()
    };
    assert_eq!(reason(world.complete(&mixed).await), "LEASE_LOST");
    assert_eq!(world.get(work).await, before);
    assert_eq!(
        world.complete(&second).await.expect("it holds the lease"),
        WorkState::Completed
    );
}

#[tokio::test]
async fn l02_an_expired_lease_has_no_authority_before_anybody_takes_over() {
    let world = World::new().await;
    world.queued(1).await;
    let held = lease(&world.claim_one().await);
    world.db.advance(Duration::from_secs(20)).await;
    let renewed = world.renew(&held).await.expect("the lease is live");
    assert!(renewed.lease_until.is_some() && !renewed.cancelled);
    world.db.advance(Duration::from_secs(20)).await;
    world.renew(&held).await.expect("the renewal extended it");
    world.expire().await;
    assert_eq!(
        reason(world.renew(&held).await),
        "LEASE_LOST",
        "renewal cannot revive"
    );
    assert_eq!(reason(world.complete(&held).await), "LEASE_LOST");
}

#[tokio::test]
async fn l02_another_tenants_work_is_absent() {
    let world = World::new().await;
    world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let request = pb::CompleteRequest {
        lease: Some(held.clone()),
        result: String::new(),
    };
    assert_eq!(
        reason(world.foreign_executor().complete(request).await),
        "WORK_NOT_FOUND"
    );
    let request = pb::RenewRequest {
        lease: Some(held),
        extend: None,
    };
    assert_eq!(
        reason(world.foreign_executor().renew(request).await),
        "WORK_NOT_FOUND"
    );
}

#[tokio::test]
async fn l06_unrouted_input_blocks_complete() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let event = world.unrouted(work, 1, None).await;
    let refused = Problem::from(&world.complete(&held).await.expect_err("refused"));
    assert_eq!(refused.reason, "UNROUTED_INPUT");
    assert!(refused.retry_after.is_some());
    assert!(
        refused.message.contains(&event.to_string()),
        "{}",
        refused.message
    );
    world.run("UPDATE weir.pending SET state = 4").await;
    assert_eq!(
        world
            .complete(&held)
            .await
            .expect("a conflict blocks nobody"),
        WorkState::Completed
    );
}

#[tokio::test]
async fn l06_input_left_makes_the_work_ready_again() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let late = world.more(work, 4).await;
    assert_eq!(world.complete(&held).await.expect("live"), WorkState::Ready);
    let seen = world.get(work).await;
    assert_eq!((seen.tries, seen.open_inputs, seen.attempts), (0, 1, 1));
    let next = world.claim_one().await;
    assert_eq!(
        uids(&next),
        [late.to_string()],
        "consumed input never returns"
    );
    assert_eq!((lease(&next).attempt, lease(&next).epoch), (2, 2));
    assert_eq!(next.trigger, late.to_string());
}

#[tokio::test]
async fn l06_deferred_input_leaves_the_work_ready_and_is_due() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let event = world.unrouted(work, 3, Some(1)).await;
    assert_eq!(world.complete(&held).await.expect("live"), WorkState::Ready);
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.pending WHERE state = 1")
            .await,
        1
    );
    assert!(
        world.claim().await.is_empty(),
        "not claimable without queued input"
    );
    let blocker = world.get(work).await.blocked_by.expect("an answer has it");
    assert_eq!(
        (blocker.kind.as_str(), blocker.event),
        ("event", event.to_string())
    );
}

#[tokio::test]
async fn l06_complete_leaves_a_deferred_event_to_the_router_that_has_it() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    world.unrouted(work, 3, Some(1)).await;
    let mut router = world.db.hold().await;
    router.run("SELECT FROM weir.pending FOR UPDATE").await;
    // Pending rows come before work rows: waiting here could be a deadlock.
    assert_eq!(world.complete(&held).await.expect("live"), WorkState::Ready);
    router.release().await;
}

#[tokio::test]
async fn l06_complete_waits_for_the_router_that_holds_the_work_and_sees_its_input() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let mut router = world.db.hold().await;
    router.run("UPDATE weir.work SET last_input = 2").await;
    let route = async {
        world.db.wait_until_blocked(1).await;
        router
            .run(
                "INSERT INTO weir.input SELECT tenant_id, work_id, 2, '0199c8a0-0000-7000-8000-000000000001', 9, \
                 accepted_at, 2, binding_id, NULL FROM weir.input",
            )
            .await;
        router.commit().await;
    };
    let (state, ()) = tokio::join!(world.complete(&held), route);
    assert_eq!(state.expect("live"), WorkState::Ready);
    assert_eq!(world.get(work).await.open_inputs, 1);
}

#[tokio::test]
async fn l07_a_retryable_failure_backs_off_and_exhaustion_holds() {
    let world = World::new().await;
    let work = world.queued(1).await;
    for attempt in 1..=2 {
        let claimed = world.claim_one().await;
        assert_eq!(
            (lease(&claimed).attempt, claimed.tries, claimed.inputs.len()),
            (attempt, attempt, 1)
        );
        let answer = world.fail(&lease(&claimed)).await.expect("live");
        assert_eq!(answer.state(), WorkState::Ready);
        assert!(answer.next_try.is_some());
        assert_eq!(
            world
                .get(work)
                .await
                .blocked_by
                .expect("an answer has it")
                .kind,
            "backoff"
        );
        assert!(
            world.claim().await.is_empty(),
            "not before the backoff is over"
        );
        world.db.advance(Duration::from_secs(1 << attempt)).await;
    }
    let third = lease(&world.claim_one().await);
    assert_eq!(
        world.fail(&third).await.expect("live").state(),
        WorkState::Held
    );
    let seen = world.get(work).await;
    assert_eq!(
        (seen.held_reason.as_str(), seen.tries),
        ("attempts_exhausted", 3)
    );
    assert!(world.claim().await.is_empty());
}

#[tokio::test]
async fn l07_a_permanent_failure_ends_the_work_and_abandons_its_input() {
    let world = World::new().await;
    let work = world.queued(2).await;
    let held = lease(&world.claim_one().await);
    let request = |error: &str| pb::FailRequest {
        lease: Some(held.clone()),
        kind: pb::FailureKind::Permanent.into(),
        error: error.to_owned(),
        retry_after: None,
    };
    let answer = world
        .executor()
        .fail(request("no"))
        .await
        .expect("live")
        .into_inner();
    assert_eq!(answer.state(), WorkState::Failed);
    let again = world
        .executor()
        .fail(request("no"))
        .await
        .expect("a repeat")
        .into_inner();
    assert_eq!(again, answer);
    assert_eq!(
        reason(world.executor().fail(request("other")).await),
        "REQUEST_CONFLICT"
    );
    assert_eq!(reason(world.complete(&held).await), "LEASE_LOST");
    let attempt = world.attempts(work).await.remove(0);
    assert_eq!(
        (attempt.outcome(), attempt.error.as_str()),
        (AttemptOutcome::FailedPermanent, "no")
    );
    let abandoned = weir_proto::types::v1::InputState::Abandoned;
    assert!(
        world
            .inputs(work)
            .await
            .iter()
            .all(|input| input.state() == abandoned)
    );
}

#[tokio::test]
async fn l07_a_release_is_not_counted() {
    let world = World::new().await;
    let work = world.queued(1).await;
    for attempt in 1..=4 {
        let claimed = world.claim_one().await;
        assert_eq!((lease(&claimed).attempt, claimed.tries), (attempt, 1));
        let request = pb::ReleaseRequest {
            lease: Some(lease(&claimed)),
        };
        let answer = world
            .executor()
            .release(request.clone())
            .await
            .expect("live")
            .into_inner();
        assert_eq!(answer.state(), WorkState::Ready);
        let again = world
            .executor()
            .release(request)
            .await
            .expect("a repeat")
            .into_inner();
        assert_eq!(again, answer);
    }
    assert_eq!(world.attempts(work).await.len(), 4);
}

#[tokio::test]
async fn o08_a_repeated_complete_answers_the_first_outcome() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let late = world.more(work, 1).await;
    assert_eq!(world.complete(&held).await.expect("live"), WorkState::Ready);
    let second = lease(&world.claim_one().await);
    assert_eq!(
        world.complete(&second).await.expect("live"),
        WorkState::Completed
    );
    let stored = world.complete(&held).await.expect("a repeat");
    assert_eq!(
        stored,
        WorkState::Ready,
        "the outcome of then, {late} is consumed since"
    );
    assert_eq!(
        reason(world.complete_with(&held, "else").await),
        "REQUEST_CONFLICT"
    );
    assert_eq!(world.attempts(work).await.len(), 2);
}
