//! From a classified error to the wire: the one place where a gRPC status is made.

use std::collections::HashMap;
use std::error::Error;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};
use weir_kernel::{Classify, ErrorKind, Violation};

use crate::{Refusal, request_id};

/// The domain of every reason (`google.rpc.ErrorInfo`).
pub const DOMAIN: &str = "weir";

/// The most bytes of field violations that travel. Details are a header, and a client refuses an
/// answer whose headers pass 16 KiB.
const MAX_VIOLATIONS: usize = 4 << 10;

/// Maps a kind to its code. The table of the contract; there is no other.
pub fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::FailedPrecondition | ErrorKind::DepthExceeded | ErrorKind::MissingParent => {
            Code::FailedPrecondition
        }
        ErrorKind::Conflict => Code::Aborted,
        ErrorKind::RateExceeded => Code::ResourceExhausted,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::Forbidden => Code::PermissionDenied,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::Unimplemented => Code::Unimplemented,
        ErrorKind::Internal => Code::Internal,
    }
}

/// Turns an error into the answer that a caller gets: `.map_err(weir_rpc::status)?`.
///
/// Carries ErrorInfo (reason, domain, metadata), BadRequest for field violations, RetryInfo where a
/// time to wait is known and QuotaFailure for a spent quota. An internal error is logged here, once,
/// with its whole chain, and its text stays here; the caller gets the request id to name it by.
pub fn status(error: impl Classify) -> Status {
    let kind = error.kind();
    let reason = error.reason();
    let message = if kind == ErrorKind::Internal {
        hidden(&error, reason)
    } else {
        error.to_string()
    };
    let metadata: HashMap<String, String> = error
        .metadata()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
    let violations = error.violations();
    if !violations.is_empty() {
        details.set_bad_request(fitting(violations));
    }
    if kind == ErrorKind::RateExceeded {
        details.add_quota_failure_violation(reason, message.clone());
    }
    if let Some(wait) = error.retry_after() {
        details.set_retry_info(Some(wait));
    }
    Status::with_error_details(code(kind), message, details)
}

/// Answers for a method of the contract that comes with a later version: UNIMPLEMENTED, reason
/// `NOT_IMPLEMENTED`, and what it waits for.
pub fn unimplemented(method: &'static str, text: &'static str) -> Status {
    status(Refusal::NotImplemented { method, text })
}

/// Writes an error and all its causes on one line, outermost first.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error.to_string(), error.source())
}

fn causes(mut text: String, mut cause: Option<&(dyn Error + 'static)>) -> String {
    while let Some(error) = cause {
        let words = error.to_string();
        // Some libraries repeat their cause in their own words already.
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

fn hidden(error: &impl Classify, reason: &'static str) -> String {
    // Outside of a request there is no id yet, so the line gets one to be found by.
    let id = request_id().unwrap_or_else(crate::request_id::new);
    let id = id.to_str().unwrap_or_default();
    let text = causes(error.to_string(), error.source());
    tracing::error!(
        request.id = id,
        reason,
        error = text,
        "answered an internal error"
    );
    format!("internal error; see the service log, request id `{id}`")
}

/// Keeps as many violations as fit, and says how many do not.
fn fitting(violations: Vec<Violation>) -> Vec<FieldViolation> {
    let count = violations.len();
    let mut size = 0;
    let mut kept: Vec<FieldViolation> = violations
        .into_iter()
        .take_while(|violation| {
            size += violation.field.len() + violation.description.len();
            size <= MAX_VIOLATIONS
        })
        .map(|violation| FieldViolation::new(violation.field, violation.description))
        .collect();
    if kept.len() < count {
        let left = count - kept.len();
        kept.push(FieldViolation::new(
            "",
            format!("{left} further violations are not shown"),
        ));
    }
    kept
}
