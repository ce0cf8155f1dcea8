//! What can go wrong in this service, typed where it happens.

use std::time::Duration;

use chrono::SecondsFormat;
use weir_kernel::{Classify, ErrorKind, EventUid, RefusalCode, Violation, WorkId};
use weir_ledger::Refusal;

/// An error of the causal service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fields of the request are wrong.
    #[error("the request is invalid: {}", first(.0))]
    Invalid(Vec<Violation>),
    /// An emission names another source than its Work's (rule c01).
    #[error("`event.source` is not `{0}`, the source of what this work emits; leave it empty")]
    ForeignSource(String),
    /// The caller believes in another parent than the attempt's trigger (rule c01).
    #[error("`parent` is not `{trigger}`, the trigger of this attempt; leave it empty")]
    ParentMismatch {
        /// The attempt's trigger.
        trigger: EventUid,
    },
    /// The event does not exist, or belongs to another tenant (rule o04).
    #[error("event `{0}` not found")]
    EventNotFound(EventUid),
    /// The identity was accepted with other content (rule a01).
    #[error(
        "event `{id}` of source `{source_name}` was accepted before with other content, as `{uid}`"
    )]
    EventConflict {
        /// Its source.
        source_name: String,
        /// Its id.
        id: String,
        /// What was accepted.
        uid: EventUid,
    },
    /// The Work that the event names is not in the scope.
    #[error("work `{0}` is not in this scope")]
    TargetNotFound(WorkId),
    /// The causal limits refuse the event; the diagnostic is committed (rule c05).
    #[error("{}", refused(.0))]
    Refused(Refusal),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] weir_ledger::Error),
    /// The Work aggregate.
    #[error(transparent)]
    Work(#[from] weir_work::Error),
    /// A stored code is outside its vocabulary.
    #[error("stored code is unknown")]
    Stored(#[from] weir_kernel::UnknownCode),
    /// The database.
    #[error(transparent)]
    Db(#[from] weir_pg::Error),
}

fn first(violations: &[Violation]) -> String {
    let write = |v: &Violation| format!("`{}` {}", v.field, v.description);
    violations.first().map(write).unwrap_or_default()
}

fn next_minute(refusal: &Refusal) -> String {
    refusal
        .next_minute
        .to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn refused(refusal: &Refusal) -> String {
    let Refusal {
        code,
        root,
        depth,
        limit,
        ..
    } = refusal;
    match code {
        RefusalCode::Rate => format!(
            "root `{root}` has its {limit} derived events of this minute; try again at {}",
            next_minute(refusal)
        ),
        RefusalCode::Depth => format!(
            "the event would stand at depth {depth} below root `{root}`, the limit is {limit}; end this causal branch"
        ),
        RefusalCode::MissingParent => {
            format!("parent `{root}` not found; nothing can derive from it")
        }
        RefusalCode::Braked => {
            format!("root `{root}` is braked; release it and try again")
        }
    }
}

impl Error {
    /// Refuses one field.
    pub(crate) fn field(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, description)])
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::Invalid(vec![violation])
    }
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
            Self::Work(error) => error.db(),
            _ => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::ForeignSource(_) => ErrorKind::InvalidArgument,
            Self::ParentMismatch { .. } => ErrorKind::FailedPrecondition,
            Self::EventNotFound(_) | Self::TargetNotFound(_) => ErrorKind::NotFound,
            Self::EventConflict { .. } => ErrorKind::AlreadyExists,
            Self::Refused(refusal) => match refusal.code {
                RefusalCode::Depth => ErrorKind::DepthExceeded,
                RefusalCode::Rate => ErrorKind::RateExceeded,
                RefusalCode::MissingParent => ErrorKind::MissingParent,
                RefusalCode::Braked => ErrorKind::FailedPrecondition,
            },
            Self::Stored(_) => ErrorKind::Internal,
            Self::Ledger(error) => error.kind(),
            Self::Work(error) => error.kind(),
            Self::Db(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_REQUEST",
            Self::ForeignSource(_) => "FOREIGN_SOURCE",
            Self::ParentMismatch { .. } => "PARENT_MISMATCH",
            Self::EventNotFound(_) => "EVENT_NOT_FOUND",
            Self::TargetNotFound(_) => "WORK_NOT_FOUND",
            Self::EventConflict { .. } => "EVENT_CONFLICT",
            Self::Refused(refusal) => match refusal.code {
                RefusalCode::Depth => "DEPTH_EXCEEDED",
                RefusalCode::Rate => "RATE_EXCEEDED",
                RefusalCode::MissingParent => "PARENT_MISSING",
                RefusalCode::Braked => "ROOT_BRAKED",
            },
            Self::Stored(_) => "INTERNAL",
            Self::Ledger(error) => error.reason(),
            Self::Work(error) => error.reason(),
            Self::Db(error) => error.reason(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) if refusal.code == RefusalCode::Rate => {
                Some(refusal.retry_after)
            }
            Self::Ledger(error) => error.retry_after(),
            Self::Work(error) => error.retry_after(),
            Self::Db(error) => error.retry_after(),
            _ => None,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            Self::ForeignSource(source) => {
                vec![Violation::new(
                    "event.source",
                    format!("is not `{source}`; leave it empty"),
                )]
            }
            _ => Vec::new(),
        }
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::ParentMismatch { trigger } => vec![("parent", trigger.to_string())],
            Self::EventConflict { uid, .. } => vec![("event", uid.to_string())],
            Self::Refused(refusal) => {
                let mut facts = vec![
                    ("root", refusal.root.to_string()),
                    ("depth", refusal.depth.to_string()),
                    ("limit", refusal.limit.to_string()),
                ];
                if refusal.code == RefusalCode::Rate {
                    facts.push(("next_minute", next_minute(refusal)));
                }
                facts
            }
            _ => Vec::new(),
        }
    }
}
