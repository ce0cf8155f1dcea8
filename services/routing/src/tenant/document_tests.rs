//! Reading and checking documents.

use proptest::prelude::*;

use super::{
    Compiled, DEMO, Document, Handler, NamedHandler, Policy, Problem, Severity, binding_digest,
};

/// The document of the contract, with every field.
const FULL: &str = include_str!("../../testdata/full.yaml");

fn problems(text: &str) -> Vec<Problem> {
    match Document::parse(text) {
        Ok(document) => document.validate(),
        Err(problems) => problems,
    }
}

fn only(text: &str) -> Problem {
    let problems = problems(text);
    assert_eq!(problems.len(), 1, "{}", show(&problems));
    problems.into_iter().next().expect("just counted")
}

fn show(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|p| format!("{p} [{}]\n", p.reason))
        .collect()
}

fn root(body: &str) -> String {
    format!("scopes:\n  - name: root\n    bindings: {{ b: {{ executor: x }} }}\n{body}")
}

#[test]
fn r51_an_address_of_a_remote_handler_is_checked_with_its_place() {
    let route = |remote: &str, name: &str| {
        root(&format!(
            "    routes:\n      - {{ slot: r, binding: b, handler: {{ remote: '{remote}'{name} }} }}\n"
        ))
    };
    let found = only(&route("https://h:1", ", name: n"));
    assert_eq!(
        (found.path.as_str(), found.reason, found.line, found.column),
        (
            "scopes[0].routes[0].handler.remote",
            "address_invalid",
            5,
            51
        )
    );
    assert!(found.message.contains("`https`"), "{}", found.message);
    let found = only(&route("http://u:secret@h:1", ", name: n"));
    assert_eq!(found.reason, "address_invalid");
    assert!(!found.message.contains("secret"), "{}", found.message);
    let found = only(&route("http://h:1", ""));
    assert_eq!(
        (found.path.as_str(), found.reason),
        ("scopes[0].routes[0].handler.name", "required")
    );
    let long = "n".repeat(64);
    let found = only(&route("http://h:1", &format!(", name: {long}")));
    assert_eq!(
        (found.path.as_str(), found.reason),
        ("scopes[0].routes[0].handler.name", "name_invalid")
    );
    assert!(problems(&route("http://h:1", ", name: n")).is_empty());
}

