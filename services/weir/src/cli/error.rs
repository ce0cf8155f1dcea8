//! How a command fails: one line that says what to do, and an exit code.

use tonic::{Code, Status};
use weir_client::{ConnectError, Problem};
use weir_kernel::Violation;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    reason: Option<String>,
    violations: Vec<Violation>,
    hint: Option<String>,
}

/// The exit codes, as `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    Unavailable = 3,
    NotFound = 4,
    MigrationLocked = 5,
}

impl Failure {
    /// Something was refused or did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// The command line asks for something impossible.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            reason: None,
            violations: Vec::new(),
            hint: None,
        }
    }

    /// Adds the stable reason.
    pub(crate) fn because(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Adds what to do next.
    pub(crate) fn see(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.exit as u8
    }

    /// Returns what to print: the error, then a line for each field at fault.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut first = format!("error: {}", self.message);
        if let Some(reason) = &self.reason {
            first.push_str(&format!(" [{reason}]"));
        }
        if let Some(hint) = &self.hint {
            first.push_str(&format!("; {hint}"));
        }
        let fields = self
            .violations
            .iter()
            .map(|violation| format!("  {}: {}", violation.field, violation.description));
        std::iter::once(first).chain(fields).collect()
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::from(Problem::from(status))
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let reason = problem.reason.as_str();
        let exit = match (problem.code, reason) {
            (_, "MIGRATION_LOCKED") => Exit::MigrationLocked,
            (Code::NotFound, _) => Exit::NotFound,
            (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown, _) => {
                Exit::Unavailable
            }
            _ => Exit::Failed,
        };
        // An answer that is not Weir's has its code for a reason, which says nothing more.
        let is_told = is_weirs(&problem);
        let hint = hint(&problem, reason, exit);
        let message = if problem.message.is_empty() {
            format!("the call failed: {}", problem.code.description())
        } else {
            problem.message.lines().collect::<Vec<_>>().join(" ")
        };
        Self {
            exit,
            message,
            reason: is_told.then_some(problem.reason),
            violations: problem.violations,
            hint,
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Whether Weir gave the answer: its reasons are more than the code's name.
fn is_weirs(problem: &Problem) -> bool {
    !matches!(
        problem.reason.as_str(),
        "" | "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "CANCELLED" | "UNKNOWN"
    )
}

/// What an operator does next.
fn hint(problem: &Problem, reason: &str, exit: Exit) -> Option<String> {
    let fact = |name: &str| problem.metadata.get(name).filter(|value| !value.is_empty());
    let event = fact("event");
    let see = |command: String| Some(format!("see '{command}'"));
    match reason {
        "ALREADY_ROUTED" | "ALREADY_REROUTED" | "PAYLOAD_GONE" | "EVENT_CONFLICT" => {
            see(format!("weir events get {}", event?))
        }
        "UNROUTED_INPUT" => see(format!("weir events get {}", event?)),
        "EVENT_NOT_FOUND" => see("weir events list".to_owned()),
        "SCOPE_NOT_FOUND" | "BINDING_NOT_FOUND" | "SOURCE_NOT_FOUND" => {
            see("weir config get".to_owned())
        }
        "WORK_NOT_FOUND" => see("weir work list".to_owned()),
        "WORK_TERMINAL" | "WORK_NOT_HELD" | "KEY_OWNED" => {
            see(format!("weir work get {}", fact("work")?))
        }
        "GENERATION_CONFLICT" | "GENERATION_NOT_FOUND" => see("weir config generations".to_owned()),
        "CONFIG_INVALID" => Some("'weir config validate FILE' shows every finding".to_owned()),
        "MIGRATION_NOT_CONFIRMED" => Some("give --confirm when losing data is meant".to_owned()),
        "MIGRATION_LOCKED" => Some("try again, or wait longer with --wait".to_owned()),
        _ if problem.code == Code::Unauthenticated => {
            Some("set WEIR_TOKEN, or WEIR_TENANT and WEIR_ACTOR in development".to_owned())
        }
        _ if exit == Exit::Unavailable && !is_weirs(problem) => Some(
            "is Weir running there? 'weir dev' starts one; --url or WEIR_URL names another"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn problem(code: Code, message: &str, reason: &str) -> Problem {
        Problem {
            code,
            message: message.to_owned(),
            reason: reason.to_owned(),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_its_reason_and_the_next_step() {
        let mut refused = problem(
            Code::FailedPrecondition,
            "event `0199` is already routed (queue)",
            "ALREADY_ROUTED",
        );
        refused
            .metadata
            .insert("event".to_owned(), "0199".to_owned());
        let failure = Failure::from(refused);
        assert_eq!(
            failure.lines(),
            [
                "error: event `0199` is already routed (queue) [ALREADY_ROUTED]; see 'weir events get 0199'"
            ]
        );
        assert_eq!(failure.exit_code(), 1);
    }

    #[test]
    fn fields_at_fault_get_a_line_each() {
        let mut refused = problem(
            Code::InvalidArgument,
            "the request is invalid",
            "INVALID_ARGUMENT",
        );
        refused.violations = vec![Violation::new("event.id", "is required")];
        assert_eq!(Failure::from(refused).lines()[1], "  event.id: is required");
    }

    #[test]
    fn exit_codes_tell_the_kinds_apart() {
        let exit = |code, reason| Failure::from(problem(code, "x", reason)).exit_code();
        assert_eq!(exit(Code::Unavailable, "UNAVAILABLE"), 3);
        assert_eq!(exit(Code::DeadlineExceeded, "DEADLINE_EXCEEDED"), 3);
        assert_eq!(exit(Code::NotFound, "EVENT_NOT_FOUND"), 4);
        assert_eq!(exit(Code::Unavailable, "MIGRATION_LOCKED"), 5);
        assert_eq!(exit(Code::PermissionDenied, "PERMISSION_DENIED"), 1);
        assert_eq!(Failure::usage("x").exit_code(), 2);
    }
}
