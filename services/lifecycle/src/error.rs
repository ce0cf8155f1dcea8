//! What can go wrong in this service, typed where it happens.

use std::time::Duration;

use weir_kernel::{Classify, ErrorKind, EventUid, Violation, WorkId, WorkState};

/// How long a worker waits before it completes again while routing is behind.
const RETRY_UNROUTED: Duration = Duration::from_millis(200);

/// An error of the lifecycle service.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fields of the request are wrong.
    #[error("request is invalid: `{}` {}", .0.first().map_or("", |v| &v.field), .0.first().map_or("", |v| &v.description))]
    Invalid(Vec<Violation>),
    /// No scope (or not the named one) has the binding in the current generation.
    #[error("binding `{0}` is not in the current configuration; see `weir config get`")]
    BindingNotFound(String),
    /// The registration is not the one that the caller stated (rule l01).
    #[error(
        "executor `{executor}` is at registration {current}, not {stated}; register again and claim with what that answers"
    )]
    BindingChanged {
        /// The binding's executor.
        executor: String,
        /// Its current revision.
        current: i64,
        /// What the caller stated.
        stated: i64,
    },
    /// The binding names no executor: it queues only (rule r11).
    #[error("binding `{0}` has no executor; name one in the configuration and publish it")]
    BindingQueueOnly(String),
    /// The binding's executor was never registered (rule r11).
    #[error(
        "executor `{executor}` of binding `{binding}` is not registered; call ExecutorService/RegisterExecutor first"
    )]
    ExecutorNotRegistered {
        /// The binding.
        binding: String,
        /// Its executor.
        executor: String,
    },
    /// Accepted input of the Work is not routed yet (rule l06).
    #[error(
        "work `{work}` has unrouted input `{event}`; complete again once it is routed, or skip it"
    )]
    UnroutedInput {
        /// The Work.
        work: WorkId,
        /// The oldest such event.
        event: EventUid,
    },
    /// The attempt was ended by the same method with other content (rule o08).
    #[error("attempt {attempt} of work `{work}` was ended by a request with other content")]
    AttemptConflict {
        /// The Work.
        work: WorkId,
        /// The attempt.
        attempt: i32,
    },
    /// The event was never offered to this attempt.
    #[error("event `{0}` was not offered to this attempt; acknowledge what a renewal offers")]
    IntentNotFound(EventUid),
    /// Another Work owns the key, for ever (rule r08).
    #[error("key `{key}` is owned by work `{work}`; keys are never released, qualify it")]
    KeyOwned {
        /// The key.
        key: String,
        /// Its owner.
        work: WorkId,
    },
    /// No Work of the scope owns the key.
    #[error("no work owns key `{0}` in this scope")]
    KeyNotFound(String),
    /// The Work has ended.
    #[error("work `{work}` is {state}; an ended work never changes")]
    WorkTerminal {
        /// The Work.
        work: WorkId,
        /// Where it stands.
        state: WorkState,
    },
    /// The Work is not held.
    #[error("work `{work}` is {state}, only held work is released")]
    WorkNotHeld {
        /// The Work.
        work: WorkId,
        /// Where it stands.
        state: WorkState,
    },
    /// The event's identity is taken by other content (rule a01).
    #[error(
        "event `{0}` was accepted under this actor and request id with other content; use a fresh one"
    )]
    EventConflict(EventUid),
    /// A stored answer cannot be read.
    #[error("a stored answer is unreadable")]
    Corrupt(#[from] prost::DecodeError),
    /// The Work aggregate.
    #[error(transparent)]
    Work(#[from] weir_work::Error),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] weir_ledger::Error),
    /// The database.
    #[error(transparent)]
    Db(#[from] weir_pg::Error),
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

impl From<weir_kernel::UnknownCode> for Error {
    fn from(error: weir_kernel::UnknownCode) -> Self {
        Self::Work(error.into())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl weir_pg::TxError for Error {
    fn db(&self) -> Option<&weir_pg::Error> {
        match self {
            Self::Db(error) => Some(error),
            Self::Work(error) => error.db(),
            Self::Ledger(error) => error.db(),
            _ => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) => ErrorKind::InvalidArgument,
            Self::BindingNotFound(_) | Self::IntentNotFound(_) | Self::KeyNotFound(_) => {
                ErrorKind::NotFound
            }
            Self::BindingChanged { .. } => ErrorKind::Conflict,
            Self::BindingQueueOnly(_)
            | Self::ExecutorNotRegistered { .. }
            | Self::UnroutedInput { .. }
            | Self::WorkTerminal { .. }
            | Self::WorkNotHeld { .. } => ErrorKind::FailedPrecondition,
            Self::AttemptConflict { .. } | Self::KeyOwned { .. } | Self::EventConflict(_) => {
                ErrorKind::AlreadyExists
            }
            Self::Corrupt(_) => ErrorKind::Internal,
            Self::Work(error) => error.kind(),
            Self::Ledger(error) => error.kind(),
            Self::Db(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "INVALID_REQUEST",
            Self::BindingNotFound(_) => "BINDING_NOT_FOUND",
            Self::BindingChanged { .. } => "BINDING_CHANGED",
            Self::BindingQueueOnly(_) | Self::ExecutorNotRegistered { .. } => {
                "EXECUTOR_NOT_REGISTERED"
            }
            Self::UnroutedInput { .. } => "UNROUTED_INPUT",
            Self::AttemptConflict { .. } => "REQUEST_CONFLICT",
            Self::IntentNotFound(_) => "INTENT_NOT_FOUND",
            Self::KeyOwned { .. } => "KEY_OWNED",
            Self::KeyNotFound(_) => "WORK_NOT_FOUND",
            Self::WorkTerminal { .. } => "WORK_TERMINAL",
            Self::WorkNotHeld { .. } => "WORK_NOT_HELD",
            Self::EventConflict(_) => "EVENT_CONFLICT",
            Self::Corrupt(_) => "INTERNAL",
            Self::Work(error) => error.reason(),
            Self::Ledger(error) => error.reason(),
            Self::Db(error) => error.reason(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::UnroutedInput { .. } => Some(RETRY_UNROUTED),
            Self::Work(error) => error.retry_after(),
            Self::Ledger(error) => error.retry_after(),
            Self::Db(error) => error.retry_after(),
            _ => None,
        }
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            _ => Vec::new(),
        }
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::UnroutedInput { work, event } => {
                vec![("work", work.to_string()), ("event", event.to_string())]
            }
            Self::KeyOwned { work, .. } => vec![("work", work.to_string())],
            Self::EventConflict(event) => vec![("event", event.to_string())],
            Self::BindingChanged {
                executor, current, ..
            } => {
                vec![
                    ("executor", executor.clone()),
                    ("registration", current.to_string()),
                ]
            }
            _ => Vec::new(),
        }
    }
}
