//! Claims: rules l01, l03, l04, l15.

use tokio_stream::StreamExt as _;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1::{AttemptOutcome, InputState, WorkState};

use crate::world::{World, lease, reason, spec, uids};

#[tokio::test]
async fn l01_a_claim_pins_and_numbers_the_attempt() {
    let world = World::new().await;
    let work = world.queued(2).await;
    let claimed = world.claim_one().await;
    let held = lease(&claimed);
    assert_eq!(
        (held.work.clone(), held.attempt, held.epoch),
        (work.to_string(), 1, 1)
    );
    assert_eq!(
        (claimed.scope.as_str(), claimed.binding.as_str()),
        ("root", "triage")
    );
    assert_eq!(
        (claimed.generation, claimed.tries, claimed.inputs.len()),
        (1, 1, 2)
    );
    assert_eq!(claimed.trigger, claimed.inputs[0].uid);
    assert!(
        world.claim().await.is_empty(),
        "at most one attempt of a work is active"
    );
    let seen = world.get(work).await;
    assert_eq!(
        (seen.state(), seen.epoch, seen.attempts),
        (WorkState::Running, 1, 1)
    );
    let running = world.attempts(work).await.remove(0);
    // Claimed by the binding: inject and interrupt; proved by the registration: inject.
    assert_eq!(
        (running.capabilities.concat().as_str(), running.registration),
        ("inject", 1)
    );
    assert_eq!(
        (running.owner.as_str(), running.outcome()),
        ("me", AttemptOutcome::Unspecified)
    );
}

