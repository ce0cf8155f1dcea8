//! What every process has.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_rpc::Secret;

use crate::{Environment, ServeOptions};

/// Shortest token that production accepts, in bytes: 128 random bits in hexadecimal.
const MIN_TOKEN: usize = 32;

/// What the runtime knows of the process it runs.
#[derive(Debug, Clone)]
pub struct Process {
    /// The service's name.
    pub service: &'static str,
    /// Where it runs.
    pub environment: Environment,
    /// Its ports and its way out.
    pub server: ServerConfig,
}

impl Process {
    /// Returns the options of its server.
    pub fn serve_options(&self) -> ServeOptions {
        let server = &self.server;
        let development = self.environment.is_development();
        ServeOptions {
            listen: server.listen,
            health_listen: Some(server.health_listen),
            grace: server.shutdown_grace,
            readiness_delay: server.readiness_delay.unwrap_or(if development {
                Duration::ZERO
            } else {
                READINESS_DELAY
            }),
            reflection: server.reflection,
            tokens: [&server.internal_token, &server.internal_token_previous]
                .into_iter()
                .filter(|token| !token.is_empty())
                .cloned()
                .collect(),
            max_connection_age: Some(server.max_connection_age),
        }
    }
}

/// How long production goes on to take requests after it has said that it leaves: what endpoints and
/// load balancers need to hear of it.
const READINESS_DELAY: Duration = Duration::from_secs(5);

/// Ports, token and drain of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Where the service is served. Default: all addresses; gateway 7070, routing 7071, lifecycle 7072,
    /// causal 7073, migration 7074.
    pub listen: SocketAddr,
    /// Where health and metrics are served, open to everybody. Default: the service's port + 2000.
    pub health_listen: SocketAddr,
    /// The token that the gateway and the services of an installation share.
    /// `WEIR_INTERNAL_TOKEN` is used where it is not set. Required in production.
    pub internal_token: Secret,
    /// A second token that is accepted too, while the first is being exchanged.
    pub internal_token_previous: Secret,
    /// Whether the contracts can be read by reflection, without a token. Default: true.
    pub reflection: bool,
    /// How long requests, streams and tasks may take to end. Default: 25 s, below the 30 s that
    /// Kubernetes waits by default.
    #[serde(with = "humantime_serde")]
    pub shutdown_grace: Duration,
    /// How long the process takes requests after it has said that it leaves. Part of the time that
    /// Kubernetes waits. Default: 0 in development, else 5 s.
    #[serde(with = "humantime_serde")]
    pub readiness_delay: Option<Duration>,
    /// How old a connection gets: clients that balance by connecting find new replicas then.
    /// Default: 10 min.
    #[serde(with = "humantime_serde")]
    pub max_connection_age: Duration,
}

/// The gateway's port, and that of any process that is no service of the table below.
const PORT: u16 = 7070;
/// From a service's port to its health and metrics port.
const TO_HEALTH: u16 = 2000;

impl Default for ServerConfig {
    fn default() -> Self {
        let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        Self {
            listen: any(PORT),
            health_listen: any(PORT + TO_HEALTH),
            internal_token: Secret::default(),
            internal_token_previous: Secret::default(),
            reflection: true,
            shutdown_grace: Duration::from_secs(25),
            readiness_delay: None,
            max_connection_age: Duration::from_secs(600),
        }
    }
}

impl ServerConfig {
    /// Gives a service the ports that are its own, where the environment sets none.
    pub(crate) fn place(&mut self, service: &str, is_set: impl Fn(&str) -> bool) {
        let port = match service {
            "routing" => 7071,
            "lifecycle" => 7072,
            "causal" => 7073,
            "migration" => 7074,
            _ => PORT,
        };
        if !is_set("LISTEN") {
            self.listen.set_port(port);
        }
        if !is_set("HEALTH_LISTEN") {
            self.health_listen.set_port(port + TO_HEALTH);
        }
    }

    pub(crate) fn validate(&self, environment: Environment) -> Result<(), String> {
        let token = &self.internal_token;
        if token.is_empty() && !environment.is_development() {
            return Err(
                "`internal_token` (or `WEIR_INTERNAL_TOKEN`) is required outside of \
                        WEIR_ENVIRONMENT=Development"
                    .to_owned(),
            );
        }
        if !environment.is_development() && token.expose().len() < MIN_TOKEN {
            return Err(format!(
                "`internal_token` must have at least {MIN_TOKEN} bytes"
            ));
        }
        if !token.expose().bytes().all(|b| b.is_ascii_graphic()) {
            return Err("`internal_token` must be visible ASCII without spaces".to_owned());
        }
        Ok(())
    }
}
