//! Emission: rules c01, a05, a06, o04.

use std::sync::atomic::Ordering;

use tonic::Code;
use uuid::Uuid;
use weir_proto::causal::v1 as pb;
use weir_proto::types::v1::Targets;

use crate::world::{World, event, expected, problem, refusal, request};

#[tokio::test]
async fn c01_an_emission_derives_from_the_trigger_and_its_source_is_the_work() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let accepted = world.emit(&attempt, "a").await.expect("leased");
    assert_eq!((accepted.scope.as_str(), accepted.position), ("root", 2));
    assert!(!accepted.deduplicated && accepted.accepted_at.is_some());
    let trigger = Some(attempt.trigger.0);
    assert_eq!(world.place(&accepted.uid).await, (trigger, trigger, 1));
    let source: String =
        sqlx::query_scalar("SELECT source FROM weir.event WHERE id = 'a' AND actor = 'me'")
            .fetch_one(world.db.pool())
            .await
            .expect("it is stored");
    assert_eq!(source, format!("work/{}", attempt.work));
    assert_eq!(
        world.count("SELECT count(*) FROM weir.pending").await,
        2,
        "it is to be routed"
    );
    assert_eq!(
        world.hinted.load(Ordering::Relaxed),
        1,
        "routing hears of it"
    );

    // A trigger that was derived itself: the tree goes on, the root stays.
    let below = world.attempt_of(accepted.uid.parse().expect("a uid")).await;
    let deeper = world
        .emit(&below, "a")
        .await
        .expect("another work's identity");
    assert_eq!(
        world.place(&deeper.uid).await,
        (Some(below.trigger.0), trigger, 2)
    );
}

#[tokio::test]
async fn c01_what_the_caller_may_say_of_source_and_parent_must_be_the_truth() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;

    let mut foreign = request(&attempt.lease, [event("a")]);
    let other = format!("work/{}", Uuid::now_v7());
    foreign.events[0].event.as_mut().expect("set").source = other;
    let refused = refusal(world.emit_with(foreign).await);
    assert_eq!(
        refused,
        expected(Code::InvalidArgument, "FOREIGN_SOURCE", "event.source")
    );

    let mut mistaken = request(&attempt.lease, [event("a")]);
    mistaken.parent = world.root().await.to_string();
    let before_with_root = world.traces().await;
    let refused = problem(world.emit_with(mistaken).await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::FailedPrecondition, "PARENT_MISMATCH")
    );
    assert_eq!(refused.metadata["parent"], attempt.trigger.to_string());
    assert_eq!(world.traces().await, before_with_root);
    assert_ne!(before, before_with_root, "but for the other root");

    let mut right = request(&attempt.lease, [event("a")]);
    right.parent = attempt.trigger.to_string();
    right.events[0].event.as_mut().expect("set").source = format!("work/{}", attempt.work);
    world.emit_with(right).await.expect("both are true");
}

#[tokio::test]
async fn a06_reserved_names_are_refused() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;
    for (id, kind, field) in [
        ("a", "core.work.created", "event.type"),
        ("a", "core", "event.type"),
        ("reroute/x/1", "triage.done", "event.id"),
    ] {
        let mut bad = event(id);
        bad.r#type = kind.to_owned();
        let refused = refusal(world.emit_with(request(&attempt.lease, [bad])).await);
        assert_eq!(
            refused,
            expected(Code::InvalidArgument, "INVALID_REQUEST", field)
        );
    }
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn a05_limits_name_the_field() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;
    let many = (0..1_001).map(|n| event(&n.to_string()));
    for (request, field) in [
        (request(&attempt.lease, []), "events"),
        (request(&attempt.lease, many), "events"),
        (request(&attempt.lease, [event("")]), "event.id"),
        (
            request(&attempt.lease, [event(&"x".repeat(256))]),
            "event.id",
        ),
        (
            pb::EmitRequest {
                lease: None,
                ..request(&attempt.lease, [event("a")])
            },
            "lease",
        ),
        (
            pb::EmitRequest {
                parent: "x".into(),
                ..request(&attempt.lease, [event("a")])
            },
            "parent",
        ),
    ] {
        let refused = refusal(world.emit_with(request).await);
        assert_eq!(
            refused,
            expected(Code::InvalidArgument, "INVALID_REQUEST", field)
        );
    }
    let mut keys = request(&attempt.lease, [event("a")]);
    keys.events[0].keys = vec!["k".to_owned(); 33];
    assert_eq!(refusal(world.emit_with(keys).await).2, "keys");
    let large = (0..5).map(|n| {
        let mut large = event(&n.to_string());
        let text = "x".repeat(1 << 20);
        large.data = Some(weir_proto::cloudevents::v1::cloud_event::Data::TextData(
            text,
        ));
        large
    });
    let refused = problem(world.emit_with(request(&attempt.lease, large)).await);
    assert_eq!(refused.violations[0].field, "events");
    assert!(refused.message.contains("4194304"), "{}", refused.message);
    assert_eq!(world.traces().await, before);
}

