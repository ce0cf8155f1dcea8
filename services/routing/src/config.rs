//! Configuration of this service.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_kernel::limits::MAX_PAYLOAD;
use weir_pg::{Db, Reader};
use weir_runtime::{DatabaseConfig, Environment, Validate};

use crate::replica::Timing;
use crate::route::failure::Limits;

/// The longest name that PostgreSQL keeps of a role; it cuts longer ones.
const MAX_ROLE: usize = 63;

/// Settings of the routing service: `WEIR_ROUTING__…`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The database.
    pub database: DatabaseConfig,
    /// Largest payload of an event, in bytes, at most 4 MiB. Default: 1 MiB (rule a05).
    pub max_payload: usize,
    /// How often undecided events are looked for without a hint. Default: 250 ms: a lost hint costs no more.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// Failures before routing gives up on a retryable one. Default: 5 (rule r23).
    pub max_route_failures: u16,
    /// Time since the first failure before routing gives up. Default: 15 min, so that a handler that
    /// restarts, or an upstream that is down for some minutes, loses no good input (rule r23).
    #[serde(with = "humantime_serde")]
    pub route_failure_window: Duration,
    /// Time between two beats by which this process says that it lives. Default: 2 s.
    #[serde(with = "humantime_serde")]
    pub replica_interval: Duration,
    /// Age of the last beat from which on a process counts as dead, and what it was deciding as crashed (rule r21).
    /// At least three intervals. Default: 6 s. The same in all routing processes.
    #[serde(with = "humantime_serde")]
    pub replica_dead_after: Duration,
    /// Time between two probes of the remote handlers that routes ask, for `/health/handlers`. Default: 5 s (rule
    /// o07).
    #[serde(with = "humantime_serde")]
    pub handler_probe_interval: Duration,
    /// Role that traces read under; it has no right to write, and the service's user is a member. Default:
    /// `weir_reader`, which the migrations make where they may. Empty: none, and only READ ONLY transactions
    /// protect (rule r40).
    pub read_role: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: DatabaseConfig::default(),
            max_payload: MAX_PAYLOAD,
            poll_interval: Duration::from_millis(250),
            max_route_failures: 5,
            route_failure_window: Duration::from_secs(15 * 60),
            replica_interval: Duration::from_secs(2),
            replica_dead_after: Duration::from_secs(6),
            handler_probe_interval: Duration::from_secs(5),
            read_role: "weir_reader".to_owned(),
        }
    }
}

impl Config {
    /// Returns when routing gives up on a retryable failure.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            max_failures: i16::try_from(self.max_route_failures).unwrap_or(i16::MAX),
            window: self.route_failure_window,
        }
    }

    /// Returns how this process tells that it lives.
    #[must_use]
    pub const fn timing(&self) -> Timing {
        Timing {
            beat: self.replica_interval,
            dead_after: self.replica_dead_after,
        }
    }

    /// Returns what traces read with. Says so in the log where no role keeps them from writing.
    #[must_use]
    pub fn reader(&self, db: &Db) -> Reader {
        if self.read_role.is_empty() {
            tracing::warn!(
                "`read_role` is empty: traces read in READ ONLY transactions, under the service's own user"
            );
        }
        Reader::new(db.clone(), &self.read_role)
    }
}

impl Validate for Config {
    fn validate(&self, _: Environment) -> Result<(), String> {
        if self.max_payload == 0 || self.max_payload > 4 * MAX_PAYLOAD {
            return Err(format!("`max_payload` must be 1 to {}", 4 * MAX_PAYLOAD));
        }
        if self.poll_interval.is_zero() {
            return Err("`poll_interval` must not be 0".to_owned());
        }
        if self.handler_probe_interval.is_zero() {
            return Err("`handler_probe_interval` must not be 0".to_owned());
        }
        if self.max_route_failures == 0 {
            return Err("`max_route_failures` must be at least 1".to_owned());
        }
        if self.replica_interval.is_zero() {
            return Err("`replica_interval` must not be 0".to_owned());
        }
        if self.replica_dead_after / 3 < self.replica_interval {
            return Err(
                "`replica_dead_after` must be at least three `replica_interval`".to_owned(),
            );
        }
        if self.read_role.len() > MAX_ROLE || self.read_role.contains('\0') {
            return Err(format!(
                "`read_role` must be a role's name, of at most {MAX_ROLE} bytes, or empty"
            ));
        }
        self.database.validate()
    }
}
