//! Configuration of this service.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_runtime::{DatabaseConfig, Environment, Validate};

/// Settings of the lifecycle service: `WEIR_LIFECYCLE__…`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The database.
    pub database: DatabaseConfig,
    /// How often Works whose attempts are spent are looked for. Default: 5 s, a fraction of a usual
    /// lease, so that an operator hears of one soon after its last lease ran out.
    #[serde(with = "humantime_serde")]
    pub hold_interval: Duration,
    /// How often the days' partitions are made, besides once at the start. Default: 1 h; they are made
    /// two weeks ahead, so that days of failures are survived.
    #[serde(with = "humantime_serde")]
    pub partition_interval: Duration,
    /// How often old answers are deleted (rule o08). Default: 10 min.
    #[serde(with = "humantime_serde")]
    pub forget_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: DatabaseConfig::default(),
            hold_interval: Duration::from_secs(5),
            partition_interval: Duration::from_secs(3_600),
            forget_interval: Duration::from_secs(600),
        }
    }
}

impl Validate for Config {
    fn validate(&self, _: Environment) -> Result<(), String> {
        let intervals = [
            ("hold_interval", self.hold_interval),
            ("partition_interval", self.partition_interval),
            ("forget_interval", self.forget_interval),
        ];
        if let Some((name, _)) = intervals.iter().find(|(_, interval)| interval.is_zero()) {
            return Err(format!("`{name}` must not be 0"));
        }
        self.database.validate()
    }
}
