//! RFC 9457 problem documents: what gRPC callers read from rich errors, for HTTP callers.

use crate::Error;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

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
        let details = self.0.get_error_details();
        let reason = details.error_info().map_or_else(
            || code_name(self.0.code()).to_owned(),
            |info| info.reason.clone(),
        );
        let status = http_status(self.0.code(), &reason);
        let wait = details.retry_info().and_then(|info| info.retry_delay);
        let problem = Problem {
            // A name, not an address: there is no page that every installation could serve.
            r#type: format!("urn:weir:error:{reason}"),
            title: status.canonical_reason().unwrap_or("Client Closed Request"),
            status: status.as_u16(),
            detail: self.0.message().to_owned(),
            reason,
            violations: details
                .bad_request()
                .map(|bad| bad.field_violations.as_slice())
                .unwrap_or_default()
                .iter()
                .map(|v| FieldViolation {
                    field: v.field.clone(),
                    description: v.description.clone(),
                })
                .collect(),
            retry_after: wait.map(|wait| format!("{:.3}s", wait.as_secs_f64())),
        };
        let body = serde_json::to_vec(&problem).expect("strings and numbers are JSON");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
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

/// Maps a refusal to an HTTP status. The code decides; only where HTTP has a better word for one of
/// the gateway's own reasons, that one.
fn http_status(code: Code, reason: &str) -> StatusCode {
    match reason {
        "PAYLOAD_TOO_LARGE" | "MESSAGE_TOO_LARGE" => return StatusCode::PAYLOAD_TOO_LARGE,
        "UNSUPPORTED_MEDIA_TYPE" => return StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "HTTP_METHOD_NOT_ALLOWED" => return StatusCode::METHOD_NOT_ALLOWED,
        "BODY_INCOMPLETE" => return StatusCode::REQUEST_TIMEOUT,
        _ => {}
    }
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        // The state stands against the request, whoever changed it.
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Cancelled => StatusCode::from_u16(499).expect("three digits"),
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The reason of an answer that came without one.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
