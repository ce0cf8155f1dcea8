//! What bindings declare to emit, against routes and limits.

use super::{only, problems, warned};

/// Bindings `a`, `b`, `c` with `emits` on lines 4 to 6; routes from line 8.
fn emitting(emits: [&str; 3], lines: &[&str]) -> String {
    let mut text = "scopes:\n  - name: root\n    bindings:\n".to_owned();
    for (name, emits) in ["a", "b", "c"].iter().zip(emits) {
        text.push_str(&format!(
            "      {name}: {{ executor: x, emits: [{emits}] }}\n"
        ));
    }
    text.push_str("    routes:\n");
    for line in lines {
        text.push_str(&format!("      - {{ {line} }}\n"));
    }
    text
}

#[test]
fn c02_bindings_that_lead_to_each_other_are_told_with_the_way() {
    let text = emitting(
        ["'b.done', 'b.*'", "'c.x'", "'a.*'"],
        &[
            "slot: to-b, when: 'event.type.startsWith(\"b.\") && event.data.x', binding: b",
            "slot: to-c, when: 'event.type in [\"c.x\", \"c.y\"]', binding: c, self: avoid",
            "slot: to-a, when: 'event.type == \"a.go\"', binding: a",
        ],
    );
    assert_eq!(
        only(&text),
        "5 emit_cycle: events can go round for ever: `b` -(`c.x`)-> slot `to-c` -> `c` -(`a.*`)-> slot `to-a` -> `a` -(`b.done`)-> slot `to-b` -> `b` in scope `root`; `self: avoid` does not end it, as another Work emitted; only the causal limits stop it, at depth 32 and after 128 derived events of a root and minute"
    );
    assert_eq!(problems(&text)[0].path, "scopes[0].bindings.b.emits[0]");
}

#[test]
fn r28_a_loop_of_one_binding_on_itself_ends_at_self_avoid() {
    let own = |policy: &str| {
        emitting(
            ["'a.*'", "", ""],
            &[&format!(
                "slot: s, when: 'event.type == \"a.x\"', binding: a, self: {policy}"
            )],
        )
    };
    assert_eq!(warned(&own("avoid")), [""; 0]);
    assert_eq!(
        only(&own("allow")),
        "4 emit_cycle: events can go round for ever: `a` -(`a.*`)-> slot `s` -> `a` in scope `root`; `self: avoid` on slot `s` would decline what its own Work emitted; only the causal limits stop it, at depth 32 and after 128 derived events of a root and minute"
    );
}

#[test]
fn c02_only_routes_that_are_known_to_take_a_declared_type_make_a_cycle() {
    let cycle = |emits: &str, lines: &[&str]| {
        let found = warned(&emitting([emits, "", ""], lines));
        found.iter().any(|w| w.contains("emit_cycle"))
    };
    let takes_data = "slot: s, when: 'event.data.x', binding: a";
    assert!(!cycle("'a.*'", &[takes_data]), "asks nothing of the type");
    assert!(!cycle(
        "'a.*'",
        &["slot: s, when: 'event.type.matches(\"^a\")', binding: a"]
    ));
    assert!(!cycle(
        "'a.*'",
        &["slot: s, handler: { remote: 'http://h:1', name: n }, binding: a"]
    ));
    assert!(cycle("'a.*'", &["slot: s, when: 'true', binding: a"]));
    assert!(cycle(
        "'*.done'",
        &["slot: s, when: 'event.type.startsWith(\"x\")', binding: a"]
    ));
    assert!(cycle(
        "'a?c'",
        &["slot: s, when: 'event.type == \"abc\"', binding: a"]
    ));
    assert!(!cycle(
        "'a?c'",
        &["slot: s, when: 'event.type.startsWith(\"ad\")', binding: a, self: avoid"]
    ));
    assert!(!cycle(
        "'b.*'",
        &["slot: s, when: 'event.type.startsWith(\"a.\")', binding: a"]
    ));
    assert!(
        !cycle("", &["slot: s, when: 'true', binding: a"]),
        "declares nothing"
    );
    // The first match wins: what is surely taken before does not come here.
    let drop = "slot: d, when: 'event.type.startsWith(\"a\")', policy: drop";
    let all = "slot: s, when: 'true', binding: a";
    assert!(!cycle("'a.*'", &[drop, all]));
    assert!(cycle(
        "'a.*'",
        &[
            "slot: d, when: 'event.type.startsWith(\"a\") && event.data.x', policy: drop",
            all
        ]
    ));
    assert!(cycle("'*'", &[drop, all]));
    assert!(cycle(
        "'a.*'",
        &[
            takes_data,
            "slot: z, when: 'event.type == \"a.z\"', binding: a"
        ]
    ));
    // What no executor runs emits nothing.
    let text = "scopes: [{ name: r, bindings: { a: { emits: ['a'] } }, routes: [{ slot: s, when: 'true', binding: a }] }]";
    assert_eq!(warned(text), [""; 0]);
}

