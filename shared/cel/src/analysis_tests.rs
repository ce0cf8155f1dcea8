//! What is said of conditions without any event, against what they then do.

use proptest::prelude::*;

use super::{
    Condition, EventFacts, Facts, Known, Program, TypePattern, Value, Verdict, WorkFacts, analysis,
};

fn program(source: &str) -> Program {
    Program::compile(source).unwrap_or_else(|e| panic!("{source}: {e}"))
}

fn condition(source: &str) -> Condition {
    program(source).condition()
}

fn is(text: &str) -> TypePattern {
    TypePattern::Is(text.to_owned())
}

fn like(starts: &str, ends: &str, contains: &[&str]) -> TypePattern {
    TypePattern::Like {
        starts: starts.to_owned(),
        ends: ends.to_owned(),
        contains: contains.iter().map(|text| (*text).to_owned()).collect(),
    }
}

#[test]
fn r50_constant_conditions_are_known() {
    for source in [
        "true",
        "1 < 2",
        "event.data.x || true",
        "has(event.id)",
        "has(event.type) && !false",
        "event.type.startsWith('')",
        "'a' in ['a', 'b'] ? true : event.data.x",
        "event.type == 'a' || !has(work.nothing)",
    ] {
        assert_eq!(condition(source).known, Some(Known::Always), "{source}");
    }
    for source in [
        "false",
        "event.data.x && false",
        "event.type == 'a' && event.type == 'b'",
        "event.type.startsWith('a.') && event.type in ['b', 'c']",
        "event.type.endsWith('a') && event.type.endsWith('b')",
        "event.data.x == 1 && event.data.x != 1",
        "event.data.b && !event.data.b",
        "has(event.event_type)",
        "[1][2] == 1",
        "event.type == 'a' && false || 1 > 2",
    ] {
        let condition = condition(source);
        assert_eq!(condition.known, Some(Known::Never), "{source}");
        assert_eq!(condition.cases, [], "{source}");
    }
    for source in ["1", "'true'", "1 / 0 == 1", "[] < 1"] {
        assert_eq!(condition(source).known, Some(Known::Fails), "{source}");
    }
    for source in [
        "event.data.x",
        "has(work.id)",
        "has(event.subject)",
        "event.type == 'a'",
        "[1, 2].all(x, x > 0)",
        "event.type != 'a'",
    ] {
        assert_eq!(condition(source).known, None, "{source}");
    }
}

#[test]
fn r50_what_a_condition_asks_of_the_type_is_told() {
    for (source, types) in [
        ("event.type == 'a'", vec![is("a")]),
        ("'a' == event['type']", vec![is("a")]),
        ("event.type in ['a', 'b']", vec![is("a"), is("b")]),
        ("event.type.startsWith('a.')", vec![like("a.", "", &[])]),
        (
            "event.type.startsWith('a') && event.type.endsWith('z') && event.type.startsWith('ab') && event.type.contains('m')",
            vec![like("ab", "z", &["m"])],
        ),
        (
            "(event.type == 'a' || event.type == 'b') && event.type != 'a'",
            vec![is("a"), is("b")],
        ),
        (
            "has(work.id) ? event.type == 'a' : event.type == 'b'",
            vec![is("a"), is("b")],
        ),
        ("event.type.matches('a')", vec![TypePattern::any()]),
        ("!(event.type == 'a')", vec![TypePattern::any()]),
        ("event.subject == 'a'", vec![TypePattern::any()]),
    ] {
        let condition = condition(source);
        let [case] = condition.cases.as_slice() else {
            panic!("{source}: {condition:?}")
        };
        assert_eq!(case.types, types, "{source}");
    }
    let two = condition("event.type == 'a' || event.type == 'b' && has(work.id)");
    assert_eq!(two.cases.len(), 2);
    assert_eq!(two.cases[0].rest, [""; 0]);
    assert_eq!(two.cases[1].rest.len(), 1);
    // What asks too much of the type is a condition like any other.
    let many: Vec<String> = (0..80).map(|n| format!("'t{n}'")).collect();
    let many = condition(&format!(
        "event.type in [{0}] || event.type in [{0}]",
        many.join(",")
    ));
    assert_eq!(many.cases.len(), 2);
    assert_eq!(many.cases[0].types.len(), 80);
}

#[test]
fn r50_spellings_of_one_condition_have_one_form() {
    for (a, b) in [
        ("event.data.a && event.data.b", "event.data.b&&event.data.a"),
        (
            "event.data.a && (event.data.b && event.data.a)",
            "event.data.b && event.data.a",
        ),
        ("event.data.n > 1", "1 < event.data.n"),
        ("event.data.n >= 1", "1 <= event.data.n"),
        ("event.data.n == 'x'", "'x' == event.data[\"n\"]"),
        ("!(event.data.n == 1)", "event.data.n != 1"),
        ("!!event.data.b", "event.data.b"),
        (
            "event.subject in ['a', 'b']",
            "event.subject in ['b', 'a', 'b']",
        ),
        (
            "event.keys.exists(k, k == 'x')",
            "event.keys.exists(key, 'x' == key)",
        ),
        (
            "has(work.id) && (event.data.x || event.data.y)",
            "(event.data.y || event.data.x) && true && has(work.id)",
        ),
    ] {
        assert_eq!(condition(a).cases, condition(b).cases, "{a} | {b}");
    }
    for (a, b) in [
        ("event.data.a", "event.data.b"),
        ("event.data.n == 1", "event.data.n == '1'"),
        ("event.data.n < 1", "event.data.n > 1"),
        ("event.data.n - 1 == 0", "1 - event.data.n == 0"),
        ("event.subject.matches('a')", "event.subject.matches('b')"),
        ("has(event.data.a)", "event.data.a"),
    ] {
        assert_ne!(condition(a).cases, condition(b).cases, "{a} | {b}");
    }
}

