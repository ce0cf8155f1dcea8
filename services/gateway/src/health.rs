//! Whether the services behind answer (rule m04).
//!
//! The gateway reports the health of every exposed service under that service's own name, as seen from
//! here. A service that does not answer is NOT_SERVING; the gateway itself stays ready, because the
//! other services' methods work.

use crate::guard::Guard;
use std::time::Duration;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// How long a service may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks a service whether it serves.
pub(crate) async fn serves(guard: Guard) -> bool {
    let mut request = Request::new(HealthCheckRequest::default());
    request.set_timeout(PATIENCE);
    let answer = tokio::time::timeout(PATIENCE, HealthClient::new(guard).check(request)).await;
    match answer {
        Ok(Ok(answer)) => answer.into_inner().status() == ServingStatus::Serving,
        // It answers. Routes in the same process have no health of their own: there it is the
        // process's.
        Ok(Err(status)) => matches!(status.code(), Code::Unimplemented | Code::NotFound),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Owner;
    use tonic::body::Body;
    use tonic::service::Routes;
    use weir_rpc::Upstream;

    fn guard(upstream: Upstream) -> Guard {
        Guard::new(Owner::Routing, upstream)
    }

    #[tokio::test]
    async fn m04_a_service_serves_if_it_says_so() {
        let (reporter, health) = tonic_health::server::health_reporter();
        let upstream = weir_rpc::local(Routes::new(health));
        assert!(serves(guard(upstream.clone())).await);
        reporter
            .set_service_status("", tonic_health::ServingStatus::NotServing)
            .await;
        assert!(!serves(guard(upstream)).await);
        assert!(serves(guard(weir_rpc::local(Routes::default()))).await);
    }

    #[tokio::test(start_paused = true)]
    async fn m04_a_service_that_cannot_be_reached_or_is_silent_does_not_serve() {
        let lost = tower::service_fn(|_: http::Request<Body>| async {
            Err::<http::Response<Body>, _>(tower::BoxError::from("connection refused"))
        });
        assert!(!serves(guard(Upstream::new(lost))).await);
        let silent = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, tower::BoxError>>()
        });
        assert!(!serves(guard(Upstream::new(silent))).await);
    }
}
