//! Configuration of this service.

use serde::{Deserialize, Serialize};
use weir_kernel::limits::{MAX_BATCH_BYTES, MAX_PAYLOAD};
use weir_rpc::{InvalidUpstream, Secret};
use weir_runtime::{DatabaseConfig, Environment, Validate};

use crate::Hints;

/// Settings of the causal service: `WEIR_CAUSAL__…`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The database.
    pub database: DatabaseConfig,
    /// Largest payload of an event, in bytes, at most 4 MiB. Default: 1 MiB, as routing's (rule a05).
    pub max_payload: usize,
    /// Address of the routing service, told after commits that accepted an event. Default: none; its
    /// loop looks by itself, and a derived event is decided that much later.
    pub routing: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: DatabaseConfig::default(),
            max_payload: MAX_PAYLOAD,
            routing: None,
        }
    }
}

impl Config {
    /// Makes the way to tell routing, over the network. Connects when first used; must be called within
    /// a tokio runtime. An empty `token` is not sent.
    ///
    /// # Errors
    /// The address is none, or the token cannot be sent.
    pub fn hints(&self, token: &Secret) -> Result<Hints, InvalidUpstream> {
        let Some(address) = &self.routing else {
            return Ok(Hints::default());
        };
        let upstream = weir_rpc::remote(address)?;
        Ok(Hints::remote(if token.is_empty() {
            upstream
        } else {
            weir_rpc::with_token(upstream, token)?
        }))
    }
}

impl Validate for Config {
    fn validate(&self, _: Environment) -> Result<(), String> {
        if !(1..=MAX_BATCH_BYTES).contains(&self.max_payload) {
            return Err(format!(
                "`max_payload` must be 1 to {MAX_BATCH_BYTES} bytes"
            ));
        }
        self.database.validate()
    }
}