#[test]
fn r51_an_endpoint_has_one_spelling_and_knows_its_handlers() {
    let text = root(
        "    routes:\n      - { slot: a, binding: b, handler: { remote: 'http://H:80/', name: x } }\n      - { slot: c, binding: b, handler: { remote: 'http://h', name: y } }\n      - { slot: d, disabled: true, handler: { remote: 'http://off', name: z } }\n",
    );
    let document = Document::parse(&text).unwrap_or_else(|p| panic!("{}", show(&p)));
    let compiled = Compiled::new(document).unwrap_or_else(|p| panic!("{}", show(&p)));
    let remotes: Vec<(&str, Vec<&str>)> = compiled
        .remotes()
        .iter()
        .map(|(at, names)| (at.as_str(), names.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(remotes, [("http://h:80", vec!["x", "y"])]);
}

#[test]
fn the_full_document_is_read_and_has_no_fault() {
    let document = Document::parse(FULL).unwrap_or_else(|p| panic!("{}", show(&p)));
    let problems = document.validate();
    assert!(problems.is_empty(), "{}", show(&problems));
    let root = &document.scopes[0];
    assert_eq!(
        root.bindings["triage"].concurrency.per[0].key,
        "event.subject"
    );
    assert!(matches!(
        &root.routes[3].handler,
        Some(Handler::Named(NamedHandler::Remote { .. }))
    ));
    assert_eq!(root.routes[2].policy, Policy::Inject);
    assert!(document.scopes[1].routes[0].disabled);
}

#[test]
fn a_canonical_form_reads_back_equal_and_says_equal() {
    for text in [FULL, DEMO] {
        let document = Document::parse(text).expect("readable");
        let canonical = document.to_canonical_json();
        let again =
            Document::parse(&canonical).unwrap_or_else(|p| panic!("{}\n{canonical}", show(&p)));
        assert_eq!(again, document);
        assert_eq!(again.to_canonical_json(), canonical);
        assert_eq!(again.digest(), document.digest());
    }
    assert_ne!(
        Document::parse(FULL).map(|d| d.digest()),
        Document::parse(DEMO).map(|d| d.digest())
    );
}

#[test]
fn json_and_yaml_are_one_language() {
    let yaml =
        "scopes:\n- name: root\n  bindings:\n    b: {executor: \"é😀/\\\"\", priority: -3}\n";
    let json = "{\n\t\"scopes\": [\n\t\t{\"name\": \"root\",\r\n \"bindings\": {\"b\": {\"executor\":\"\\u00e9\\ud83d\\ude00\\/\\\"\",\"priority\":-3}}}]}";
    assert_eq!(
        Document::parse(json).map_err(|p| show(&p)),
        Document::parse(yaml).map_err(|p| show(&p))
    );
}

#[test]
fn an_unknown_field_is_refused_with_line_column_and_path() {
    let text = root(
        "    routes:\n      - slot: a\n        when: 'true'\n        bindign: b\n        policy: drop\n",
    );
    let problem = only(&text);
    assert_eq!((problem.line, problem.column), (7, 9));
    assert_eq!(
        (problem.path.as_str(), problem.reason),
        ("scopes[0].routes[0].bindign", "unknown_field")
    );
    assert!(
        problem.message.contains("slot, when, handler, binding"),
        "{problem}"
    );
    assert_eq!(problem.severity, Severity::Error);
    for (text, path) in [
        ("scopes: []\nscope: 1", "scope"),
        (
            "scopes: [{name: root, limits: {dept: 1}}]",
            "scopes[0].limits.dept",
        ),
        (
            "{\"scopes\": [{\"name\": \"root\", \"bindings\": {\"b\": {\"lese\": \"1s\"}}}]}",
            "scopes[0].bindings.b.lese",
        ),
    ] {
        let found = problems(text);
        assert!(
            found
                .iter()
                .any(|p| p.path == path && p.reason == "unknown_field"),
            "{}",
            show(&found)
        );
    }
}

#[test]
fn every_problem_is_reported_at_its_place() {
    let text = "scopes:\n  - name: root\n    limits: { depth: 2000 }\n    bindings:\n      b: { lease: 0s, max_attempts: x, capabilities: [fly] }\n    routes:\n      - { when: 'true', policy: ask, timeout: 5 }\n";
    let found = problems(text);
    let mut paths: Vec<_> = found.iter().map(|p| (p.path.as_str(), p.line)).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            ("scopes[0].bindings.b.capabilities[0]", 5),
            ("scopes[0].bindings.b.lease", 5),
            ("scopes[0].bindings.b.max_attempts", 5),
            ("scopes[0].limits.depth", 3),
            ("scopes[0].routes[0].policy", 7),
            ("scopes[0].routes[0].slot", 7),
            ("scopes[0].routes[0].timeout", 7),
        ],
        "{}",
        show(&found)
    );
}

#[test]
fn r50_an_expression_that_does_not_compile_is_refused_where_it_stands() {
    let problem = only(&root(
        "    routes:\n      - { slot: a, when: 'evnt.type == 1', policy: drop }\n",
    ));
    assert_eq!(
        (problem.line, problem.path.as_str(), problem.reason),
        (5, "scopes[0].routes[0].when", "cel_invalid")
    );
    assert!(
        problem.message.starts_with("there is no `evnt`"),
        "{problem}"
    );
    assert!(
        problem
            .message
            .ends_with("(line 1, column 1 of the expression)"),
        "{problem}"
    );
    let long = format!("1{}", "+1".repeat(20_000));
    let problem = only(&root(&format!(
        "    routes: [{{ slot: a, when: '{long}', policy: drop }}]\n"
    )));
    assert!(
        problem.message.contains("40001 bytes, the limit is 1024"),
        "{problem}"
    );
    for place in [
        "    routes: [{ slot: a, when: 'true', binding: b, attach: ['1 +'] }]\n",
        "    sources: [{ name: s, match: { type: '*' }, keys: [{ key: '1 +' }] }]\n",
        "    sources: [{ name: s, match: { type: '*' }, keys: [{ when: '1 +', key: 'event.id' }] }]\n",
    ] {
        assert_eq!(only(&root(place)).reason, "cel_invalid", "{place}");
    }
}

