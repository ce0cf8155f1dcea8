//! Nothing an author or a sender writes may stall the process, end it or fill its memory.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::{EvalError, EventFacts, Facts, Program, Value, compile};

fn facts(data: String) -> Facts {
    Facts::new(
        EventFacts {
            event_type: "t".into(),
            data: Some(Bytes::from(data)),
            ..EventFacts::default()
        },
        None,
    )
}

/// Runs on a stack of 2 MiB, the least that a worker thread has, in whatever build this is.
fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(run)
        .expect("a thread");
    thread.join().expect("no panic")
}

/// Generous for a debug build on a loaded machine; a stall would take for ever.
const SOON: Duration = Duration::from_secs(20);

fn limited(source: &str, facts: &Facts) {
    let start = Instant::now();
    let got = Program::compile(source)
        .unwrap_or_else(|e| panic!("{source}: {e}"))
        .evaluate(facts);
    assert!(
        matches!(got, Err(EvalError::Limit(_))),
        "{source:.60}: {got:.80?}"
    );
    assert!(
        start.elapsed() < SOON,
        "{source:.60} took {:?}",
        start.elapsed()
    );
}

#[test]
fn r50_chains_of_every_length_compile_and_run_or_are_refused() {
    on_a_small_stack(|| {
        let facts = facts("{}".to_owned());
        for (first, more) in [
            ("1", "+1"),
            ("event", ".type"),
            ("1", "==1"),
            ("true", "&&true"),
            ("[1]", "[0]"),
            ("'a'", "+'a'"),
        ] {
            let mut refused = false;
            for terms in (0..)
                .step_by(7)
                .take_while(|n| first.len() + n * more.len() <= compile::MAX_SOURCE)
            {
                let source = format!("{first}{}", more.repeat(terms));
                match Program::compile(&source) {
                    Ok(program) => drop(program.evaluate(&facts)),
                    Err(error) => {
                        refused = true;
                        assert!(error.message.contains("deeper than 50"), "{error}");
                    }
                }
            }
            // `&&` is balanced by the parser, so its chains stay shallow.
            assert_eq!(refused, more != "&&true", "{more}");
        }
    });
}

#[test]
fn r50_twenty_thousand_terms_are_refused_by_size() {
    let error = Program::compile(&format!("1{}", "+1".repeat(20_000))).expect_err("too long");
    assert_eq!(
        error.message,
        "expression is 40001 bytes, the limit is 1024"
    );
    assert!(Program::compile(&format!("event{}", ".type".repeat(20_000))).is_err());
}

#[test]
fn r50_nesting_within_the_size_limit_neither_overflows_nor_hangs() {
    let start = Instant::now();
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{1:", "1", "}"),
        ("true?", "1", ":1"),
        ("true?1:", "1", ""),
        ("!", "true", ""),
        ("-", "1", ""),
        ("has(", "event.id", ")"),
        ("size(", "event.id", ")"),
        ("event.keys.all(x,", "true", ")"),
        ("(", "", ""),
        ("[", "", ""),
        ("{", "", ""),
        ("a(", "", ""),
        ("a?b:c?", "", ""),
        ("a<", "b", ""),
        ("a.b(", "", ""),
        ("\"", "", ""),
    ] {
        for size in [200, 500, 1_000, 1_024] {
            let times = (size - middle.len()) / (open.len() + close.len());
            let source = format!("{}{middle}{}", open.repeat(times), close.repeat(times));
            let _ = Program::compile(&source);
        }
    }
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "took {:?}",
        start.elapsed()
    );
}

#[test]
fn r50_comprehensions_over_large_lists_end_at_the_limit() {
    let big = facts(format!("[{}1]", "1,".repeat(100_000)));
    limited("event.data.all(a, event.data.all(b, a == b))", &big);
    limited("event.data.map(a, event.data.map(b, a + b)) == []", &big);
    limited("event.data.map(a, event.data + event.data) == []", &big);
    limited(
        "event.data.map(a, event.data.filter(b, true)).map(x, x) == []",
        &big,
    );
    // An honest scan of the same list is well within it.
    let found = Program::compile("event.data.exists(a, a == 2)")
        .expect("compiles")
        .evaluate(&big);
    assert_eq!(found, Ok(Value::Bool(false)));
}

