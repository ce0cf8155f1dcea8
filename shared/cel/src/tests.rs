use bytes::Bytes;
use proptest::prelude::*;

use super::{EvalError, EventFacts, Facts, Program, Value, Verdict, WorkFacts, json};

fn event(data: &str) -> EventFacts {
    EventFacts {
        id: "1".into(),
        source: "demo".into(),
        event_type: "issues.opened".into(),
        subject: Some("s".into()),
        time: Some("2026-01-02T03:04:05Z".into()),
        spec_version: "1.0".into(),
        scope: "github".into(),
        keys: vec!["issue/1".into()],
        depth: 2,
        attributes: vec![
            ("team".into(), "core".into()),
            ("type".into(), "other".into()),
        ],
        data: Some(Bytes::copy_from_slice(data.as_bytes())),
        ..EventFacts::default()
    }
}

fn facts(data: &str) -> Facts {
    Facts::new(event(data), None)
}

fn eval(source: &str, facts: &Facts) -> Result<Value, EvalError> {
    Program::compile(source)
        .unwrap_or_else(|e| panic!("{source}: {e}"))
        .evaluate(facts)
}

fn verdict(source: &str, facts: &Facts) -> Verdict {
    Program::compile(source)
        .unwrap_or_else(|e| panic!("{source}: {e}"))
        .as_match(facts)
}

fn skip(reason: &str) -> Verdict {
    Verdict::Skip {
        reason: reason.to_owned(),
    }
}

