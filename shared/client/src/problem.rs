//! What a refused call says, taken apart.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// A field of a request and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field, as in the request's JSON (`event.id`).
    pub field: String,
    /// One line that says what is wrong.
    pub description: String,
}

/// A refused call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// gRPC code.
    pub code: Code,
    /// One line.
    pub message: String,
    /// Stable UPPER_SNAKE reason, as `docs/ERRORS.md` lists it; none when Weir did not answer.
    pub reason: Option<String>,
    /// Facts for programs.
    pub metadata: HashMap<String, String>,
    /// Fields at fault.
    pub violations: Vec<FieldViolation>,
    /// How long to wait before trying again.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// Says whether the call had this reason.
    #[must_use]
    pub fn is(&self, reason: &str) -> bool {
        self.reason.as_deref() == Some(reason)
    }

    /// Says whether the same call may succeed later and nothing was wrong with it: Weir or the way
    /// to it was not there. Whether it took effect is unknown.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self.code {
            Code::Unavailable | Code::DeadlineExceeded => true,
            // Without a reason the answer is not Weir's but the transport's: a connection that
            // broke under the call.
            Code::Unknown | Code::Cancelled | Code::Internal => self.reason.is_none(),
            _ => false,
        }
    }
}

impl From<&Status> for Problem {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        Self {
            code: status.code(),
            message: status.message().to_owned(),
            reason: info.map(|info| info.reason.clone()).filter(|reason| !reason.is_empty()),
            metadata: info.map(|info| info.metadata.clone()).unwrap_or_default(),
            violations: details
                .bad_request()
                .map(|bad| {
                    bad.field_violations
                        .iter()
                        .map(|violation| FieldViolation {
                            field: violation.field.clone(),
                            description: violation.description.clone(),
                        })
                        .collect()
                })
                .unwrap_or_default(),
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
        }
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        Self::from(&status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn a_status_is_taken_apart() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info("UNROUTED_INPUT", "weir", [("event".to_owned(), "0199".to_owned())])
            .set_retry_info(Some(Duration::from_millis(300)))
            .add_bad_request_violation("event.id", "is required");
        let status = Status::with_error_details(Code::FailedPrecondition, "input is unrouted", details);
        let problem = Problem::from(status);
        assert!(problem.is("UNROUTED_INPUT"));
        assert_eq!(problem.metadata["event"], "0199");
        assert_eq!(problem.retry_after, Some(Duration::from_millis(300)));
        assert_eq!(problem.violations[0].field, "event.id");
        assert!(!problem.is_unavailable());
    }

    #[test]
    fn only_an_answer_without_a_reason_may_be_the_transports() {
        assert!(Problem::from(Status::unknown("h2 protocol error")).is_unavailable());
        assert!(Problem::from(Status::unavailable("connection refused")).is_unavailable());
        let mut details = ErrorDetails::new();
        details.set_error_info("INTERNAL", "weir", HashMap::new());
        let status = Status::with_error_details(Code::Internal, "internal error", details);
        assert!(!Problem::from(status).is_unavailable());
    }
}
