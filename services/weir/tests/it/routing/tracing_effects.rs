//! Effects and verdicts of traces that take some arranging (rules r41, r42).

use weir_proto::gateway::v1::{TraceCandidateRequest, TraceEventRequest, TraceEventResponse};
use weir_proto::types::v1::{Effect, EffectKind, PendingState, Policy, VerdictOutcome};

use super::arrange::{ALL, SCRIPTED};
use super::script::Say;
use crate::support::{CONFIG, Weir, event};

fn effect(trace: &TraceEventResponse) -> &Effect {
    trace.effect.as_ref().expect("always there")
}

fn all(trace: &TraceEventResponse, outcome: VerdictOutcome) -> bool {
    !trace.verdicts.is_empty() && trace.verdicts.iter().all(|v| v.outcome() == outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_what_stands_behind_a_deferred_event_is_pending_as_it_is() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let work = weir.routed("w", "other", &["k", "same"]).await.work;
    let claimed = weir.claim_of("other").await.expect("ready");
    let held = weir.publish("held", "inject", &["k"]).await;
    let pending = weir.pending(&held).await;
    assert_eq!(pending.state(), PendingState::Deferred);

    // By its own key and by another one of the Work, and whatever its own route would do.
    for keys in [&["k"][..], &["same"], &["new", "same"]] {
        let trace = weir.trace("start", "{}", keys).await;
        assert_eq!(
            (
                effect(&trace).kind(),
                effect(&trace).work.as_str(),
                effect(&trace).reason.clone()
            ),
            (EffectKind::Pending, work.as_str(), format!("behind {held}")),
            "{keys:?}"
        );
        assert!(all(&trace, VerdictOutcome::Bypassed), "nobody is asked");
    }
    let free = weir.trace("start", "{}", &["new"]).await;
    assert_eq!(effect(&free).kind(), EffectKind::Start);
    // A new generation tries the deferred one again, so that a candidate is not held back by it.
    let request = TraceCandidateRequest {
        trace: Some(TraceEventRequest {
            scope: "s".to_owned(),
            event: Some(event("traced", "start", "{}")),
            keys: vec!["same".to_owned()],
            ..Default::default()
        }),
        document: SCRIPTED.to_owned(),
    };
    let tried = weir.user.control().trace_candidate(request).await;
    let tried = tried.expect("traceable").into_inner().trace;
    let tried = tried.expect("always there");
    assert_eq!(effect(&tried).kind(), EffectKind::Queue);

    // It is what routing then does, until the attempt is over.
    let traced = weir.trace("start", "{}", &["same"]).await;
    let behind = weir.publish("behind", "start", &["same"]).await;
    let pending = weir.pending(&behind).await;
    assert_eq!(
        (pending.works, pending.reason),
        (
            vec![effect(&traced).work.clone()],
            effect(&traced).reason.clone()
        )
    );
    weir.complete(&claimed).await.expect("its lease holds");
    weir.record(&behind).await;
    let trace = weir.trace("start", "{}", &["same"]).await;
    assert_eq!(effect(&trace).kind(), EffectKind::Queue);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_a_fallback_is_the_effect_and_says_why() {
    for (fallback, kind, policy) in [
        ("queue", EffectKind::Queue, Policy::Queue),
        ("drop", EffectKind::Drop, Policy::Drop),
    ] {
        let document = CONFIG.replace("fallback: queue", &format!("fallback: {fallback}"));
        let weir = Weir::with(&document).await;
        weir.register(&ALL).await;
        let work = weir.routed("w", "other", &["k"]).await.work;
        weir.claim_of("other").await.expect("ready");
        let trace = weir.trace("inject", "{}", &["k"]).await;
        let effect = effect(&trace);
        assert_eq!(
            (effect.kind(), effect.policy(), effect.work.as_str()),
            (kind, policy, work.as_str())
        );
        assert!(effect.reason.starts_with("fallback: "), "{}", effect.reason);
        let said = trace.verdicts.iter().find(|v| v.route == "inject");
        assert_eq!(said.map(|v| v.outcome()), Some(VerdictOutcome::Match));
        let record = weir.routed("1", "inject", &["k"]).await;
        assert_eq!(
            (&record.reason, record.policy, &record.binding),
            (&effect.reason, effect.policy, &effect.binding)
        );
        weir.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r41_every_failure_is_its_routes_verdict_and_names_the_work() {
    let document = SCRIPTED.replace(
        "- { slot: scripted,",
        "- { slot: absent, when: 'event.type == \"nothing\"', binding: b }\n      - { slot: scripted,",
    );
    let missing = document.replace(
        "{ slot: absent, when: 'event.type == \"nothing\"', binding: b }",
        "{ slot: absent, handler: { rust: nobody_has_it }, binding: b }",
    );
    let weir = Weir::with(&document).await;
    weir.register(&ALL).await;
    let work = weir.routed("w", "start", &["k"]).await.work;
    let script = &weir.handlers.script;
    let failing = |trace: &TraceEventResponse, slot: &str| {
        let said = trace.verdicts.iter().find(|v| v.route == slot);
        let said = said.expect("the route is there");
        (said.outcome(), said.failure.clone())
    };
    // A retryable failure and one that is final.
    for (say, code) in [
        (Say::Fail, "handler_failed"),
        (Say::Panic, "handler_panic"),
        (Say::Invalid, "handler_invalid"),
    ] {
        script.say("traced", [say]);
        let trace = weir.trace("x", "{}", &["k"]).await;
        assert_eq!(
            failing(&trace, "scripted"),
            (VerdictOutcome::Failed, code.to_owned())
        );
        assert_eq!(
            (
                effect(&trace).kind(),
                effect(&trace).work.as_str(),
                effect(&trace).route.as_str(),
                effect(&trace).reason.as_str()
            ),
            (EffectKind::Failed, work.as_str(), "scripted", code)
        );
        assert!(!effect(&trace).error.is_empty());
    }
    // An expression that cannot be evaluated; and a handler that no binary of this installation has.
    weir.apply(
        &document.replace("event.type == \"nothing\"", "event.data.n > 1"),
        1,
    )
    .await;
    let trace = weir.trace("x", r#"{"n":"text"}"#, &["k"]).await;
    assert_eq!(
        failing(&trace, "absent"),
        (VerdictOutcome::Failed, "handler_invalid".to_owned())
    );
    assert_eq!(
        failing(&trace, "scripted").0,
        VerdictOutcome::NotReached,
        "an error stops processing"
    );
    weir.apply(&missing, 2).await;
    let trace = weir.trace("x", "{}", &["k"]).await;
    assert_eq!(
        failing(&trace, "absent"),
        (VerdictOutcome::Failed, "handler_missing".to_owned())
    );
    assert_eq!(
        (effect(&trace).kind(), effect(&trace).work.as_str()),
        (EffectKind::Failed, work.as_str())
    );
    let calls = script.calls("traced");
    assert!(calls.iter().all(|c| c.dry_run));
    weir.stop().await;
}
