//! What a worker claims, and how much of it at a time.

use std::sync::Arc;
use std::time::Duration;

use weir_proto::lifecycle::v1::{Capability, ClaimSpec};

use super::Report;

/// Called at the end of each attempt.
pub type Observer = Arc<dyn Fn(&Report) + Send + Sync>;

/// What a worker claims, and how.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Name of the executor, as bindings give it.
    pub executor: String,
    /// Binding to claim.
    pub binding: String,
    /// One scope; every scope that has the binding when empty.
    pub scope: String,
    /// Who claims, in words.
    pub owner: String,
    /// What the handler can do. All workers of one executor say the same.
    pub capabilities: Vec<Capability>,
    /// Duration of leases; the binding's when unset. 1 s to 1 h.
    pub lease: Option<Duration>,
    /// Attempts at a time, 1 to 1,000.
    pub concurrency: usize,
    /// Ends after this many claimed Works.
    pub max_works: Option<u64>,
    /// Ends when nothing runs and nothing came for this long.
    pub idle_exit: Option<Duration>,
    /// How long running attempts may go on when the worker is to stop; then they are given back.
    pub grace: Duration,
    /// Called at the end of each attempt.
    pub observer: Option<Observer>,
}

impl Settings {
    /// Claims one Work at a time, without an end.
    pub fn new(executor: impl Into<String>, binding: impl Into<String>) -> Self {
        Self {
            executor: executor.into(),
            binding: binding.into(),
            scope: String::new(),
            owner: String::new(),
            capabilities: Vec::new(),
            lease: None,
            concurrency: 1,
            max_works: None,
            idle_exit: None,
            // Below the 30 s that orchestrators give a process by default.
            grace: Duration::from_secs(25),
            observer: None,
        }
    }

    pub(super) fn places(&self) -> usize {
        self.concurrency.clamp(1, 1_000)
    }

    pub(super) fn spec(&self, registration: i64) -> ClaimSpec {
        ClaimSpec {
            binding: self.binding.clone(),
            scope: self.scope.clone(),
            owner: self.owner.clone(),
            registration,
            lease: self.lease.map(wire_duration),
        }
    }

    /// Whether something may come for a running attempt, so that renewals are worth making more
    /// often than the lease asks for.
    pub(super) fn listens(&self) -> bool {
        !self.capabilities.is_empty()
    }
}

/// A duration for the wire; the wire's longest is 10,000 years.
pub(super) fn wire_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or_else(|_| prost_types::Duration {
        seconds: i64::from(i32::MAX),
        nanos: 0,
    })
}
