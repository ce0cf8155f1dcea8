//! What documents are warned of.

mod emits;
mod random;

use super::super::{Document, Problem, programs::Programs, resolve};
use super::findings::MAX_WARNINGS;

/// All that is warned of, as "line reason: message".
fn warned(text: &str) -> Vec<String> {
    let problems = problems(text);
    assert!(
        !problems.iter().any(Problem::is_error),
        "{problems:#?}\n{text}"
    );
    problems
        .iter()
        .map(|p| format!("{} {}: {}", p.line, p.reason, p.message))
        .collect()
}

fn problems(text: &str) -> Vec<Problem> {
    match Document::parse(text) {
        Ok(document) => document.validate(),
        Err(problems) => problems,
    }
}

fn only(text: &str) -> String {
    let mut all = warned(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

/// One scope whose routes start at line 5, one a line.
fn routes(lines: &[&str]) -> String {
    let lines: String = lines
        .iter()
        .map(|line| format!("      - {{ {line} }}\n"))
        .collect();
    format!(
        "scopes:\n  - name: root\n    bindings: {{ b: {{ executor: x, capabilities: [inject, interrupt] }} }}\n    routes:\n{lines}"
    )
}

#[test]
fn r02_a_route_behind_a_catch_all_is_never_reached() {
    let text = routes(&[
        "slot: first, when: 'event.type == \"a\"', binding: b",
        "slot: all, when: 'true || event.data.x', binding: b",
        "slot: lost, when: 'event.type == \"c\" && event.data.x', binding: b",
        "slot: also, handler: { remote: 'http://h:1', name: n }, binding: b",
    ]);
    assert_eq!(
        warned(&text),
        [
            "7 route_unreachable: slot `lost` is never reached: slot `all` before it takes every event in scope `root`",
            "8 route_unreachable: slot `also` is never reached: slot `all` before it takes every event in scope `root`",
        ]
    );
    let first = &problems(&text)[0];
    assert_eq!(first.path, "scopes[0].routes[2].slot");
    assert!(first.column > 1, "{first}");
}

#[test]
fn r02_a_route_behind_what_takes_all_it_could_take_is_never_reached() {
    for (earlier, later) in [
        ("event.data.a && has(work.id)", "has(work.id)&&event.data.a"),
        ("event.data.n > 1", "1 < event.data.n"),
        ("event.data.a", "event.data.b && event.data.a"),
        ("event.data.a || event.data.b", "event.data.b"),
        (
            "event.type.startsWith(\"i.\")",
            "event.type == \"i.x\" && has(work.id)",
        ),
        (
            "event.type.startsWith(\"i.\") && has(work.id)",
            "has(work.id) && event.type in [\"i.x\", \"i.y\"]",
        ),
        (
            "event.type.endsWith(\".x\")",
            "event.type.startsWith(\"a\") && event.type.endsWith(\".x\")",
        ),
    ] {
        let text = routes(&[
            &format!("slot: one, when: '{earlier}', binding: b"),
            &format!("slot: two, when: '{later}', binding: b, policy: inject"),
        ]);
        assert_eq!(
            only(&text),
            "6 route_unreachable: slot `two` never matches: slot `one` before it takes all that it could take in scope `root`",
            "{earlier} | {later}"
        );
        if earlier.len() != later.len() {
            let text = routes(&[
                &format!("slot: two, when: '{later}', binding: b"),
                &format!("slot: one, when: '{earlier}', binding: b"),
            ]);
            let equal = ["event.data.n > 1", "event.data.a && has(work.id)"].contains(&earlier);
            assert_eq!(
                warned(&text).len(),
                usize::from(equal),
                "{earlier} | {later}"
            );
        }
    }
    // Several together; and a handler decides the same twice.
    let text = routes(&[
        "slot: a, when: 'event.type == \"a\"', binding: b",
        "slot: b, when: 'event.type == \"b\"', policy: drop",
        "slot: ab, when: 'event.type in [\"b\", \"a\"] && event.data.x', binding: b",
        "slot: h, handler: { remote: 'http://h:1', name: n }, binding: b",
        "slot: i, handler: { remote: 'http://h:1', name: other }, binding: b",
        "slot: j, handler: { remote: 'http://h:1', name: n }, binding: b, policy: inject",
    ]);
    assert_eq!(
        warned(&text),
        [
            "7 route_unreachable: slot `ab` never matches: slots `a`, `b` before it take all that it could take in scope `root`",
            "10 route_unreachable: slot `j` never matches: slot `h` before it takes all that it could take in scope `root`",
        ]
    );
}

#[test]
fn r28_a_route_that_avoids_its_own_events_leaves_them_to_later_ones() {
    let pair = |first: &str, second: &str| {
        routes(&[
            &format!("slot: one, when: 'event.data.x', binding: b, self: {first}"),
            &format!("slot: two, when: 'event.data.x', binding: b, self: {second}"),
        ])
    };
    assert_eq!(warned(&pair("avoid", "allow")), [""; 0]);
    for (first, second) in [("avoid", "avoid"), ("allow", "avoid"), ("allow", "allow")] {
        assert!(only(&pair(first, second)).contains("slot `two` never matches"));
    }
    let text = routes(&[
        "slot: own, when: 'event.type == \"a\"', binding: b, self: avoid",
        "slot: all, when: 'event.type == \"b\"', binding: b",
        "slot: rest, when: 'event.type in [\"a\", \"b\"]', binding: b, self: avoid",
    ]);
    assert!(only(&text).contains("slots `own`, `all` before it"));
}

#[test]
fn r02_conditions_that_never_hold_or_are_no_condition_are_told() {
    let text = routes(&[
        "slot: off, when: 'false && event.data.x', binding: b",
        "slot: two-types, when: 'event.type == \"a\" && event.type == \"b\"', binding: b",
        "slot: core, when: 'event.type.startsWith(\"core.wait.\")', binding: b",
        "slot: text, when: '\"yes\"', binding: b",
        "slot: behind, when: 'event.data.x', binding: b",
        "slot: disabled, when: 'false', binding: b, disabled: true",
    ]);
    assert_eq!(
        warned(&text)[..5],
        [
            "5 condition_false: slot `off` takes no event: its condition never holds, in scope `root`",
            "6 condition_false: slot `two-types` takes no event: its condition never holds, in scope `root`",
            "7 condition_false: slot `core` takes no event: its condition asks for types `core.*`, which routes are never asked about, in scope `root`",
            "8 condition_invalid: slot `text` fails every event that comes to it with `handler_invalid`: its condition is no bool, in scope `root`",
            "9 route_unreachable: slot `behind` is never reached: slot `text` before it takes every event in scope `root`",
        ]
    );
    assert_eq!(problems(&text)[0].path, "scopes[0].routes[0].when");
}

#[test]
fn r02_one_warning_names_the_scopes_where_an_inherited_route_is_unreachable() {
    let mut text = "scopes:\n  - name: root\n    bindings: { b: { executor: x } }\n    routes:\n      - { slot: gate, when: 'event.data.x', binding: b }\n      - { slot: rest, when: 'event.type == \"a\"', binding: b }\n".to_owned();
    for leaf in 0..900 {
        text.push_str(&format!(
            "  - {{ name: l{leaf}, parent: root, routes: [{{ slot: gate, when: 'true', binding: b }}] }}\n"
        ));
    }
    text.push_str("  - { name: fine, parent: root }\n");
    text.push_str("  - { name: again, parent: l7, routes: [{ slot: gate, disabled: true }] }\n");
    assert_eq!(
        only(&text),
        "6 route_unreachable: slot `rest` is never reached: slot `gate` before it takes every event in scopes `l0`, `l1`, `l2`, `l3`, `l4` and 895 more"
    );
}

#[test]
fn r26_a_policy_is_checked_against_the_binding_of_the_target_scope() {
    let text = "
scopes:
  - name: root
    bindings: { b: { executor: x, capabilities: [inject] } }
    routes:
      - { slot: s, when: 'event.type == \"s\"', binding: b, policy: inject }
      - { slot: t, when: 'event.type == \"t\"', binding: b, policy: interrupt, fallback: drop }
      - { slot: u, when: 'event.type == \"u\"', binding: late }
  - { name: fine, parent: root, bindings: { late: {} } }
  - { name: quiet, parent: root, bindings: { b: { executor: x }, late: {} } }
  - { name: queue, parent: root, bindings: { b: {}, late: {} } }
";
    assert_eq!(
        warned(text),
        [
            "6 binding_invalid: slot `s` can never apply `inject`: binding `b` has no executor in scope `queue`, and there is no fallback: events for a running attempt fail `binding_invalid`",
            "6 policy_invalid: slot `s` can never apply `inject`: binding `b` does not claim it in scope `quiet`, and there is no fallback: events for a running attempt fail `policy_invalid`",
            "7 fallback_always: slot `t` can never apply `interrupt`: binding `b` does not claim it in scopes `root`, `fine`, `quiet`; events for a running attempt always fall back to `drop`",
            "7 fallback_always: slot `t` can never apply `interrupt`: binding `b` has no executor in scope `queue`; events for a running attempt always fall back to `drop`",
            "8 binding_invalid: slot `u`: there is no binding `late` in scope `root`: events matched there fail `binding_invalid`",
        ]
    );
}

#[test]
fn r50_names_that_cel_does_not_know_are_errors_wherever_an_expression_stands() {
    for place in [
        "    routes: [{ slot: a, when: 'evnt.type == \"a\"', binding: b }]\n",
        "    routes: [{ slot: a, when: 'event.data.x', binding: b, attach: ['evnt.id'] }]\n",
        "    sources: [{ name: s, match: { type: '*' }, keys: [{ key: 'evnt.id' }] }]\n",
        "    sources: [{ name: s, match: { type: '*' }, keys: [{ when: 'evnt.data.x', key: 'event.id' }] }]\n",
        "    bindings: { c: { concurrency: { per: [{ key: 'evnt.subject', max: 1 }] } } }\n",
    ] {
        let bindings = if place.contains("bindings:") {
            ""
        } else {
            "    bindings: { b: { executor: x } }\n"
        };
        let found = problems(&format!("scopes:\n  - name: root\n{bindings}{place}"));
        let [problem] = found.as_slice() else {
            panic!("{found:#?}")
        };
        assert!(problem.is_error(), "{problem}");
        assert_eq!(problem.reason, "cel_invalid");
        let line = if bindings.is_empty() { 3 } else { 4 };
        assert_eq!(problem.line, line, "{problem}");
        assert!(problem.column > 5, "{problem}");
        assert!(
            problem.message.contains(
                "there is no `evnt`; there are `event`, `work` (line 1, column 1 of the expression)"
            ),
            "{problem}"
        );
    }
}

#[test]
fn a07_work_in_a_key_rule_and_fields_that_nothing_has_are_told() {
    let text = "
scopes:
  - name: root
    bindings:
      b: { executor: x, concurrency: { per: [{ key: 'event.Subject', max: 1 }] } }
    sources:
      - name: s
        match: { type: '*' }
        keys:
          - { when: 'has(work.id)', key: 'event.subject' }
          - { key: 'event.data.x + work.id' }
          - { key: 'event.keys.map(work, work)[0]' }
          - { key: 'event.event_type' }
    routes:
      - { slot: a, when: 'work.stat == \"ready\" && has(work.id)', binding: b, attach: ['work.key'] }
";
    let found = problems(text);
    let places: Vec<(u32, &str, &str)> = found
        .iter()
        .map(|p| (p.line, p.reason, p.path.as_str()))
        .collect();
    assert_eq!(
        places,
        [
            (
                5,
                "field_unknown",
                "scopes[0].bindings.b.concurrency.per[0].key"
            ),
            (10, "work_unavailable", "scopes[0].sources[0].keys[0].when"),
            (11, "work_unavailable", "scopes[0].sources[0].keys[1].key"),
            (13, "field_unknown", "scopes[0].sources[0].keys[3].key"),
            (15, "field_unknown", "scopes[0].routes[0].when"),
            (15, "field_unknown", "scopes[0].routes[0].attach[0]"),
        ]
    );
    assert_eq!(
        found[0].message,
        "binding `b` of scope `root`: there is never a `event.Subject`"
    );
    assert_eq!(
        found[4].message,
        "slot `a` of scope `root`: there is never a `work.stat`"
    );
    assert!(
        found[1]
            .message
            .starts_with("source `s` of scope `root`: key rules see no `work`")
    );
}

#[test]
fn warnings_are_bounded_and_the_rest_is_counted() {
    let lines: Vec<String> = (0..150)
        .map(|n| format!("slot: s{n}, when: 'true', binding: b"))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let found = problems(&routes(&lines));
    assert_eq!(found.len(), MAX_WARNINGS + 1);
    let last = &found[MAX_WARNINGS];
    assert_eq!(
        (last.reason, last.message.as_str()),
        ("more_problems", "49 more are not listed")
    );
}

/// Nearly as many effective entries as a document may have, no two scopes alike.
fn large() -> String {
    let mut text = "scopes:\n- name: root\n  bindings:\n".to_owned();
    for n in 0..10 {
        text.push_str(&format!(
            "    b{n}: {{ executor: x, emits: ['t{n}.*', 'u{n}'] }}\n"
        ));
    }
    text.push_str("  routes:\n");
    for n in 0..390 {
        text.push_str(&format!(
            "  - {{ slot: s{n}, when: 'has(work.id) && event.type == \"k{n}\"', binding: b{} }}\n",
            n % 10
        ));
    }
    for leaf in 0..490 {
        text.push_str(&format!(
            "- {{ name: l{leaf}, parent: root, routes: [{{ slot: s{}, when: 'event.type == \"k0\"', binding: b1 }}] }}\n",
            leaf % 390
        ));
    }
    text
}

#[test]
fn a_document_of_the_largest_size_is_looked_at_to_the_end() {
    let found = problems(&large());
    let incomplete = found
        .iter()
        .any(|p| p.reason == "analysis_incomplete" || p.is_error());
    assert!(!incomplete, "{found:#?}");
}

#[test]
fn what_takes_too_long_is_given_up_and_that_is_said() {
    let text = routes(&[
        "slot: a, when: 'true', binding: b",
        "slot: c, when: 'true', binding: b",
    ]);
    let document = Document::parse(&text).expect("readable");
    let resolved = resolve::resolve(&document.scopes);
    let bounded =
        |steps| super::bounded(&document, &mut Programs::default(), &resolved, steps).listed;
    assert_eq!(bounded(1)[0].reason, "analysis_incomplete");
    assert_eq!(bounded(1_000)[0].reason, "route_unreachable");
}
