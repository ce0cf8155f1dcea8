//! Why a configuration is not published. Nothing is stored in any of these cases.

use std::time::Duration;

use weir_kernel::{Classify, ErrorKind, Violation};

use crate::tenant::Problem;

/// A refused publication.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document is wrong. Reason `CONFIG_INVALID`; each error of the document is a violation
    /// whose field is its path.
    #[error("{}", headline(.0))]
    Invalid(Vec<Problem>),
    /// A field of the request is wrong. Reason `INVALID_REQUEST`.
    #[error("`{}` {}", .0.field, .0.description)]
    Field(Violation),
    /// The request does not say which generation it replaces. Reason `GENERATION_REQUIRED`.
    #[error("`expected_generation` is required; the current generation is {current}")]
    Expectation {
        /// The current generation; 0 when there is none.
        current: i64,
    },
    /// Another publication came first. Reason `GENERATION_CONFLICT`; the caller reads the current
    /// document and starts over.
    #[error("generation {expected} is not current, generation {current} is; read it and try again")]
    Conflict {
        /// What the caller expected.
        expected: i64,
        /// The current generation; 0 when there is none.
        current: i64,
    },
    /// The stored answer of an earlier request cannot be read.
    #[error("a stored answer is unreadable")]
    Answer(#[from] serde_json::Error),
    /// The ledger's.
    #[error(transparent)]
    Ledger(#[from] weir_ledger::Error),
    /// The database.
    #[error(transparent)]
    Db(#[from] weir_pg::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Db(error.into())
    }
}

impl weir_pg::TxError for Error {
    fn db(&self) -> Option<&weir_pg::Error> {
        match self {
            Self::Db(error) => Some(error),
            Self::Ledger(error) => error.db(),
            Self::Invalid(_)
            | Self::Field(_)
            | Self::Expectation { .. }
            | Self::Conflict { .. }
            | Self::Answer(_) => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::Field(_) | Self::Expectation { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Answer(_) => ErrorKind::Internal,
            Self::Ledger(error) => error.kind(),
            Self::Db(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "CONFIG_INVALID",
            Self::Field(_) => "INVALID_REQUEST",
            Self::Expectation { .. } => "GENERATION_REQUIRED",
            Self::Conflict { .. } => "GENERATION_CONFLICT",
            Self::Answer(_) => "INTERNAL",
            Self::Ledger(error) => error.reason(),
            Self::Db(error) => error.reason(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Ledger(error) => error.retry_after(),
            Self::Db(error) => error.retry_after(),
            Self::Invalid(_)
            | Self::Field(_)
            | Self::Expectation { .. }
            | Self::Conflict { .. }
            | Self::Answer(_) => None,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::Invalid(problems) => problems
                .iter()
                .filter(|p| p.is_error())
                .map(violation)
                .collect(),
            Self::Field(violation) => vec![violation.clone()],
            Self::Expectation { current } => {
                vec![Violation::new(
                    "expected_generation",
                    format!("is required; the current one is {current}"),
                )]
            }
            Self::Conflict { .. } | Self::Answer(_) | Self::Ledger(_) | Self::Db(_) => Vec::new(),
        }
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Expectation { current } | Self::Conflict { current, .. } => {
                vec![("current_generation", current.to_string())]
            }
            Self::Invalid(_) | Self::Field(_) | Self::Answer(_) | Self::Ledger(_) | Self::Db(_) => {
                Vec::new()
            }
        }
    }
}

fn violation(problem: &Problem) -> Violation {
    let place = match problem.line {
        0 => String::new(),
        line => format!("line {line}, column {}: ", problem.column),
    };
    // A fault of the whole document has no path, and a violation names a field.
    let field = if problem.path.is_empty() {
        "document"
    } else {
        problem.path.as_str()
    };
    Violation::new(field, format!("{place}{}", problem.message))
}

/// The first error with its place, and how many more there are.
fn headline(problems: &[Problem]) -> String {
    let mut errors = problems.iter().filter(|p| p.is_error());
    let Some(first) = errors.next().map(violation) else {
        return "the configuration is not valid".to_owned();
    };
    let more = match errors.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!(
        "the configuration is not valid: `{}`: {}{more}",
        first.field, first.description
    )
}
