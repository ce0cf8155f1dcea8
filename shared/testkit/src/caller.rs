//! Calls in the name of somebody.

use http::{HeaderName, HeaderValue, Request};
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt as _;
use weir_rpc::headers::{ACTOR, PERMISSIONS, TENANT};
use weir_rpc::{Upstream, local};

/// A way to a service's routes in this process, for a generated client. Every call is one of `actor`
/// of `tenant` with all permissions, as the gateway would say it, unless the call says otherwise.
///
/// # Panics
/// When a name cannot be sent.
#[must_use]
pub fn upstream(routes: Routes, tenant: &str, actor: &str) -> Upstream {
    let headers = [(TENANT, tenant), (ACTOR, actor), (PERMISSIONS, "*")].map(|(name, value)| {
        let value =
            HeaderValue::from_bytes(value.as_bytes()).expect("a name has no control character");
        (HeaderName::from_static(name), value)
    });
    let add = move |mut request: Request<Body>| {
        for (name, value) in &headers {
            request
                .headers_mut()
                .entry(name)
                .or_insert_with(|| value.clone());
        }
        request
    };
    Upstream::new(local(routes).map_request(add))
}
