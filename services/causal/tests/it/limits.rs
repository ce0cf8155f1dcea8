//! Depth, rate, pinning, repeats and diagnostics: rules c02 to c06, c08, c10.

use std::time::Duration;

use tonic::Code;
use weir_ledger::{Control, append_control};
use weir_pg::{Command, Tx};

use crate::world::{Attempt, World, event, expected, problem, refusal, request};

/// Emits this many events at once and counts what was accepted.
async fn accepted(world: &World, attempt: &Attempt, prefix: &str, n: usize) -> usize {
    let events = (0..n).map(|i| event(&format!("{prefix}{i}")));
    let answer = world
        .causal()
        .emit(request(&attempt.lease, events))
        .await
        .expect("leased");
    let results = answer.into_inner().results;
    for refused in results.iter().filter_map(|r| r.error.as_ref()) {
        assert_eq!(
            (refused.code.as_str(), refused.reason.as_str()),
            ("RESOURCE_EXHAUSTED", "RATE_EXCEEDED")
        );
        assert!(refused.retry_after.is_some());
    }
    results.iter().take_while(|r| r.accepted.is_some()).count()
}

#[tokio::test]
async fn c02_exactly_128_events_a_minute_derive_from_a_root() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    assert_eq!(accepted(&world, &attempt, "a", 100).await, 100);
    assert_eq!(
        accepted(&world, &attempt, "b", 30).await,
        28,
        "the first ones in order"
    );
    let refused = problem(world.emit(&attempt, "c").await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::ResourceExhausted, "RATE_EXCEEDED")
    );
    let wait = refused.retry_after.expect("RetryInfo");
    assert!(
        wait > Duration::ZERO && wait <= Duration::from_secs(60),
        "{wait:?}"
    );
    let now = world.db.now().await;
    let next: chrono::DateTime<chrono::Utc> =
        refused.metadata["next_minute"].parse().expect("an instant");
    assert_eq!(next.timestamp() % 60, 0);
    assert!(next > now && (next - now).num_seconds() < 60);
    assert_eq!(refused.metadata["root"], attempt.trigger.to_string());
    assert_eq!(
        (
            refused.metadata["depth"].as_str(),
            refused.metadata["limit"].as_str()
        ),
        ("1", "128")
    );
    let root = world.get_root(attempt.trigger).await;
    assert_eq!(
        (root.pinned, root.max_depth, root.per_minute, root.spent),
        (true, 32, 128, 128)
    );
    // Another root has its own.
    world
        .emit(&world.attempt().await, "c")
        .await
        .expect("its own quota");
}

#[tokio::test]
async fn c02_the_deepest_event_stands_at_32() {
    let world = World::new().await;
    let mut parent = world.root().await.to_string();
    for depth in 1..=32_i16 {
        let accepted = world
            .derive(&parent, &depth.to_string())
            .await
            .expect("not too deep");
        assert_eq!(world.place(&accepted.uid).await.2, depth);
        parent = accepted.uid;
    }
    let refused = problem(world.derive(&parent, "33").await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::FailedPrecondition, "DEPTH_EXCEEDED")
    );
    assert_eq!(refused.retry_after, None, "it is final");
    assert_eq!(
        (
            refused.metadata["depth"].as_str(),
            refused.metadata["limit"].as_str()
        ),
        ("33", "32")
    );
}

#[tokio::test]
async fn c03_pinned_limits_outlive_the_configuration() {
    let world = World::new().await;
    world.limits(2, 3).await;
    let attempt = world.attempt().await;
    let first = world.emit(&attempt, "a").await.expect("allowed");
    world.limits(1, 1).await;
    let second = world
        .derive(&first.uid, "b")
        .await
        .expect("the pinned depth is 2");
    assert_eq!(
        refusal(world.derive(&second.uid, "c").await).1,
        "DEPTH_EXCEEDED"
    );
    world
        .emit(&attempt, "d")
        .await
        .expect("the pinned rate is 3");
    assert_eq!(refusal(world.emit(&attempt, "e").await).1, "RATE_EXCEEDED");
    let root = world.get_root(&second.uid).await;
    assert_eq!(root.root, attempt.trigger.to_string());
    assert_eq!(
        (root.pinned, root.max_depth, root.per_minute, root.spent),
        (true, 2, 3, 3)
    );
    // A root whose first derived event comes now has the present limits.
    let late = world.attempt().await;
    let root = world.get_root(late.trigger).await;
    assert_eq!(
        (root.pinned, root.max_depth, root.per_minute, root.spent),
        (false, 1, 1, 0)
    );
    world.emit(&late, "a").await.expect("one is allowed");
    assert_eq!(refusal(world.emit(&late, "b").await).1, "RATE_EXCEEDED");
}

