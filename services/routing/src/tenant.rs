//! The configuration of a tenant: a tree of scopes with sources, bindings, routes and limits.
//!
//! A text of YAML or JSON becomes a [`Document`] ([`Document::parse`]: form), is checked
//! ([`Document::validate`]: meaning) and made ready ([`Compiled::new`]: inheritance resolved,
//! expressions compiled, once per generation). Reports list every problem with path, line and
//! column.
//!
//! Names of scopes, slots, bindings, sources and secrets follow one rule, [`check::is_name`].

pub mod address;
mod analysis;
pub mod canonical;
pub mod check;
mod compiled;
pub mod decode;
mod fields;
pub mod glob;
mod model;
mod problem;
mod programs;
mod resolve;
mod tree;

#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod scope_tests;

pub use canonical::binding_digest;
pub use compiled::{
    Compiled, CompiledHandler, EffectiveLimits, EffectiveRoute, EffectiveScope, EffectiveSource,
    KeyError,
};
pub use model::{
    Binding, Brake, Capability, Concurrency, ConcurrencyKey, DEFAULT_DEPTH,
    DEFAULT_DERIVED_PER_MINUTE, DEFAULT_LEASE, DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT, Document,
    Fallback, Handler, KeyRule, Limits, Match, NamedHandler, OnParentCancel, Policy, Route, Scope,
    SelfPolicy, Source, Webhook, WebhookKind,
};
pub use problem::{MAX_PROBLEMS, Problem, Severity};
pub use tree::{MAX_DOCUMENT, MAX_NESTING, MAX_NODES};

/// The configuration of tenant `demo` when nobody gives one: scopes `root` and `github`, routes
/// for GitHub issues and pull requests, binding `triage`, webhook source `github`.
pub const DEMO: &str = include_str!("tenant/demo.yaml");

impl Document {
    /// Reads and checks a text in one go.
    ///
    /// # Errors
    /// All problems, warnings among them, when at least one is an error.
    pub fn read(text: &str) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let document = Self::parse(text)?;
        let problems = document.validate();
        if problems.iter().any(Problem::is_error) {
            Err(problems)
        } else {
            Ok((document, problems))
        }
    }
}
