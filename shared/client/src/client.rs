//! One channel, and the generated clients over it.

use std::time::Duration;

use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use weir_proto::causal::v1::causal_service_client::CausalServiceClient;
use weir_proto::gateway::v1::control_service_client::ControlServiceClient;
use weir_proto::lifecycle::v1::executor_service_client::ExecutorServiceClient;
use weir_proto::lifecycle::v1::work_service_client::WorkServiceClient;
use weir_proto::migration::v1::migration_service_client::MigrationServiceClient;
use weir_proto::routing::v1::config_service_client::ConfigServiceClient;
use weir_proto::routing::v1::event_service_client::EventServiceClient;

use crate::identity::{Attach, Identity, InvalidIdentity};

/// What the generated clients of a [`Client`] call through.
pub type Service = InterceptedService<Channel, Attach>;

/// Largest message taken: a claim presents 4 MiB of payload, a page of events may hold more.
const MAX_MESSAGE: usize = 64 << 20;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A silent connection is asked whether it still lives this often; claims are long and quiet, and
/// a middlebox that dropped one says nothing.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long the answer to that may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is not one.
    #[error("`{url}` is not an address of a gateway, such as http://localhost:7070")]
    Address {
        /// What was given.
        url: String,
    },
    /// The address asks for TLS.
    #[error(
        "`{url}` asks for TLS, which this build does not speak; use http:// behind a proxy on this machine"
    )]
    Tls {
        /// What was given.
        url: String,
    },
    /// The identity cannot travel.
    #[error(transparent)]
    Identity(#[from] InvalidIdentity),
}

/// A caller of a gateway. Cheap to clone; clones share the channel.
#[derive(Clone)]
pub struct Client {
    service: Service,
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident -> $client:ident,)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> $client<Service> {
                $client::new(self.service.clone())
                    .max_decoding_message_size(MAX_MESSAGE)
                    .max_encoding_message_size(MAX_MESSAGE)
            }
        )*
    };
}

impl Client {
    /// Makes a client of the gateway at `url`. Nothing is connected yet: the first call does that,
    /// and every call after a lost connection does it again.
    ///
    /// # Errors
    /// [`ConnectError`] when the address or the identity cannot be used. That nobody listens there
    /// is an `UNAVAILABLE` of the first call.
    pub fn connect(url: &str, identity: Identity) -> Result<Self, ConnectError> {
        let endpoint =
            Endpoint::from_shared(url.to_owned()).map_err(|_| ConnectError::Address {
                url: url.to_owned(),
            })?;
        match endpoint.uri().scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(ConnectError::Tls {
                    url: url.to_owned(),
                });
            }
            _ => {
                return Err(ConnectError::Address {
                    url: url.to_owned(),
                });
            }
        }
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .tcp_nodelay(true)
            .connect_lazy();
        Self::over(channel, &identity)
    }

    /// Makes a client over a channel of your own.
    ///
    /// # Errors
    /// [`ConnectError::Identity`] when the identity cannot travel.
    pub fn over(channel: Channel, identity: &Identity) -> Result<Self, ConnectError> {
        Ok(Self {
            service: InterceptedService::new(channel, Attach::new(identity)?),
        })
    }

    accessors! {
        /// Publishes and reads events.
        events -> EventServiceClient,
        /// Validates, publishes and reads configuration.
        config -> ConfigServiceClient,
        /// Reads and operates Work.
        work -> WorkServiceClient,
        /// Claims and finishes Work. [`crate::executor::Worker`] does that for you.
        executor -> ExecutorServiceClient,
        /// Emits events, reads causal trees.
        causal -> CausalServiceClient,
        /// Migrates the schema.
        migration -> MigrationServiceClient,
        /// Skips, reroutes, traces.
        control -> ControlServiceClient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unusable_address_is_refused_with_a_reason() {
        let identity = Identity::development("demo", "me");
        assert!(Client::connect("http://localhost:7070", identity.clone()).is_ok());
        let refused = |url: &str| {
            Client::connect(url, identity.clone())
                .err()
                .expect(url)
                .to_string()
        };
        assert!(refused("https://weir.example").contains("TLS"));
        assert!(refused("localhost:7070").contains("is not an address"));
        assert!(refused("ftp://localhost").contains("is not an address"));
        assert!(refused("not a url").contains("is not an address"));
    }
}
