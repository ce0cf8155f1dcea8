//! Who decides about a route: expressions, Rust handlers of the process's registry, and remote ones (rules r20,
//! r50, r51, r52).
//!
//! Each call of an expression or a Rust handler runs on a thread of its own pool under the route's deadline, and a
//! panic is caught there: a handler that ignores its deadline keeps its thread and nothing else. A call of a remote
//! one is a task that ends with the deadline.

mod ask;
mod guard;
mod health;
mod remote;
pub(crate) mod samples;

pub use ask::{Answer, Ask, ask_routes};
pub use health::{Health, Probed, State, page};
pub use remote::{MAX_CALLS, Remotes};
pub use samples::{MAX_SAMPLES, Place, Sample};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use weir_kernel::envelope::Envelope;
use weir_runtime::Task;

use crate::generation::Generations;

/// What a handler is asked about: a detached snapshot.
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

    /// Offers named sample events, built from the configuration of the scope that asks and with the router's clock
    /// (rule r46). Called like [`Handler::decide`], under the same timeout. Default: none.
    fn samples(&self, place: &Place, now: DateTime<Utc>) -> Vec<Sample> {
        let _ = (place, now);
        Vec::new()
    }
}

/// The Rust handlers of this process, by the name that configurations give, and its ways to remote ones.
#[derive(Clone, Default)]
pub struct Registry {
    handlers: Arc<HashMap<String, Arc<dyn Handler>>>,
    remotes: Remotes,
}

impl Registry {
    /// Makes a registry.
    #[must_use]
    pub fn new(handlers: HashMap<String, Arc<dyn Handler>>) -> Self {
        Self {
            handlers: Arc::new(handlers),
            remotes: Remotes::default(),
        }
    }

    /// Returns a handler.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Handler>> {
        self.handlers.get(name).cloned()
    }

    /// Returns the ways to remote handlers.
    #[must_use]
    pub fn remotes(&self) -> &Remotes {
        &self.remotes
    }

    /// Returns the names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.handlers.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

/// Makes the loop that probes the remote handlers that current generations name (rule o07), and drops the ways to the
/// others.
pub(crate) fn probing(remotes: Remotes, generations: Generations, interval: Duration) -> Task {
    Task::run("routing.probe_handlers", move |shutdown| async move {
        loop {
            let mut in_use: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for generation in generations.usable() {
                for (at, names) in generation.compiled.remotes() {
                    let all = in_use.entry(at.clone()).or_default();
                    all.extend(names.iter().cloned());
                }
            }
            let step = async {
                remotes.probe(in_use).await;
                tokio::time::sleep(interval).await;
            };
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = step => {}
            }
        }
    })
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
