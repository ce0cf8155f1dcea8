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

#[cfg(test)]
mod tests {
    use super::*;

    fn load(more: &[(&str, &str)]) -> Result<Config, String> {
        let base = [
            ("WEIR_ENVIRONMENT", "Development"),
            ("DATABASE_URL", "postgres://h/d"),
        ];
        let env = base
            .iter()
            .chain(more)
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let loaded = weir_runtime::load::<Config>("causal", env);
        loaded
            .map(|settings| settings.service)
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn routing_is_told_only_where_it_is_named() {
        let alone = load(&[]).expect("the defaults are good");
        assert_eq!(
            (alone.max_payload, alone.routing.as_deref()),
            (1 << 20, None)
        );
        let hints = |config: &Config, token| config.hints(&Secret::new(token));
        assert_eq!(
            format!("{:?}", hints(&alone, "").expect("nobody")),
            "Hints(nobody)"
        );
        let told = load(&[("WEIR_CAUSAL__ROUTING", "http://127.0.0.1:7071")]).expect("an address");
        for token in ["", "t"] {
            assert_eq!(
                format!("{:?}", hints(&told, token).expect("a way")),
                "Hints(remote)"
            );
        }
        assert!(hints(&told, "a\nb").is_err());
        let bad = load(&[("WEIR_CAUSAL__ROUTING", "not an address")]).expect("checked when used");
        assert!(hints(&bad, "").is_err());
        for size in ["0", "4194305"] {
            let refused = load(&[("WEIR_CAUSAL__MAX_PAYLOAD", size)]).expect_err("out of bounds");
            assert!(refused.contains("`max_payload`"), "{refused}");
        }
    }
}
