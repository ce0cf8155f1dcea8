//! Random documents, against what their routes then do.

use proptest::prelude::*;

use super::super::{Budget, overlap};
use super::problems;
use crate::cel::{EventFacts, Facts, Program, Verdict, WorkFacts};
use crate::tenant::{Compiled, CompiledHandler, Document, Problem, SelfPolicy, glob};

/// Conditions of which many are related.
fn condition() -> impl Strategy<Value = String> {
    let atom = prop::sample::select(vec![
        "true",
        "false",
        "1",
        "event.type == \"a.x\"",
        "event.type == \"core.x\"",
        "event.type != \"a.x\"",
        "event.type.startsWith(\"a.\")",
        "event.type.endsWith(\"x\")",
        "event.type in [\"a.x\", \"b.x\"]",
        "event.type.matches(\"x$\")",
        "has(work.id)",
        "work.state == \"ready\"",
        "event.data.x",
        "event.data.n > 1",
    ])
    .prop_map(str::to_owned);
    atom.prop_recursive(2, 6, 2, |inner| {
        (inner.clone(), inner, prop::sample::select(vec!["&&", "||"]))
            .prop_map(|(a, b, op)| format!("({a} {op} {b})"))
    })
}

fn route() -> impl Strategy<Value = String> {
    let what = (
        0..6_usize,
        prop::option::weighted(0.8, condition()),
        prop::sample::select(vec!["a", "b", "c", "gone"]),
        prop::sample::select(vec!["queue", "inject", "interrupt", "drop"]),
        prop::sample::select(vec!["", ", fallback: queue", ", fallback: drop"]),
        prop::sample::select(vec!["allow", "avoid"]),
        prop::bool::weighted(0.1),
    );
    what.prop_map(|(slot, when, binding, policy, fallback, own, disabled)| {
        let handler = match when {
            Some(when) => format!("when: '{when}'"),
            None => "handler: { remote: 'http://h:1', name: n }".to_owned(),
        };
        format!(
            "{{ slot: s{slot}, {handler}, binding: {binding}, policy: {policy}{fallback}, self: {own}, disabled: {disabled} }}"
        )
    })
}

fn document() -> impl Strategy<Value = String> {
    let binding = (
        prop::sample::select(vec![
            "executor: x",
            "executor: x, capabilities: [inject]",
            "priority: 1",
        ]),
        prop::collection::vec(
            prop::sample::select(vec!["'a.*'", "'*'", "'b.x'", "'?.x'", "'x*é*'", "'*a*'"]),
            0..3,
        ),
    );
    let scope = (
        prop::collection::vec(binding, 0..4),
        prop::collection::vec(route(), 0..7),
        prop::option::of(0..4_u16),
        any::<prop::sample::Index>(),
    );
    prop::collection::vec(scope, 1..6).prop_map(|scopes| {
        let mut text = "scopes:\n".to_owned();
        for (at, (bindings, routes, depth, parent)) in scopes.into_iter().enumerate() {
            text.push_str(&format!("- name: n{at}\n"));
            if at > 0 {
                text.push_str(&format!("  parent: n{}\n", parent.index(at)));
            }
            if let Some(depth) = depth {
                text.push_str(&format!(
                    "  limits: {{ depth: {depth}, derived_per_minute: {depth} }}\n"
                ));
            }
            text.push_str("  bindings:\n    z: {}\n");
            for (name, (what, emits)) in ["a", "b", "c"].iter().zip(bindings) {
                text.push_str(&format!(
                    "    {name}: {{ {what}, emits: [{}] }}\n",
                    emits.join(", ")
                ));
            }
            let mut slots = std::collections::HashSet::new();
            let routes: Vec<String> = routes
                .into_iter()
                .filter(|route| slots.insert(route[..10].to_owned()))
                .collect();
            text.push_str(&format!("  routes: [{}]\n", routes.join(", ")));
        }
        text
    })
}

