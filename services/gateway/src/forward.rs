//! Forwarding of gRPC calls, without re-encoding.
//!
//! A call is looked at by its headers only: who calls, which method, which permission. Its messages and
//! its answer stream through as they are, both ways, trailers included.

use crate::guard::Guard;
use crate::messages::{Messages, Oversize};
use crate::{Call, Error, Gateway};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, HOST, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};
use std::sync::Arc;
use tonic::body::Body;

/// Header that ties the lines of one request together, here and in the services.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest request id that is taken over from a caller, in bytes.
const MAX_REQUEST_ID: usize = 128;

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
    let id = call.request_id().clone();
    request.extensions_mut().insert(call);
    let mut response = next.run(request).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Forwards an admitted call to the service that owns its method.
pub(crate) async fn forward(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let Some(call) = parts.extensions.remove::<Call>() else {
        return refuse(Error::NotExposed(path));
    };
    let Some(guard) = gateway.access().method(&path).and_then(|m| gateway.guard(m.owner)) else {
        return refuse(Error::NotExposed(path));
    };
    let oversize = Oversize::default();
    let body = Body::new(Messages::new(body, oversize.clone()));
    let mut request = http::Request::new(body);
    *request.method_mut() = http::Method::POST;
    *request.version_mut() = Version::HTTP_2;
    // The path only: authority and scheme are the upstream's own.
    *request.uri_mut() = Uri::try_from(path).expect("it was the path of a URI");
    *request.headers_mut() = passed_on(parts.headers);
    call.attach(request.headers_mut());
    send(guard, request, oversize).await
}

async fn send(guard: Guard, request: http::Request<Body>, oversize: Oversize) -> Response {
    guard.send(request, oversize).await.map(axum::body::Body::new)
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
                || [AUTHORIZATION, COOKIE, CONNECTION, HOST, REQUEST_ID].contains(*name)
        })
        .cloned()
        .collect();
    for name in dropped {
        headers.remove(name);
    }
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers
}

/// Takes over the caller's request id, or makes one.
pub(crate) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let taken = headers.get(REQUEST_ID).filter(|id| {
        (1..=MAX_REQUEST_ID).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    taken.cloned().unwrap_or_else(|| {
        HeaderValue::try_from(uuid::Uuid::now_v7().to_string()).expect("a UUID is ASCII")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("forged"));
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("twice"));
        }
        headers.insert("traceparent", HeaderValue::from_static("kept"));
        headers.insert("grpc-timeout", HeaderValue::from_static("1S"));
        let passed = passed_on(headers);
        let mut names: Vec<_> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["grpc-timeout", "te", "traceparent"]);
    }

    #[test]
    fn a_request_id_is_taken_over_if_it_is_one() {
        let mut headers = HeaderMap::new();
        let made = request_id(&headers);
        assert_eq!(made.len(), 36);
        headers.insert(REQUEST_ID, HeaderValue::from_static("mine-1"));
        assert_eq!(request_id(&headers), "mine-1");
        for bad in ["", "two words"] {
            headers.insert(REQUEST_ID, HeaderValue::from_static(bad));
            assert_eq!(request_id(&headers).len(), 36);
        }
    }
}
