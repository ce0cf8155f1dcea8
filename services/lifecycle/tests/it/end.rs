//! The aggregate's functions that routing calls: rules l06, c01.

use sqlx::Connection as _;
use weir_kernel::{TenantId, WorkId};
use weir_pg::Tx;
use weir_proto::types::v1::WorkState;
use weir_work::{Error, Lease, complete_if_drained, share_lease};

use crate::world::{World, lease};

const TENANT: TenantId = TenantId(1);

#[tokio::test]
async fn l06_work_completes_when_its_last_unrouted_input_is_routed_elsewhere() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    world.unrouted(work, 3, Some(1)).await;
    assert_eq!(world.complete(&held).await.expect("live"), WorkState::Ready);
    let mut connection = world.db.connect().await;
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    let none = complete_if_drained(&mut tx, TENANT, &[WorkId(work)])
        .await
        .expect("asked");
    assert_eq!(none, [], "its input is unrouted still");
    for statement in ["DELETE FROM weir.pending", "DELETE FROM weir.pending_key"] {
        sqlx::query(statement)
            .execute(tx.conn())
            .await
            .expect("routed elsewhere");
    }
    let done = complete_if_drained(&mut tx, TENANT, &[WorkId(work)])
        .await
        .expect("asked");
    assert_eq!(done, [WorkId(work)]);
    sqlx::query("COMMIT")
        .execute(tx.conn())
        .await
        .expect("commits");
    assert_eq!(world.get(work).await.state(), WorkState::Completed);
}

#[tokio::test]
async fn c01_a_shared_lease_gives_the_trigger_and_holds_off_the_end() {
    let world = World::new().await;
    let work = WorkId(world.queued(1).await);
    let claimed = world.claim_one().await;
    let held = Lease {
        work,
        attempt: 1,
        epoch: 1,
    };
    let mut connection = world.db.connect().await;
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    let shared = share_lease(&mut tx, TENANT, held).await.expect("live");
    assert_eq!(
        shared.ready.trigger.map(|uid| uid.to_string()),
        Some(claimed.trigger.clone())
    );
    let emitted = async {
        world.db.wait_until_blocked(1).await;
        sqlx::query("COMMIT")
            .execute(tx.conn())
            .await
            .expect("commits");
    };
    let wire = lease(&claimed);
    let (state, ()) = tokio::join!(world.complete(&wire), emitted);
    assert_eq!(state.expect("after the emission"), WorkState::Completed);
    drop(tx);
    let mut tx = Tx::from(connection.begin().await.expect("begins"));
    assert!(matches!(
        share_lease(&mut tx, TENANT, held).await,
        Err(Error::LeaseLost(_))
    ));
    let foreign = share_lease(&mut tx, TenantId(2), held).await;
    assert!(matches!(foreign, Err(Error::WorkNotFound(_))));
}
