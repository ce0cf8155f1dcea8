//! Siblings at once: rule c07.

use futures::future::join_all;
use weir_kernel::{EventUid, TenantId};
use weir_proto::causal::v1 as pb;

use crate::world::{World, event, request};

/// How many were accepted of what these calls were answered.
fn accepted(answers: Vec<pb::EmitResponse>) -> usize {
    answers
        .iter()
        .flat_map(|a| &a.results)
        .filter(|r| r.accepted.is_some())
        .count()
}

/// Sixteen attempts of one trigger emit three events each, through two replicas. Each into a scope of its
/// own, so that no order lock lines them up: only the charge stands between them.
async fn siblings(world: &World, root: EventUid) -> Vec<pb::EmitResponse> {
    let replicas = [world.replica("one"), world.replica("two")];
    let mut calls = Vec::new();
    for n in 1..=16 {
        let attempt = world.attempt_of(root).await;
        let scope = match n {
            1 => "root".to_owned(),
            2 => "side".to_owned(),
            n => format!("side{n}"),
        };
        let events = (0..3).map(|i| event(&format!("{n}/{i}")));
        calls.push(pb::EmitRequest {
            scope,
            ..request(&attempt.lease, events)
        });
    }
    let all = calls.into_iter().enumerate().map(|(n, call)| {
        let mut replica = replicas[n % 2].clone();
        async move { replica.emit(call).await.expect("leased").into_inner() }
    });
    join_all(all).await
}

async fn check(world: &World, root: EventUid, spent: i32, refused: i64) {
    let view = world.get_root(root).await;
    assert_eq!((view.per_minute, view.spent), (20, spent));
    let derived = world
        .count("SELECT count(*) FROM weir.event WHERE depth = 1")
        .await;
    assert_eq!(derived, i64::from(spent));
    assert_eq!(
        world.count("SELECT count(*) FROM weir.causal_root").await,
        1
    );
    let counted: i64 = world.diagnostics().await.iter().map(|d| d.refused).sum();
    assert_eq!(counted, refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c07_concurrent_siblings_of_two_replicas_never_pass_the_quota() {
    let world = World::new().await;
    world.limits(4, 20).await;
    let first = world.attempt().await;
    world.emit(&first, "first").await.expect("allowed");
    // All have read and stand at the bucket, then all go.
    let mut gate = world.db.hold().await;
    gate.run("SELECT FROM weir.causal_bucket FOR UPDATE").await;
    let opened = async {
        world.db.wait_until_blocked(16).await;
        gate.release().await;
    };
    let (answers, ()) = tokio::join!(siblings(&world, first.trigger), opened);
    assert_eq!(accepted(answers), 19);
    check(&world, first.trigger, 20, 29).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c07_the_first_siblings_of_a_root_pin_it_once_and_share_its_quota() {
    let world = World::new().await;
    world.limits(4, 20).await;
    let root = world.root().await;
    let mut gate = world.db.hold().await;
    gate.hold_config(TenantId(1)).await;
    let opened = async {
        world.db.wait_until_blocked(16).await;
        gate.release().await;
    };
    let (answers, ()) = tokio::join!(siblings(&world, root), opened);
    assert_eq!(accepted(answers), 20);
    check(&world, root, 20, 28).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c04_the_same_emission_on_two_replicas_is_accepted_once() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let replicas = [world.replica("one"), world.replica("two")];
    let mut gate = world.db.hold().await;
    gate.hold_config(TenantId(1)).await;
    let opened = async {
        world.db.wait_until_blocked(8).await;
        gate.release().await;
    };
    let all = (0..8).map(|n| {
        let mut replica = replicas[n % 2].clone();
        let call = request(&attempt.lease, [event("a")]);
        async move { replica.emit(call).await.expect("leased").into_inner() }
    });
    let (answers, ()) = tokio::join!(join_all(all), opened);
    let first = answers
        .iter()
        .flat_map(|a| &a.results)
        .filter_map(|r| r.accepted.as_ref());
    assert_eq!(first.filter(|a| !a.deduplicated).count(), 1);
    assert_eq!(accepted(answers), 8);
    assert_eq!(world.get_root(attempt.trigger).await.spent, 1);
}
