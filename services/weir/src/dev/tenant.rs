//! Gives the tenant a configuration, through the gateway as any operator would.

use std::net::SocketAddr;

use tonic::Code;
use weir_client::{Client, Identity, Problem};
use weir_proto::routing::v1::{GetConfigRequest, PublishConfigRequest};

use crate::cli::error::Failure;
use crate::cli::session::Session;

/// Publishes `document` unless it is current already; without one, the example when the tenant has
/// no configuration. Returns the current generation.
pub(super) async fn prepare(
    session: &Session,
    address: SocketAddr,
    document: Option<&str>,
) -> Result<i64, Failure> {
    let identity = Identity::development(&session.tenant, &session.actor);
    let mut config = Client::connect(&format!("http://{}", reachable(address)), identity)?.config();
    let current = match config
        .get_config(session.request(GetConfigRequest { generation: 0 }))
        .await
    {
        Ok(answer) => Some(answer.into_inner()),
        Err(status) => {
            let problem = Problem::from(status);
            if problem.code != Code::NotFound {
                return Err(problem.into());
            }
            None
        }
    };
    let generation = current
        .as_ref()
        .and_then(|current| current.generation.as_ref())
        .map(|generation| generation.generation)
        .unwrap_or_default();
    let wanted = match (document, &current) {
        (None, Some(_)) => return Ok(generation),
        (Some(document), Some(current)) if current.document == document => return Ok(generation),
        (Some(document), _) => document,
        (None, None) => weir_routing::tenant::DEMO,
    };
    let request = PublishConfigRequest {
        document: wanted.to_owned(),
        expected_generation: Some(generation),
        request_id: String::new(),
    };
    let answer = config
        .publish_config(session.request(request))
        .await?
        .into_inner();
    Ok(answer.generation.unwrap_or_default().generation)
}

/// Where a client on this machine finds a listener: one on every address is found on the loopback.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(std::net::Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_found_on_the_loopback() {
        let at = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(at("0.0.0.0:7070"), "127.0.0.1:7070");
        assert_eq!(at("[::]:7070"), "[::1]:7070");
        assert_eq!(at("192.0.2.1:7070"), "192.0.2.1:7070");
    }
}