#[test]
fn r50_names_that_nothing_has_are_told_and_the_others_are_not() {
    for (source, names) in [
        ("work.stat == 'x'", vec!["work.stat"]),
        (
            "has(work.ID) || event.event_type == ''",
            vec!["event.event_type", "work.ID"],
        ),
        (
            "event['Source'] == work['name']",
            vec!["event.Source", "work.name"],
        ),
        ("event.specversion == '1.0'", vec!["event.specversion"]),
        ("event.ext.Tenant == ''", vec!["event.ext.Tenant"]),
        (
            "event.ext.tenant == event.tenant && event.subject == event.data.Any_Thing",
            vec![],
        ),
        ("event.keys.exists(work, work.name == '')", vec![]),
    ] {
        assert_eq!(program(source).undeclared(), names, "{source}");
    }
    assert!(program("[1].map(x, work)").reads_work());
    assert!(!program("event.keys.exists(work, work == '')").reads_work());
}

#[test]
fn r50_the_known_fields_are_those_that_there_are() {
    let facts = Facts::new(
        EventFacts::default(),
        Some(WorkFacts {
            binding: Some("b".to_owned()),
            held_reason: Some("r".to_owned()),
            ..WorkFacts::default()
        }),
    );
    let Ok(Value::Map(work)) = program("work").evaluate(&facts) else {
        panic!("a map")
    };
    for (key, _) in work.iter() {
        let Value::String(name) = key.to_value() else {
            panic!("text")
        };
        assert!(analysis::WORK.contains(&&*name), "{name}");
    }
    assert_eq!(work.len(), analysis::WORK.len());
}

#[test]
fn r50_covering_is_inclusion() {
    assert!(like("a", "", &[]).covers(&is("ab")));
    assert!(like("a", "", &[]).covers(&like("ab", "z", &["m"])));
    assert!(like("", "", &["m"]).covers(&like("xmx", "", &[])));
    assert!(!like("ab", "", &[]).covers(&like("a", "", &[])));
    assert!(!like("", "z", &[]).covers(&like("a", "", &[])));
    assert!(!is("a").covers(&like("a", "", &[])));
    assert!(TypePattern::any().covers(&like("a", "b", &["c"])));
}

/// Conditions that ask about the type, the Work and data.
fn conditions() -> impl Strategy<Value = String> {
    let atom = prop::sample::select(vec![
        "event.type == 'a.b'",
        "event.type == 'b'",
        "'a.b' != event.type",
        "event.type in ['a.b', 'a.c']",
        "event.type.startsWith('a.')",
        "event.type.startsWith('')",
        "event.type.endsWith('b')",
        "event.type.contains('.')",
        "event.type.matches('^a')",
        "has(work.id)",
        "has(event.type)",
        "has(work.none)",
        "event.data.x",
        "event.data.y == 1",
        "event.data.x > 'a'",
        "true",
        "false",
        "1 / 0 == 1",
        "'text'",
    ])
    .prop_map(str::to_owned);
    atom.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
}

fn events() -> impl Strategy<Value = Facts> {
    let data = prop::sample::select(vec!["{}", "{\"x\":true,\"y\":1}", "{\"x\":false}", "no"]);
    let kind = prop::sample::select(vec!["a.b", "a.c", "b", "xb", "a."]);
    (data, kind, any::<bool>()).prop_map(|(data, kind, work)| {
        Facts::new(
            EventFacts {
                event_type: kind.to_owned(),
                data: Some(data.into()),
                ..EventFacts::default()
            },
            work.then(WorkFacts::default),
        )
    })
}

fn event_type(facts: &Facts) -> String {
    match program("event.type").evaluate(facts) {
        Ok(Value::String(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is said of a condition is true of what it does, and a condition that holds has a
    /// case whose types fit.
    #[test]
    fn r50_what_is_known_agrees_with_evaluation(
        source in conditions(),
        events in prop::collection::vec(events(), 1..6),
    ) {
        let program = program(&source);
        let condition = program.condition();
        for facts in &events {
            let verdict = program.as_match(facts);
            match condition.known {
                Some(Known::Always) => prop_assert_eq!(&verdict, &Verdict::Match, "{}", source),
                Some(Known::Never) => prop_assert_ne!(&verdict, &Verdict::Match, "{}", source),
                Some(Known::Fails) => {
                    prop_assert!(matches!(verdict, Verdict::Invalid { .. }), "{}", source);
                }
                None => {}
            }
            if verdict == Verdict::Match {
                let kind = event_type(facts);
                let fits = condition.cases.iter().any(|c| c.types.iter().any(|t| t.fits(&kind)));
                prop_assert!(fits, "{}: {:?}", source, condition);
            }
            // A case that asks nothing else takes every event of its types.
            let kind = event_type(facts);
            if condition.cases.iter().any(|c| c.rest.is_empty() && c.types.iter().any(|t| t.fits(&kind))) {
                prop_assert_eq!(&verdict, &Verdict::Match, "{}", source);
            }
        }
    }

    /// An intersection is one: sets that cover each other agree on every type.
    #[test]
    fn r50_covering_agrees_with_fitting(source in conditions(), other in conditions(), facts in events()) {
        let kind = event_type(&facts);
        let (a, b) = (condition(&source), condition(&other));
        for wide in a.cases.iter().flat_map(|c| &c.types) {
            for narrow in b.cases.iter().flat_map(|c| &c.types) {
                prop_assert!(!wide.covers(narrow) || !narrow.fits(&kind) || wide.fits(&kind));
            }
        }
    }
}
