//! Why a read is not answered.

use std::time::Duration;

use weir_kernel::limits::one_line;
use weir_kernel::{Classify, ErrorKind, UnknownCode, Violation};

use crate::route::refusals::Unreadable;

/// An error of a read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fields of the request are wrong. Reason `INVALID_REQUEST`.
    #[error("{}", first(.0))]
    Invalid(Vec<Violation>),
    /// The token is not one that this list gave to this tenant for this filter. Reason
    /// `PAGE_TOKEN_INVALID`; the caller starts without one.
    #[error("`{0}` is not a token of this list with this filter; start without one")]
    PageToken(&'static str),
    /// No such event in the tenant. Reason `EVENT_NOT_FOUND`.
    #[error("event `{}` not found", one_line(.0, 120))]
    EventNotFound(String),
    /// The tenant never had a scope of this name. Reason `SCOPE_NOT_FOUND`.
    #[error("scope `{}` not found", one_line(.0, 120))]
    ScopeNotFound(String),
    /// No webhook source of this name in the scope. Reason `SOURCE_NOT_FOUND`.
    #[error("source `{}` not found", one_line(.0, 120))]
    SourceNotFound(String),
    /// The tenant has no generation of this number. Reason `GENERATION_NOT_FOUND`.
    #[error("generation {0} not found")]
    GenerationNotFound(i64),
    /// The server ends; the stream goes on elsewhere by its resume token. Reason `SHUTTING_DOWN`.
    #[error("the server is shutting down; go on with the last resume token")]
    ShuttingDown,
    /// A stored code is outside its vocabulary.
    #[error(transparent)]
    Unknown(#[from] UnknownCode),
    /// A stored envelope cannot be read.
    #[error("stored attributes of an event are unreadable")]
    Corrupt(#[from] serde_json::Error),
    /// Stored refusals cannot be read.
    #[error(transparent)]
    Refusals(#[from] Unreadable),
    /// The ledger's: TENANT_NOT_FOUND.
    #[error(transparent)]
    Ledger(#[from] weir_ledger::Error),
    /// The database.
    #[error(transparent)]
    Db(#[from] weir_pg::Error),
}

impl Error {
    /// Names one field and its fault.
    pub fn field(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, description)])
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Db(error.into())
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::Invalid(vec![violation])
    }
}

impl weir_pg::TxError for Error {
    fn db(&self) -> Option<&weir_pg::Error> {
        match self {
            Self::Db(error) => Some(error),
            Self::Ledger(error) => error.db(),
            _ => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::PageToken(_) => ErrorKind::InvalidArgument,
            Self::EventNotFound(_)
            | Self::ScopeNotFound(_)
            | Self::SourceNotFound(_)
            | Self::GenerationNotFound(_) => ErrorKind::NotFound,
            Self::ShuttingDown => ErrorKind::Unavailable,
            Self::Unknown(_) | Self::Corrupt(_) | Self::Refusals(_) => ErrorKind::Internal,
            Self::Ledger(error) => error.kind(),
            Self::Db(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_REQUEST",
            Self::PageToken(_) => "PAGE_TOKEN_INVALID",
            Self::EventNotFound(_) => "EVENT_NOT_FOUND",
            Self::ScopeNotFound(_) => "SCOPE_NOT_FOUND",
            Self::SourceNotFound(_) => "SOURCE_NOT_FOUND",
            Self::GenerationNotFound(_) => "GENERATION_NOT_FOUND",
            Self::ShuttingDown => "SHUTTING_DOWN",
            Self::Unknown(_) | Self::Corrupt(_) | Self::Refusals(_) => "INTERNAL",
            Self::Ledger(error) => error.reason(),
            Self::Db(error) => error.reason(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            // Another replica, or the next one here, answers soon.
            Self::ShuttingDown => Some(Duration::from_secs(1)),
            Self::Ledger(error) => error.retry_after(),
            Self::Db(error) => error.retry_after(),
            _ => None,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            Self::PageToken(field) => vec![Violation::new(
                *field,
                "is not a token of this list with this filter",
            )],
            _ => Vec::new(),
        }
    }
}

fn first(violations: &[Violation]) -> String {
    violations
        .first()
        .map(|v| format!("`{}` {}", v.field, v.description))
        .unwrap_or_default()
}
