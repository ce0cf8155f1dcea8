//! An answer that is an error, read back: for the command line, HTTP and clients.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use weir_kernel::Violation;

/// A status with its details decoded. Reads the answers of [`crate::status`], and makes the best of
/// others: an answer that is not Weir's has its code's name as its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The gRPC code.
    pub code: Code,
    /// The stable reason, for programs.
    pub reason: String,
    /// One line, for people.
    pub message: String,
    /// The fields at fault.
    pub violations: Vec<Violation>,
    /// How long to wait before trying again.
    pub retry_after: Option<Duration>,
    /// Further facts, by name.
    pub metadata: BTreeMap<String, String>,
}

impl From<&Status> for Problem {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        Self {
            code: status.code(),
            reason: info.map_or_else(
                || code_name(status.code()).to_owned(),
                |info| info.reason.clone(),
            ),
            message: status.message().to_owned(),
            violations: details
                .bad_request()
                .map(|bad| bad.field_violations.as_slice())
                .unwrap_or_default()
                .iter()
                .map(|v| Violation::new(v.field.clone(), v.description.clone()))
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            metadata: info.map_or_else(BTreeMap::new, |info| {
                info.metadata
                    .iter()
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect()
            }),
        }
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        Self::from(&status)
    }
}

impl fmt::Display for Problem {
    /// Writes `REASON: message`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Problem {}

/// Returns the code's name as the contracts spell it, also used as a metric's label.
pub fn code_name(code: Code) -> &'static str {
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

/// Maps a code to HTTP, as `google.rpc.Code` documents it; 499 is a caller that went away.
pub fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::from_u16(499).expect("499 is in the range of statuses"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_kernel::{Classify, ErrorKind};

    #[derive(Debug, thiserror::Error)]
    #[error("the request is odd")]
    struct Odd {
        kind: ErrorKind,
        violations: usize,
        #[source]
        cause: Option<std::io::Error>,
    }

    impl Odd {
        fn new(kind: ErrorKind) -> Self {
            Self {
                kind,
                violations: 0,
                cause: None,
            }
        }
    }

    impl Classify for Odd {
        fn kind(&self) -> ErrorKind {
            self.kind
        }
        fn reason(&self) -> &'static str {
            "ODD"
        }
        fn retry_after(&self) -> Option<Duration> {
            Some(Duration::from_millis(1500))
        }
        fn violations(&self) -> Vec<Violation> {
            vec![Violation::new("event.id", "x".repeat(100)); self.violations]
        }
        fn metadata(&self) -> Vec<(&'static str, String)> {
            vec![("scope", "a".to_owned())]
        }
    }

    #[test]
    fn what_is_said_is_read_back() {
        let mut error = Odd::new(ErrorKind::InvalidArgument);
        error.violations = 2;
        let problem = Problem::from(crate::status(error));
        assert_eq!(
            (problem.code, problem.reason.as_str()),
            (Code::InvalidArgument, "ODD")
        );
        assert_eq!(problem.message, "the request is odd");
        assert_eq!(problem.violations.len(), 2);
        assert_eq!(problem.violations[0].field, "event.id");
        assert_eq!(problem.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(problem.metadata["scope"], "a");
        assert_eq!(problem.to_string(), "ODD: the request is odd");
    }

    #[test]
    fn an_internal_error_keeps_its_text() {
        let mut error = Odd::new(ErrorKind::Internal);
        error.cause = Some(std::io::Error::other("the table is secret"));
        assert_eq!(
            crate::chain(&error),
            "the request is odd: the table is secret"
        );
        let problem = Problem::from(crate::status(error));
        assert_eq!(problem.code, Code::Internal);
        assert!(
            problem
                .message
                .starts_with("internal error; see the service log, request id `")
        );
        assert!(!problem.message.contains("odd") && !problem.message.contains("secret"));
    }

    #[test]
    fn details_stay_small_enough_for_a_header() {
        let mut error = Odd::new(ErrorKind::InvalidArgument);
        error.violations = 1_000;
        let status = crate::status(error);
        assert!(status.details().len() < 8 << 10);
        let problem = Problem::from(status);
        let last = problem.violations.last().expect("some are shown");
        assert!(
            last.description
                .ends_with("further violations are not shown")
        );
    }

    #[test]
    fn the_table_is_the_contracts() {
        for (kind, expected) in [
            (ErrorKind::Conflict, Code::Aborted),
            (ErrorKind::RateExceeded, Code::ResourceExhausted),
            (ErrorKind::DepthExceeded, Code::FailedPrecondition),
            (ErrorKind::MissingParent, Code::FailedPrecondition),
            (ErrorKind::Forbidden, Code::PermissionDenied),
            (ErrorKind::Timeout, Code::DeadlineExceeded),
        ] {
            assert_eq!(crate::code(kind), expected);
        }
    }

    #[test]
    fn an_answer_of_others_has_its_code_as_reason() {
        let problem = Problem::from(Status::new(Code::Unavailable, "tcp connect error"));
        assert_eq!(problem.reason, "UNAVAILABLE");
        let later = Problem::from(crate::unimplemented("ListSources", "comes with webhooks"));
        assert_eq!(
            (later.code, later.reason.as_str()),
            (Code::Unimplemented, "NOT_IMPLEMENTED")
        );
    }
}
