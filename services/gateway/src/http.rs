//! HTTP beside gRPC, on the same port.
//!
//! | method and path | does | permission of |
//! |---|---|---|
//! | `POST /v1/events?scope=S` | publishes in the CloudEvents HTTP binding | `EventService/Publish`, `…/PublishBatch` |
//! | `GET /v1/events/{uid}` | reads an event | `EventService/GetEvent` |
//! | `GET /v1/events/{uid}/route` | reads what routing decided | `EventService/GetRoute` |
//! | `POST /v1/events/{uid}/skip` | skips an unrouted event | `ControlService/SkipEvent` |
//! | `POST /v1/events/{uid}/reroute` | reroutes an event | `ControlService/RerouteEvent` |
//! | `POST /v1/hooks/{tenant}/{scope}/{source}` | takes a signed webhook delivery | the signature's alone |
//!
//! `-` in place of `{uid}` reads the event's handle from the query: `?source=…&id=…`. Identity comes from
//! the same headers as with gRPC. Failures are problem documents (RFC 9457).

pub(crate) mod cloudevents;
mod events;
mod json;
pub(crate) mod problem;

use crate::{Error, Gateway, webhook};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use problem::Failure;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// How long a body may take. A sender that trickles holds nothing longer than this.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// Returns the HTTP routes, without a fallback.
pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new()
        .route("/v1/events", post(events::publish).fallback(not_allowed))
        .route(
            "/v1/events/{uid}",
            get(events::get_event).fallback(not_allowed),
        )
        .route(
            "/v1/events/{uid}/route",
            get(events::get_route).fallback(not_allowed),
        )
        .route(
            "/v1/events/{uid}/skip",
            post(events::skip).fallback(not_allowed),
        )
        .route(
            "/v1/events/{uid}/reroute",
            post(events::reroute).fallback(not_allowed),
        )
        .route(
            "/v1/hooks/{tenant}/{scope}/{source}",
            post(webhook::deliver).fallback(not_allowed),
        )
        // Bodies are bounded where they are read, with an answer that names the limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(gateway)
}

async fn not_allowed(method: Method, uri: Uri) -> Failure {
    let path = shown(uri.path());
    Failure::from(Error::HttpMethodNotAllowed {
        path,
        method: method.to_string(),
    })
}

/// Answers a path that nothing is at.
pub(crate) fn not_found(path: &str) -> Response {
    Failure::from(Error::PathNotFound(shown(path))).into_response()
}

/// A path as an answer repeats it: bounded.
fn shown(path: &str) -> String {
    weir_kernel::limits::cut(path, 256).to_owned()
}

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// It is larger, by what it announces or by what comes, or it ends early or comes too slowly.
pub(crate) async fn read_body(
    what: &'static str,
    body: Body,
    headers: &HeaderMap,
    limit: usize,
) -> Result<Vec<u8>, Error> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse::<u64>().ok());
    let too_large = |size| Error::PayloadTooLarge {
        what,
        size,
        limit: limit as u64,
    };
    if announced.is_some_and(|size| size > limit as u64) {
        return Err(too_large(announced));
    }
    let read = tokio::time::timeout(BODY_DEADLINE, Limited::new(body, limit).collect());
    match read.await {
        Ok(Ok(collected)) => Ok(collected.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(None)),
        Ok(Err(_)) | Err(_) => Err(Error::BodyIncomplete),
    }
}

/// Answers a value of the gateway's own as JSON.
pub(crate) fn json_answer<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let body = serde_json::to_vec(value).expect("strings and truth values are JSON");
    let mut response = (status, body).into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
