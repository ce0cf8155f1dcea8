//! What a woken Work is given: rules l04, l10, l14, c01.

use sqlx::Connection as _;
use weir_kernel::WorkId;
use weir_pg::Tx;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{InputState, WorkState};
use weir_work::{Lease, Won, share_lease};

use crate::waiting::{TENANT, event, own};
use crate::world::{World, lease, uids};

#[tokio::test]
async fn l04_after_a_wake_the_bridge_comes_first_then_its_winner_then_the_context() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own(), event("side", "")]).await;
    let context = world.more(work, 1).await.to_string();
    let own_event = world.accept(1, b"{}").await;
    let bridge = world.wake(work, 1, Won::Own(own_event)).await;
    let winner = own_event.uid.to_string();
    let after = world.more(work, 1).await.to_string();
    let seen = world.get(work).await;
    assert_eq!((seen.state(), seen.open_inputs), (WorkState::Ready, 4));
    let claimed = world.claim_one().await;
    assert_eq!(
        uids(&claimed),
        [bridge.clone(), winner.clone(), context, after]
    );
    assert_eq!(claimed.trigger, bridge);
    let states = async || {
        let inputs = world.inputs(work).await;
        inputs
            .iter()
            .map(|i| (i.state(), i.attempt))
            .collect::<Vec<_>>()
    };
    let presented = (InputState::Presented, 2);
    assert_eq!(
        states().await[1..],
        [presented, presented, presented, presented]
    );
    let state = world.complete(&lease(&claimed)).await.expect("live");
    assert_eq!(state, WorkState::Completed);
    let consumed = (InputState::Consumed, 2);
    assert_eq!(
        states().await[1..],
        [consumed, consumed, consumed, consumed]
    );
}

#[tokio::test]
async fn l04_a_timeout_presents_the_bridge_alone() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[]).await;
    let bridge = world.wake(work, 1, Won::TimedOut).await;
    let claimed = world.claim_one().await;
    assert_eq!(uids(&claimed), [bridge.as_str()]);
    let late = world.more(work, 1).await;
    let state = world.complete(&lease(&claimed)).await.expect("live");
    assert_eq!(state, WorkState::Ready, "{late} is left");
    let next = world.claim_one().await;
    assert_eq!(uids(&next), [late.to_string()], "the bridge never returns");
    assert_eq!(next.trigger, late.to_string());
}

#[tokio::test]
async fn l04_a_retried_attempt_is_given_the_bridge_again() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    let winner = world.accept(1, b"{}").await;
    let bridge = world.wake(work, 1, Won::Own(winner)).await;
    let given = [bridge.clone(), winner.uid.to_string()];
    let again = async || {
        let claimed = world.claim_one().await;
        assert_eq!(uids(&claimed), given);
        assert_eq!(claimed.trigger, bridge, "a retry keeps the trigger");
        lease(&claimed)
    };
    let released = pb::ReleaseRequest {
        lease: Some(again().await),
    };
    world.executor().release(released).await.expect("live");
    assert_eq!(
        world.inputs(work).await[1].state(),
        InputState::Queued,
        "given back"
    );
    world.fail(&again().await).await.expect("live");
    world.expire().await;
    again().await;
    world.expire().await;
    let last = again().await;
    assert_eq!((last.attempt, world.get(work).await.tries), (5, 3));
    assert_eq!(
        world.complete(&last).await.expect("live"),
        WorkState::Completed
    );
}

/// One event can wake many Works; each is given it, also by one claim.
#[tokio::test]
async fn l04_the_winner_is_presented_to_each_work_that_it_woke() {
    let world = World::new().await;
    let winner = world.accept(2, br#"{"n":1}"#).await;
    let mut given = Vec::new();
    for _ in 0..2 {
        let work = world.queued(1).await;
        world.claim_and_park(&[event("side", "")]).await;
        given.push((work, winner.uid.to_string()));
    }
    for (work, _) in &given {
        world.wake(*work, 1, Won::Foreign(winner.uid)).await;
    }
    let claimed = world.claim().await;
    assert_eq!(claimed.len(), 2);
    for (claimed, (work, winner)) in claimed.iter().zip(&given) {
        assert_eq!(uids(claimed)[1..], [winner.as_str()]);
        assert_eq!(claimed.inputs[1].scope, "side");
        assert_eq!(
            world.inputs(*work).await.len(),
            2,
            "it is no input of the work"
        );
    }
}

#[tokio::test]
async fn l04_the_bridge_and_its_winner_count_towards_the_limits() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[event("side", "")]).await;
    let large = vec![b' '; 1 << 20];
    for n in 2..6 {
        world.put(work, n, 1, &large).await;
    }
    world.run("UPDATE weir.work SET last_input = 5").await;
    let winner = world.accept(2, &large).await;
    world.wake(work, 1, Won::Foreign(winner.uid)).await;
    let claimed = world.claim_one().await;
    assert_eq!(
        claimed.inputs.len(),
        4,
        "bridge, 1 MiB of its winner, and two of context"
    );
    assert_eq!(
        world.complete(&lease(&claimed)).await.expect("live"),
        WorkState::Ready
    );
    assert_eq!(world.claim_one().await.inputs.len(), 2, "the rest");
}

