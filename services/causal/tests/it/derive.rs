//! Events whose parent a trusted caller chose: rules c01, c05, a06, o04.

use std::sync::atomic::Ordering;

use tonic::Code;
use uuid::Uuid;

use crate::world::{World, derivation, event, expected, problem, refusal};

#[tokio::test]
async fn c01_derive_takes_the_parent_that_it_is_given() {
    let world = World::new().await;
    let root = world.root().await;
    let accepted = world.derive(root, "a").await.expect("the parent is there");
    assert_eq!(
        world.place(&accepted.uid).await,
        (Some(root.0), Some(root.0), 1)
    );
    let below = world
        .derive(&accepted.uid, "b")
        .await
        .expect("the parent is there");
    let parent = accepted.uid.parse().ok();
    assert_eq!(world.place(&below.uid).await, (parent, Some(root.0), 2));
    assert_eq!(world.hinted.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a06_derive_speaks_for_no_work_and_not_for_weir() {
    let world = World::new().await;
    let root = world.root().await;
    let before = world.traces().await;
    let work = format!("work/{}", Uuid::now_v7());
    for (source, kind, field) in [
        (work.as_str(), "triage.done", "event.source"),
        ("core.manual", "triage.done", "event.source"),
        ("mine", "core.work.created", "event.type"),
    ] {
        let mut bad = event("a");
        (bad.source, bad.r#type) = (source.to_owned(), kind.to_owned());
        let refused = refusal(world.causal().derive(derivation(root, bad)).await);
        assert_eq!(
            refused,
            expected(Code::InvalidArgument, "INVALID_REQUEST", field)
        );
    }
    let refused = refusal(world.causal().derive(derivation("", event("a"))).await);
    assert_eq!(
        refused,
        expected(Code::InvalidArgument, "INVALID_REQUEST", "parent")
    );
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn c05_a_missing_parent_is_refused_for_good_with_a_diagnostic() {
    let world = World::new().await;
    let missing = Uuid::now_v7();
    let refused = problem(world.derive(missing, "a").await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::FailedPrecondition, "PARENT_MISSING")
    );
    assert_eq!(
        (refused.retry_after, refused.metadata["root"].as_str()),
        (None, missing.to_string().as_str())
    );
    assert_eq!(
        world.traces().await,
        [0, 0, 0, 0, 0, 0, 1],
        "the diagnostic and nothing else"
    );
    let found = world.diagnostics().await;
    assert_eq!(
        (found[0].code.as_str(), found[0].root.clone()),
        ("missing_parent", missing.to_string())
    );
}

#[tokio::test]
async fn o04_another_tenants_event_is_no_parent() {
    let world = World::new().await;
    let root = world.root().await;
    let refused = refusal(world.foreign().derive(derivation(root, event("a"))).await);
    assert_eq!(
        refused,
        expected(Code::FailedPrecondition, "PARENT_MISSING", "")
    );
}
