//! The way to a service: over the network, or to its routes in the same process.
//!
//! A generated client over an [`Upstream`] is a real client in both cases: messages pass through the
//! codec, errors through a status. There is no second trait, no fake and no `if in_process`.

use std::time::Duration;

use http::{HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::Endpoint;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

use crate::headers::{INTERNAL_TOKEN, REQUEST_ID};
use crate::{Secret, request_id};

/// A way to a service. `XServiceClient::new(upstream)` makes its client.
pub type Upstream = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// How long connecting may take. Within a cluster a connection takes milliseconds or never comes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How often a silent connection is asked whether it lives: a peer that vanished without a word is
/// noticed within half a minute, and no middlebox forgets the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no way to a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUpstream {
    /// The address is none.
    #[error("`{address}` is not an address of the form `http://host:port`")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// The token cannot be sent.
    #[error("the internal token has characters that no header can carry")]
    Token,
}

/// Makes the way to a service at `http://host:port`. Connects when first used and again whenever the
/// connection is lost; a call that finds no connection fails with UNAVAILABLE. Must be called within a
/// tokio runtime.
///
/// # Errors
///
/// The address is none.
pub fn remote(address: &str) -> Result<Upstream, InvalidUpstream> {
    let invalid = |source| InvalidUpstream::Address {
        address: address.to_owned(),
        source,
    };
    let channel = Endpoint::from_shared(address.to_owned())
        .map_err(invalid)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEP_ALIVE))
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_lazy();
    Ok(BoxCloneSyncService::new(
        ServiceExt::<Request<Body>>::map_err(channel, BoxError::from),
    ))
}

/// Makes the way to routes in the same process.
pub fn local(routes: Routes) -> Upstream {
    BoxCloneSyncService::new(ServiceExt::<Request<Body>>::map_err(routes, BoxError::from))
}

/// Adds the internal token to every call, and the request id of the call that is being answered, so
/// that the lines of both services are tied together.
///
/// # Errors
///
/// The token cannot be sent.
pub fn with_token(upstream: Upstream, token: &Secret) -> Result<Upstream, InvalidUpstream> {
    let mut value = HeaderValue::try_from(token.expose()).map_err(|_| InvalidUpstream::Token)?;
    value.set_sensitive(true);
    let add = move |mut request: Request<Body>| {
        let headers = request.headers_mut();
        headers.insert(INTERNAL_TOKEN, value.clone());
        if !headers.contains_key(REQUEST_ID)
            && let Some(id) = request_id()
        {
            headers.insert(REQUEST_ID, id);
        }
        request
    };
    Ok(BoxCloneSyncService::new(upstream.map_request(add)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InternalAuth, Problem, layered};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    fn routes() -> Routes {
        let (_, health) = tonic_health::server::health_reporter();
        layered(
            Routes::new(health),
            Some(InternalAuth::new([Secret::new("t")])),
        )
    }

    #[tokio::test]
    async fn a_generated_client_reaches_the_routes_in_the_process() {
        let mut client = HealthClient::new(local(routes()));
        let answer = client
            .check(HealthCheckRequest::default())
            .await
            .expect("healthy");
        assert!(answer.metadata().contains_key(REQUEST_ID));
        let missing = HealthCheckRequest {
            service: "nope".into(),
        };
        let refused = client.check(missing).await.expect_err("not registered");
        assert_eq!(Problem::from(refused).reason, "NOT_FOUND");
    }

    #[tokio::test]
    async fn calls_carry_the_token() {
        let path = "/weir.routing.v1.EventService/Publish";
        let ask = async |upstream: Upstream| {
            let request = Request::builder()
                .uri(path)
                .body(Body::default())
                .expect("a request");
            let answer = upstream.oneshot(request).await.expect("an answer");
            tonic::Status::from_header_map(answer.headers())
                .expect("an error")
                .code()
        };
        assert_eq!(ask(local(routes())).await, tonic::Code::Unauthenticated);
        let upstream = with_token(local(routes()), &Secret::new("t")).expect("can be sent");
        assert_eq!(ask(upstream).await, tonic::Code::Unimplemented);
        assert!(with_token(local(routes()), &Secret::new("a\nb")).is_err());
    }

    #[tokio::test]
    async fn an_address_is_checked_and_not_connected() {
        assert!(remote("not an address").is_err());
        let mut client = HealthClient::new(remote("http://127.0.0.1:1").expect("an address"));
        let refused = client
            .check(HealthCheckRequest::default())
            .await
            .expect_err("nobody there");
        assert_eq!(refused.code(), tonic::Code::Unavailable);
    }
}
