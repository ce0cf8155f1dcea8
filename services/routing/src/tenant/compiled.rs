//! A document made ready for routing: inheritance resolved and expressions compiled, once per
//! generation (rules r02, r50).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    address, check, glob,
    model::{
        Binding, Brake, Document, Fallback, Handler, NamedHandler, Policy, Route, SelfPolicy,
        Source, Webhook,
    },
    problem::Problem,
    programs::Programs,
    resolve,
};
use crate::cel::{Facts, Program};

/// A configuration ready for use. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Compiled(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    document: Document,
    scopes: Vec<EffectiveScope>,
    by_name: HashMap<String, usize>,
    remotes: BTreeMap<String, BTreeSet<String>>,
}

/// What holds in a scope, inherited or its own.
#[derive(Debug)]
pub struct EffectiveScope {
    /// The scope's name.
    pub name: String,
    /// Its parent's name; `None` for the root.
    pub parent: Option<String>,
    /// The routes to ask, in order (rule r02).
    pub routes: Vec<Arc<EffectiveRoute>>,
    /// The bindings by name.
    pub bindings: BTreeMap<String, Arc<Binding>>,
    /// The sources, inherited ones first.
    pub sources: Vec<Arc<EffectiveSource>>,
    /// The causal limits (rule c02).
    pub limits: EffectiveLimits,
    /// The automatic brake, if any scope on the way to the root sets one (rule c10).
    pub brake: Option<Brake>,
}

/// The causal limits of a scope (rule c02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectiveLimits {
    /// Deepest derived event.
    pub depth: u16,
    /// New derived events per root and minute.
    pub derived_per_minute: u32,
}

/// A route ready to be asked.
#[derive(Debug)]
pub struct EffectiveRoute {
    /// Its slot.
    pub slot: String,
    /// The scope that wrote it.
    pub defined_in: String,
    /// Who decides.
    pub handler: CompiledHandler,
    /// The binding's name, for the scope of the event to look up (rule r02, r26).
    pub binding: Option<String>,
    /// What to do with a match.
    pub policy: Policy,
    /// What to do when that cannot be done.
    pub fallback: Option<Fallback>,
    /// Further keys to attach (rule r08).
    pub attach: Vec<Program>,
    /// Whether it declines what its own Work emitted (rule r28).
    pub self_policy: SelfPolicy,
    /// Time the handler has (rule r20).
    pub timeout: Duration,
}

/// Who decides about a route.
#[derive(Clone, Debug)]
pub enum CompiledHandler {
    /// An expression (rule r50).
    Cel(Program),
    /// A gRPC service (rule r51).
    Remote {
        /// Its endpoint, `http://host:port` in one spelling.
        remote: String,
        /// The handler's name there.
        name: String,
    },
    /// A handler of the process's registry (rule r52), by name.
    Rust(String),
}

/// A source ready for use.
#[derive(Debug)]
pub struct EffectiveSource {
    /// Its name.
    pub name: String,
    /// The scope that wrote it.
    pub defined_in: String,
    /// The webhook endpoint, if it is one.
    pub webhook: Option<Webhook>,
    source: Option<String>,
    event_type: Option<String>,
    keys: Vec<(Option<Program>, Program)>,
}

/// A key rule that could not say: the event is refused (rule a07).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key rule of source `{rule}`: {message}")]
pub struct KeyError {
    /// The name of the source whose rule failed.
    pub rule: String,
    /// What went wrong, one line without payload.
    pub message: String,
}

impl Compiled {
    /// Resolves and compiles a document.
    ///
    /// # Errors
    /// Every problem of a document that [`Document::validate`] finds an error in.
    pub fn new(document: Document) -> Result<Self, Vec<Problem>> {
        let mut programs = Programs::default();
        let problems = check::check(&document, &mut programs);
        if problems.iter().any(Problem::is_error) {
            return Err(problems);
        }
        let mut building = Building {
            programs,
            routes: HashMap::new(),
            bindings: HashMap::new(),
            sources: HashMap::new(),
            remotes: BTreeMap::new(),
        };
        let scopes: Vec<_> = resolve::resolve(&document.scopes)
            .iter()
            .map(|scope| building.scope(&document, scope))
            .collect();
        let by_name = scopes
            .iter()
            .enumerate()
            .map(|(at, scope)| (scope.name.clone(), at))
            .collect();
        Ok(Self(Arc::new(Inner {
            document,
            scopes,
            by_name,
            remotes: building.remotes,
        })))
    }

    /// The document it was made of.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.0.document
    }

    /// A scope by name.
    #[must_use]
    pub fn scope(&self, name: &str) -> Option<&EffectiveScope> {
        self.0.by_name.get(name).map(|at| &self.0.scopes[*at])
    }

    /// The endpoints of remote handlers that routes ask, with the handlers' names there (rules r51, o07).
    #[must_use]
    pub fn remotes(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.0.remotes
    }

    /// All scopes: parents before children, children in document order.
    pub fn scopes(&self) -> impl ExactSizeIterator<Item = &EffectiveScope> {
        self.0.scopes.iter()
    }
}

impl EffectiveScope {
    /// A source by name: the effective one, wherever it was written.
    #[must_use]
    pub fn resolve_source(&self, name: &str) -> Option<&EffectiveSource> {
        self.sources
            .iter()
            .find(|source| source.name == name)
            .map(|source| &**source)
    }