#[test]
fn c02_a_cycle_is_told_once_with_the_limits_of_its_scopes() {
    let mut text = emitting(
        ["'a.*'", "", ""],
        &["slot: s, when: 'event.type == \"a.x\"', binding: a"],
    );
    for (leaf, depth) in [("l1", 3), ("l2", 7), ("l3", 40)] {
        text.push_str(&format!(
            "  - {{ name: {leaf}, parent: root, limits: {{ depth: {depth}, derived_per_minute: {depth} }} }}\n"
        ));
    }
    let told = only(&text);
    assert!(
        told.contains("in scopes `root`, `l1`, `l2`, `l3`; "),
        "{told}"
    );
    assert!(
        told.ends_with("at depth 3 to 40 and after 3 to 128 derived events of a root and minute"),
        "{told}"
    );
    // A component of many bindings is one warning.
    let all: String = (0..20)
        .map(|n| format!("      b{n}: {{ executor: x, emits: ['t.*'] }}\n"))
        .collect();
    let routes: String = (0..20)
        .map(|n| {
            format!("      - {{ slot: s{n}, when: 'event.type == \"t.{n}\"', binding: b{n} }}\n")
        })
        .collect();
    let told = only(&format!(
        "scopes:\n  - name: root\n    bindings:\n{all}    routes:\n{routes}"
    ));
    assert!(told.contains("`b0` -(`t.*`)-> slot `s1` -> `b1` -(`t.*`)-> slot `s0` -> `b0`, and 18 more bindings take part in scope"), "{told}");
}

#[test]
fn c02_a_chain_that_is_deeper_than_the_limit_is_told_where_it_is() {
    let mut text = emitting(
        ["'b'", "'c'", "'end'"],
        &[
            "slot: to-a, when: 'event.type == \"a\"', binding: a",
            "slot: to-b, when: 'event.type == \"b\"', binding: b",
            "slot: to-c, when: 'event.type == \"c\"', binding: c",
        ],
    );
    assert_eq!(warned(&text), [""; 0]);
    text.push_str("  - { name: low, parent: root, limits: { depth: 2 } }\n");
    text.push_str("  - { name: just, parent: root, limits: { depth: 3 } }\n");
    assert_eq!(
        only(&text),
        "4 emit_depth: events are derived 3 deep: `a` -(`b`)-> slot `to-b` -> `b` -(`c`)-> slot `to-c` -> `c` -(`end`) in scope `low`; the limit is depth 2, deeper ones are refused"
    );
}

#[test]
fn c02_more_events_than_a_root_may_have_in_a_minute_are_told() {
    let many: Vec<String> = (0..12).map(|n| format!("'t{n}'")).collect();
    let text = emitting(
        [&many.join(", "), "'x', 'y'", ""],
        &[
            "slot: in, when: 'event.type == \"in\"', binding: a",
            "slot: t, when: 'event.type.startsWith(\"t\")', binding: b",
        ],
    );
    // 12 of the first, and for each of them two of the second.
    let text = text.replace(
        "- name: root",
        "- name: root\n    limits: { derived_per_minute: 35 }",
    );
    assert_eq!(
        only(&text),
        "5 emit_fan_out: an attempt of `a` can lead to 36 derived events, when each attempt emits one of every declared type, in scope `root`; the limit is 35 of a root and minute, more are refused"
    );
    assert_eq!(warned(&text.replace("35", "36")), [""; 0]);
}
