//! Housekeeping: rules l07, o08, and days ahead.

use std::time::Duration;

use weir_lifecycle::{forget_requests, hold_exhausted, make_partitions};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{AttemptOutcome, WorkState};
use weir_runtime::Progress;

use crate::world::{World, lease};

#[tokio::test]
async fn l07_a_work_whose_workers_die_is_held_after_the_last_lease() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let db = world.db.open("sweep");
    for _ in 0..3 {
        world.claim_one().await;
        hold_exhausted(&db).await.expect("swept");
        assert_eq!(world.get(work).await.state(), WorkState::Running);
        world.expire().await;
    }
    assert!(world.claim().await.is_empty(), "its attempts are spent");
    assert_eq!(hold_exhausted(&db).await.expect("swept"), Progress::Idle);
    let seen = world.get(work).await;
    assert_eq!(
        (seen.state(), seen.attempts, seen.tries),
        (WorkState::Held, 3, 3)
    );
    let outcomes: Vec<AttemptOutcome> = world
        .attempts(work)
        .await
        .iter()
        .map(|a| a.outcome())
        .collect();
    assert_eq!(outcomes, [AttemptOutcome::LeaseLost; 3]);
}

#[tokio::test]
async fn o08_answers_are_forgotten_after_a_day() {
    let world = World::new().await;
    let request = pb::RegisterExecutorRequest {
        executor: "new".to_owned(),
        capabilities: vec![pb::Capability::Interrupt.into()],
        request_id: "r".to_owned(),
    };
    let first = world
        .executor()
        .register_executor(request.clone())
        .await
        .expect("registered")
        .into_inner();
    assert_eq!(first.revision, 1);
    let again = world
        .executor()
        .register_executor(request.clone())
        .await
        .expect("a repeat")
        .into_inner();
    assert_eq!(again, first);
    let more = pb::RegisterExecutorRequest {
        capabilities: vec![1, 2],
        request_id: String::new(),
        ..request
    };
    let second = world
        .executor()
        .register_executor(more.clone())
        .await
        .expect("registered")
        .into_inner();
    assert_eq!(
        second.revision, 2,
        "other capabilities are another revision"
    );
    let same = world
        .executor()
        .register_executor(more)
        .await
        .expect("registered")
        .into_inner();
    assert_eq!(same, second);
    let db = world.db.open("sweep");
    forget_requests(&db).await.expect("swept");
    assert_eq!(world.count("SELECT count(*) FROM weir.request").await, 1);
    world.db.advance(Duration::from_secs(86_401)).await;
    forget_requests(&db).await.expect("swept");
    assert_eq!(world.count("SELECT count(*) FROM weir.request").await, 0);
}

#[tokio::test]
async fn partitions_stand_ready_for_two_weeks() {
    let world = World::new().await;
    let db = world.db.open("sweep");
    world.db.advance(Duration::from_secs(60 * 86_400)).await;
    make_partitions(&db).await.expect("made");
    world.queued(1).await;
    assert_eq!(lease(&world.claim_one().await).attempt, 1);
}
