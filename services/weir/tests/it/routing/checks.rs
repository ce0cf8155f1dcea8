//! What a matched route is checked for, and whom it declines (rules r26, r28).

use weir_proto::causal::v1 as causal;
use weir_proto::lifecycle::v1::{Capability, RegisterExecutorRequest};
use weir_proto::types::v1::{Disposition, EffectKind, PendingState};

use super::arrange::{ALL, publish, read, running, stands};
use crate::support::{Weir, event};

const CHECKS: &str = r#"
scopes:
  - name: s
    bindings:
      b: { executor: e, capabilities: [inject] }
      twin: { executor: e, capabilities: [inject] }
      plain: {}
      quiet: { executor: e }
      ghost: { executor: ghost, capabilities: [inject] }
      liar: { executor: poor, capabilities: [inject] }
    routes:
      - { slot: start, when: 'event.type == "start"', binding: b }
      - { slot: gone, when: 'event.type == "gone"', binding: gone, policy: inject, fallback: queue }
      - { slot: gone-drop, when: 'event.type == "gone-drop"', binding: gone, policy: drop }
      - { slot: plain, when: 'event.type == "plain"', binding: plain, policy: inject }
      - { slot: plain-queue, when: 'event.type == "plain-queue"', binding: plain, policy: inject, fallback: queue }
      - { slot: ghost, when: 'event.type == "ghost"', binding: ghost, policy: inject }
      - { slot: liar, when: 'event.type == "liar"', binding: liar, policy: interrupt }
      - { slot: liar-drop, when: 'event.type == "liar-drop"', binding: liar, policy: inject, fallback: drop }
      - { slot: quiet, when: 'event.type == "quiet"', binding: quiet, policy: inject }
      - { slot: quiet-queue, when: 'event.type == "quiet-queue"', binding: quiet, policy: inject, fallback: queue }
      - { slot: twin, when: 'event.type == "twin"', binding: twin, policy: inject }
      - { slot: twin-queue, when: 'event.type == "twin-queue"', binding: twin, policy: inject, fallback: queue }
      - { slot: twin-drop, when: 'event.type == "twin-drop"', binding: twin, policy: inject, fallback: drop }
      - { slot: inject, when: 'event.type == "inject"', binding: b, policy: inject, fallback: drop }
      - { slot: later, when: 'event.type == "later"', binding: b, policy: interrupt }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn r26_the_checks_of_a_matched_route_have_their_order() {
    let weir = Weir::with(CHECKS).await;
    weir.register(&ALL).await;
    let poor = RegisterExecutorRequest {
        executor: "poor".to_owned(),
        capabilities: Vec::new(),
        request_id: String::new(),
    };
    weir.user
        .executor()
        .register_executor(poor)
        .await
        .expect("registered");
    let failed = (EffectKind::Failed, Disposition::Failed);
    let (queued, dropped) = (
        (EffectKind::Queue, Disposition::Queue),
        (EffectKind::Drop, Disposition::Drop),
    );
    let inject = (EffectKind::Inject, Disposition::Inject);
    // Type, then what comes of it while an attempt of `b` runs, and the failure or the reason.
    let cases = [
        (
            "gone",
            failed,
            "binding_invalid",
            "binding `gone` is not in the scope",
        ),
        ("gone-drop", dropped, "condition is true", ""),
        (
            "plain",
            failed,
            "binding_invalid",
            "binding `plain` has no executor",
        ),
        (
            "plain-queue",
            queued,
            "fallback: binding `plain` has no executor",
            "",
        ),
        (
            "ghost",
            failed,
            "binding_invalid",
            "executor `ghost` of binding `ghost` is not registered",
        ),
        (
            "liar",
            failed,
            "binding_invalid",
            "executor `poor` does not prove what binding `liar` claims",
        ),
        (
            "liar-drop",
            dropped,
            "fallback: executor `poor` does not prove what binding `liar` claims",
            "",
        ),
        (
            "quiet",
            failed,
            "policy_invalid",
            "binding `quiet` does not claim `inject`",
        ),
        (
            "quiet-queue",
            queued,
            "fallback: binding `quiet` does not claim `inject`",
            "",
        ),
        (
            "twin-queue",
            queued,
            "fallback: attempt 1 runs under another binding",
            "",
        ),
        (
            "twin-drop",
            dropped,
            "fallback: attempt 1 runs under another binding",
            "",
        ),
        ("inject", inject, "condition is true", ""),
        (
            "later",
            failed,
            "policy_invalid",
            "binding `b` does not claim `interrupt`",
        ),
    ];
    let (work, _claimed) = running(&weir, "w", "k").await;
    let idle = weir.routed("i", "start", &["idle"]).await.work;
    for (kind, (effect, disposition), reason, error) in cases {
        let traced = weir
            .trace(kind, "{}", &["k"])
            .await
            .effect
            .expect("always there");
        assert_eq!(
            (traced.kind(), traced.reason.as_str(), traced.error.as_str()),
            (effect, reason, error),
            "{kind}"
        );
        let record = weir.routed(kind, kind, &["k"]).await;
        let found = (
            record.disposition(),
            record.reason.as_str(),
            record.error.as_str(),
        );
        assert_eq!(found, (disposition, reason, error), "{kind}");
        assert_eq!(
            (record.work.as_str(), record.route.as_str()),
            (work.as_str(), kind),
            "{kind}"
        );

        // Checks (3) to (5) are about running attempts: a ready Work queues.
        let traced = weir
            .trace(kind, "{}", &["idle"])
            .await
            .effect
            .expect("always there");
        let expected = match kind {
            "gone" => EffectKind::Failed,
            "gone-drop" => EffectKind::Drop,
            _ => EffectKind::Queue,
        };
        assert_eq!((traced.kind(), &traced.work), (expected, &idle), "{kind}");
    }
    // (5) without a fallback waits. The attempt's capabilities are the pinned ones.
    let traced = weir
        .trace("twin", "{}", &["k"])
        .await
        .effect
        .expect("always there");
    assert_eq!(
        (traced.kind(), traced.reason.as_str()),
        (EffectKind::Pending, "attempt 1 runs under another binding")
    );
    weir.apply(
        &CHECKS.replace(
            "b: { executor: e, capabilities: [inject] }",
            "b: { executor: e, capabilities: [inject, interrupt] }",
        ),
        1,
    )
    .await;
    let traced = weir
        .trace("later", "{}", &["k"])
        .await
        .effect
        .expect("always there");
    assert_eq!(
        (traced.kind(), traced.reason.as_str()),
        (
            EffectKind::Pending,
            "attempt 1 was claimed without `interrupt`"
        )
    );
    let later = publish(&weir, "later 2", "later", "{}", &["k"]).await;
    stands(&weir, &later, PendingState::Deferred).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r28_a_route_that_avoids_itself_declines_what_its_own_work_emitted() {
    let config = r#"
scopes:
  - name: s
    bindings: { b: { executor: e } }
    routes:
      - { slot: start, when: 'event.type == "start"', binding: b }
      - { slot: shy, when: 'event.type == "echo"', binding: b, self: avoid }
      - { slot: open, when: 'event.type == "shout"', binding: b }
"#;
    let weir = Weir::with(config).await;
    weir.register(&[Capability::Inject]).await;
    let (work, claimed) = running(&weir, "w", "k").await;
    weir.routed("other", "start", &["other"]).await;
    let emission = |id: &str, kind: &str, key: &str| causal::Emission {
        event: Some(weir_proto::cloudevents::v1::CloudEvent {
            source: String::new(),
            ..event(id, kind, "{}")
        }),
        keys: vec![key.to_owned()],
        targets: None,
    };
    let request = causal::EmitRequest {
        lease: claimed.lease.clone(),
        scope: "s".to_owned(),
        events: vec![
            emission("own", "echo", "k"),
            emission("shout", "shout", "k"),
            emission("foreign", "echo", "other"),
        ],
        parent: String::new(),
    };
    let answer = weir
        .user
        .causal()
        .emit(request)
        .await
        .expect("it has the lease")
        .into_inner();
    let uids: Vec<String> = answer
        .results
        .into_iter()
        .map(|r| r.accepted.expect("accepted").uid)
        .collect();
    let own = weir.record(&uids[0]).await;
    assert_eq!(
        (own.disposition(), &own.work),
        (Disposition::Unmatched, &work)
    );
    let refusals: Vec<(&str, &str)> = own
        .refusals
        .iter()
        .map(|r| (r.route.as_str(), r.reason.as_str()))
        .collect();
    assert_eq!(refusals[1], ("shy", "self: the work emitted it"));
    assert_eq!(refusals.len(), 3);
    // The default allows it; and what another Work emitted is no echo.
    assert_eq!(weir.record(&uids[1]).await.work, work);
    let foreign = weir.record(&uids[2]).await;
    assert_eq!(
        (foreign.disposition(), foreign.route.as_str()),
        (Disposition::Queue, "shy")
    );
    assert_eq!(
        read(&weir, &uids[0]).await.event.expect("kept").source,
        format!("work/{work}")
    );
    assert_eq!(
        weir.routed("external", "echo", &["k"]).await.disposition(),
        Disposition::Queue
    );
    weir.stop().await;
}