#[tokio::test]
async fn c03_a_refusal_pins_nothing() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    for (depth, rate, reason) in [(0, 5, "DEPTH_EXCEEDED"), (5, 0, "RATE_EXCEEDED")] {
        world.limits(depth, rate).await;
        assert_eq!(refusal(world.emit(&attempt, "a").await).1, reason);
        assert!(!world.get_root(attempt.trigger).await.pinned);
    }
    world.limits(5, 5).await;
    world.emit(&attempt, "a").await.expect("allowed now");
    let root = world.get_root(attempt.trigger).await;
    assert_eq!(
        (root.pinned, root.max_depth, root.per_minute, root.spent),
        (true, 5, 5, 1)
    );
}

#[tokio::test]
async fn c04_a_repeat_is_free_and_recognised_before_the_limits() {
    let world = World::new().await;
    world.limits(1, 1).await;
    let attempt = world.attempt().await;
    let first = world.emit(&attempt, "a").await.expect("one is allowed");
    assert_eq!(refusal(world.emit(&attempt, "b").await).1, "RATE_EXCEEDED");
    let again = world.emit(&attempt, "a").await.expect("a repeat");
    assert!(again.deduplicated && again.uid == first.uid && again.position == first.position);
    assert_eq!(world.get_root(attempt.trigger).await.spent, 1);
    world
        .run("UPDATE weir.causal_root SET braked_at = weir.clock(), max_depth = 0")
        .await;
    assert!(
        world
            .emit(&attempt, "a")
            .await
            .expect("a repeat")
            .deduplicated
    );
    let mut other = event("a");
    other.r#type = "triage.failed".to_owned();
    let refused = refusal(world.emit_with(request(&attempt.lease, [other])).await);
    assert_eq!(refused, expected(Code::AlreadyExists, "EVENT_CONFLICT", ""));

    // A later attempt that repeats what its predecessor emitted.
    world
        .run("UPDATE weir.ready SET epoch = 9, attempt = 2")
        .await;
    let mut lease = attempt.lease.clone();
    (lease.attempt, lease.epoch) = (2, 9);
    let again = world
        .emit_with(request(&lease, [event("a")]))
        .await
        .expect("a repeat");
    assert!(again.deduplicated && again.uid == first.uid);

    // With a parent that never was, too.
    let root = world.root().await;
    let derived = world.derive(root, "d").await.expect("allowed");
    let again = world
        .derive(uuid::Uuid::now_v7(), "d")
        .await
        .expect("a repeat");
    assert!(again.deduplicated && again.uid == derived.uid);
}

