//! Inheritance and key rules.

use bytes::Bytes;

use super::{Compiled, CompiledHandler, DEMO, Document, EffectiveScope, KeyError, Policy};
use crate::cel::{EventFacts, Facts, Verdict, WorkFacts};

fn compiled(text: &str) -> Compiled {
    let document = Document::parse(text).unwrap_or_else(|p| panic!("{p:#?}"));
    Compiled::new(document).unwrap_or_else(|p| panic!("{p:#?}"))
}

fn slots(scope: &EffectiveScope) -> Vec<(&str, &str)> {
    scope
        .routes
        .iter()
        .map(|route| (route.slot.as_str(), route.defined_in.as_str()))
        .collect()
}

const TREE: &str = "
scopes:
  - name: leaf
    parent: mid
    limits: { depth: 4 }
    routes:
      - { slot: new2, when: 'true', binding: b }
      - { slot: one, when: 'true', binding: b }
  - name: root
    limits: { depth: 8, derived_per_minute: 9 }
    brake: { after_refusals_per_minute: 7 }
    bindings: { b: { executor: root }, only: { executor: root } }
    sources:
      - { name: s, match: { source: 'x/*' }, keys: [{ key: '\"root\"' }] }
      - { name: t, match: { type: 'never' }, keys: [{ key: '\"t\"' }] }
    routes:
      - { slot: one, when: 'true', binding: b }
      - { slot: two, when: 'true', binding: only }
      - { slot: three, when: 'true', policy: drop }
  - name: mid
    parent: root
    bindings: { b: { executor: mid, priority: 5 } }
    sources:
      - { name: s, match: { source: 'x/*', type: 'a.*' }, keys: [{ key: '\"mid\"' }] }
      - { name: u, match: { source: '*' }, keys: [{ key: '\"u/\" + event.data.n' }, { key: '\"mid\"' }] }
    routes:
      - { slot: new1, when: 'true', binding: b }
      - { slot: two, disabled: true }
      - { slot: three, when: 'false', binding: b, policy: queue }
  - name: other
    parent: root
";

#[test]
fn r02_a_child_slot_overrides_in_place_new_ones_follow_and_disabled_ones_leave() {
    let compiled = compiled(TREE);
    let names: Vec<_> = compiled.scopes().map(|scope| scope.name.as_str()).collect();
    assert_eq!(names, ["root", "mid", "leaf", "other"]);
    let scope = |name| compiled.scope(name).expect(name);
    assert_eq!(
        slots(scope("root")),
        [("one", "root"), ("two", "root"), ("three", "root")]
    );
    assert_eq!(
        slots(scope("mid")),
        [("one", "root"), ("three", "mid"), ("new1", "mid")]
    );
    assert_eq!(
        slots(scope("leaf")),
        [
            ("one", "leaf"),
            ("three", "mid"),
            ("new1", "mid"),
            ("new2", "leaf")
        ]
    );
    assert_eq!(slots(scope("other")), slots(scope("root")));
    assert!(compiled.scope("none").is_none());
    // Inherited routes are shared, not compiled again.
    assert!(std::sync::Arc::ptr_eq(
        &scope("root").routes[0],
        &scope("other").routes[0]
    ));
}

#[test]
fn r02_a_slot_switched_off_can_be_switched_on_again_below_in_its_position() {
    let text = "
scopes:
  - { name: a, routes: [{ slot: x, when: 'true', policy: drop }, { slot: y, when: 'true', policy: drop }] }
  - { name: b, parent: a, routes: [{ slot: x, disabled: true }] }
  - { name: c, parent: b, routes: [{ slot: x, when: 'false', policy: drop }] }
";
    let compiled = compiled(text);
    assert_eq!(slots(compiled.scope("b").expect("b")), [("y", "a")]);
    assert_eq!(
        slots(compiled.scope("c").expect("c")),
        [("x", "c"), ("y", "a")]
    );
}

#[test]
fn r02_an_inherited_route_uses_the_binding_of_the_target_scope() {
    let compiled = compiled(TREE);
    let executor = |scope: &str| {
        let scope = compiled.scope(scope).expect("a scope");
        let name = scope.routes[0].binding.as_deref().expect("it has one");
        scope.bindings[name].executor.clone()
    };
    assert_eq!(executor("root").as_deref(), Some("root"));
    assert_eq!(executor("leaf").as_deref(), Some("mid"));
    assert_eq!(
        compiled.scope("leaf").expect("leaf").bindings["only"]
            .executor
            .as_deref(),
        Some("root")
    );
}

#[test]
fn c02_limits_come_from_the_nearest_ancestor_that_sets_them() {
    let compiled = compiled(TREE);
    let limits = |scope: &str| {
        let limits = compiled.scope(scope).expect("a scope").limits;
        (limits.depth, limits.derived_per_minute)
    };
    assert_eq!(
        (limits("root"), limits("mid"), limits("leaf")),
        ((8, 9), (8, 9), (4, 9))
    );
    assert_eq!(
        compiled
            .scope("leaf")
            .expect("leaf")
            .brake
            .map(|b| b.after_refusals_per_minute),
        Some(7)
    );
    let bare = super::Compiled::new(Document::parse("scopes: [{name: r}]").expect("readable"))
        .expect("sound");
    let limits = bare.scope("r").expect("r").limits;
    assert_eq!((limits.depth, limits.derived_per_minute), (32, 128));
}

