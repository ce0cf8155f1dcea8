//! Injected input: rule l05.

use sqlx::types::Uuid;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{InputState, Lease, WorkState};

use crate::world::{World, lease, reason, uids};

/// Queues an event that the running attempt is asked to take, as routing does.
async fn injected(world: &World, work: Uuid, held: &Lease) -> Uuid {
    let uid = world.more(work, 1).await;
    sqlx::query(
        "INSERT INTO weir.intent SELECT tenant_id, work_id, $3, uid, 1, n, $4, 1, weir.clock() \
         FROM weir.input WHERE work_id = $1 AND uid = $2",
    )
    .bind(work)
    .bind(uid)
    .bind(held.epoch)
    .bind(held.attempt)
    .execute(world.db.pool())
    .await
    .expect("an intent");
    uid
}

fn ack(held: &Lease, uid: Uuid) -> pb::AcknowledgeRequest {
    pb::AcknowledgeRequest {
        lease: Some(held.clone()),
        events: vec![uid.to_string()],
    }
}

#[tokio::test]
async fn l05_injected_input_is_consumed_by_its_acknowledgement_only() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    let taken = injected(&world, work, &held).await;
    let missed = injected(&world, work, &held).await;
    let offered = world.renew(&held).await.expect("live").injects;
    let offered: Vec<String> = offered.into_iter().map(|event| event.uid).collect();
    assert_eq!(offered, [taken.to_string(), missed.to_string()]);
    let answer = world
        .executor()
        .acknowledge(ack(&held, taken))
        .await
        .expect("live")
        .into_inner();
    assert_eq!(answer.events, [taken.to_string()]);
    world
        .executor()
        .acknowledge(ack(&held, taken))
        .await
        .expect("a repeat answers the same");
    let stranger = Uuid::now_v7();
    assert_eq!(
        reason(world.executor().acknowledge(ack(&held, stranger)).await),
        "INTENT_NOT_FOUND"
    );
    let inputs = world.inputs(work).await;
    assert_eq!(
        (inputs[1].state(), inputs[1].attempt),
        (InputState::Consumed, 1)
    );
    assert_eq!(
        (inputs[2].state(), inputs[2].intent.as_str()),
        (InputState::Queued, "inject")
    );
    assert_eq!(world.complete(&held).await.expect("live"), WorkState::Ready);
    world
        .executor()
        .acknowledge(ack(&held, taken))
        .await
        .expect("what was taken stays taken");
    assert_eq!(
        reason(world.executor().acknowledge(ack(&held, missed)).await),
        "LEASE_LOST"
    );
    assert_eq!(uids(&world.claim_one().await), [missed.to_string()]);
}

#[tokio::test]
async fn l05_a_new_epoch_voids_the_intent_and_keeps_the_input() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let first = lease(&world.claim_one().await);
    let event = injected(&world, work, &first).await;
    world.expire().await;
    let second = world.claim_one().await;
    assert!(uids(&second).contains(&event.to_string()));
    assert!(
        world
            .renew(&lease(&second))
            .await
            .expect("live")
            .injects
            .is_empty()
    );
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.intent WHERE state = 4")
            .await,
        1
    );
    assert_eq!(
        reason(world.executor().acknowledge(ack(&first, event)).await),
        "LEASE_LOST"
    );
}