#[tokio::test]
async fn l01_a_claim_says_what_is_missing() {
    let world = World::new().await;
    assert_eq!(
        reason(world.try_claim(spec("nope")).await),
        "BINDING_NOT_FOUND"
    );
    assert_eq!(
        reason(world.try_claim(spec("parking")).await),
        "EXECUTOR_NOT_REGISTERED"
    );
    assert_eq!(
        reason(world.try_claim(spec("night")).await),
        "EXECUTOR_NOT_REGISTERED"
    );
    let elsewhere = pb::ClaimSpec {
        scope: "nowhere".to_owned(),
        ..spec("triage")
    };
    assert_eq!(reason(world.try_claim(elsewhere).await), "SCOPE_NOT_FOUND");
    let stale = pb::ClaimSpec {
        registration: 7,
        ..spec("triage")
    };
    assert_eq!(reason(world.try_claim(stale).await), "BINDING_CHANGED");
    assert_eq!(
        reason(world.try_claim(pb::ClaimSpec::default()).await),
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn l01_a_registration_that_changes_is_seen_by_the_claim_that_waited_for_it() {
    let world = World::new().await;
    world.queued(1).await;
    let mut publication = world.db.hold().await;
    publication.hold_config(weir_kernel::TenantId(1)).await;
    let stated = pb::ClaimSpec {
        registration: 1,
        ..spec("triage")
    };
    let claim = world.try_claim(stated);
    let change = async {
        world.db.wait_until_blocked(1).await;
        publication
            .run("INSERT INTO weir.executor_registration VALUES (1, 'worker', 2, 3, 'me', weir.clock())")
            .await;
        publication.commit().await;
    };
    let (claimed, ()) = tokio::join!(claim, change);
    assert_eq!(reason(claimed), "BINDING_CHANGED");
}

#[tokio::test]
async fn l03_an_expired_lease_is_taken_over_with_its_input_in_place() {
    let world = World::new().await;
    let work = world.queued(2).await;
    let first = world.claim_one().await;
    let late = world.more(work, 1).await;
    let deferred = world.unrouted(work, 3, Some(1)).await;
    world.expire().await;
    let second = world.claim_one().await;
    assert_eq!(
        (lease(&second).attempt, lease(&second).epoch, second.tries),
        (2, 2, 2)
    );
    assert_eq!(second.trigger, first.trigger, "a retry keeps its trigger");
    let mut expected = uids(&first);
    expected.push(late.to_string());
    assert_eq!(uids(&second), expected, "returned input comes first");
    let attempts = world.attempts(work).await;
    assert_eq!(
        (attempts[0].attempt, attempts[0].outcome()),
        (1, AttemptOutcome::LeaseLost)
    );
    let due = "SELECT count(*) FROM weir.pending WHERE state = 1 AND hold_work IS NULL";
    assert_eq!(
        world.count(due).await,
        1,
        "{deferred} was deferred to the lost attempt"
    );
}

#[tokio::test]
async fn l04_a_claim_presents_the_prefix_of_one_binding() {
    let world = World::new().await;
    let work = world.queued(2).await;
    world.more(work, 4).await;
    world.more(work, 1).await;
    let claimed = world.claim_one().await;
    assert_eq!(
        claimed.inputs.len(),
        2,
        "the third input runs under another binding"
    );
    let states: Vec<InputState> = world
        .inputs(work)
        .await
        .iter()
        .map(|input| input.state())
        .collect();
    use InputState::{Presented, Queued};
    assert_eq!(states, [Presented, Presented, Queued, Queued]);
}

#[tokio::test]
async fn l04_a_claim_presents_at_most_a_hundred_inputs_and_four_mebibytes() {
    let world = World::new().await;
    let many = world.queued(103).await;
    let claimed = world.claim_one().await;
    assert_eq!(
        (lease(&claimed).work, claimed.inputs.len()),
        (many.to_string(), 100)
    );
    let big = world.queued(6).await;
    sqlx::query("UPDATE weir.input SET bytes = 1048576 WHERE work_id = $1")
        .bind(big)
        .execute(world.db.pool())
        .await
        .expect("the inputs are there");
    assert_eq!(world.claim_one().await.inputs.len(), 4);
}

#[tokio::test]
async fn l04_two_claims_at_once_take_different_works_and_wait_for_nobody() {
    let world = World::new().await;
    world.queued(1).await;
    world.queued(1).await;
    let mut hold = world.db.hold().await;
    hold.run("SELECT FROM weir.ready ORDER BY pos LIMIT 1 FOR UPDATE")
        .await;
    hold.run("SELECT FROM weir.work FOR UPDATE").await;
    let claimed = world.claim().await;
    assert_eq!(
        claimed.len(),
        1,
        "the locked one is passed over, and work locks do not matter"
    );
    hold.release().await;
    assert_eq!(world.claim().await.len(), 1);
}

#[tokio::test]
async fn l15_every_lane_of_a_name_gets_its_share() {
    let world = World::new().await;
    for _ in 0..20 {
        world.queued_on(1, 1).await;
    }
    world.queued_on(4, 1).await;
    let scopes: Vec<String> = world
        .claim()
        .await
        .into_iter()
        .map(|work| work.scope)
        .collect();
    assert_eq!(scopes.len(), 10);
    assert!(scopes.contains(&"side".to_owned()), "{scopes:?}");
}

#[tokio::test]
async fn the_stream_spends_credits_and_ends_on_shutdown() {
    let world = World::new().await;
    for _ in 0..3 {
        world.queued(1).await;
    }
    let (send, requests) = tokio::sync::mpsc::channel(4);
    let first = pb::ClaimRequest {
        spec: Some(spec("triage")),
        credits: 2,
    };
    send.send(first).await.expect("the stream reads");
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut batches = world
        .executor()
        .claim(requests)
        .await
        .expect("a stream")
        .into_inner();
    let batch = batches.next().await.expect("a batch").expect("claimed");
    assert_eq!(batch.works.len(), 2);
    send.send(pb::ClaimRequest {
        spec: None,
        credits: 5,
    })
    .await
    .expect("the stream reads");
    assert_eq!(
        batches
            .next()
            .await
            .expect("a batch")
            .expect("claimed")
            .works
            .len(),
        1
    );
    let work = world.queued(1).await;
    let late = batches
        .next()
        .await
        .expect("a batch")
        .expect("claimed")
        .works
        .remove(0);
    assert_eq!(
        lease(&late).work,
        work.to_string(),
        "an idle stream finds new work"
    );
    world.shutdown.cancel();
    assert!(batches.next().await.is_none());
}

#[tokio::test]
async fn one_claim_waits_for_work_that_is_created_meanwhile() {
    let world = World::new().await;
    let wait = prost_types::Duration {
        seconds: 20,
        nanos: 0,
    };
    let request = pb::ClaimOnceRequest {
        spec: Some(spec("triage")),
        max_works: 0,
        wait: Some(wait),
    };
    let create = pb::CreateWorkRequest {
        scope: "root".to_owned(),
        binding: "triage".to_owned(),
        reason: "by hand".to_owned(),
        ..Default::default()
    };
    let (mut executor, mut works) = (world.executor(), world.works());
    let (claimed, created) = tokio::join!(executor.claim_once(request), works.create_work(create));
    let created = created
        .expect("created")
        .into_inner()
        .work
        .expect("an answer has it");
    let claimed = claimed.expect("claimable").into_inner().works.remove(0);
    assert_eq!(lease(&claimed).work, created.work);
}

#[tokio::test]
async fn l01_claimers_at_once_never_share_a_work() {
    let world = World::new().await;
    for _ in 0..40 {
        world.queued(1).await;
    }
    let claims = futures::future::join_all((0..8).map(|_| world.claim())).await;
    let claimed: Vec<String> = claims
        .iter()
        .flatten()
        .map(|work| lease(work).work)
        .collect();
    let mut distinct = claimed.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), claimed.len());
    let completions = claims.iter().flatten().map(|work| {
        let lease = lease(work);
        let world = &world;
        async move { world.complete(&lease).await }
    });
    for state in futures::future::join_all(completions).await {
        assert_eq!(state.expect("each holds its lease"), WorkState::Completed);
    }
    let rows = "SELECT count(*) FROM weir.ready WHERE owner <> ''";
    assert_eq!(world.count(rows).await, 0);
    let ended = i64::try_from(claimed.len()).expect("few");
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.work WHERE state = 5")
            .await,
        ended
    );
    assert_eq!(
        world
            .count("SELECT count(*) FROM weir.attempt WHERE outcome = 1")
            .await,
        ended
    );
}