#[test]
fn texts_that_are_no_document_are_refused() {
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x]\n{}scopes: []\n",
        ('b'..='j').fold(("".to_owned(), 'a'), |(text, last), next| {
            (format!("{text}{next}: &{next} [*{last},*{last},*{last},*{last},*{last},*{last},*{last},*{last},*{last}]\n"), next)
        }).0
    );
    let deep = format!("scopes: {}", "[".repeat(100_000));
    let big = format!("# {}", "x".repeat(1 << 20));
    for text in [
        "",
        "x",
        "- 1",
        "scopes: 1",
        "a: [",
        "scopes: []\nscopes: []",
        &bomb,
        &deep,
        &big,
        "scopes: []\n---\nscopes: []",
    ] {
        let found = problems(text);
        assert!(found.iter().any(Problem::is_error), "{text:.30}");
    }
    let twice = only("scopes:\n  - name: root\n    name: other\n");
    assert_eq!((twice.line, twice.reason), (3, "not_readable"), "{twice}");
}

#[test]
fn the_tree_has_one_root_and_no_cycle() {
    for (text, part) in [
        ("scopes: []", "exactly one scope has no `parent`"),
        (
            "scopes: [{name: a}, {name: b}]",
            "only one scope may be without `parent`",
        ),
        (
            "scopes: [{name: a}, {name: b, parent: c}]",
            "there is no scope `c`",
        ),
        (
            "scopes: [{name: r}, {name: a, parent: b}, {name: b, parent: a}]",
            "its own ancestor",
        ),
        (
            "scopes: [{name: r}, {name: a, parent: a}]",
            "its own ancestor",
        ),
        ("scopes: [{name: r}, {name: r, parent: r}]", "defined twice"),
        ("scopes: [{name: R}]", "a name is 1 to 63"),
        (
            "scopes: [{name: r, sources: [{name: s, match: {type: x}}, {name: s, match: {type: x}}]}]",
            "source `s` is defined twice",
        ),
        (
            "scopes: [{name: r, routes: [{slot: s, when: 'true', policy: drop}, {slot: s, when: 'true', policy: drop}]}]",
            "slot `s`",
        ),
        (
            "scopes: [{name: r, routes: [{slot: s, policy: drop}]}]",
            "needs `when` or `handler`",
        ),
        (
            "scopes: [{name: r, routes: [{slot: s, when: 'true'}]}]",
            "needs a `binding`",
        ),
        ("scopes: [{name: r, sources: [{name: s}]}]", "needs a glob"),
    ] {
        let found = problems(text);
        assert!(
            found
                .iter()
                .any(|p| p.is_error() && p.message.contains(part)),
            "{text}: {}",
            show(&found)
        );
    }
    let chain: String = (1..=33)
        .map(|n| format!("- {{name: s{n}, parent: s{}}}\n", n - 1))
        .collect();
    assert!(
        problems(&format!("scopes:\n- name: s0\n{chain}"))
            .iter()
            .any(Problem::is_error)
    );
}

#[test]
fn r11_a_binding_without_executor_claims_no_capabilities() {
    let problem = only("scopes: [{name: r, bindings: {b: {capabilities: [inject]}}}]");
    assert_eq!(
        (problem.path.as_str(), problem.reason),
        ("scopes[0].bindings.b.capabilities", "capability_unproved")
    );
    assert_eq!(problems("scopes: [{name: r, bindings: {b: {}}}]"), []);
}

