//! What can go wrong in routing, typed where it happens.

use std::time::Duration;

use weir_kernel::{Classify, Disposition, ErrorKind, EventUid, Violation, WorkId};

use crate::generation;

/// An error of the routing service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request breaks a written rule.
    #[error("the request is invalid: {}", first(.0))]
    Invalid(Vec<Violation>),
    /// The event does not exist, or belongs to another tenant (rule o04).
    #[error("event `{0}` not found")]
    EventNotFound(String),
    /// The identity was accepted with other content (rule a01).
    #[error(
        "event `{id}` of source `{source_name}` was accepted before with other content, as `{uid}`"
    )]
    EventConflict {
        /// Producer's source.
        source_name: String,
        /// Producer's id.
        id: String,
        /// What was accepted.
        uid: EventUid,
    },
    /// The Work that the event names is not in the scope.
    #[error("work `{0}` is not in this scope")]
    TargetNotFound(WorkId),
    /// A key rule of the configuration cannot be evaluated for the event (rule a07).
    #[error("{0}")]
    KeyRule(#[from] crate::tenant::KeyError),
    /// Only an unrouted event can be skipped; only an unrouted, failed, skipped or unmatched one rerouted.
    #[error("event `{uid}` is already routed ({disposition}); see `weir events get {uid}`")]
    AlreadyRouted {
        /// The event.
        uid: EventUid,
        /// How.
        disposition: Disposition,
    },
    /// A copy of it is live or succeeded (rule r31).
    #[error("event `{uid}` was rerouted already, as `{copy}`; see `weir events get {copy}`")]
    AlreadyRerouted {
        /// The event.
        uid: EventUid,
        /// The copy.
        copy: EventUid,
    },
    /// Its payload is archived (rule r31).
    #[error("the payload of event `{0}` is gone; publish it again from its producer")]
    PayloadGone(EventUid),
    /// The configuration changed while the command ran; it is made afresh with the new one.
    #[error("the configuration changed meanwhile; try again")]
    GenerationChanged,
    /// All or none: one item of an atomic batch was refused.
    #[error("item {index} of the atomic batch was refused, so none was accepted: {error}")]
    Atomic {
        /// Which.
        index: usize,
        /// Why.
        error: Box<Error>,
    },
    /// The causal limits refuse it. Ordinary ingress accepts roots only, so this does not happen there.
    #[error("the causal limits refuse the event")]
    Refused,
    /// No configuration to decide by.
    #[error(transparent)]
    Generation(#[from] generation::Error),
    /// A configuration that is tried is not good (rule r45).
    #[error(transparent)]
    Config(#[from] crate::command::publish_config::Error),
    /// A handler of the scope does not offer its samples (rule r46).
    #[error("route `{slot}` offers no samples: {code}: {error}")]
    Samples {
        /// The route.
        slot: String,
        /// How its handler fails.
        code: weir_kernel::FailureCode,
        /// In words.
        error: String,
    },
    /// A read.
    #[error(transparent)]
    Query(#[from] crate::query::Error),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] weir_ledger::Error),
    /// The Work aggregate.
    #[error(transparent)]
    Work(#[from] weir_work::Error),
    /// A stored code is outside its vocabulary.
    #[error("stored code is unknown")]
    Stored(#[from] weir_kernel::UnknownCode),
    /// A stored envelope cannot be read.
    #[error("stored attributes of an event are unreadable")]
    Corrupt(#[from] serde_json::Error),
    /// The process is shutting down.
    #[error("the service is shutting down; try again")]
    ShuttingDown,
    /// The database.
    #[error(transparent)]
    Db(#[from] weir_pg::Error),
}

fn first(violations: &[Violation]) -> String {
    violations
        .first()
        .map(|v| format!("`{}` {}", v.field, v.description))
        .unwrap_or_default()
}

impl Error {
    /// Makes an error of one field.
    pub fn field(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, description)])
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Db(weir_pg::Error::from(error))
    }
}

impl weir_pg::TxError for Error {
    fn db(&self) -> Option<&weir_pg::Error> {
        match self {
            Self::Db(e) => Some(e),
            Self::Ledger(e) => e.db(),
            Self::Work(e) => e.db(),
            Self::Generation(e) => e.db(),
            Self::Config(e) => e.db(),
            Self::Query(e) => e.db(),
            _ => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::KeyRule(_) => ErrorKind::InvalidArgument,
            Self::EventNotFound(_) | Self::TargetNotFound(_) => ErrorKind::NotFound,
            Self::EventConflict { .. } => ErrorKind::AlreadyExists,
            Self::AlreadyRouted { .. }
            | Self::AlreadyRerouted { .. }
            | Self::PayloadGone(_)
            | Self::Refused => ErrorKind::FailedPrecondition,
            Self::GenerationChanged => ErrorKind::Conflict,
            Self::Atomic { error, .. } => error.kind(),
            Self::Samples { code, .. } if code.is_retryable() => ErrorKind::Unavailable,
            Self::Samples { .. } => ErrorKind::FailedPrecondition,
            Self::ShuttingDown => ErrorKind::Unavailable,
            Self::Stored(_) | Self::Corrupt(_) => ErrorKind::Internal,
            Self::Generation(e) => e.kind(),
            Self::Config(e) => e.kind(),
            Self::Query(e) => e.kind(),
            Self::Ledger(e) => e.kind(),
            Self::Work(e) => e.kind(),
            Self::Db(e) => e.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_REQUEST",
            Self::EventNotFound(_) => "EVENT_NOT_FOUND",
            Self::EventConflict { .. } => "EVENT_CONFLICT",
            Self::TargetNotFound(_) => "WORK_NOT_FOUND",
            Self::KeyRule(_) => "KEY_RULE_FAILED",
            Self::AlreadyRouted { .. } => "ALREADY_ROUTED",
            Self::AlreadyRerouted { .. } => "ALREADY_REROUTED",
            Self::PayloadGone(_) => "PAYLOAD_GONE",
            Self::GenerationChanged => "GENERATION_CHANGED",
            Self::Atomic { error, .. } => error.reason(),
            Self::Refused => "CAUSAL_LIMIT",
            Self::Samples { .. } => "SAMPLES_FAILED",
            Self::ShuttingDown => "SHUTTING_DOWN",
            Self::Stored(_) | Self::Corrupt(_) => "INTERNAL",
            Self::Generation(e) => e.reason(),
            Self::Config(e) => e.reason(),
            Self::Query(e) => e.reason(),
            Self::Ledger(e) => e.reason(),
            Self::Work(e) => e.reason(),
            Self::Db(e) => e.reason(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::GenerationChanged | Self::ShuttingDown => Some(Duration::from_millis(200)),
            Self::Generation(e) => e.retry_after(),
            Self::Config(e) => e.retry_after(),
            Self::Query(e) => e.retry_after(),
            Self::Ledger(e) => e.retry_after(),
            Self::Work(e) => e.retry_after(),
            Self::Db(e) => e.retry_after(),
            _ => None,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::Invalid(v) => v.clone(),
            Self::KeyRule(e) => vec![Violation::new("event", e.to_string())],
            Self::Atomic { error, .. } => error.violations(),
            Self::Config(e) => e.violations(),
            Self::Query(e) => e.violations(),
            _ => Vec::new(),
        }
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::EventConflict { uid, .. } => vec![("event", uid.to_string())],
            Self::AlreadyRouted { uid, disposition } => {
                vec![
                    ("event", uid.to_string()),
                    ("disposition", disposition.to_string()),
                ]
            }
            Self::AlreadyRerouted { copy, .. } => vec![("event", copy.to_string())],
            Self::Samples { slot, code, .. } => {
                vec![("route", slot.clone()), ("failure", code.to_string())]
            }
            _ => Vec::new(),
        }
    }
}