#[tokio::test]
async fn l04_context_of_another_binding_stays_in_the_queue() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    world.more(work, 4).await;
    let winner = world.accept(1, b"{}").await;
    world.wake(work, 1, Won::Own(winner)).await;
    let claimed = world.claim_one().await;
    assert_eq!(claimed.inputs.len(), 2);
    assert_eq!(
        world.complete(&lease(&claimed)).await.expect("live"),
        WorkState::Ready
    );
    let next = world.claim_one().await;
    assert_eq!((next.scope.as_str(), next.inputs.len()), ("side", 1));
}

#[tokio::test]
async fn l04_parking_again_consumes_the_bridge() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    let queued = world.more(work, 1).await;
    let before = world.more(work, 1).await;
    let bridge = world
        .wake(work, 1, Won::Queued(weir_kernel::EventUid(before)))
        .await;
    let claimed = world.claim_one().await;
    assert_eq!(
        uids(&claimed),
        [bridge, before.to_string(), queued.to_string()],
        "a winner that was queued stands beside the bridge, not in the queue"
    );
    world
        .park(crate::waiting::request(&lease(&claimed), &[own()]))
        .await
        .expect("live");
    let seen = world.get(work).await;
    assert_eq!((seen.state(), seen.open_inputs), (WorkState::Waiting, 0));
    let bridge = world.wake(work, 2, Won::TimedOut).await;
    assert_eq!(uids(&world.claim_one().await), [bridge]);
}

#[tokio::test]
async fn l14_released_work_is_given_its_bridge_again() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    let winner = world.accept(1, b"{}").await;
    let bridge = world.wake(work, 1, Won::Own(winner)).await;
    world.exhaust().await;
    let held = world.get(work).await;
    assert_eq!(
        (held.state(), held.open_inputs, held.held_reason.as_str()),
        (WorkState::Held, 2, "attempts_exhausted")
    );
    let seen = world.release_work(work).await;
    assert_eq!(
        (seen.state(), seen.tries, seen.open_inputs),
        (WorkState::Ready, 0, 2),
        "the bridge is queued input: the release is none"
    );
    let claimed = world.claim_one().await;
    assert_eq!(uids(&claimed), [bridge.clone(), winner.uid.to_string()]);
    assert_eq!(claimed.trigger, bridge);
    assert_eq!(
        world.complete(&lease(&claimed)).await.expect("live"),
        WorkState::Completed
    );
}

#[tokio::test]
async fn l08_cancel_abandons_a_bridge() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    world.wake(work, 1, Won::TimedOut).await;
    world.claim_one().await;
    world.cancel(work).await;
    assert_eq!(world.inputs(work).await[1].state(), InputState::Abandoned);
}

#[tokio::test]
async fn l06_an_open_bridge_keeps_a_work_from_being_drained() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    world.wake(work, 1, Won::TimedOut).await;
    world
        .run("DELETE FROM weir.ready; UPDATE weir.work SET queue_pos = NULL")
        .await;
    let mut connection = world.db.connect().await;
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    let drained = weir_work::complete_if_drained(&mut tx, TENANT, &[WorkId(work)])
        .await
        .expect("asked");
    assert_eq!(drained, []);
}

#[tokio::test]
async fn c01_a_woken_attempts_emission_has_the_bridge_as_parent() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_and_park(&[own()]).await;
    let winner = world.accept(1, b"{}").await;
    let bridge = world.wake(work, 1, Won::Own(winner)).await;
    world.claim_one().await;
    world.expire().await;
    let held = lease(&world.claim_one().await);
    let mut connection = world.db.connect().await;
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    let held = Lease {
        work: WorkId(work),
        attempt: held.attempt,
        epoch: held.epoch,
    };
    let shared = share_lease(&mut tx, TENANT, held).await.expect("live");
    let trigger = shared.ready.trigger.map(|uid| uid.to_string());
    assert_eq!(trigger, Some(bridge), "and a retry keeps it");
}