#[test]
fn r26_a_binding_that_a_scope_lacks_is_a_warning_with_the_slot() {
    let problem = only(&root(
        "    routes: [{ slot: lost, when: 'true', binding: gone }]\n",
    ));
    assert_eq!(
        (problem.severity, problem.reason),
        (Severity::Warning, "binding_invalid")
    );
    assert!(
        problem
            .message
            .contains("slot `lost`: there is no binding `gone` in scope `root`"),
        "{problem}"
    );
    let problem = only(&root(
        "    routes: [{ slot: s, when: 'true', binding: b, policy: inject }]\n",
    ));
    assert_eq!(
        (problem.severity, problem.reason),
        (Severity::Warning, "policy_invalid")
    );
    assert_eq!(
        problems(&root(
            "    routes: [{ slot: s, when: 'true', policy: drop }]\n"
        )),
        []
    );
}

#[test]
fn r02_switching_off_what_is_not_inherited_is_a_warning() {
    let problem = only(&root("    routes: [{ slot: s, disabled: true }]\n"));
    assert_eq!(
        (problem.severity, problem.path.as_str()),
        (Severity::Warning, "scopes[0].routes[0].disabled")
    );
}

#[test]
fn counts_are_bounded() {
    let routes: String = (0..2_001)
        .map(|n| format!("{{slot: s{n}, when: 'true', policy: drop}},"))
        .collect();
    assert_eq!(
        only(&root(&format!("    routes: [{routes}]\n"))).reason,
        "too_many"
    );
    let scopes: String = (1..=1_000)
        .map(|n| format!("- {{name: s{n}, parent: root}}\n"))
        .collect();
    assert_eq!(
        only(&format!("scopes:\n- name: root\n{scopes}")).reason,
        "too_many"
    );
    let routes: String = (0..500)
        .map(|n| format!("{{slot: s{n}, when: 'true', policy: drop}},"))
        .collect();
    let scopes: String = (1..=900)
        .map(|n| format!("- {{name: s{n}, parent: root}}\n"))
        .collect();
    let problem = only(&format!(
        "scopes:\n- name: root\n  routes: [{routes}]\n{scopes}"
    ));
    assert!(
        problem.message.contains("the effective scopes have"),
        "{problem}"
    );
    let wrong: String = (0..500)
        .map(|n| format!("{{slot: S{n}, when: 'true', policy: drop}},"))
        .collect();
    let found = problems(&root(&format!("    routes: [{wrong}]\n")));
    assert_eq!(found.len(), super::MAX_PROBLEMS + 1);
    assert_eq!(
        found[super::MAX_PROBLEMS].message,
        "300 more are not listed"
    );
}

#[test]
fn l01_a_binding_digest_depends_on_executor_revision_and_settings() {
    let document = Document::parse(FULL).expect("readable");
    let binding = &document.scopes[0].bindings["triage"];
    let digest = binding_digest(Some("command"), 1, binding);
    assert_eq!(digest, binding_digest(Some("command"), 1, &binding.clone()));
    let mut other = binding.clone();
    other.priority += 1;
    for different in [
        binding_digest(Some("command"), 2, binding),
        binding_digest(Some("other"), 1, binding),
        binding_digest(None, 1, binding),
        binding_digest(Some("command"), 1, &other),
    ] {
        assert_ne!(digest, different);
    }
}

#[test]
fn the_demo_has_no_problems() {
    assert_eq!(problems(DEMO), []);
    assert!(Compiled::new(Document::parse(DEMO).expect("readable")).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = problems(&text);
    }

    #[test]
    fn arbitrary_tokens_never_panic(parts in prop::collection::vec(prop::sample::select(vec![
        "scopes:", "\n", "  ", "- ", "name:", " root", "routes:", "[", "]", "{", "}", ",", "slot: a", "when: 'true'", "&a", "*a",
        "<<:", "!!str", "\t", "\"", "|", ">", "? ", "#", "null", "1", "bindings:", "b:", "---", "\u{feff}", "%YAML 1.2",
    ]), 0..40)) {
        let _ = problems(&parts.concat());
    }
}
