//! The database section of a service's configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_pg::{Db, Options};
use weir_rpc::Secret;

/// Where a service's database is and how it is used.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// `postgres://user:password@host:port/database`. `DATABASE_URL` is used where it is not set.
    pub url: Secret,
    /// The most connections of this process, besides one for the probe. Default: 16, so that ten
    /// processes stay within PostgreSQL's own default of hundred and some to spare.
    pub max_connections: u32,
    /// How long a request waits for a connection. Default: 5 s, shorter than any caller's deadline.
    #[serde(with = "humantime_serde")]
    pub acquire_timeout: Duration,
    /// Whether the URL leads to a transaction pooler. Default: no.
    pub transaction_pooler: bool,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            max_connections: 16,
            acquire_timeout: Duration::from_secs(5),
            transaction_pooler: false,
        }
    }
}

impl DatabaseConfig {
    /// Checks the section; for the `validate` of a service's configuration.
    ///
    /// # Errors
    ///
    /// One line that names the variable.
    pub fn validate(&self) -> Result<(), String> {
        if self.url.is_empty() {
            return Err("`database.url` is required (or `DATABASE_URL`)".to_owned());
        }
        if self.max_connections == 0 {
            return Err("`database.max_connections` must be at least 1".to_owned());
        }
        Ok(())
    }

    /// Makes the pool, without connecting.
    ///
    /// # Errors
    ///
    /// The URL is none; the error does not show it.
    pub fn open(&self, application_name: &str) -> anyhow::Result<Db> {
        let mut options = Options::new(self.url.expose(), application_name);
        options.max_connections = self.max_connections;
        options.acquire_timeout = self.acquire_timeout;
        options.transaction_pooler = self.transaction_pooler;
        // The cause would quote the URL, and with it the password.
        Db::open(&options).map_err(|_| anyhow::anyhow!("`database.url` is not a PostgreSQL URL"))
    }
}
