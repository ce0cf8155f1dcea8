//! Waiting for the end of a Work: rule l10.

use sqlx::Connection as _;
use sqlx::types::Uuid;
use weir_kernel::WorkId;
use weir_pg::Tx;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::WorkState;

use crate::waiting::{ASKED, TENANT, commit, ended, request};
use crate::world::{World, lease};

/// The end is under way while the other attempt parks: it waits for the parking, and then asks.
#[tokio::test]
async fn l10_the_end_of_a_work_asks_for_a_check() {
    let world = World::new().await;
    world.queued(1).await;
    world.queued(1).await;
    let works = world.claim().await;
    let (waiting, ending) = (lease(&works[0]), lease(&works[1]));
    let other = ending.work.parse().expect("a uuid");
    let mut hold = world.db.hold().await;
    // Parking has its locks and stands still before the subscription is written.
    hold.run("LOCK TABLE weir.wait_sub IN SHARE MODE").await;
    let end = async {
        world.db.wait_until_blocked(1).await;
        let release = async {
            world.db.wait_until_blocked(2).await;
            hold.release().await;
        };
        let (state, ()) = tokio::join!(world.complete(&ending), release);
        state
    };
    let asked = request(&waiting, &[ended(other)]);
    let (parked, state) = tokio::join!(world.park(asked), end);
    assert_eq!(state.expect("live"), WorkState::Completed);
    assert_eq!(
        parked.expect("live").conditions,
        [format!("the end of work `{other}`")]
    );
    assert_eq!(world.count(ASKED).await, 2, "once opened, once ended");
}

/// A check that is under way does not swallow what is asked meanwhile.
#[tokio::test]
async fn l10_asking_during_a_check_is_not_lost() {
    let world = World::new().await;
    let other = world.queued(1).await;
    let ending = lease(&world.claim_one().await);
    world.queued(1).await;
    world.claim_and_park(&[ended(other)]).await;
    let mut check = world.db.hold().await;
    check
        .run("UPDATE weir.wait SET checked = 1 WHERE checked < 1")
        .await;
    let checked = async {
        world.db.wait_until_blocked(1).await;
        check.commit().await;
    };
    let (state, ()) = tokio::join!(world.complete(&ending), checked);
    assert_eq!(state.expect("live"), WorkState::Completed);
    assert_eq!(
        world.count("SELECT asked - checked FROM weir.wait").await,
        1
    );
}

#[tokio::test]
async fn l10_every_way_to_end_asks_for_a_check() {
    let world = World::new().await;
    let cancelled = world.queued(1).await;
    let failed = world.queued(1).await;
    let drained = world.queued(1).await;
    let works = world.claim().await;
    let of = |work: Uuid| {
        let named = |claimed: &&pb::ClaimedWork| lease(claimed).work == work.to_string();
        lease(works.iter().find(named).expect("claimed"))
    };
    world.queued(1).await;
    world
        .claim_and_park(&[ended(cancelled), ended(failed), ended(drained)])
        .await;
    world.cancel(cancelled).await;
    assert_eq!(world.count(ASKED).await, 2);
    let fail = pb::FailRequest {
        lease: Some(of(failed)),
        kind: pb::FailureKind::Permanent.into(),
        error: "boom".to_owned(),
        retry_after: None,
    };
    world.executor().fail(fail).await.expect("live");
    assert_eq!(world.count(ASKED).await, 3);
    world.unrouted(drained, 3, Some(1)).await;
    world.complete(&of(drained)).await.expect("live");
    assert_eq!(world.count(ASKED).await, 3, "input is left");
    world
        .run("DELETE FROM weir.pending; DELETE FROM weir.pending_key")
        .await;
    let mut connection = world.db.connect().await;
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    weir_work::complete_if_drained(&mut tx, TENANT, &[WorkId(drained)])
        .await
        .expect("asked");
    commit(&mut tx).await;
    assert_eq!(world.count(ASKED).await, 4);
}