#[test]
fn r50_growing_text_ends_at_the_limit() {
    let half = facts(format!(
        r#"{{"s":"{}","l":[{}1]}}"#,
        "x".repeat(1 << 19),
        "1,".repeat(50_000)
    ));
    limited(
        "event.data.l.map(a, event.data.s + event.data.s) == []",
        &half,
    );
    limited(
        "event.data.l.all(a, event.data.s.contains(event.data.s))",
        &half,
    );
    limited("event.data.l.all(a, event.data.s == event.data.s)", &half);
    limited("event.data.l.map(a, bytes(event.data.s)) == []", &half);
    limited("event.data.l.all(a, size(event.data.s) > 1)", &half);
    let mut doubling = "event.data.s".to_owned();
    for _ in 0..4 {
        doubling = format!("[{doubling}].map(x, x + x)[0]");
    }
    assert!(
        Program::compile(&doubling).is_ok_and(|p| p.evaluate(&half).is_ok()),
        "8 MiB are allowed"
    );
    let chain = format!("event.data.s{}", " + event.data.s".repeat(45));
    limited(&format!("size({chain}) > 0"), &half);
}

#[test]
fn r50_regular_expressions_are_bounded() {
    for bomb in ["(a{100}){100}{100}", r"\\pL{1000}", "((((a*)*)*)*)*{999}"] {
        assert!(
            Program::compile(&format!("event.type.matches('{bomb}')")).is_err(),
            "{bomb}"
        );
    }
    let text = facts(format!(
        r#"{{"s":"{}","l":[{}1]}}"#,
        "ab".repeat(1 << 17),
        "1,".repeat(1_000)
    ));
    for pattern in ["(a*)*c", "(.*)(.*)(.*)(.*)x$", "[ab]*a[ab]{12}c"] {
        let program =
            Program::compile(&format!("event.data.s.matches('{pattern}')")).expect(pattern);
        let start = Instant::now();
        assert_eq!(program.evaluate(&text), Ok(Value::Bool(false)), "{pattern}");
        assert!(
            start.elapsed() < SOON,
            "{pattern} took {:?}",
            start.elapsed()
        );
    }
    limited(
        "event.data.l.all(a, !event.data.s.matches('(a*)*c'))",
        &text,
    );
}

#[test]
fn r50_deep_data_and_deep_results_fit_a_small_stack() {
    on_a_small_stack(|| {
        let deep = format!("{}{}", "[".repeat(63), "]".repeat(63));
        let both = facts(format!(r#"{{"a":{deep}}}"#));
        let nested = format!("{}event.data.a{}", "[".repeat(40), "]".repeat(40));
        let program = Program::compile(&format!("{nested} == {nested}")).expect("compiles");
        assert_eq!(program.evaluate(&both), Ok(Value::Bool(true)));
        assert_eq!(
            Program::compile("event.data.a")
                .expect("compiles")
                .evaluate(&facts("[".repeat(10_000))),
            Err(EvalError::DataUnreadable)
        );
        for shape in ["!", "-"] {
            let source = format!("{}event.data.a", shape.repeat(49));
            let _ = Program::compile(&source).map(|p| p.evaluate(&both));
        }
        let chain = format!("event.data.a{}", "[0]".repeat(47));
        assert!(
            Program::compile(&chain)
                .expect("compiles")
                .evaluate(&both)
                .is_ok()
        );
    });
}

#[test]
fn r50_shared_values_are_not_copied_and_their_comparison_is_charged() {
    let facts = facts("{}".to_owned());
    let mut doubled = "event.keys".to_owned();
    for _ in 0..11 {
        doubled = format!("[{doubled}].map(x, [x, x])");
    }
    // Each level refers to the one below twice: 2^11 ends, of which only 11 lists are memory.
    assert!(
        Program::compile(&doubled)
            .expect("compiles")
            .evaluate(&facts)
            .is_ok()
    );
    assert_eq!(
        Program::compile(&format!("{doubled} == {doubled}"))
            .expect("compiles")
            .evaluate(&facts),
        Ok(Value::Bool(true))
    );
}

#[test]
fn r01_programs_and_facts_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Program>();
    shared::<Facts>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// An overflow would end the test process, which is the point.
    #[test]
    fn r50_mixed_nesting_within_the_size_limit_is_safe(
        set in prop::collection::vec(0..OPENERS.len(), 1..4),
        order in prop::collection::vec(0..4_usize, 300),
    ) {
        let (mut open, mut close) = (String::new(), String::new());
        for at in order {
            let (before, after) = OPENERS[set[at % set.len()]];
            if open.len() + close.len() + before.len() + after.len() >= compile::MAX_SOURCE {
                break;
            }
            open.push_str(before);
            close.insert_str(0, after);
        }
        let _ = Program::compile(&format!("{open}1{close}"));
    }
}

const OPENERS: [(&str, &str); 16] = [
    ("(", ")"),
    ("[", "]"),
    ("{1:", "}"),
    ("true?", ":1"),
    ("true?1:", ""),
    ("!", ""),
    ("-", ""),
    ("size(", ")"),
    ("a.all(x,", ")"),
    ("a.b(", ")"),
    ("a[", "]"),
    ("1+", ""),
    ("a||", ""),
    ("a in ", ""),
    ("a<", ""),
    ("A{b:", "}"),
];
