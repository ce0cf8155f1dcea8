//! What every command shares: the gateway, the identity, how to print, how long to wait.

use std::time::Duration;

use clap::Args;
use tonic::Request;
use weir_client::{Client, Identity};

use super::environment;
use super::error::Failure;
use super::output::Output;

/// Options that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Gateway to talk to
    #[arg(
        long,
        global = true,
        env = "WEIR_URL",
        default_value = "http://localhost:7070",
        hide_env_values = true
    )]
    url: String,
    /// Tenant, where the gateway is in development
    #[arg(
        long,
        global = true,
        env = "WEIR_TENANT",
        default_value = "demo",
        hide_env_values = true
    )]
    tenant: String,
    /// Who acts, where the gateway is in development [default: $USER]
    #[arg(long, global = true, env = "WEIR_ACTOR", hide_env_values = true)]
    actor: Option<String>,
    /// Bearer token, for every other gateway
    #[arg(long, global = true, env = "WEIR_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print what the call answers, as proto JSON; a line per message
    #[arg(long, global = true)]
    json: bool,
    /// Longest wait for an answer, such as 5s
    #[arg(long, global = true, value_parser = humantime::parse_duration, default_value = "30s")]
    timeout: Duration,
}

/// The options, resolved.
pub(crate) struct Session {
    pub(crate) url: String,
    pub(crate) tenant: String,
    pub(crate) actor: String,
    token: Option<String>,
    pub(crate) out: Output,
    pub(crate) timeout: Duration,
}

impl Session {
    pub(crate) fn new(global: Global) -> Self {
        let present = |value: Option<String>| value.filter(|text| !text.is_empty());
        // A container often has no USER.
        let actor = present(global.actor)
            .or_else(|| present(environment::text("USER")))
            .unwrap_or_else(|| "operator".to_owned());
        Self {
            url: global.url.trim_end_matches('/').to_owned(),
            tenant: global.tenant,
            actor,
            token: present(global.token),
            out: Output::new(global.json),
            timeout: global.timeout,
        }
    }

    /// Makes a client of the gateway.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let mut identity = Identity::development(&self.tenant, &self.actor);
        identity.token = self.token.clone();
        Ok(Client::connect(&self.url, identity)?)
    }

    /// Wraps a request that is answered at once, with its deadline.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }
}
