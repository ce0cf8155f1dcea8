//! Forwarding of gRPC calls, without re-encoding.
//!
//! A call is looked at by its headers only: who calls, which method, which permission. Its messages and
//! its answer stream through as they are, both ways, trailers included.

use crate::messages::{Messages, Oversize};
use crate::{Call, Error, Gateway};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, HOST, TE};
use http::{HeaderMap, HeaderValue, Uri, Version};
use std::sync::Arc;
use tonic::body::Body;

/// What callers may never set: identity, permissions, internal token, and whatever is added later.
const RESERVED: &str = "x-weir-";

/// Checks a gRPC call and leaves the verified [`Call`] with the request. The order is fixed: identity,
/// permission, and only behind it existence (rule o04).
pub(crate) async fn admit(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    let call = match gateway.admit(request.uri().path(), request.headers()) {
        Ok(call) => call,
        Err(refusal) => return refuse(refusal),
    };
    request.extensions_mut().insert(call);
    next.run(request).await
}

/// Forwards an admitted call to the service that owns its method.
pub(crate) async fn forward(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let Some(call) = parts.extensions.remove::<Call>() else {
        return refuse(Error::NotExposed(path));
    };
    let Some(method) = gateway.access().method(&path) else {
        return refuse(Error::NotExposed(path));
    };
    let Some(guard) = gateway.guard(method.owner) else {
        return refuse(Error::NotExposed(path));
    };
    let stop = method.streams.then(|| gateway.stop.clone());
    let oversize = Oversize::default();
    let body = Body::new(Messages::new(body, oversize.clone()));
    let mut request = http::Request::new(body);
    *request.method_mut() = http::Method::POST;
    *request.version_mut() = Version::HTTP_2;
    // The path only: authority and scheme are the upstream's own.
    *request.uri_mut() = Uri::try_from(path).expect("it was the path of a URI");
    *request.headers_mut() = passed_on(parts.headers);
    call.attach(request.headers_mut());
    guard
        .send(request, oversize, stop)
        .await
        .map(axum::body::Body::new)
}

/// Answers a refusal as gRPC.
pub(crate) fn refuse(refusal: Error) -> Response {
    weir_rpc::status(refusal).into_http()
}

/// Returns the metadata that travels on: all but what belongs to the connection, what was said to
/// the gateway alone, and what callers may not set.
fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    let dropped: Vec<_> = headers
        .keys()
        .filter(|name| {
            name.as_str().starts_with(RESERVED)
                || [AUTHORIZATION, COOKIE, CONNECTION, HOST].contains(*name)
        })
        .cloned()
        .collect();
    for name in dropped {
        headers.remove(name);
    }
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    #[test]
    fn o03_what_callers_say_of_themselves_does_not_travel_on() {
        let mut headers = HeaderMap::new();
        for name in [
            "x-weir-tenant",
            "x-weir-actor",
            "x-weir-permissions",
            "x-weir-internal-token",
            "x-weir-anything-bin",
            "authorization",
            "cookie",
            "host",
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("forged"),
            );
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("twice"),
            );
        }
        headers.insert("traceparent", HeaderValue::from_static("kept"));
        headers.insert("grpc-timeout", HeaderValue::from_static("1S"));
        let passed = passed_on(headers);
        let mut names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["grpc-timeout", "te", "traceparent"]);
    }
}
