//! What a document means: names, the tree, expressions, and fields that must fit each other.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    address, analysis,
    model::{Binding, Document, Handler, NamedHandler, Policy, Route, Scope, Source},
    problem::{Problem, Report, Severity},
    programs::Programs,
    resolve::{self, Resolved},
};

/// Longest name of a scope, slot, binding, source or secret, in bytes.
pub const MAX_NAME: usize = 63;
/// Deepest scope, with the root at 1.
pub const MAX_TREE_DEPTH: usize = 32;
/// Most entries of all effective scopes together (routes, bindings and sources, inherited ones
/// counted in every scope), which bounds what a compiled generation holds in memory.
pub const MAX_EFFECTIVE: usize = 200_000;

/// Checks the written rule for names: 1 to 63 characters `a`-`z`, `0`-`9`, `.`, `_` and `-`, of
/// which the first is a letter or digit. Names are compared byte for byte.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().next().is_some_and(inner)
        && text
            .bytes()
            .all(|b| inner(b) || matches!(b, b'.' | b'_' | b'-'))
}

impl Document {
    /// Checks what the document means, and reports everything it finds: errors refuse the
    /// document, warnings do not. An empty list means that nothing is wrong.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        run(self, &mut Programs::default(), true)
    }
}

/// Checks a document for errors, without what [`analysis`] warns of; the expressions it compiles
/// stay in `programs`.
pub(super) fn check(document: &Document, programs: &mut Programs) -> Vec<Problem> {
    run(document, programs, false)
}

fn run(document: &Document, programs: &mut Programs, analyse: bool) -> Vec<Problem> {
    let mut check = Check {
        document,
        programs,
        report: Report::default(),
        analyse,
    };
    check.tree();
    for (at, scope) in document.scopes.iter().enumerate() {
        check.scope(scope, &format!("scopes[{at}]"));
    }
    // Only a sound tree has effective scopes to ask about.
    if !check.report.has_errors() {
        check.effective();
    }
    check.report.finish()
}

struct Check<'a> {
    document: &'a Document,
    programs: &'a mut Programs,
    report: Report,
    analyse: bool,
}