#[tokio::test]
async fn a02_each_event_of_several_is_answered_for_itself() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let mut bad = event("b");
    bad.source = "elsewhere".to_owned();
    let mut mixed = request(&attempt.lease, [event("a"), bad, event("c"), event("a")]);
    let missing = Uuid::now_v7().to_string();
    mixed.events[2].targets = Some(Targets {
        work: missing,
        attempt: 0,
    });
    mixed.events[0].keys = vec!["k2".to_owned(), "k1".to_owned()];
    mixed.events[3].keys = vec!["k1".to_owned(), "k2".to_owned()];
    let results = world
        .causal()
        .emit(mixed)
        .await
        .expect("the call is good")
        .into_inner()
        .results;
    assert_eq!(results.len(), 4);
    let first = results[0].accepted.clone().expect("good");
    let foreign = results[1].error.clone().expect("refused");
    assert_eq!(
        (
            foreign.code.as_str(),
            foreign.reason.as_str(),
            foreign.field.as_str()
        ),
        ("INVALID_ARGUMENT", "FOREIGN_SOURCE", "event.source")
    );
    let target = results[2].error.clone().expect("refused");
    assert_eq!(
        (target.code.as_str(), target.reason.as_str()),
        ("NOT_FOUND", "WORK_NOT_FOUND")
    );
    let twin = results[3].accepted.clone().expect("the same content");
    assert!(twin.deduplicated && twin.uid == first.uid);
    let keys: Vec<String> = sqlx::query_scalar("SELECT keys FROM weir.pending WHERE seq = 2")
        .fetch_one(world.db.pool())
        .await
        .expect("pending");
    assert_eq!(keys, ["k1", "k2"]);
}

#[tokio::test]
async fn an_attempt_may_emit_into_another_scope_of_its_tenant() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let into = |scope: &str| pb::EmitRequest {
        scope: scope.to_owned(),
        ..request(&attempt.lease, [event("a")])
    };
    let accepted = world
        .emit_with(into("side"))
        .await
        .expect("it is in the configuration");
    assert_eq!((accepted.scope.as_str(), accepted.position), ("side", 1));
    assert_eq!(world.place(&accepted.uid).await.0, Some(attempt.trigger.0));
    let refused = refusal(world.emit_with(into("nowhere")).await);
    assert_eq!(refused, expected(Code::NotFound, "SCOPE_NOT_FOUND", ""));
    // The scope is content: the same identity elsewhere is another event.
    let refused = refusal(world.emit_with(into("root")).await);
    assert_eq!(refused, expected(Code::AlreadyExists, "EVENT_CONFLICT", ""));
}

#[tokio::test]
async fn o04_another_tenants_work_is_absent() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    let before = world.traces().await;
    let refused = refusal(
        world
            .foreign()
            .emit(request(&attempt.lease, [event("a")]))
            .await,
    );
    assert_eq!(refused, expected(Code::NotFound, "WORK_NOT_FOUND", ""));
    assert_eq!(world.traces().await, before);
}
