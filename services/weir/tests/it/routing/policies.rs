//! What a matched route does with a running attempt (rules r09, r10, r26, r28).

use weir_proto::causal::v1 as causal;
use weir_proto::lifecycle::v1::{self as lifecycle, Capability, RegisterExecutorRequest};
use weir_proto::types::v1::{Disposition, EffectKind, PendingState, Policy, WorkState};

use super::arrange::{ALL, SCRIPTED, decided, publish, read, running, stands};
use super::script::Say;
use crate::support::{Weir, event};

async fn renew(weir: &Weir, claimed: &lifecycle::ClaimedWork) -> (Vec<String>, Vec<String>) {
    let request = lifecycle::RenewRequest {
        lease: claimed.lease.clone(),
        extend: None,
    };
    let answer = weir
        .user
        .executor()
        .renew(request)
        .await
        .expect("it has the lease")
        .into_inner();
    let uids =
        |events: Vec<weir_proto::types::v1::Event>| events.into_iter().map(|e| e.uid).collect();
    (uids(answer.injects), uids(answer.interrupts))
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_a_running_attempt_is_asked_and_the_input_is_kept() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    // Nobody runs: all that can be queued is queued, and no intent is left behind.
    let ready = weir.routed("ready", "inject", &["k"]).await;
    assert_eq!(
        (ready.disposition(), ready.policy()),
        (Disposition::Start, Policy::Queue)
    );
    let also = weir.routed("ready 2", "interrupt", &["k"]).await;
    assert_eq!(
        (also.disposition(), also.policy()),
        (Disposition::Queue, Policy::Queue)
    );
    assert_eq!(
        weir.routed("ready 3", "drop", &["k"]).await.disposition(),
        Disposition::Drop
    );
    assert_eq!(weir.count("intent").await, 0);

    let claimed = weir.claim().await.expect("ready");
    let work = &ready.work;
    let mut uids = Vec::new();
    for (id, disposition) in [
        ("inject", Disposition::Inject),
        ("interrupt", Disposition::Interrupt),
        ("start", Disposition::Queue),
        ("drop", Disposition::Drop),
    ] {
        let record = weir.routed(id, id, &["k"]).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (disposition, work),
            "{id}"
        );
        uids.push(record.event);
    }
    assert_eq!(weir.count("intent").await, 2);
    assert_eq!(
        weir.inputs(work).await[2..],
        uids[..3],
        "kept until consumed; the dropped one is no input"
    );
    let offered = renew(&weir, &claimed).await;
    assert_eq!(offered, (vec![uids[0].clone()], vec![uids[1].clone()]));
    // Deciding twice is deciding once.
    weir.route(&uids[0]).await;
    assert_eq!(weir.count("intent").await, 2);

    // The attempt did not take them: the next one gets them, as plain input.
    assert_eq!(
        weir.complete(&claimed).await.expect("it has the lease"),
        WorkState::Ready
    );
    let again = weir.claim().await.expect("input is left");
    assert_eq!(
        again
            .inputs
            .iter()
            .map(|e| e.uid.clone())
            .collect::<Vec<_>>(),
        uids[..3]
    );
    assert_eq!(
        renew(&weir, &again).await,
        (Vec::new(), Vec::new()),
        "a new epoch voids intents"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_what_the_running_attempt_cannot_take_waits_for_its_end_with_all_behind_it() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "other", &["k"]).await.work;
    let claimed = weir.claim_of("other").await.expect("ready");
    script.say("deferred", [Say::Match]);
    let deferred = publish(&weir, "deferred", "x", "{}", &["k"]).await;
    stands(&weir, &deferred, PendingState::Deferred).await;
    let pending = weir.pending(&deferred).await;
    assert_eq!((pending.works, pending.failures), (vec![work.clone()], 0));
    assert_eq!(pending.reason, "attempt 1 runs under another binding");
    let behind = publish(&weir, "behind", "start", "{}", &["k"]).await;
    stands(&weir, &behind, PendingState::Deferred).await;
    let pending = weir.pending(&behind).await;
    assert_eq!(
        (pending.works, pending.reason),
        (vec![work.clone()], format!("behind {deferred}"))
    );
    // Others do not care, and nobody asks about it again.
    weir.routed("unrelated", "start", &["u"]).await;
    assert_eq!(script.calls("deferred").len(), 1);

    assert_eq!(
        weir.complete(&claimed)
            .await
            .expect("deferred input does not refuse it"),
        WorkState::Ready
    );
    let (first, second) = (
        decided(&weir, &deferred).await,
        decided(&weir, &behind).await,
    );
    assert_eq!(
        (first.disposition(), first.binding.as_str()),
        (Disposition::Queue, "b")
    );
    assert_eq!(
        (second.disposition(), &second.work),
        (Disposition::Queue, &work)
    );
    assert_eq!(weir.inputs(&work).await[1..], [deferred, behind]);
    assert_eq!(script.calls("deferred").len(), 2);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_new_generation_frees_what_is_deferred() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let work = weir.routed("w", "other", &["k"]).await.work;
    weir.claim_of("other").await.expect("ready");
    let deferred = publish(&weir, "deferred", "inject", "{}", &["k"]).await;
    stands(&weir, &deferred, PendingState::Deferred).await;
    let behind = publish(&weir, "behind", "start", "{}", &["k"]).await;
    stands(&weir, &behind, PendingState::Deferred).await;
    weir.apply(
        &SCRIPTED.replace("policy: inject }", "policy: inject, fallback: queue }"),
        1,
    )
    .await;
    let record = decided(&weir, &deferred).await;
    assert_eq!(
        (record.disposition(), record.policy(), record.generation),
        (Disposition::Queue, Policy::Queue, 2)
    );
    assert_eq!(
        record.reason,
        "fallback: attempt 1 runs under another binding"
    );
    assert_eq!(decided(&weir, &behind).await.work, work);
    assert_eq!(weir.work(&work).await.state(), WorkState::Running);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_lost_lease_frees_what_is_deferred_and_a_later_attempt_defers_it_anew() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let work = weir.routed("w", "other", &["k"]).await.work;
    weir.claim_of("other").await.expect("ready");
    let freed = publish(&weir, "freed", "inject", "{}", &["k"]).await;
    stands(&weir, &freed, PendingState::Deferred).await;
    weir.db.advance(std::time::Duration::from_secs(31)).await;
    assert_eq!(
        weir.record(&freed).await.disposition(),
        Disposition::Queue,
        "nobody runs any more"
    );

    weir.claim_of("other").await.expect("it is taken over");
    let again = publish(&weir, "again", "inject", "{}", &["k"]).await;
    stands(&weir, &again, PendingState::Deferred).await;
    assert_eq!(
        weir.pending(&again).await.reason,
        "attempt 2 runs under another binding"
    );
    assert_eq!(weir.inputs(&work).await.len(), 2);
    weir.stop().await;
}

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