#[tokio::test]
async fn c05_refusals_leave_one_redacted_diagnostic_and_nothing_else() {
    let world = World::new().await;
    world.limits(1, 2).await;
    let attempt = world.attempt().await;
    assert_eq!(accepted(&world, &attempt, "a", 2).await, 2);
    let before = world.traces().await;
    let hints = world.hinted.load(std::sync::atomic::Ordering::Relaxed);
    for n in 0..3 {
        assert_eq!(
            refusal(world.emit(&attempt, &format!("b{n}")).await).1,
            "RATE_EXCEEDED"
        );
    }
    assert_eq!(accepted(&world, &attempt, "c", 4).await, 0);
    let parent: String = sqlx::query_scalar("SELECT uid::text FROM weir.event WHERE id = 'a0'")
        .fetch_one(world.db.pool())
        .await
        .expect("it was accepted");
    assert_eq!(
        refusal(world.derive(&parent, "d").await).1,
        "DEPTH_EXCEEDED"
    );
    let after = world.traces().await;
    assert_eq!(
        after[..6],
        before[..6],
        "no event, no order, no pin, no token"
    );
    assert_eq!(
        world.hinted.load(std::sync::atomic::Ordering::Relaxed),
        hints,
        "nothing to route"
    );

    let found = world.diagnostics().await;
    assert_eq!(found.len(), 2, "one for each cause: {found:?}");
    let rate = found.iter().find(|d| d.code == "rate").expect("a rate");
    assert_eq!((rate.refused, rate.limit, rate.depth), (7, 2, 1));
    assert_eq!(
        (rate.root.clone(), rate.parent.clone()),
        (attempt.trigger.to_string(), attempt.trigger.to_string())
    );
    assert_eq!(rate.r#type, "triage.done");
    assert_eq!(rate.minute.expect("set").seconds % 60, 0);
    let depth = found.iter().find(|d| d.code == "depth").expect("a depth");
    assert_eq!(
        (
            depth.refused,
            depth.limit,
            depth.depth,
            depth.parent.clone()
        ),
        (1, 1, 2, parent)
    );
    let leaked = "SELECT count(*) FROM weir.causal_refusal AS f WHERE f::text LIKE '%secret%'";
    assert_eq!(world.count(leaked).await, 0);
}

#[tokio::test]
async fn c06_the_next_minute_restores_the_rate_and_not_the_depth() {
    let world = World::new().await;
    world.limits(1, 1).await;
    let attempt = world.attempt().await;
    let first = world.emit(&attempt, "a").await.expect("one is allowed");
    assert_eq!(refusal(world.emit(&attempt, "b").await).1, "RATE_EXCEEDED");
    assert_eq!(
        refusal(world.derive(&first.uid, "c").await).1,
        "DEPTH_EXCEEDED"
    );
    world.next_minute().await;
    world
        .run("UPDATE weir.ready SET lease_until = weir.clock() + interval '30 s'")
        .await;
    assert_eq!(world.get_root(attempt.trigger).await.spent, 0);
    world.emit(&attempt, "b").await.expect("the minute is new");
    assert_eq!(
        refusal(world.derive(&first.uid, "c").await).1,
        "DEPTH_EXCEEDED"
    );
    assert_eq!(world.get_root(attempt.trigger).await.spent, 1);
    assert_eq!(
        world.diagnostics().await.len(),
        3,
        "each minute has its own"
    );
}

#[tokio::test]
async fn c10_a_braked_root_takes_no_derived_event() {
    let world = World::new().await;
    let attempt = world.attempt().await;
    world.emit(&attempt, "a").await.expect("allowed");
    world
        .run("UPDATE weir.causal_root SET braked_at = weir.clock()")
        .await;
    let before = world.traces().await;
    let refused = problem(world.emit(&attempt, "b").await);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::FailedPrecondition, "ROOT_BRAKED")
    );
    assert_eq!(refused.retry_after, None);
    assert!(world.get_root(attempt.trigger).await.braked);
    assert_eq!(world.traces().await[..6], before[..6]);
    assert_eq!(world.diagnostics().await[0].code, "braked");
}

struct Skip(uuid::Uuid);

impl Command for Skip {
    const NAME: &'static str = "test.skip_event";
    type Output = ();
    type Error = weir_ledger::Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), weir_ledger::Error> {
        let tenant = weir_kernel::TenantId(1);
        let lock = weir_ledger::lock_scope(tx, tenant, weir_kernel::ScopeId(1)).await?;
        let control = Control {
            kind: "core.manual.skip_event",
            actor: "me",
            reason: "test",
            request_id: "",
            target: Some(self.0),
            payload: "{}".to_owned(),
            work: None,
            generation: 1,
        };
        append_control(tx, &lock, &control).await?;
        Ok(())
    }
}

#[tokio::test]
async fn c08_an_operators_control_event_needs_no_token() {
    let world = World::new().await;
    world.limits(1, 1).await;
    let attempt = world.attempt().await;
    world.emit(&attempt, "a").await.expect("one is allowed");
    assert_eq!(refusal(world.emit(&attempt, "b").await).1, "RATE_EXCEEDED");
    world
        .run("UPDATE weir.causal_root SET braked_at = weir.clock()")
        .await;
    let before = world.traces().await;
    world
        .ledger()
        .run(&Skip(attempt.trigger.0))
        .await
        .expect("it is a root of its own");
    let after = world.traces().await;
    assert_eq!(after[0], before[0] + 1);
    assert_eq!(after[4..], before[4..], "no pin, no token, no refusal");
}