#[test]
fn r50_expressions_see_the_event_and_the_work() {
    let work = WorkFacts {
        id: "w".into(),
        state: "running".into(),
        attempts: 3,
        ..WorkFacts::default()
    };
    let with = Facts::new(
        event(r#"{"n": 41, "tags": ["a", "b"], "who": {"login": "ada"}, "x": null}"#),
        Some(work),
    );
    for source in [
        r#"event.type == "issues.opened" && event.id == "1" && event.source == "demo" && event.subject == "s""#,
        r#"event.spec_version == "1.0" && event.scope == "github" && event.depth + 1 == 3 && "issue/1" in event.keys"#,
        r#"timestamp(event.time).getFullYear() == 2026 && timestamp(event.time).getHours("+02:00") == 5"#,
        r#"event.team == "core" && event.ext.team == "core" && event.ext.type == "other""#,
        "!has(event.dataschema) && has(event.data) && has(event.data.who.login) && !has(event.data.who.name)",
        "!has(event.data.x.y)",
        "event.data.n + 1 == 42 && event.data.n / 2 == 20 && type(event.data.n) == int",
        r#"event.data.tags.exists(t, t == "b") && event.data.tags.all(t, size(t) == 1) && event.data.tags.exists_one(t, t == "a")"#,
        r#"event.data.tags.map(t, t + "!") == ["a!", "b!"] && event.data.tags.filter(t, t != "a") == ["b"]"#,
        r#"event.data.tags.map(t, t != "a", t + t) == ["bb"]"#,
        r#"event.data.who.map(k, k) == ["login"] && event.data["who"]["login"] == "ada" && event["data"].n == 41"#,
        r#"work.id == "w" && work.state == "running" && work.attempts == 3"#,
        r#"event.data.who.login.matches("^a.a$") && matches("x", "x")"#,
        r#"(event.data.missing == 1 || true) && !(event.data.missing == 1 && false)"#,
        r#"string(event.data.n) + "/" + string(1.5) == "41/1.5" && int("7") == 7 && duration("1h30m") > duration("45s")"#,
        r#"event.data.n > 40.5 && 41u == event.data.n && event.data.n in [1, 41]"#,
    ] {
        assert_eq!(verdict(source, &with), Verdict::Match, "{source}");
    }
    assert_eq!(
        verdict("event.data.missing == 1 ? false : true", &with),
        skip("no such field event.data.missing")
    );
    assert_eq!(
        verdict("has(work.id)", &facts("{}")),
        skip("condition is false")
    );
    assert_eq!(eval("work == {}", &facts("{}")), Ok(Value::Bool(true)));
}

#[test]
fn r50_a_missing_field_or_index_is_a_skip_that_names_the_path() {
    let facts = facts(r#"{"a": {"b": 1}, "list": [1], "none": null}"#);
    for (source, path) in [
        ("event.data.x == 1", "event.data.x"),
        ("event.data.a.c.d == 1", "event.data.a.c"),
        ("event.data.list[3] == 1", "event.data.list[3]"),
        ("event.data.list[-1] == 1", "event.data.list[-1]"),
        (
            "event.data.list[9223372036854775807] == 1",
            "event.data.list[9223372036854775807]",
        ),
        (r#"event.data.a["z"] == 1"#, r#"event.data.a["z"]"#),
        (
            "event.data.list[event.depth] == 1",
            "event.data.list[event.depth]",
        ),
        ("event.data.none.login == 1", "event.data.none.login"),
        (
            "event.data.list.exists(l, event.data.q == l)",
            "event.data.q",
        ),
        ("work.id == '1'", "work.id"),
        ("event.dataschema == ''", "event.dataschema"),
        ("event.nosuch == ''", "event.nosuch"),
    ] {
        assert_eq!(
            verdict(source, &facts),
            skip(&format!("no such field {path}")),
            "{source}"
        );
    }
}

#[test]
fn r50_type_errors_division_and_overflow_are_invalid() {
    let facts = facts(
        r#"{"n": 1, "s": "x", "big": 123456789012345678901234567890, "min": -9223372036854775808}"#,
    );
    for (source, part) in [
        ("event.data.n + 'x' == 'x'", "does not take (int, string)"),
        (
            "event.data.s.x == 1",
            "event.data.s.x: a string has no fields",
        ),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "remainder by zero"),
        ("event.data.min / -1 == 1", "overflow"),
        ("event.data.min % -1 == 1", "overflow"),
        ("-event.data.min == 1", "overflow"),
        ("9223372036854775807 + 1 == 1", "overflow"),
        ("event.data.big == 1", "outside the 64 bit range"),
        ("event.data.big > 1", "does not take"),
        ("int(1e300) == 1", "out of range"),
        ("uint(-1) == 1u", "out of range"),
        ("event.data.n", "condition is a int, not a bool"),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1h') > timestamp(0)",
            "overflow",
        ),
        (
            "duration('99999999999h') > duration('1s')",
            "cannot convert",
        ),
    ] {
        match verdict(source, &facts) {
            Verdict::Invalid { error } => assert!(error.contains(part), "{source}: {error}"),
            other => panic!("{source}: {other:?}"),
        }
    }
}

#[test]
fn r50_unreadable_data_is_absent_with_its_own_reason() {
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let very_deep = "[".repeat(10_000);
    for data in [
        "{",
        r#"{"a":1,"a":2}"#,
        r#"{"a":{"b":1,"b":1}}"#,
        &deep,
        &very_deep,
        r#"{"a":"\ud800"}"#,
        "{} x",
        "",
        "1e999",
    ] {
        let facts = facts(data);
        assert_eq!(
            verdict("event.data.a == 1", &facts),
            skip("data_unreadable"),
            "{data:.20}"
        );
        assert_eq!(eval("has(event.data)", &facts), Ok(Value::Bool(false)));
        assert_eq!(
            verdict("event.type == 'issues.opened'", &facts),
            Verdict::Match
        );
    }
    let fine = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert_eq!(
        verdict("size(event.data) == 1", &facts(&fine)),
        Verdict::Match
    );

    let mut text = event(r#"{"a":1}"#);
    text.datacontenttype = Some("text/plain".into());
    assert_eq!(
        verdict("event.data.a == 1", &Facts::new(text.clone(), None)),
        skip("data_unreadable")
    );
    for json in [
        "application/json; charset=utf-8",
        "application/vnd.github+JSON",
    ] {
        text.datacontenttype = Some(json.into());
        assert_eq!(
            verdict("event.data.a == 1", &Facts::new(text.clone(), None)),
            Verdict::Match
        );
    }
    text.data = None;
    assert_eq!(
        verdict("event.data.a == 1", &Facts::new(text, None)),
        skip("no such field event.data")
    );
}

#[test]
fn r50_no_digit_of_a_json_integer_changes() {
    let facts = facts(
        "[9223372036854775807, 9223372036854775808, 18446744073709551615, -9223372036854775808, 18446744073709551616, 0.5]",
    );
    for (source, value) in [
        ("event.data[0]", Value::Int(i64::MAX)),
        ("event.data[1]", Value::Uint(1 << 63)),
        ("event.data[2]", Value::Uint(u64::MAX)),
        ("event.data[3]", Value::Int(i64::MIN)),
        ("event.data[4]", Value::OutOfRange),
        ("event.data[5]", Value::Double(0.5)),
        ("event.data[0] == 9223372036854775807.0", Value::Bool(false)),
        ("string(event.data[2])", Value::text("18446744073709551615")),
    ] {
        assert_eq!(eval(source, &facts), Ok(value), "{source}");
    }
}

#[test]
fn r50_a_compile_error_has_line_and_column_and_says_what_exists() {
    for (source, line, column, part) in [
        ("event.type ==", 1, 14, "syntax error"),
        (
            "true &&\n  evnt.type == 'x'",
            2,
            3,
            "there is no `evnt`; there are `event`, `work`",
        ),
        (
            "'é' == event.id && foo(1)",
            1,
            20,
            "there is no function `foo`; there are has,",
        ),
        (
            "[1].exists(x, y == 1)",
            1,
            15,
            "there are `event`, `work`, `x`",
        ),
        ("event.id.size(1)", 1, 10, "`size` takes 0 arguments, not 1"),
        ("contains(event.id, 'x')", 1, 1, "is a method"),
        (
            "event.id.matches(event.type)",
            1,
            23,
            "must be a string literal",
        ),
        ("event.id.matches('(')", 1, 18, "unclosed group"),
        (
            "event.id.matches('(a{1000}){1000}')",
            1,
            18,
            "when compiled",
        ),
        ("event.?id", 1, 6, "unsupported syntax"),
        (
            "[1].map(a, [1].map(b, [1].map(c, a)))",
            1,
            27,
            "more than 2 comprehensions",
        ),
        ("Foo{a: 1} == 1", 1, 1, "message literals"),
        ("", 1, 1, "empty"),
        ("99999999999999999999", 1, 1, "syntax error"),
    ] {
        let error = Program::compile(source).expect_err(source);
        assert!(error.message.contains(part), "{source}: {error}");
        assert_eq!(
            (error.line, error.column),
            (line, column),
            "{source}: {error}"
        );
    }
}

#[test]
fn a07_a_key_is_text_within_the_limits() {
    let facts = facts(r#"{"n": 7, "nul": "a\u0000b", "long": "xxxxxxxxxxxxxxxx"}"#);
    let key = |source: &str| Program::compile(source).expect(source).as_key(&facts);
    assert_eq!(
        key(r#""issue/" + string(event.data.n)"#),
        Ok(Some("issue/7".to_owned()))
    );
    assert_eq!(key("event.data.missing"), Ok(None));
    let long = "event.data.long + event.data.long"
        .replace(" + event.data.long", &" + event.data.long".repeat(32));
    for source in ["event.data.n", "''", "event.data.nul", &long] {
        assert!(matches!(key(source), Err(EvalError::Type(_))), "{source}");
    }
}

/// Expressions over every operator, to compare with the `cel` crate's interpreter.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "0",
        "-1",
        "2",
        "9223372036854775807",
        "1u",
        "3u",
        "1.5",
        "0.0",
        "true",
        "false",
        "null",
        "'a'",
        "'ab'",
        "''",
        "[1, 2]",
        "[]",
        "['a', 'b']",
        "{'a': 1}",
        "b'a'",
        "event.id",
        "event.depth",
        "event.data.s",
        "event.data.f",
        "event.data.b",
        "event.data.list",
        "event.data.map",
        "event.data.map.k",
        "event.data.missing",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 24, 3, |inner| {
        let two = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||",
        ]);
        prop_oneof![
            (inner.clone(), two, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.clone().prop_map(|a| format!("size({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).contains({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}).startsWith({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (
                prop::sample::select(vec!["all", "exists", "exists_one", "filter", "map"]),
                inner.clone(),
                inner.clone()
            )
                .prop_map(|(m, a, b)| format!("({a}).{m}(v, v == {b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("[{a}, {b}]")),
        ]
    })
}

/// Expressions whose types fit, which untyped ones seldom do.
fn typed(kind: usize, depth: u32) -> BoxedStrategy<String> {
    const LEAVES: [&[&str]; 4] = [
        &["true", "false", "event.data.b", "event.data.missing == 1"],
        &[
            "0",
            "1",
            "-3",
            "7",
            "9223372036854775807",
            "event.depth",
            "1 / 0",
        ],
        &[
            "'a'",
            "'bc'",
            "''",
            "event.id",
            "event.data.s",
            "event.data.map.k",
        ],
        &["event.data.list", "['a', 'abc']", "[]"],
    ];
    let leaf = prop::sample::select(LEAVES[kind]).prop_map(str::to_owned);
    if depth == 0 {
        return leaf.boxed();
    }
    let of = |kind| typed(kind, depth - 1);
    let op = |ops: &'static [&'static str]| prop::sample::select(ops);
    let infix = |(a, op, b): (String, &str, String)| format!("({a} {op} {b})");
    let choice = (of(0), of(kind), of(kind)).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})"));
    const ORDER: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
    match kind {
        0 => prop_oneof![
            (of(0), op(&["&&", "||", "==", "!="]), of(0)).prop_map(infix),
            (of(1), op(ORDER), of(1)).prop_map(infix),
            (of(2), op(ORDER), of(2)).prop_map(infix),
            (of(3), op(&["==", "!="]), of(3)).prop_map(infix),
            (of(2), op(&["in"]), of(3)).prop_map(infix),
            (of(2), op(&["contains", "startsWith", "endsWith"]), of(2))
                .prop_map(|(a, f, b)| format!("({a}).{f}({b})")),
            (
                of(3),
                op(&["all", "exists", "exists_one"]),
                op(ORDER),
                of(2)
            )
                .prop_map(|(a, m, op, b)| format!("({a}).{m}(v, v {op} {b})")),
            of(0).prop_map(|a| format!("!{a}")),
            choice,
        ]
        .boxed(),
        1 => prop_oneof![
            (of(1), op(&["+", "-", "*", "/", "%"]), of(1)).prop_map(infix),
            of(1).prop_map(|a| format!("(-{a})")),
            of(2).prop_map(|a| format!("size({a})")),
            of(3).prop_map(|a| format!("({a}).size()")),
            choice,
        ]
        .boxed(),
        2 => prop_oneof![
            (of(2), op(&["+"]), of(2)).prop_map(infix),
            of(1).prop_map(|a| format!("string({a})")),
            (of(3), of(1)).prop_map(|(a, b)| format!("({a})[{b}]")),
            choice,
        ]
        .boxed(),
        _ => prop_oneof![
            (of(3), op(&["+"]), of(3)).prop_map(infix),
            (of(2), of(2)).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (of(3), of(2)).prop_map(|(a, b)| format!("({a}).map(v, v + {b})")),
            (of(3), of(2)).prop_map(|(a, b)| format!("({a}).filter(v, v != {b})")),
            (of(3), of(2)).prop_map(|(a, b)| format!("({a}).map(v, v > {b}, v + v)")),
            choice,
        ]
        .boxed(),
    }
}

const SHARED: &str =
    r#"{"s": "abc", "f": 2.5, "b": true, "list": ["a", "b", "c"], "map": {"k": "v"}}"#;

fn reference(source: &str) -> Result<serde_json::Value, String> {
    let program = cel::Program::compile(source).map_err(|e| e.to_string())?;
    let mut context = cel::Context::default();
    let data: serde_json::Value = serde_json::from_str(SHARED).expect("a constant");
    let event = serde_json::json!({"id": "1", "data": data});
    let mut event = cel::to_value(event).expect("plain JSON");
    if let cel::Value::Map(map) = &mut event {
        let mut inner = (*map.map).clone();
        inner.insert("depth".into(), cel::Value::Int(2));
        event = cel::Value::Map(inner.into());
    }
    context.add_variable_from_value("event", event);
    program
        .execute(&context)
        .map_err(|e| e.to_string())?
        .json()
        .map_err(|e| e.to_string())
}

fn ours(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(n) => (*n).into(),
        Value::Uint(n) => (*n).into(),
        Value::Double(x) => (*x).into(),
        Value::String(s) => s.to_string().into(),
        Value::Bytes(b) => base64_of(b).into(),
        Value::List(items) => items.iter().map(ours).collect(),
        Value::Map(map) => map
            .iter()
            .map(|(key, value)| (key_text(key), ours(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.type_name().into(),
    }
}

fn key_text(key: &super::Key) -> String {
    match key.to_value() {
        Value::String(s) => s.to_string(),
        other => format!("{other:?}"),
    }
}

/// Base64 of the only bytes the generated expressions make: runs of `a`.
fn base64_of(bytes: &[u8]) -> String {
    match bytes.len() {
        1 => "YQ==".to_owned(),
        2 => "YWE=".to_owned(),
        3 => "YWFh".to_owned(),
        _ => format!("{bytes:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn r50_evaluates_as_the_reference_interpreter_does(
        source in prop_oneof![1 => expression(), 1 => typed(0, 3), 1 => typed(2, 3), 1 => typed(3, 2)]
    ) {
        let Ok(program) = Program::compile(&source) else { return Ok(()) };
        let got = program.evaluate(&facts(SHARED));
        match (&got, reference(&source)) {
            (Ok(value), Ok(expected)) => prop_assert_eq!(ours(value), expected, "{}", source),
            (Err(_), Err(_)) => {}
            (got, expected) => prop_assert!(false, "{}: {:?} against {:?}", source, got, expected),
        }
    }

    #[test]
    fn r50_arbitrary_text_never_panics_the_compiler(source in "\\PC{0,80}") {
        let _ = Program::compile(&source);
    }

    #[test]
    fn r50_arbitrary_tokens_never_panic(parts in prop::collection::vec(prop::sample::select(vec![
        "event", ".", "data", "(", ")", "[", "]", "{", "}", "?", ":", "&&", "||", "!", "-", "+", "1", "'a'", "has", "map",
        "all", ",", "x", "in", "==", "matches", "\n", "\"", "u", "1e9",
    ]), 0..40)) {
        if let Ok(program) = Program::compile(&parts.concat()) {
            let _ = program.evaluate(&facts(SHARED));
        }
    }

    #[test]
    fn r50_arbitrary_bytes_never_panic_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json::read(&bytes);
    }

    /// Whatever is read is what the common reader reads; what is not, it also refuses or it is
    /// one of our own refusals.
    #[test]
    fn r50_the_reader_agrees_with_serde_json(text in "[\\[\\]{},:\"a1. ]{0,24}") {
        if let Ok(value) = json::read(text.as_bytes()) {
            let common: serde_json::Value = serde_json::from_str(&text).expect("also readable");
            prop_assert_eq!(ours(&value), common);
        }
    }
}
