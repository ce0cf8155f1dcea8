//! Traces (rules r40, r41, r42).

use tonic::Status;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::gateway::v1::{TraceEventRequest, TraceEventResponse};
use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::routing::v1::PublishRequest;
use weir_proto::types::v1::{Disposition, Effect, EffectKind, Policy, Targets, VerdictOutcome};

use super::arrange::{ALL, SCRIPTED, fail, running};
use super::script::Say;
use crate::outside::{from, refusal, rows};
use crate::support::{CONFIG, Weir, event};

async fn trace(weir: &Weir, request: TraceEventRequest) -> Result<TraceEventResponse, Status> {
    weir.user
        .control()
        .trace_event(request)
        .await
        .map(tonic::Response::into_inner)
}

fn effect(trace: &TraceEventResponse) -> &Effect {
    trace.effect.as_ref().expect("always there")
}

#[tokio::test(flavor = "multi_thread")]
async fn r40_a_trace_writes_nothing_whatever_it_finds() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let (_work, _claimed) = running(&weir, "w", "k").await;
    weir.routed("w 2", "start", &["z"]).await;
    let before = rows(&weir.db).await;
    for say in [
        Say::Match,
        Say::Fail,
        Say::Invalid,
        Say::Panic,
        Say::Skip("no".to_owned()),
    ] {
        script.say("traced", [say]);
        for keys in [&["new"][..], &["k"], &["k", "z"], &[]] {
            weir.trace("x", r#"{"key":"n"}"#, keys).await;
        }
    }
    for kind in ["start", "drop", "attach", "inject", "interrupt", "other"] {
        weir.trace(kind, r#"{"key":"z"}"#, &["k"]).await;
    }
    assert_eq!(rows(&weir.db).await, before);
    let calls = script.calls("traced");
    assert!(calls.iter().all(|c| c.dry_run), "handlers are told");
    assert!(
        calls.iter().any(|c| c.state.as_deref() == Some("running")),
        "it reads what routing reads"
    );

    // What was accepted before is said.
    let accepted = weir.publish("traced", "start", &["again"]).await;
    weir.record(&accepted).await;
    assert_eq!(
        weir.trace("start", "{}", &["again"]).await.accepted_as,
        accepted
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r40_a_trace_refuses_what_acceptance_refuses_and_in_the_same_words() {
    let weir = Weir::with(&CONFIG.replace("string(event.data.n)", "event.data.n")).await;
    let work = weir.routed("taken", "start", &["k"]).await.work;
    let absent = work.replace('0', "1");
    let targets = |work: &str| {
        Some(Targets {
            work: work.to_owned(),
            attempt: 0,
        })
    };
    let many: Vec<String> = (0..33).map(|i| i.to_string()).collect();
    type Refused<'a> = (&'a str, &'a str, CloudEvent, Vec<String>, Option<Targets>);
    let cases: Vec<Refused<'_>> = vec![
        (
            "core type",
            "s",
            event("1", "core.x", "{}"),
            Vec::new(),
            None,
        ),
        (
            "core source",
            "s",
            from("core.manual", "1", "x", "{}"),
            Vec::new(),
            None,
        ),
        (
            "reserved id",
            "s",
            event("reroute/x/1", "x", "{}"),
            Vec::new(),
            None,
        ),
        ("no id", "s", event("", "x", "{}"), Vec::new(), None),
        (
            "long type",
            "s",
            event("1", &"x".repeat(256), "{}"),
            Vec::new(),
            None,
        ),
        (
            "large data",
            "s",
            event("1", "x", &"x".repeat((1 << 20) + 1)),
            Vec::new(),
            None,
        ),
        ("many keys", "s", event("1", "x", "{}"), many, None),
        (
            "no scope",
            "nowhere",
            event("1", "x", "{}"),
            Vec::new(),
            None,
        ),
        (
            "conflict",
            "s",
            event("taken", "start", "{ }"),
            vec!["k".to_owned()],
            None,
        ),
        (
            "no work",
            "s",
            event("1", "x", "{}"),
            Vec::new(),
            targets(&absent),
        ),
        (
            "work of elsewhere",
            "t",
            event("1", "x", "{}"),
            Vec::new(),
            targets(&work),
        ),
        (
            "bad work",
            "s",
            event("1", "x", "{}"),
            Vec::new(),
            targets("no"),
        ),
        (
            "key rule",
            "s",
            from("derive/x", "1", "x", r#"{"n":1}"#),
            Vec::new(),
            None,
        ),
    ];
    for (what, scope, event, keys, targets) in cases {
        let request = TraceEventRequest {
            scope: scope.to_owned(),
            event: Some(event.clone()),
            keys: keys.clone(),
            targets: targets.clone(),
            filter: String::new(),
        };
        let traced = refusal(trace(&weir, request).await);
        let request = PublishRequest {
            scope: scope.to_owned(),
            event: Some(event),
            keys,
            targets,
        };
        let published = refusal(weir.user.events().publish(request).await);
        assert_eq!(traced, published, "{what}");
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r41_each_route_says_what_it_is_asked_and_a_filter_changes_no_decision() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let outcomes = |trace: &TraceEventResponse| {
        trace
            .verdicts
            .iter()
            .map(|v| (v.route.clone(), v.outcome()))
            .collect::<Vec<_>>()
    };
    let all = |outcome: VerdictOutcome| {
        [
            "start",
            "drop",
            "other",
            "attach",
            "inject",
            "interrupt",
            "scripted",
        ]
        .map(|slot| (slot.to_owned(), outcome))
        .to_vec()
    };
    let matched = weir.trace("other", "{}", &["k"]).await;
    let mut expected = all(VerdictOutcome::NotReached);
    (expected[0].1, expected[1].1) = (VerdictOutcome::Skip, VerdictOutcome::Skip);
    expected[2].1 = VerdictOutcome::Match;
    assert_eq!(outcomes(&matched), expected);
    assert_eq!(matched.verdicts[0].reason, "condition is false");
    assert_eq!(matched.verdicts[2].reason, "condition is true");

    script.say("traced", [Say::Skip("not mine".to_owned())]);
    let skipped = weir.trace("x", "{}", &["k"]).await;
    assert_eq!(outcomes(&skipped), all(VerdictOutcome::Skip));
    assert_eq!(skipped.verdicts[6].reason, "not mine");
    for (say, code) in [
        (Say::Fail, "handler_failed"),
        (Say::Invalid, "handler_invalid"),
        (Say::Panic, "handler_panic"),
    ] {
        script.say("traced", [say]);
        let failed = weir.trace("x", "{}", &["k"]).await;
        assert_eq!(
            (
                failed.verdicts[6].outcome(),
                failed.verdicts[6].failure.as_str()
            ),
            (VerdictOutcome::Failed, code)
        );
        assert_eq!(effect(&failed).reason, code);
    }
    // Nobody is asked about terminal Work, and about what two Works claim.
    let (_, claimed) = running(&weir, "w", "k").await;
    fail(&weir, &claimed, FailureKind::Permanent).await;
    assert_eq!(
        outcomes(&weir.trace("start", "{}", &["k"]).await),
        all(VerdictOutcome::Bypassed)
    );
    weir.routed("w 2", "start", &["z"]).await;
    assert_eq!(
        outcomes(&weir.trace("start", "{}", &["k", "z"]).await),
        all(VerdictOutcome::Bypassed)
    );

    let request = TraceEventRequest {
        scope: "s".to_owned(),
        event: Some(event("traced", "other", "{}")),
        filter: "inter".to_owned(),
        ..Default::default()
    };
    let filtered = trace(&weir, request).await.expect("traceable");
    assert_eq!(
        outcomes(&filtered),
        [("interrupt".to_owned(), VerdictOutcome::NotReached)]
    );
    assert_eq!(
        (effect(&filtered).kind(), effect(&filtered).route.as_str()),
        (EffectKind::Start, "other")
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r42_the_effect_of_a_trace_is_what_routing_then_does() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let ended = running(&weir, "ended", "ended").await;
    fail(&weir, &ended.1, FailureKind::Permanent).await;
    let (_run, _claimed) = running(&weir, "run", "run").await;
    weir.routed("idle", "start", &["idle"]).await;
    weir.routed("elsewhere", "other", &["elsewhere"]).await;
    weir.claim_of("other").await.expect("ready");
    script.say("bad", [Say::Invalid]);

    // Id, type, keys, the traced effect, and what routing makes of it; `None` where it stays undecided.
    type Case<'a> = (
        &'a str,
        &'a str,
        &'a [&'a str],
        EffectKind,
        Option<Disposition>,
    );
    let cases: [Case<'_>; 14] = [
        (
            "1",
            "start",
            &["n1"],
            EffectKind::Start,
            Some(Disposition::Start),
        ),
        (
            "2",
            "attach",
            &["n2"],
            EffectKind::Start,
            Some(Disposition::Start),
        ),
        (
            "3",
            "inject",
            &["idle"],
            EffectKind::Queue,
            Some(Disposition::Queue),
        ),
        (
            "4",
            "inject",
            &["run"],
            EffectKind::Inject,
            Some(Disposition::Inject),
        ),
        (
            "5",
            "interrupt",
            &["run"],
            EffectKind::Interrupt,
            Some(Disposition::Interrupt),
        ),
        (
            "6",
            "start",
            &["run", "n3"],
            EffectKind::Queue,
            Some(Disposition::Queue),
        ),
        (
            "7",
            "drop",
            &["run"],
            EffectKind::Drop,
            Some(Disposition::Drop),
        ),
        ("8", "drop", &[], EffectKind::Drop, Some(Disposition::Drop)),
        (
            "9",
            "start",
            &["ended"],
            EffectKind::Drop,
            Some(Disposition::Terminal),
        ),
        (
            "10",
            "x",
            &["idle"],
            EffectKind::Unmatched,
            Some(Disposition::Unmatched),
        ),
        (
            "bad",
            "x",
            &["idle"],
            EffectKind::Failed,
            Some(Disposition::Failed),
        ),
        ("11", "start", &["run", "idle"], EffectKind::Conflict, None),
        ("12", "attach", &["idle"], EffectKind::Conflict, None),
        ("13", "inject", &["elsewhere"], EffectKind::Pending, None),
    ];
    for (id, kind, keys, expected, disposition) in cases {
        // Of the cases that attach, one attaches what another Work owns.
        let data = if id == "12" {
            r#"{"key":"run"}"#
        } else {
            r#"{"key":"attached"}"#
        };
        let request = TraceEventRequest {
            scope: "s".to_owned(),
            event: Some(event(id, kind, data)),
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            ..Default::default()
        };
        let traced = trace(&weir, request).await.expect("traceable");
        let effect = effect(&traced).clone();
        assert_eq!(effect.kind(), expected, "{id}");
        let uid = super::arrange::publish(&weir, id, kind, data, keys).await;
        let answer = weir.route(&uid).await;
        let Some(disposition) = disposition else {
            let pending = answer.pending.unwrap_or_else(|| panic!("{id} is decided"));
            let works = if expected == EffectKind::Conflict {
                effect.conflicting_works
            } else {
                vec![effect.work]
            };
            assert_eq!(
                (pending.works, pending.reason),
                (works, effect.reason),
                "{id}"
            );
            continue;
        };
        let record = answer.record.unwrap_or_else(|| panic!("{id} is undecided"));
        assert_eq!(record.disposition(), disposition, "{id}");
        let same = |r: &str| {
            if disposition == Disposition::Start {
                String::new()
            } else {
                r.to_owned()
            }
        };
        assert_eq!(
            (
                effect.work.as_str(),
                effect.route.as_str(),
                effect.binding.as_str(),
                effect.policy,
                effect.reason.as_str()
            ),
            (
                same(&record.work).as_str(),
                record.route.as_str(),
                record.binding.as_str(),
                record.policy,
                record.reason.as_str()
            ),
            "{id}"
        );
        assert_eq!(effect.error, record.error, "{id}");
        if matches!(
            expected,
            EffectKind::Start | EffectKind::Queue | EffectKind::Inject | EffectKind::Interrupt
        ) {
            let owned = weir.work(&record.work).await.keys;
            assert!(
                effect.keys.iter().all(|k| owned.contains(k)),
                "{id}: {:?} of {owned:?}",
                effect.keys
            );
            assert_ne!(effect.policy(), Policy::Drop, "{id}");
        } else {
            assert!(effect.keys.is_empty(), "{id}: nothing attaches");
        }
    }
    weir.stop().await;
}