/// Which slots of which scopes a warning speaks of.
fn named(problem: &Problem) -> (String, Vec<String>) {
    let quoted = |text: &str| -> Vec<String> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let slot = quoted(&problem.message).into_iter().next().expect("a slot");
    let at = problem.message.rfind("in scope").expect("scopes");
    (slot, quoted(&problem.message[at..]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Random documents never panic, errors or not; and what is said never to match, or never to
    /// be reached, does not and is not by any event that is tried.
    #[test]
    fn r03_no_event_is_taken_by_a_route_that_is_called_unreachable(
        text in document(),
        tries in prop::collection::vec(
            (
                prop::sample::select(vec!["a.x", "b.x", "a.y", "x"]),
                prop::sample::select(vec!["{}", "{\"x\":true}", "{\"n\":2}", "{\"x\":true,\"n\":1}"]),
                any::<(bool, bool)>(),
            ),
            1..12,
        ),
    ) {
        let parsed = Document::parse(&text);
        prop_assert!(parsed.is_ok(), "{text}");
        let Ok(document) = parsed else { return Ok(()) };
        let warnings = document.validate();
        prop_assert!(!warnings.iter().any(Problem::is_error), "{:#?}\n{}", warnings, text);
        let dead: Vec<_> = warnings
            .iter()
            .filter(|p| matches!(p.reason, "route_unreachable" | "condition_false"))
            .map(|p| (named(p), p.message.contains("never reached")))
            .collect();
        let compiled = Compiled::new(document).expect("no errors");
        for (kind, data, (works, own)) in tries {
            let facts = Facts::new(
                EventFacts {
                    event_type: kind.to_owned(),
                    data: Some(data.into()),
                    ..EventFacts::default()
                },
                works.then(|| WorkFacts { state: "ready".to_owned(), ..WorkFacts::default() }),
            );
            for scope in compiled.scopes() {
                let taker = scope.routes.iter().find(|route| {
                    let declines = own && route.self_policy == SelfPolicy::Avoid;
                    !declines && match &route.handler {
                        CompiledHandler::Cel(when) => {
                            !matches!(when.as_match(&facts), Verdict::Skip { .. })
                        }
                        _ => kind == "x",
                    }
                });
                if let Some(taker) = taker {
                    let matches = match &taker.handler {
                        CompiledHandler::Cel(when) => when.as_match(&facts) == Verdict::Match,
                        _ => true,
                    };
                    let called = dead.iter().any(|((slot, scopes), reached)| {
                        *slot == taker.slot && scopes.contains(&scope.name) && (matches || *reached)
                    });
                    prop_assert!(!called, "{} in {}: {:#?}\n{}", taker.slot, scope.name, warnings, text);
                }
            }
        }
    }

    /// What is said of globs agrees with matching: a type in both is an overlap where one is said
    /// not to be... only when the set is all that is asked; and one inside takes every type.
    #[test]
    fn c02_an_overlap_agrees_with_matching(
        glob in "[ab?*]{0,6}",
        starts in "[ab]{0,2}",
        ends in "[ab]{0,2}",
        text in "[ab]{0,6}",
    ) {
        let condition = format!("event.type.startsWith('{starts}') && event.type.endsWith('{ends}')");
        let condition = Program::compile(&condition).expect("compiles").condition();
        let types = &condition.cases[0].types[0];
        let both = glob::matches(&glob, &text) && types.fits(&text);
        if overlap::inside(&glob, types) && glob::matches(&glob, &text) {
            prop_assert!(types.fits(&text), "{glob} {types:?} {text}");
        }
        let meets = overlap::meets(&glob, types, &mut Budget(10_000)).expect("few steps");
        // Start and end that share characters are the only ones that may go unseen.
        if both && text.len() >= starts.len() + ends.len() {
            prop_assert!(meets, "{glob} {types:?} {text}");
        }
    }

    #[test]
    fn arbitrary_text_is_never_too_much(text in "\\PC{0,200}") {
        let _ = problems(&text);
        let _ = problems(&format!("scopes:\n  - name: root\n    routes:\n      - {{ slot: a, when: '{text}', policy: drop }}\n"));
    }
}
