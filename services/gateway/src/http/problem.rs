//! RFC 9457 problem documents: what gRPC callers read from rich errors, for HTTP callers.

use crate::Error;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tonic::Status;

/// Why a request of the HTTP surface failed; a handler's error type.
#[derive(Debug)]
pub(crate) struct Failure(Box<Status>);

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self(Box::new(status))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::from(weir_rpc::status(error))
    }
}

/// The document. Members beyond the RFC's five carry what `google.rpc` details carry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<FieldViolation>,
    /// As the proto JSON mapping writes a duration: `1.500s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
}

#[derive(Debug, Serialize)]
struct FieldViolation {
    field: String,
    description: String,
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let refusal = weir_rpc::Problem::from(*self.0);
        let status = status_of(&refusal);
        let wait = refusal.retry_after;
        let problem = Problem {
            // A name, not an address: there is no page that every installation could serve.
            r#type: format!("urn:weir:error:{}", refusal.reason),
            title: status.canonical_reason().unwrap_or("Client Closed Request"),
            status: status.as_u16(),
            detail: refusal.message,
            reason: refusal.reason,
            violations: refusal
                .violations
                .into_iter()
                .map(|v| FieldViolation {
                    field: v.field,
                    description: v.description,
                })
                .collect(),
            retry_after: wait.map(|wait| format!("{:.3}s", wait.as_secs_f64())),
        };
        let body = serde_json::to_vec(&problem).expect("strings and numbers are JSON");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(wait) = wait {
            // Whole seconds, rounded up: earlier than told would be told again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Weir"));
        }
        response
    }
}

/// Maps a refusal to an HTTP status: by its code, unless HTTP has a better word for one of the
/// gateway's own reasons.
fn status_of(problem: &weir_rpc::Problem) -> StatusCode {
    match problem.reason.as_str() {
        "PAYLOAD_TOO_LARGE" | "MESSAGE_TOO_LARGE" => StatusCode::PAYLOAD_TOO_LARGE,
        "UNSUPPORTED_MEDIA_TYPE" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "HTTP_METHOD_NOT_ALLOWED" => StatusCode::METHOD_NOT_ALLOWED,
        "BODY_INCOMPLETE" => StatusCode::REQUEST_TIMEOUT,
        _ => weir_rpc::http_status(problem.code),
    }
}
