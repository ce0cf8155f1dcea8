//! Configurations: as a document for the service, and what is effective in a scope (rules r02, a07).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::plan::{Asks, Binding, Caps, Config, Fallback, Route, Scope, Source};

/// Names of the scopes.
pub(crate) const SCOPES: [&str; 3] = ["root", "s", "t"];

/// Where scopes stand; it is the same in every generation of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tree {
    /// How many there are.
    pub(crate) scopes: usize,
    /// `t` is below `s`.
    pub(crate) deep: bool,
}

impl Tree {
    const fn parent(self, scope: usize) -> Option<usize> {
        match scope {
            0 => None,
            2 if self.deep => Some(1),
            _ => Some(0),
        }
    }

    /// From the root down to the scope.
    fn path(self, scope: usize) -> Vec<usize> {
        let mut path = vec![scope];
        while let Some(parent) = self.parent(path[0]) {
            path.insert(0, parent);
        }
        path
    }
}

/// What is effective in one scope.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effective {
    /// In order.
    pub(crate) routes: Vec<Route>,
    /// By number.
    pub(crate) bindings: BTreeMap<u8, Binding>,
    /// The rule `derived`.
    pub(crate) source: Option<Source>,
}

impl Scope {
    /// Its own routes, each slot once.
    fn own_routes(&self) -> impl Iterator<Item = &Route> {
        let mut seen = BTreeSet::new();
        self.routes.iter().filter(move |r| seen.insert(r.slot))
    }
}

impl Binding {
    /// What it claims in the document: without executor nothing.
    pub(crate) fn claimed(&self) -> Caps {
        self.executor.map_or_else(Caps::default, |_| self.claims)
    }
}

impl Config {
    /// What is effective in a scope, from the root down.
    pub(crate) fn effective(&self, tree: Tree, scope: usize) -> Effective {
        let mut found = Effective::default();
        for at in tree.path(scope) {
            let own = &self.scopes[at];
            for route in own.own_routes() {
                match found.routes.iter_mut().find(|r| r.slot == route.slot) {
                    Some(inherited) => *inherited = route.clone(),
                    None => found.routes.push(route.clone()),
                }
            }
            found.bindings.extend(own.bindings.clone());
            found.source = own.source.clone().or(found.source);
        }
        found.routes.retain(|r| !r.disabled);
        found
    }

    /// The document.
    pub(crate) fn document(&self, tree: Tree) -> String {
        let mut out = "scopes:\n".to_owned();
        for (at, scope) in self.scopes.iter().enumerate().take(tree.scopes) {
            writes(&mut out, &format!("  - name: {}", SCOPES[at]));
            if let Some(parent) = tree.parent(at) {
                writes(&mut out, &format!("    parent: {}", SCOPES[parent]));
            }
            write_scope(&mut out, scope);
        }
        out
    }
}

fn writes(out: &mut String, line: &str) {
    writeln!(out, "{line}").expect("a string takes all");
}

fn write_scope(out: &mut String, scope: &Scope) {
    if !scope.bindings.is_empty() {
        writes(out, "    bindings:");
        for (number, binding) in &scope.bindings {
            writes(out, &format!("      b{number}: {}", binding_text(binding)));
        }
    }
    if let Some(source) = &scope.source {
        let kind = source
            .kind
            .map(|k| format!(", type: {}", k.word()))
            .unwrap_or_default();
        let key = source.key.text();
        writes(out, "    sources:");
        writes(
            out,
            &format!(
                "      - {{ name: derived, match: {{ source: 'te*'{kind} }}, keys: [{{ key: '{key}' }}] }}"
            ),
        );
    }
    if !scope.routes.is_empty() {
        writes(out, "    routes:");
        for route in scope.own_routes() {
            writes(out, &format!("      - {}", route_text(route)));
        }
    }
}

fn binding_text(binding: &Binding) -> String {
    let mut fields = vec![format!("max_attempts: {}, lease: 1h", binding.max_attempts)];
    if let Some(executor) = binding.executor {
        fields.push(format!("executor: {}", executor.name()));
    }
    let claimed = binding.claimed();
    let words: Vec<&str> = [(claimed.inject, "inject"), (claimed.interrupt, "interrupt")]
        .into_iter()
        .filter_map(|(has, word)| has.then_some(word))
        .collect();
    if !words.is_empty() {
        fields.push(format!("capabilities: [{}]", words.join(", ")));
    }
    format!("{{ {} }}", fields.join(", "))
}

fn route_text(route: &Route) -> String {
    let mut fields = vec![format!("slot: r{}", route.slot)];
    fields.push(match &route.asks {
        Asks::When(cond) => format!("when: '{}'", cond.text()),
        Asks::Choosy => "handler: { rust: choosy }".to_owned(),
        Asks::Absent => "handler: { rust: absent }".to_owned(),
    });
    fields.push(format!(
        "binding: b{}, policy: {}",
        route.binding,
        route.policy.word()
    ));
    if let Some(fallback) = route.fallback {
        let word = match fallback {
            Fallback::Queue => "queue",
            Fallback::Drop => "drop",
        };
        fields.push(format!("fallback: {word}"));
    }
    if let Some(attach) = route.attach {
        fields.push(format!("attach: ['{}']", attach.text()));
    }
    if route.disabled {
        fields.push("disabled: true".to_owned());
    }
    format!("{{ {} }}", fields.join(", "))
}