    /// The keys that the sources' rules derive for an event of this source and type: each once, in
    /// the order of the rules (rule a07). A missing field yields no key.
    ///
    /// # Errors
    /// [`KeyError`] at the first expression that fails otherwise; final for this event under this
    /// configuration.
    pub fn derive_keys(
        &self,
        facts: &Facts,
        source: &str,
        event_type: &str,
    ) -> Result<Vec<String>, KeyError> {
        let mut keys: Vec<String> = Vec::new();
        for rule in self
            .sources
            .iter()
            .filter(|rule| rule.is_for(source, event_type))
        {
            for (at, (when, key)) in rule.keys.iter().enumerate() {
                let fail = |field: &str, error: crate::cel::EvalError| KeyError {
                    rule: rule.name.clone(),
                    message: format!("keys[{at}].{field}: {error}"),
                };
                if let Some(when) = when
                    && !when
                        .as_condition(facts)
                        .map_err(|error| fail("when", error))?
                {
                    continue;
                }
                let key = key.as_key(facts).map_err(|error| fail("key", error))?;
                keys.extend(key.filter(|key| !keys.contains(key)));
            }
        }
        Ok(keys)
    }
}

impl EffectiveSource {
    /// Whether its rules are for an event of this source and type (rule a07).
    #[must_use]
    pub fn is_for(&self, source: &str, event_type: &str) -> bool {
        let fits = |pattern: &Option<String>, text| {
            pattern.as_deref().is_none_or(|p| glob::matches(p, text))
        };
        fits(&self.source, source) && fits(&self.event_type, event_type)
    }
}

/// What was built so far, by where it was written, to be shared by all scopes that inherit it.
struct Building {
    programs: Programs,
    routes: HashMap<(usize, usize), Arc<EffectiveRoute>>,
    bindings: HashMap<*const Binding, Arc<Binding>>,
    sources: HashMap<*const Source, Arc<EffectiveSource>>,
    remotes: BTreeMap<String, BTreeSet<String>>,
}

impl Building {
    fn program(&mut self, source: &str) -> Program {
        self.programs
            .get(source)
            .expect("the check refused every document with an expression that does not compile")
    }

    fn scope(&mut self, document: &Document, resolved: &resolve::Resolved<'_>) -> EffectiveScope {
        let written = &document.scopes[resolved.index];
        let mut routes = Vec::with_capacity(resolved.routes.len());
        for placed in &resolved.routes {
            let at = (placed.scope, placed.position);
            let route = match self.routes.get(&at) {
                Some(route) => Arc::clone(route),
                None => match self.route(placed.route, &document.scopes[placed.scope].name) {
                    Some(route) => {
                        let route = Arc::new(route);
                        self.routes.insert(at, Arc::clone(&route));
                        route
                    }
                    // Only a disabled route has no handler, and those are left out.
                    None => continue,
                },
            };
            routes.push(route);
        }
        let bindings = resolved.bindings.iter().map(|(name, binding)| {
            let shared = self
                .bindings
                .entry(std::ptr::from_ref(*binding))
                .or_insert_with(|| Arc::new((*binding).clone()));
            ((*name).to_owned(), Arc::clone(shared))
        });
        let bindings = bindings.collect();
        let mut sources = Vec::with_capacity(resolved.sources.len());
        for (defined_in, source) in &resolved.sources {
            let at = std::ptr::from_ref(*source);
            if !self.sources.contains_key(&at) {
                let built = self.source(source, &document.scopes[*defined_in].name);
                self.sources.insert(at, Arc::new(built));
            }
            sources.push(Arc::clone(&self.sources[&at]));
        }
        EffectiveScope {
            name: written.name.clone(),
            parent: written.parent.clone(),
            routes,
            bindings,
            sources,
            limits: EffectiveLimits {
                depth: resolved.limits.depth.unwrap_or(super::model::DEFAULT_DEPTH),
                derived_per_minute: resolved
                    .limits
                    .derived_per_minute
                    .unwrap_or(super::model::DEFAULT_DERIVED_PER_MINUTE),
            },
            brake: resolved.brake,
        }
    }

    fn route(&mut self, route: &Route, defined_in: &str) -> Option<EffectiveRoute> {
        let handler = match route.handler.as_ref()? {
            Handler::Cel(when) => CompiledHandler::Cel(self.program(when)),
            Handler::Named(NamedHandler::Remote { remote, name }) => {
                let remote = address::endpoint(remote)
                    .expect("the check refused every document with an address that is none");
                let names = self.remotes.entry(remote.clone()).or_default();
                names.insert(name.clone());
                let name = name.clone();
                CompiledHandler::Remote { remote, name }
            }
            Handler::Named(NamedHandler::Rust { rust }) => CompiledHandler::Rust(rust.clone()),
        };
        Some(EffectiveRoute {
            slot: route.slot.clone(),
            defined_in: defined_in.to_owned(),
            handler,
            binding: route.binding.clone(),
            policy: route.policy,
            fallback: route.fallback,
            attach: route
                .attach
                .iter()
                .map(|source| self.program(source))
                .collect(),
            self_policy: route.self_policy,
            timeout: route.timeout,
        })
    }

    fn source(&mut self, source: &Source, defined_in: &str) -> EffectiveSource {
        let keys = source.keys.iter();
        let keys = keys.map(|rule| {
            (
                rule.when.as_deref().map(|when| self.program(when)),
                self.program(&rule.key),
            )
        });
        EffectiveSource {
            name: source.name.clone(),
            defined_in: defined_in.to_owned(),
            webhook: source.webhook.clone(),
            source: source.matches.source.clone(),
            event_type: source.matches.event_type.clone(),
            keys: keys.collect(),
        }
    }
}
