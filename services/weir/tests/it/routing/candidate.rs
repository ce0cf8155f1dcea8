//! Traces against a configuration that is not published (rule r45).

use tonic::{Code, Status};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::gateway::v1::{
    TraceCandidateRequest, TraceCandidateResponse, TraceEventRequest, TraceEventResponse,
};
use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::routing::v1::{PublishConfigRequest, ValidateConfigRequest};
use weir_proto::types::v1::{Effect, EffectKind, Targets, VerdictOutcome};

use super::arrange::{ALL, SCRIPTED, fail, running};
use super::script::Say;
use crate::outside::{from, reason, refusal, rows};
use crate::support::{CONFIG, Weir, event};

/// [`SCRIPTED`] with another idea of most things: routes of their own, a new scope, a new binding, key rules.
const TRIED: &str = r#"
scopes:
  - name: root
  - name: s
    parent: root
    sources:
      - name: derived
        match: { source: 'derive/*' }
        keys:
          - { key: '"n/" + event.data.n' }
    bindings:
      b: { executor: e, capabilities: [inject, interrupt], max_attempts: 9 }
      fresh: { executor: nobody, capabilities: [inject] }
    routes:
      - { slot: first, when: 'event.type == "first"', binding: fresh }
      - { slot: start, when: 'event.type == "start"', policy: drop }
      - { slot: other, when: 'event.type == "other"', binding: b, policy: inject }
      - { slot: attach, when: 'event.type == "attach"', binding: b, attach: ['event.data.key'] }
      - { slot: unproved, when: 'event.type == "unproved"', binding: fresh, policy: inject }
      - { slot: scripted, handler: { rust: scripted }, binding: b }
  - name: new
    parent: s
    routes:
      - { slot: all, when: 'true', binding: fresh }
"#;

async fn tried(
    weir: &Weir,
    document: &str,
    trace: TraceEventRequest,
) -> Result<TraceEventResponse, Status> {
    let request = TraceCandidateRequest {
        trace: Some(trace),
        document: document.to_owned(),
    };
    weir.user
        .control()
        .trace_candidate(request)
        .await
        .map(|answer| answer.into_inner().trace.expect("always there"))
}

fn asks(scope: &str, event: CloudEvent, keys: &[&str]) -> TraceEventRequest {
    TraceEventRequest {
        scope: scope.to_owned(),
        event: Some(event),
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        ..Default::default()
    }
}

