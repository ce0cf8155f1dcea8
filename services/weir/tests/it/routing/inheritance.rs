//! Which routes a scope has, and how they are asked (rules r02, r03).

use std::time::Duration;

use weir_proto::gateway::v1::{TraceEventRequest, TraceEventResponse};
use weir_proto::types::v1::{Disposition, VerdictOutcome};

use super::arrange::{SCRIPTED, decided, publish};
use super::script::Say;
use crate::support::{Weir, event};

const TREE: &str = r#"
scopes:
  - name: root
    bindings:
      b: { executor: e, lease: 30s }
      top: { executor: e }
    routes:
      - { slot: one, when: 'event.type == "one"', binding: b }
      - { slot: two, when: 'event.type == "two"', binding: b }
      - { slot: three, when: 'event.type == "three"', binding: top }
  - name: middle
    parent: root
    routes:
      - { slot: two, when: 'event.type == "two"', binding: b, policy: drop }
      - { slot: four, when: 'event.type == "four"', binding: b }
  - name: leaf
    parent: middle
    bindings:
      b: { executor: e, lease: 7s }
    routes:
      - { slot: five, when: 'event.type == "five"', binding: b }
      - { slot: one, disabled: true }
      - { slot: four, when: 'event.type == "two" || event.type == "four"', binding: top }
"#;

async fn trace(weir: &Weir, scope: &str, kind: &str) -> TraceEventResponse {
    let request = TraceEventRequest {
        scope: scope.to_owned(),
        event: Some(event("traced", kind, "{}")),
        ..Default::default()
    };
    weir.user
        .control()
        .trace_event(request)
        .await
        .expect("traceable")
        .into_inner()
}

fn slots(trace: &TraceEventResponse) -> Vec<&str> {
    trace.verdicts.iter().map(|v| v.route.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_routes_resolve_from_root_to_leaf() {
    let weir = Weir::with(TREE).await;
    weir.register(&[]).await;
    assert_eq!(
        slots(&trace(&weir, "root", "x").await),
        ["one", "two", "three"]
    );
    assert_eq!(
        slots(&trace(&weir, "middle", "x").await),
        ["one", "two", "three", "four"]
    );
    // An override stands where its ancestor stood, new slots come last, a disabled one is not there.
    assert_eq!(
        slots(&trace(&weir, "leaf", "x").await),
        ["two", "three", "four", "five"]
    );

    let routed = async |scope: &str, id: &str, kind: &str| {
        let uid = weir
            .try_publish(scope, event(id, kind, "{}"), &[id])
            .await
            .expect("accepted")
            .uid;
        decided(&weir, &uid).await
    };
    let record = routed("root", "1", "two").await;
    assert_eq!(
        (record.disposition(), record.route.as_str()),
        (Disposition::Start, "two")
    );
    let record = routed("middle", "2", "two").await;
    assert_eq!(
        (record.disposition(), record.route.as_str()),
        (Disposition::Drop, "two"),
        "its definition is replaced"
    );
    let record = routed("leaf", "3", "two").await;
    assert_eq!(
        (record.disposition(), record.route.as_str()),
        (Disposition::Drop, "two"),
        "the earlier position wins"
    );
    assert_eq!(
        routed("middle", "4", "one").await.disposition(),
        Disposition::Start
    );
    assert_eq!(
        routed("leaf", "5", "one").await.disposition(),
        Disposition::Unmatched,
        "switched off below only"
    );

    // An inherited route uses the target's binding of that name.
    let lease = async |scope: &str, binding: &str| {
        let spec = weir_proto::lifecycle::v1::ClaimSpec {
            binding: binding.to_owned(),
            scope: scope.to_owned(),
            owner: "worker".to_owned(),
            ..Default::default()
        };
        let request = weir_proto::lifecycle::v1::ClaimOnceRequest {
            spec: Some(spec),
            max_works: 9,
            wait: None,
        };
        let works = weir
            .user
            .executor()
            .claim_once(request)
            .await
            .expect("claimable")
            .into_inner()
            .works;
        works
            .into_iter()
            .map(|w| (w.scope, w.lease_duration.expect("always there").seconds))
            .collect::<Vec<_>>()
    };
    routed("leaf", "6", "five").await;
    assert_eq!(routed("leaf", "7", "three").await.binding, "top");
    assert_eq!(lease("leaf", "b").await, [("leaf".to_owned(), 7)]);
    assert_eq!(lease("leaf", "top").await, [("leaf".to_owned(), 30)]);
    assert_eq!(lease("middle", "b").await, [("middle".to_owned(), 30)]);

    // A new generation is a new list, for all of them.
    weir.apply(
        &TREE.replace(
            "slot: one, disabled: true",
            "slot: one, when: 'true', binding: b",
        ),
        1,
    )
    .await;
    assert_eq!(
        slots(&trace(&weir, "leaf", "x").await),
        ["one", "two", "three", "four", "five"]
    );
    assert_eq!(trace(&weir, "leaf", "x").await.generation, "2");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_the_first_match_ends_the_question_even_as_a_drop_and_so_does_an_error() {
    let config = SCRIPTED.replace(
        "slot: attach,",
        "slot: late-drop, when: 'event.type == \"drop\"', binding: b }\n      - { slot: attach,",
    );
    let weir = Weir::with(&config).await;
    let script = &weir.handlers.script;
    let dropped = weir.routed("dropped", "drop", &["k"]).await;
    assert_eq!(
        (dropped.disposition(), dropped.route.as_str()),
        (Disposition::Drop, "drop")
    );
    assert_eq!(
        weir.routed("started", "start", &["k"]).await.disposition(),
        Disposition::Start
    );
    assert!(
        script.all_calls().is_empty(),
        "later routes are not asked for a better one"
    );

    // An error stops as a match does: what stands behind is not asked, though it would match.
    let config = config.replace("routes:\n      - { slot: start", "routes:\n      - { slot: scripted, handler: { rust: scripted }, binding: b }\n      - { slot: start");
    let config = config.replacen("      - { slot: scripted, handler: { rust: scripted }, binding: b, policy: inject, attach: ['event.data.key'] }\n", "", 1);
    weir.apply(&config, 1).await;
    script.say("retried", [Say::Fail, Say::Skip("no".to_owned())]);
    script.say("broken", [Say::Invalid]);
    let retried = publish(&weir, "retried", "start", "{}", &["r"]).await;
    assert_eq!(weir.pending(&retried).await.failures, 1);
    let broken = weir.routed("broken", "start", &["b"]).await;
    assert_eq!(
        (broken.disposition(), broken.route.as_str()),
        (Disposition::Failed, "scripted")
    );
    assert_eq!(weir.count("work").await, 1);
    script.say("traced", [Say::Fail]);
    let traced = trace(&weir, "s", "start").await;
    let outcomes: Vec<VerdictOutcome> = traced.verdicts.iter().map(|v| v.outcome()).collect();
    assert_eq!(outcomes[0], VerdictOutcome::Failed);
    assert!(
        outcomes[1..]
            .iter()
            .all(|o| *o == VerdictOutcome::NotReached),
        "{outcomes:?}"
    );
    weir.db.advance(Duration::from_secs(3)).await;
    let retried = weir.record(&retried).await;
    assert_eq!(
        (retried.disposition(), retried.route.as_str()),
        (Disposition::Start, "start")
    );
    weir.stop().await;
}