fn facts(event_type: &str, data: &str, work: bool) -> Facts {
    let event = EventFacts {
        event_type: event_type.into(),
        data: Some(Bytes::copy_from_slice(data.as_bytes())),
        ..EventFacts::default()
    };
    Facts::new(
        event,
        work.then(|| WorkFacts {
            id: "w".into(),
            ..WorkFacts::default()
        }),
    )
}

#[test]
fn a07_a_child_overrides_a_source_by_name_and_a_missing_field_yields_no_key() {
    let compiled = compiled(TREE);
    let keys = |scope: &str, source: &str, event_type: &str, data: &str| {
        compiled.scope(scope).expect("a scope").derive_keys(
            &facts(event_type, data, false),
            source,
            event_type,
        )
    };
    assert_eq!(keys("root", "x/1", "b", "{}"), Ok(vec!["root".to_owned()]));
    assert_eq!(keys("root", "y/1", "b", "{}"), Ok(vec![]));
    // `u` yields `mid` as well, and a key is derived once.
    assert_eq!(keys("leaf", "x/1", "a.b", "{}"), Ok(vec!["mid".to_owned()]));
    assert_eq!(
        keys("leaf", "x/1", "b", r#"{"n":"1"}"#),
        Ok(vec!["u/1".to_owned(), "mid".to_owned()])
    );
    assert_eq!(
        keys("leaf", "z", "b", r#"{"n":1}"#),
        Err(KeyError {
            rule: "u".into(),
            message: "keys[0].key: `+` does not take (string, int)".into()
        })
    );
    assert_eq!(
        compiled
            .scope("leaf")
            .expect("leaf")
            .resolve_source("s")
            .map(|s| s.defined_in.as_str()),
        Some("mid")
    );
    assert!(
        compiled
            .scope("root")
            .expect("root")
            .resolve_source("u")
            .is_none()
    );
}

#[test]
fn a07_the_demo_derives_the_key_of_an_issue_and_of_a_pull_request() {
    let compiled = compiled(DEMO);
    let scope = compiled.scope("github").expect("the demo has it");
    let derive = |data| {
        scope.derive_keys(
            &facts("issues.opened", data, false),
            "webhook/github/github",
            "issues.opened",
        )
    };
    let issue = r#"{"issue":{"number":7},"repository":{"full_name":"a/b"}}"#;
    let pull = r#"{"pull_request":{"number":8},"repository":{"full_name":"a/b"}}"#;
    assert_eq!(derive(issue), Ok(vec!["issue/a/b#7".to_owned()]));
    assert_eq!(derive(pull), Ok(vec!["issue/a/b#8".to_owned()]));
    assert_eq!(derive("{}"), Ok(vec![]));
    let other = scope.derive_keys(
        &facts("issues.opened", issue, false),
        "demo",
        "issues.opened",
    );
    assert_eq!(other, Ok(vec![]));
    let webhook = scope
        .resolve_source("github")
        .and_then(|s| s.webhook.as_ref())
        .expect("it is one");
    assert_eq!(webhook.secret, "main");
}

#[test]
fn r03_the_demo_routes_issues_and_pull_requests_to_triage_and_drops_bots_in_root_only() {
    let compiled = compiled(DEMO);
    let first = |scope: &str, event_type: &str, data: &str, work: bool| {
        let facts = facts(event_type, data, work);
        compiled
            .scope(scope)
            .expect("a scope")
            .routes
            .iter()
            .find_map(|route| {
                let CompiledHandler::Cel(program) = &route.handler else {
                    return None;
                };
                match program.as_match(&facts) {
                    Verdict::Match => Some((route.slot.clone(), route.policy)),
                    Verdict::Skip { .. } => None,
                    Verdict::Invalid { error } => panic!("{}: {error}", route.slot),
                }
            })
    };
    let human = r#"{"sender":{"type":"User"}}"#;
    let bot = r#"{"sender":{"type":"Bot"}}"#;
    let slot = |name: &str, policy| Some((name.to_owned(), policy));
    assert_eq!(
        first("github", "issues.opened", "{}", false),
        slot("issues", Policy::Inject)
    );
    assert_eq!(
        first("github", "issues.opened", "not json", false),
        slot("issues", Policy::Inject)
    );
    assert_eq!(
        first("github", "issues.closed", human, true),
        slot("closed", Policy::Interrupt)
    );
    assert_eq!(
        first("github", "issues.closed", human, false),
        slot("issues", Policy::Inject)
    );
    assert_eq!(
        first("github", "issue_comment.created", human, true),
        slot("comments", Policy::Queue)
    );
    assert_eq!(
        first("github", "pull_request.closed", human, false),
        slot("pulls", Policy::Queue)
    );
    assert_eq!(
        first("github", "issues.opened", bot, false),
        slot("issues", Policy::Inject)
    );
    assert_eq!(
        first("root", "issues.opened", bot, false),
        slot("bots", Policy::Drop)
    );
    assert_eq!(first("github", "push", human, false), None);
}
