//! Who decides about a route: expressions, and Rust handlers of the process's registry (rules r20, r50, r52).
//!
//! Each call runs on a thread of its own pool under the route's deadline, and a panic is caught there: a
//! handler that ignores its deadline keeps its thread and nothing else.

mod ask;
mod guard;

pub use ask::{Answer, Ask, ask_routes};

use std::collections::HashMap;
use std::sync::Arc;

use weir_kernel::envelope::Envelope;

/// What a Rust handler is asked about: a detached snapshot.
#[derive(Debug, Clone)]
pub struct Input {
    /// Scope of the event.
    pub scope: Arc<str>,
    /// The event.
    pub event: Arc<Envelope>,
    /// Its keys.
    pub keys: Vec<String>,
    /// The Work it belongs to, if any.
    pub work: Option<crate::cel::WorkFacts>,
    /// Says that nothing comes of it: a trace.
    pub dry_run: bool,
}

/// What a handler says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It takes the event.
    Match {
        /// Why; shown, never deciding.
        reason: String,
        /// Keys to attach.
        attach: Vec<String>,
    },
    /// It declines.
    Skip {
        /// Why.
        reason: String,
    },
}

/// How a handler fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The input is malformed: `handler_invalid`, not retried.
    #[error("{0}")]
    Invalid(String),
    /// Anything else: `handler_failed`, retried.
    #[error("{0}")]
    Failed(String),
}

/// Deterministic code without side effects that says match or skip (rule r52).
pub trait Handler: Send + Sync + 'static {
    /// Decides about one event. Called on a thread where blocking harms nobody, at most once per decision
    /// and again for each trace.
    ///
    /// # Errors
    /// `Invalid` when the event is malformed, else `Failed`.
    fn decide(&self, input: &Input) -> Result<Verdict, Failure>;
}

/// The Rust handlers of this process, by the name that configurations give.
#[derive(Clone, Default)]
pub struct Registry(Arc<HashMap<String, Arc<dyn Handler>>>);

impl Registry {
    /// Makes a registry.
    #[must_use]
    pub fn new(handlers: HashMap<String, Arc<dyn Handler>>) -> Self {
        Self(Arc::new(handlers))
    }

    /// Returns a handler.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Handler>> {
        self.0.get(name).cloned()
    }

    /// Returns the names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
