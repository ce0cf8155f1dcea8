//! Configuration of this service.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_kernel::limits::MAX_PAYLOAD;
use weir_runtime::{DatabaseConfig, Environment, Validate};

use crate::route::failure::Limits;

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
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: DatabaseConfig::default(),
            max_payload: MAX_PAYLOAD,
            poll_interval: Duration::from_millis(250),
            max_route_failures: 5,
            route_failure_window: Duration::from_secs(15 * 60),
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
}

impl Validate for Config {
    fn validate(&self, _: Environment) -> Result<(), String> {
        if self.max_payload == 0 || self.max_payload > 4 * MAX_PAYLOAD {
            return Err(format!("`max_payload` must be 1 to {}", 4 * MAX_PAYLOAD));
        }
        if self.poll_interval.is_zero() {
            return Err("`poll_interval` must not be 0".to_owned());
        }
        if self.max_route_failures == 0 {
            return Err("`max_route_failures` must be at least 1".to_owned());
        }
        self.database.validate()
    }
}
