//! Reads: what stands, and what would move it.

use sqlx::types::Uuid;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{InputState, WorkState};

use crate::world::{World, lease, reason};

#[tokio::test]
async fn a_work_says_what_would_move_it() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let kind = async || {
        world
            .get(work)
            .await
            .blocked_by
            .expect("an answer has it")
            .kind
    };
    assert_eq!(kind().await, "unclaimed");
    let held = lease(&world.claim_one().await);
    assert_eq!(kind().await, "lease");
    world.expire().await;
    assert_eq!(kind().await, "unclaimed", "the lease ran out");
    let second = lease(&world.claim_one().await);
    assert_eq!(reason(world.complete(&held).await), "LEASE_LOST");
    world.complete(&second).await.expect("live");
    assert_eq!(kind().await, "nothing");
}

#[tokio::test]
async fn a_work_is_found_by_key_and_hidden_from_other_tenants() {
    let world = World::new().await;
    let work = world.queued(1).await;
    sqlx::query("INSERT INTO weir.work_key VALUES (1, 1, 'k', $1)")
        .bind(work)
        .execute(world.db.pool())
        .await
        .expect("a key");
    let by_key = |scope: &str, key: &str| pb::GetWorkRequest {
        work: String::new(),
        scope: scope.to_owned(),
        key: key.to_owned(),
    };
    let found = world
        .works()
        .get_work(by_key("root", "k"))
        .await
        .expect("found")
        .into_inner();
    assert_eq!(found.work.expect("an answer has it").work, work.to_string());
    assert_eq!(
        reason(world.works().get_work(by_key("root", "x")).await),
        "WORK_NOT_FOUND"
    );
    assert_eq!(
        reason(world.works().get_work(by_key("nope", "k")).await),
        "SCOPE_NOT_FOUND"
    );
    assert_eq!(
        reason(world.foreign().get_work(by_key("root", "k")).await),
        "WORK_NOT_FOUND"
    );
    let by_id = pb::GetWorkRequest {
        work: work.to_string(),
        ..Default::default()
    };
    assert_eq!(
        reason(world.foreign().get_work(by_id).await),
        "WORK_NOT_FOUND"
    );
    let list = pb::ListInputsRequest {
        work: Uuid::now_v7().to_string(),
        ..Default::default()
    };
    assert_eq!(
        reason(world.works().list_inputs(list).await),
        "WORK_NOT_FOUND"
    );
}

#[tokio::test]
async fn lists_page_and_filter_by_the_state_that_readers_see() {
    let world = World::new().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(world.queued(1).await.to_string());
    }
    world.claim_one_of(2).await;
    let mut request = pb::ListWorksRequest {
        page_size: 2,
        ..Default::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = world
            .works()
            .list_works(request.clone())
            .await
            .expect("a page")
            .into_inner();
        seen.extend(page.works.into_iter().map(|work| work.work));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    all.reverse();
    assert_eq!(seen, all, "newest first");
    let counted = async |state: WorkState| {
        let request = pb::ListWorksRequest {
            state: Some(state.into()),
            ..Default::default()
        };
        world
            .works()
            .list_works(request)
            .await
            .expect("a page")
            .into_inner()
            .works
            .len()
    };
    assert_eq!(
        (
            counted(WorkState::Running).await,
            counted(WorkState::Ready).await
        ),
        (2, 3)
    );
    assert_eq!(counted(WorkState::Held).await, 0);
    let elsewhere = pb::ListWorksRequest {
        scope: "side".to_owned(),
        ..Default::default()
    };
    assert!(
        world
            .works()
            .list_works(elsewhere)
            .await
            .expect("a page")
            .into_inner()
            .works
            .is_empty()
    );
    let foreign = world
        .foreign()
        .list_works(pb::ListWorksRequest::default())
        .await
        .expect("a page");
    assert!(foreign.into_inner().works.is_empty());
    let bad = pb::ListWorksRequest {
        page_token: "x".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        reason(world.works().list_works(bad).await),
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn inputs_name_the_attempt_that_consumed_them() {
    let world = World::new().await;
    let work = world.queued(1).await;
    world.claim_one().await;
    world.expire().await;
    let held = lease(&world.claim_one().await);
    world.more(work, 1).await;
    world.complete(&held).await.expect("live");
    let inputs = world.inputs(work).await;
    assert_eq!(
        (inputs[0].state(), inputs[0].attempt),
        (InputState::Consumed, 2)
    );
    assert_eq!(
        (inputs[1].state(), inputs[1].attempt),
        (InputState::Queued, 0)
    );
}