impl Check<'_> {
    fn push(
        &mut self,
        severity: Severity,
        path: &str,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        // A field that was not written has the place of what it would be in.
        let places = &self.document.places;
        let mut at = path;
        let (line, column) = loop {
            if let Some(place) = places.get(at) {
                break *place;
            }
            match at.rfind(['.', '[']) {
                Some(end) => at = &at[..end],
                None => break places.get("").copied().unwrap_or_default(),
            }
        };
        self.report.push(Problem {
            severity,
            path: path.to_owned(),
            line,
            column,
            message: message.into(),
            reason,
        });
    }

    fn error(&mut self, path: &str, reason: &'static str, message: impl Into<String>) {
        self.push(Severity::Error, path, reason, message);
    }

    fn warn(&mut self, path: &str, reason: &'static str, message: impl Into<String>) {
        self.push(Severity::Warning, path, reason, message);
    }

    fn name(&mut self, path: &str, name: &str) {
        if !is_name(name) {
            let message = "a name is 1 to 63 of `a-z 0-9 . _ -`, first a letter or digit";
            self.error(path, "name_invalid", message);
        }
    }

    fn unique<'n>(&mut self, names: impl Iterator<Item = (String, &'n str)>, what: &str) {
        let mut seen = HashSet::new();
        for (path, name) in names {
            if !seen.insert(name) {
                self.error(
                    &path,
                    "duplicate",
                    format!("{what} `{name}` is defined twice"),
                );
            }
        }
    }

    fn tree(&mut self) {
        let scopes = &self.document.scopes;
        let names = scopes
            .iter()
            .enumerate()
            .map(|(at, scope)| (format!("scopes[{at}].name"), scope.name.as_str()));
        self.unique(names, "scope");
        let roots: Vec<_> = (0..scopes.len())
            .filter(|at| scopes[*at].parent.is_none())
            .collect();
        match roots.as_slice() {
            [_] => {}
            [] => self.error(
                "scopes",
                "tree_invalid",
                "exactly one scope has no `parent`, here none",
            ),
            [first, more @ ..] => {
                for at in more {
                    let message = format!(
                        "only one scope may be without `parent`, and `{}` is",
                        scopes[*first].name
                    );
                    self.error(&format!("scopes[{at}]"), "tree_invalid", message);
                }
            }
        }
        let parents: HashMap<&str, Option<&str>> = scopes
            .iter()
            .map(|scope| (scope.name.as_str(), scope.parent.as_deref()))
            .collect();
        for (at, scope) in scopes.iter().enumerate() {
            let Some(parent) = scope.parent.as_deref() else {
                continue;
            };
            let path = format!("scopes[{at}].parent");
            if !parents.contains_key(parent) {
                self.error(
                    &path,
                    "tree_invalid",
                    format!("there is no scope `{parent}`"),
                );
                continue;
            }
            let mut depth = 1;
            let mut above = Some(parent);
            while let Some(name) = above {
                depth += 1;
                if depth > MAX_TREE_DEPTH || name == scope.name {
                    break;
                }
                above = parents.get(name).copied().flatten();
            }
            if above == Some(scope.name.as_str()) {
                self.error(
                    &path,
                    "tree_invalid",
                    format!("scope `{}` is its own ancestor", scope.name),
                );
            } else if depth > MAX_TREE_DEPTH {
                self.error(
                    &path,
                    "tree_invalid",
                    format!("the tree is deeper than {MAX_TREE_DEPTH} or has a cycle"),
                );
            }
        }
    }

    fn scope(&mut self, scope: &Scope, path: &str) {
        self.name(&format!("{path}.name"), &scope.name);
        for (name, binding) in &scope.bindings {
            let path = format!("{path}.bindings.{name}");
            self.name(&path, name);
            self.binding(binding, &path);
        }
        let names = scope.sources.iter().enumerate();
        self.unique(
            names.map(|(at, source)| (format!("{path}.sources[{at}].name"), source.name.as_str())),
            "source",
        );
        for (at, source) in scope.sources.iter().enumerate() {
            self.source(source, &format!("{path}.sources[{at}]"));
        }
        let slots = scope.routes.iter().enumerate();
        self.unique(
            slots.map(|(at, route)| (format!("{path}.routes[{at}].slot"), route.slot.as_str())),
            "slot",
        );
        for (at, route) in scope.routes.iter().enumerate() {
            self.route(route, &format!("{path}.routes[{at}]"));
        }
    }

    fn binding(&mut self, binding: &Binding, path: &str) {
        match &binding.executor {
            Some(executor) => self.identifier(&format!("{path}.executor"), executor),
            None if !binding.capabilities.is_empty() => {
                let message = "a binding without `executor` only queues and claims no capabilities";
                self.error(
                    &format!("{path}.capabilities"),
                    "capability_unproved",
                    message,
                );
            }
            None => {}
        }
        for (at, per) in binding.concurrency.per.iter().enumerate() {
            self.expression(&format!("{path}.concurrency.per[{at}].key"), &per.key);
        }
        for (at, glob) in binding.emits.iter().enumerate() {
            self.identifier(&format!("{path}.emits[{at}]"), glob);
            if glob.starts_with("core.") {
                self.error(
                    &format!("{path}.emits[{at}]"),
                    "reserved",
                    "types `core.*` are reserved",
                );
            }
        }
    }

    fn identifier(&mut self, path: &str, text: &str) {
        if let Err(violation) =
            weir_kernel::limits::identifier(path, text, weir_kernel::limits::MAX_IDENTIFIER)
        {
            self.error(path, "name_invalid", violation.description);
        }
    }

    fn expression(&mut self, path: &str, source: &str) {
        if let Err(error) = self.programs.get(source) {
            self.error(path, "cel_invalid", error.to_string());
        }
    }

    fn source(&mut self, source: &Source, path: &str) {
        self.name(&format!("{path}.name"), &source.name);
        for (field, glob) in [
            ("source", &source.matches.source),
            ("type", &source.matches.event_type),
        ] {
            if let Some(glob) = glob {
                self.identifier(&format!("{path}.match.{field}"), glob);
            }
        }
        if let Some(webhook) = &source.webhook {
            let path = format!("{path}.webhook.secret");
            self.name(&path, &webhook.secret);
            // It becomes part of an environment variable, which has no dots.
            if webhook.secret.contains('.') {
                self.error(&path, "name_invalid", "the name of a secret has no dots");
            }
        }
        for (at, rule) in source.keys.iter().enumerate() {
            if let Some(when) = &rule.when {
                self.expression(&format!("{path}.keys[{at}].when"), when);
            }
            self.expression(&format!("{path}.keys[{at}].key"), &rule.key);
        }
    }

    fn handler(&mut self, handler: &NamedHandler, path: &str) {
        match handler {
            NamedHandler::Remote { remote, name } => {
                if let Err(problem) = address::endpoint(remote) {
                    self.error(&format!("{path}.remote"), "address_invalid", problem);
                }
                self.name(&format!("{path}.name"), name);
            }
            NamedHandler::Rust { .. } => self.warn(
                path,
                "handler_missing",
                "events fail `handler_missing` unless a live replica was built with this handler",
            ),
        }
    }

    fn route(&mut self, route: &Route, path: &str) {
        self.name(&format!("{path}.slot"), &route.slot);
        match &route.handler {
            Some(Handler::Cel(when)) => self.expression(&format!("{path}.when"), when),
            Some(Handler::Named(named)) => self.handler(named, &format!("{path}.handler")),
            None if route.disabled => {}
            None => self.error(path, "required", "a route needs `when` or `handler`"),
        }
        for (at, attach) in route.attach.iter().enumerate() {
            self.expression(&format!("{path}.attach[{at}]"), attach);
        }
        if route.disabled {
            return;
        }
        match (&route.binding, route.policy) {
            (None, Policy::Drop) => {}
            (None, _) => self.error(
                &format!("{path}.binding"),
                "required",
                "a route that does not drop needs a `binding`",
            ),
            (Some(binding), _) => self.name(&format!("{path}.binding"), binding),
        }
        if route.policy == Policy::Drop && !route.attach.is_empty() {
            self.warn(
                &format!("{path}.attach"),
                "no_effect",
                "a route that drops attaches nothing",
            );
        }
        if route.policy.capability().is_none() && route.fallback.is_some() {
            let message = "only `inject` and `interrupt` can fall back";
            self.warn(&format!("{path}.fallback"), "no_effect", message);
        }
    }

    /// What can only be said of a scope with all it inherits.
    fn effective(&mut self) {
        let resolved = resolve::resolve(&self.document.scopes);
        let size: usize = resolved.iter().map(Resolved::size).sum();
        if size > MAX_EFFECTIVE {
            let message = format!(
                "the effective scopes have {size} entries together, the limit is {MAX_EFFECTIVE}"
            );
            self.error("scopes", "too_many", message);
            return;
        }
        for scope in &resolved {
            for (at, route) in self.document.scopes[scope.index].routes.iter().enumerate() {
                if route.disabled && !scope.inherited_slots.contains(route.slot.as_str()) {
                    let message = format!("no ancestor has a slot `{}` to switch off", route.slot);
                    self.warn(
                        &format!("scopes[{}].routes[{at}].disabled", scope.index),
                        "no_effect",
                        message,
                    );
                }
            }
        }
        if self.analyse {
            let warnings = analysis::analyse(self.document, self.programs, &resolved);
            self.report.add(warnings.listed, warnings.left_out);
        }
    }
}

/// Where each scope stands in the document, by name.
pub(super) fn index(scopes: &[Scope]) -> BTreeMap<&str, usize> {
    scopes
        .iter()
        .enumerate()
        .map(|(at, scope)| (scope.name.as_str(), at))
        .collect()
}
