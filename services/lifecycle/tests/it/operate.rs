//! What operators do: rules l08, l14, r08, o08.

use sqlx::types::Uuid;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{AttemptOutcome, InputState, WorkState};

use crate::world::{World, lease, reason};

fn create(keys: &[&str], request_id: &str) -> pb::CreateWorkRequest {
    pb::CreateWorkRequest {
        scope: "root".to_owned(),
        binding: "triage".to_owned(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        text_data: r#"{"n":1}"#.to_owned(),
        reason: "by hand".to_owned(),
        request_id: request_id.to_owned(),
    }
}

fn cancel(work: &str, request_id: &str) -> pb::CancelWorkRequest {
    pb::CancelWorkRequest {
        work: work.to_owned(),
        reason: "enough".to_owned(),
        request_id: request_id.to_owned(),
    }
}

fn release(work: Uuid) -> pb::ReleaseWorkRequest {
    pb::ReleaseWorkRequest {
        work: work.to_string(),
        reason: "fixed".to_owned(),
        request_id: String::new(),
    }
}

#[tokio::test]
async fn l14_created_work_has_its_control_event_as_input() {
    let world = World::new().await;
    let answer = world
        .works()
        .create_work(create(&["k/2", "k/1"], ""))
        .await
        .expect("created")
        .into_inner();
    let work = answer.work.expect("an answer has it");
    assert_eq!(
        (work.state(), work.keys.as_slice()),
        (
            WorkState::Ready,
            ["k/1".to_owned(), "k/2".to_owned()].as_slice()
        )
    );
    let claimed = world.claim_one().await;
    assert_eq!(claimed.trigger, answer.control_event);
    let event = claimed.inputs[0].event.clone().expect("with its envelope");
    assert_eq!(
        (event.source.as_str(), event.r#type.as_str()),
        ("core.manual", "core.manual.create_work")
    );
    assert_eq!(claimed.keys, ["k/1", "k/2"]);
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.audit WHERE reason = 'by hand'")
            .await,
        1
    );
}

#[tokio::test]
async fn r08_a_key_of_another_work_is_refused() {
    let world = World::new().await;
    world
        .works()
        .create_work(create(&["k"], ""))
        .await
        .expect("created");
    assert_eq!(
        reason(world.works().create_work(create(&["k"], "")).await),
        "KEY_OWNED"
    );
    let elsewhere = pb::CreateWorkRequest {
        binding: "nope".to_owned(),
        ..create(&[], "")
    };
    assert_eq!(
        reason(world.works().create_work(elsewhere).await),
        "BINDING_NOT_FOUND"
    );
    let nowhere = pb::CreateWorkRequest {
        scope: "nope".to_owned(),
        ..create(&[], "")
    };
    assert_eq!(
        reason(world.works().create_work(nowhere).await),
        "SCOPE_NOT_FOUND"
    );
    let silent = pb::CreateWorkRequest {
        reason: String::new(),
        ..create(&[], "")
    };
    assert_eq!(
        reason(world.works().create_work(silent).await),
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn r08_unrouted_events_with_an_attached_key_belong_to_the_new_work() {
    let world = World::new().await;
    world
        .run(
            "INSERT INTO weir.pending (tenant_id, scope_id, seq, uid, accepted_at, keys) \
                 VALUES (1, 1, 900, '0199c8a0-0000-7000-8000-000000000001', weir.clock(), '{k}'); \
             INSERT INTO weir.pending_key VALUES (1, 1, 'k', 900)",
        )
        .await;
    world
        .works()
        .create_work(create(&["k"], ""))
        .await
        .expect("created");
    let held = lease(&world.claim_one().await);
    assert_eq!(reason(world.complete(&held).await), "UNROUTED_INPUT");
}

#[tokio::test]
async fn o08_a_request_id_answers_the_first_result_to_concurrent_twins() {
    let world = World::new().await;
    let mut hold = world.db.hold().await;
    hold.hold_scope_order(weir_kernel::TenantId(1), weir_kernel::ScopeId(1))
        .await;
    let (mut a, mut b) = (world.works(), world.works());
    let release = async {
        world.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (first, second, ()) = tokio::join!(
        a.create_work(create(&[], "r1")),
        b.create_work(create(&[], "r1")),
        release
    );
    let (first, second) = (
        first.expect("created").into_inner(),
        second.expect("replayed").into_inner(),
    );
    assert_eq!(first, second);
    assert_eq!(world.count("SELECT count(*) FROM weir.work").await, 1);
    assert_eq!(
        reason(world.works().create_work(create(&["k"], "r1")).await),
        "REQUEST_CONFLICT"
    );
}

#[tokio::test]
async fn l08_cancel_ends_the_attempt_and_everything_it_owns() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let held = lease(&world.claim_one().await);
    world
        .run(
            "INSERT INTO weir.timer SELECT 1, weir.clock(), work_id, work_id, 1, 't', NULL, 'x' FROM weir.work; \
             INSERT INTO weir.intent SELECT 1, work_id, 1, uid, 1, n, 1, 1, weir.clock() FROM weir.input; \
             INSERT INTO weir.wait SELECT 1, work_id, 1, 1, weir.clock() FROM weir.work; \
             INSERT INTO weir.wait_sub SELECT 1, 1, work_id, 1, 1, 1 FROM weir.work",
        )
        .await;
    let deferred = world.unrouted(work, 3, Some(1)).await;
    let answer = world
        .works()
        .cancel_work(cancel(&held.work, "c1"))
        .await
        .expect("cancelled")
        .into_inner();
    let again = world
        .works()
        .cancel_work(cancel(&held.work, "c1"))
        .await
        .expect("a repeat")
        .into_inner();
    assert_eq!(again, answer);
    assert_eq!(
        answer.work.expect("an answer has it").state(),
        WorkState::Cancelled
    );
    assert!(
        world
            .renew(&held)
            .await
            .expect("the renewal says so")
            .cancelled
    );
    assert_eq!(reason(world.complete(&held).await), "LEASE_LOST");
    assert_eq!(world.inputs(work).await[0].state(), InputState::Abandoned);
    assert_eq!(
        world.attempts(work).await[0].outcome(),
        AttemptOutcome::Cancelled
    );
    let owned = "SELECT (SELECT count(*) FROM weir.timer) + (SELECT count(*) FROM weir.intent WHERE state < 4) \
        + (SELECT count(*) FROM weir.wait WHERE state = 1) + (SELECT count(*) FROM weir.wait_sub) \
        + (SELECT count(*) FROM weir.ready)";
    assert_eq!(world.count(owned).await, 0);
    let due = "SELECT count(*) FROM weir.pending WHERE state = 1";
    assert_eq!(
        world.count(due).await,
        1,
        "{deferred} is due: it will be routed terminal"
    );
    assert_eq!(
        reason(world.works().cancel_work(cancel(&held.work, "")).await),
        "WORK_TERMINAL"
    );
    let unknown = Uuid::now_v7().to_string();
    assert_eq!(
        reason(world.works().cancel_work(cancel(&unknown, "")).await),
        "WORK_NOT_FOUND"
    );
    assert_eq!(
        reason(world.foreign().cancel_work(cancel(&held.work, "")).await),
        "WORK_NOT_FOUND"
    );
}

#[tokio::test]
async fn l14_released_work_goes_on_with_its_count_anew() {
    let world = World::new().await;
    let work = world.queued(1).await;
    assert_eq!(
        reason(world.works().release_work(release(work)).await),
        "WORK_NOT_HELD"
    );
    for _ in 0..3 {
        world.claim_one().await;
        world.expire().await;
    }
    weir_lifecycle::hold_exhausted(&world.db.open("sweep"))
        .await
        .expect("swept");
    assert_eq!(world.get(work).await.held_reason, "attempts_exhausted");
    let seen = world
        .works()
        .release_work(release(work))
        .await
        .expect("released")
        .into_inner();
    let seen = seen.work.expect("an answer has it");
    assert_eq!(
        (seen.state(), seen.tries, seen.attempts),
        (WorkState::Ready, 0, 3)
    );
    let claimed = world.claim_one().await;
    assert_eq!(
        (
            lease(&claimed).attempt,
            lease(&claimed).epoch,
            claimed.inputs.len()
        ),
        (4, 4, 1)
    );
}

#[tokio::test]
async fn l14_a_release_becomes_input_when_nothing_is_queued() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world
        .run(
            "DELETE FROM weir.ready; UPDATE weir.input SET taken_by = 1; \
             UPDATE weir.work SET state = 4, held_reason = 'x', queue_pos = NULL, epoch = 3, attempts = 2",
        )
        .await;
    let answer = world
        .works()
        .release_work(release(work))
        .await
        .expect("released")
        .into_inner();
    let claimed = world.claim_one().await;
    assert_eq!((lease(&claimed).attempt, lease(&claimed).epoch), (3, 4));
    assert_eq!(claimed.trigger, answer.control_event);
    assert_eq!(
        world.complete(&lease(&claimed)).await.expect("live"),
        WorkState::Completed
    );
}