fn effect(trace: &TraceEventResponse) -> &Effect {
    trace.effect.as_ref().expect("always there")
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_candidate_decides_on_the_state_that_is_there_and_nothing_is_written() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (work, _claimed) = running(&weir, "w", "k").await;
    let before = rows(&weir.db).await;

    let now = weir.trace("start", "{}", &["k"]).await;
    assert_eq!(effect(&now).kind(), EffectKind::Queue);
    assert_eq!(now.generation, "1");
    let then = tried(
        &weir,
        TRIED,
        asks("s", event("traced", "start", "{}"), &["k"]),
    )
    .await
    .expect("traceable");
    assert_eq!(then.generation, "candidate");
    assert_eq!(effect(&then).kind(), EffectKind::Drop);
    assert_eq!(
        (effect(&then).work.as_str(), effect(&then).route.as_str()),
        (work.as_str(), "start"),
        "the published generation's scope and Work are its own"
    );

    // A binding that it keeps is the one the attempt runs on; registrations count as they are.
    let kept = tried(
        &weir,
        TRIED,
        asks("s", event("traced", "other", "{}"), &["k"]),
    )
    .await
    .expect("traceable");
    assert_eq!(effect(&kept).kind(), EffectKind::Inject);
    let unproved = tried(
        &weir,
        TRIED,
        asks("s", event("traced", "unproved", "{}"), &["k"]),
    )
    .await
    .expect("traceable");
    assert_eq!(
        (effect(&unproved).kind(), effect(&unproved).reason.as_str()),
        (EffectKind::Failed, "binding_invalid")
    );

    // Names that only the candidate has.
    let first = tried(
        &weir,
        TRIED,
        asks("s", event("traced", "first", "{}"), &["free"]),
    )
    .await
    .expect("traceable");
    assert_eq!(
        (
            effect(&first).kind(),
            effect(&first).route.as_str(),
            effect(&first).binding.as_str(),
            effect(&first).keys.as_slice()
        ),
        (
            EffectKind::Start,
            "first",
            "fresh",
            &["free".to_owned()][..]
        )
    );
    let derived = from("derive/x", "traced", "first", r#"{"n":"1"}"#);
    let derived = tried(&weir, TRIED, asks("s", derived, &["k"]))
        .await
        .expect("traceable");
    assert_eq!(
        derived.keys,
        ["k", "n/1"],
        "its key rules, not the old ones"
    );

    assert_eq!(rows(&weir.db).await, before);
    assert_eq!(weir.trace("start", "{}", &["k"]).await, now);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_scope_that_only_the_candidate_has_reads_as_empty() {
    let weir = Weir::with(SCRIPTED).await;
    let work = weir.routed("w", "start", &["k"]).await.work;
    let trace = tried(
        &weir,
        TRIED,
        asks("new", event("traced", "any", "{}"), &["k"]),
    )
    .await
    .expect("traceable");
    assert_eq!(
        (
            effect(&trace).kind(),
            effect(&trace).route.as_str(),
            effect(&trace).work.as_str()
        ),
        (EffectKind::Start, "all", ""),
        "the key is owned in another scope"
    );
    let outcomes: Vec<_> = trace
        .verdicts
        .iter()
        .map(|v| (v.route.as_str(), v.outcome()))
        .collect();
    assert_eq!(outcomes.len(), 7);
    assert_eq!(outcomes[0], ("first", VerdictOutcome::Skip));
    assert_eq!(outcomes[6], ("all", VerdictOutcome::Match));

    // No Work is in it.
    let mut named = asks("new", event("traced", "any", "{}"), &[]);
    named.targets = Some(Targets { work, attempt: 0 });
    assert_eq!(reason(tried(&weir, TRIED, named).await), "WORK_NOT_FOUND");
    // And what the candidate does not have, it does not know.
    assert_eq!(
        reason(tried(&weir, TRIED, asks("t", event("traced", "start", "{}"), &[])).await),
        "SCOPE_NOT_FOUND"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_candidate_answers_what_a_trace_answers_once_it_is_published() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let ended = running(&weir, "ended", "ended").await;
    fail(&weir, &ended.1, FailureKind::Permanent).await;
    let (_run, _claimed) = running(&weir, "run", "run").await;
    weir.routed("idle", "start", &["idle"]).await;
    weir.routed("elsewhere", "other", &["elsewhere"]).await;
    weir.claim_of("other").await.expect("ready");
    script.say(
        "traced",
        std::iter::repeat_n(Say::Skip("no".to_owned()), 100),
    );
    let mut requests = Vec::new();
    for scope in ["s", "new"] {
        for kind in ["first", "start", "other", "attach", "unproved", "x"] {
            for keys in [
                &["n"][..],
                &["idle"],
                &["run"],
                &["ended"],
                &["run", "idle"],
                &["elsewhere"],
                &[],
            ] {
                requests.push(asks(scope, event("traced", kind, r#"{"key":"run"}"#), keys));
            }
        }
    }
    let mut before = Vec::new();
    for request in &requests {
        let trace = tried(&weir, TRIED, request.clone()).await;
        before.push(trace.expect("traceable"));
    }
    let kinds: std::collections::BTreeSet<i32> = before.iter().map(|t| effect(t).kind).collect();
    for kind in [
        EffectKind::Start,
        EffectKind::Queue,
        EffectKind::Inject,
        EffectKind::Drop,
        EffectKind::Unmatched,
        EffectKind::Pending,
        EffectKind::Conflict,
        EffectKind::Failed,
    ] {
        assert!(kinds.contains(&i32::from(kind)), "{kind:?} of {kinds:?}");
    }
    weir.apply(TRIED, 1).await;
    for (request, mut before) in requests.into_iter().zip(before) {
        let what = format!("{request:?}");
        let after = weir.user.control().trace_event(request).await;
        let after = after.expect("traceable").into_inner();
        assert_eq!(std::mem::take(&mut before.generation), "candidate");
        assert_eq!(
            before,
            TraceEventResponse {
                generation: String::new(),
                ..after
            },
            "{what}"
        );
    }
    let calls = script.calls("traced");
    assert!(!calls.is_empty() && calls.iter().all(|c| c.dry_run));
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_candidate_refuses_what_publication_and_acceptance_refuse() {
    let weir = Weir::with(CONFIG).await;
    weir.routed("taken", "start", &["k"]).await;
    let plain = || asks("s", event("traced", "start", "{}"), &[]);
    let wrong = r#"
scopes:
  - name: root
    routes:
      - { slot: bad, when: 'event.', binding: b }
      - { slot: lost, when: 'true', binding: nowhere }
    surprise: 1
"#;
    for document in [wrong, "", ":", "scopes: [", "scopes: []", "a\0b"] {
        let (code, why, message, faults) = refusal(tried(&weir, document, plain()).await);
        assert_eq!(
            (code, why.as_str()),
            (Code::InvalidArgument, "CONFIG_INVALID"),
            "{document}"
        );
        let request = PublishConfigRequest {
            document: document.to_owned(),
            expected_generation: Some(1),
            request_id: String::new(),
        };
        let published = refusal(weir.user.config().publish_config(request).await);
        assert_eq!((code, why, message, faults.clone()), published);
        let request = ValidateConfigRequest {
            document: document.to_owned(),
        };
        let checked = weir.user.config().validate_config(request).await;
        let checked = checked.expect("checked").into_inner();
        let errors: Vec<_> = checked
            .problems
            .iter()
            .filter(|p| p.severity == "error")
            .collect();
        assert_eq!(errors.len(), faults.len(), "{faults:?}");
        for (problem, fault) in errors.iter().zip(&faults) {
            assert!(fault.contains(&problem.message), "{fault}");
            let place = format!("line {}, column {}", problem.line, problem.column);
            assert!(problem.line == 0 || fault.contains(&place), "{fault}");
        }
    }
    let absent: Result<TraceCandidateResponse, Status> = weir
        .user
        .control()
        .trace_candidate(TraceCandidateRequest {
            trace: None,
            document: CONFIG.to_owned(),
        })
        .await
        .map(tonic::Response::into_inner);
    assert_eq!(refusal(absent).3, ["trace: is required"]);

    // Acceptance under the candidate: its key rules, and the identities that are taken.
    let broken = CONFIG.replace("string(event.data.n)", "event.data.n");
    let derived = asks("s", from("derive/x", "1", "x", r#"{"n":1}"#), &[]);
    assert_eq!(
        reason(tried(&weir, &broken, derived.clone()).await),
        "KEY_RULE_FAILED"
    );
    assert!(tried(&weir, CONFIG, derived).await.is_ok());
    let other = asks("s", event("taken", "start", "{ }"), &["k"]);
    assert_eq!(reason(tried(&weir, CONFIG, other).await), "EVENT_CONFLICT");
    let same = asks("s", event("taken", "start", "{}"), &["k"]);
    let same = tried(&weir, CONFIG, same).await.expect("traceable");
    assert!(!same.accepted_as.is_empty());
    let mut long = plain();
    long.filter = "f".repeat(256);
    assert_eq!(reason(tried(&weir, CONFIG, long).await), "INVALID_REQUEST");
    let mut filtered = plain();
    filtered.filter = "att".to_owned();
    let filtered = tried(&weir, CONFIG, filtered).await.expect("traceable");
    assert_eq!(filtered.verdicts.len(), 1);
    assert_eq!(effect(&filtered).kind(), EffectKind::Start);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r45_a_tenant_tries_a_document_before_it_publishes_one() {
    let weir = Weir::bare().await;
    let request = asks("new", event("traced", "any", "{}"), &["k"]);
    let none = weir.user.control().trace_event(request.clone()).await;
    assert_eq!(reason(none), "TENANT_NOT_FOUND");
    let trace = tried(&weir, TRIED, request).await.expect("traceable");
    assert_eq!(
        (effect(&trace).kind(), effect(&trace).binding.as_str()),
        (EffectKind::Start, "fresh")
    );
    assert_eq!(trace.generation, "candidate");
    assert_eq!(weir.count("tenant").await, 0);

    // Another tenant's state is not its own.
    weir.apply(SCRIPTED, 0).await;
    weir.routed("w", "start", &["k"]).await;
    let request = TraceCandidateRequest {
        trace: Some(asks("s", event("w", "first", "other"), &["k"])),
        document: TRIED.to_owned(),
    };
    let stranger = weir.client("stranger", "tester");
    let trace = stranger.control().trace_candidate(request).await;
    let trace = trace.expect("traceable").into_inner().trace;
    let trace = trace.expect("always there");
    assert_eq!(effect(&trace).kind(), EffectKind::Start);
    assert_eq!(trace.accepted_as, "");
    weir.stop().await;
}
