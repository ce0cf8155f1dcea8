//! The fence: rule l02.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use tonic::Code;

use crate::world::{World, event, expected, refusal, request};

#[tokio::test]
async fn l02_a_stale_epoch_or_attempt_writes_nothing() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    world.emit(&attempt, "before").await.expect("leased");
    let before = world.traces().await;
    for (number, epoch) in [(1, 6), (1, 8), (2, 7)] {
        let mut stale = attempt.lease.clone();
        (stale.attempt, stale.epoch) = (number, epoch);
        for events in [
            vec![event("a")],
            vec![event("a"), event("b")],
            vec![event("before")],
        ] {
            let refused = refusal(world.emit_with(request(&stale, events)).await);
            assert_eq!(refused, expected(Code::Aborted, "LEASE_LOST", ""));
        }
    }
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn l02_an_expired_lease_has_no_authority_before_it_is_taken_over() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;
    world.db.advance(Duration::from_secs(31)).await;
    let refused = refusal(world.emit(&attempt, "a").await);
    assert_eq!(refused, expected(Code::Aborted, "LEASE_LOST", ""));
    // Also when none of the events could be appended: authority is said first.
    let mut bad = event("a");
    bad.source = "elsewhere".to_owned();
    let refused = refusal(
        world
            .emit_with(request(&attempt.lease, [bad.clone(), bad]))
            .await,
    );
    assert_eq!(refused, expected(Code::Aborted, "LEASE_LOST", ""));
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn l02_an_ended_attempt_has_no_authority() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;
    world
        .run("DELETE FROM weir.ready; UPDATE weir.work SET queue_pos = NULL")
        .await;
    let refused = refusal(world.emit(&attempt, "a").await);
    assert_eq!(refused, expected(Code::Aborted, "LEASE_LOST", ""));
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn l02_an_emission_that_waits_for_a_takeover_sees_it() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;
    let mut takeover = world.db.hold().await;
    takeover
        .run("UPDATE weir.ready SET epoch = epoch + 1, attempt = attempt + 1")
        .await;
    let committed = async {
        world.db.wait_until_blocked(1).await;
        takeover.commit().await;
    };
    let (answer, ()) = tokio::join!(world.emit(&attempt, "a"), committed);
    assert_eq!(refusal(answer), expected(Code::Aborted, "LEASE_LOST", ""));
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn l02_an_end_waits_for_an_emission_under_way() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    // The emission stands at its root, behind the fence.
    let mut root = world.db.hold().await;
    let pin = format!(
        "INSERT INTO weir.causal_root VALUES (1, '{}', 9, 9, weir.clock())",
        attempt.trigger
    );
    root.run(AssertSqlSafe(pin)).await;
    let end = async {
        world.db.wait_until_blocked(1).await;
        let mut connection = world.db.connect().await;
        let ended = sqlx::query("DELETE FROM weir.ready").execute(&mut connection);
        let released = async {
            world.db.wait_until_blocked(2).await;
            root.release().await;
        };
        let (ended, ()) = tokio::join!(ended, released);
        ended.expect("after the emission").rows_affected()
    };
    let (answer, ended) = tokio::join!(world.emit(&attempt, "a"), end);
    answer.expect("it was leased when it was appended");
    assert_eq!(ended, 1);
}
