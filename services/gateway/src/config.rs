//! Settings of the gateway, and the component that they make.

use crate::access::Owner;
use crate::identity::Identity;
use crate::surface::{Settings, StartError, Surface};
use crate::{Secrets, Upstreams};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weir_kernel::limits;
use weir_rpc::{InvalidUpstream, Secret};
use weir_runtime::{Component, Environment, Validate};

/// The gateway's settings, beside what every process has (ports, internal token, drain).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where routing is. Default: `http://127.0.0.1:7071`, its port on the same machine.
    pub routing: String,
    /// Where lifecycle is. Default: `http://127.0.0.1:7072`.
    pub lifecycle: String,
    /// Where causal is. Default: `http://127.0.0.1:7073`.
    pub causal: String,
    /// Where migration is. Default: `http://127.0.0.1:7074`.
    pub migration: String,
    /// How callers prove who they are. Default and only kind in this version: `development`.
    pub identity: Identity,
    /// Largest payload over HTTP, in bytes, at most 4 MiB. Default: 1 MiB, as routing's (rule a05).
    pub max_payload: usize,
}

impl Default for Config {
    fn default() -> Self {
        let local = |port| format!("http://127.0.0.1:{port}");
        Self {
            routing: local(7071),
            lifecycle: local(7072),
            causal: local(7073),
            migration: local(7074),
            identity: Identity::Development,
            max_payload: limits::MAX_PAYLOAD,
        }
    }
}

impl Validate for Config {
    fn validate(&self, environment: Environment) -> Result<(), String> {
        self.identity
            .allowed_in(environment)
            .map_err(|refused| refused.to_string())?;
        if !(1..=limits::MAX_BATCH_BYTES).contains(&self.max_payload) {
            let most = limits::MAX_BATCH_BYTES;
            return Err(format!("`max_payload` must be 1 to {most} bytes"));
        }
        Ok(())
    }
}

impl Upstreams {
    /// Makes channels to the configured addresses. Connects when first used; must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    ///
    /// An address is none.
    pub fn remote(config: &Config) -> Result<Self, InvalidUpstream> {
        Ok(Self {
            routing: weir_rpc::remote(&config.routing)?,
            lifecycle: weir_rpc::remote(&config.lifecycle)?,
            causal: weir_rpc::remote(&config.causal)?,
            migration: weir_rpc::remote(&config.migration)?,
        })
    }
}

/// Makes the gateway. `token` is what the services expect, empty where they expect none, as within one
/// process. The gateway is ready as soon as it listens; a service that does not answer is NOT_SERVING
/// by its own name (rule m04).
///
/// # Errors
///
/// The identity kind is not for this environment (rule o03), or the contracts cannot be served.
pub fn component(
    config: &Config,
    environment: Environment,
    token: &Secret,
    upstreams: Upstreams,
    secrets: Arc<dyn Secrets>,
) -> Result<Component, StartError> {
    let component = Component::new("gateway");
    let settings = Settings {
        identity: config.identity,
        environment,
        token: (!token.is_empty()).then(|| token.clone()),
        max_payload: config.max_payload,
        secrets,
        stop: component.shutdown(),
    };
    let surface = Surface::new(settings, upstreams)?;
    let mut component = component.http(surface.router()).edge();
    component.grpc_services = surface.services_of(Owner::Gateway);
    for owner in Owner::UPSTREAMS {
        let asked = surface.clone();
        component = component.service_serving_when(surface.services_of(owner), move || {
            let surface = asked.clone();
            async move {
                if surface.serves(owner).await {
                    Ok(())
                } else {
                    Err("does not answer".to_owned())
                }
            }
        });
    }
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(more: &[(&str, &str)]) -> Result<Config, String> {
        let token = ("WEIR_INTERNAL_TOKEN", "0123456789abcdef0123456789abcdef");
        let env = more
            .iter()
            .chain([&token])
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let loaded = weir_runtime::load::<Config>("gateway", env);
        loaded
            .map(|settings| settings.service)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn o03_production_does_not_start_with_development_identity() {
        for environment in ["Production", "development"] {
            let refused = load(&[("WEIR_ENVIRONMENT", environment)]).expect_err("refused");
            assert!(
                refused.starts_with("identity `development` is only allowed"),
                "{refused}"
            );
        }
        assert!(load(&[]).is_err(), "production is the default");
    }

    #[test]
    fn settings_are_read_from_the_environment() {
        let config = load(&[
            ("WEIR_ENVIRONMENT", "Development"),
            ("WEIR_GATEWAY__IDENTITY", "development"),
            ("WEIR_GATEWAY__ROUTING", "http://routing:7071"),
            ("WEIR_GATEWAY__MAX_PAYLOAD", "2048"),
        ])
        .expect("all are known");
        assert_eq!(
            (config.routing.as_str(), config.max_payload),
            ("http://routing:7071", 2048)
        );
        let development = ("WEIR_ENVIRONMENT", "Development");
        assert!(load(&[development, ("WEIR_GATEWAY__MAX_PAYLOAD", "0")]).is_err());
        let jwt = load(&[development, ("WEIR_GATEWAY__IDENTITY", "jwt")]).expect_err("unknown");
        assert!(
            jwt.contains("WEIR_GATEWAY__IDENTITY") && jwt.contains("jwt"),
            "{jwt}"
        );
    }
}
