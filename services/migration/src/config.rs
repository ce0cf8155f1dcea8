//! Settings of the service.

use serde::{Deserialize, Serialize};
use weir_runtime::{DatabaseConfig, Environment, Secret, Validate};

/// Settings, by variables `WEIR_MIGRATION__…`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The database as every service knows it.
    pub database: DatabaseConfig,
    /// The way to the database past a transaction pooler, `postgres://user:password@host:port/database`:
    /// a pooler would take the lock of one session to another. `DATABASE_DIRECT_URL` is used where it
    /// is not set, and `database.url` where neither is.
    pub direct_url: Secret,
}

impl Config {
    /// Returns the address to migrate through.
    #[must_use]
    pub fn url(&self) -> &Secret {
        if self.direct_url.is_empty() {
            &self.database.url
        } else {
            &self.direct_url
        }
    }
}

impl Validate for Config {
    fn validate(&self, _: Environment) -> Result<(), String> {
        if !self.direct_url.is_empty() {
            return Ok(());
        }
        if self.database.transaction_pooler {
            return Err(
                "`direct_url` (or `DATABASE_DIRECT_URL`) is required beside a transaction pooler"
                    .to_owned(),
            );
        }
        self.database.validate()
    }
}
