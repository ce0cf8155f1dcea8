//! What can go wrong with a Work, typed where it happens.

use weir_kernel::{Classify, ErrorKind, UnknownCode, WorkId};

/// An error of the Work aggregate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Work does not exist, or belongs to another tenant (rule o04).
    #[error("work `{0}` not found")]
    WorkNotFound(WorkId),
    /// The attempt has no authority any more: its lease ran out, was taken over, or it ended (rule l02).
    #[error("lease on work `{0}` is lost")]
    LeaseLost(WorkId),
    /// A stored code is outside its vocabulary.
    #[error("stored code is unknown")]
    Stored(#[from] UnknownCode),
    /// A stored row contradicts another one.
    #[error("stored work `{work}` is inconsistent: {what}")]
    Inconsistent {
        /// The Work.
        work: WorkId,
        /// What contradicts what.
        what: &'static str,
    },
    /// The database failed.
    #[error(transparent)]
    Db(#[from] weir_pg::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Db(weir_pg::Error::from(error))
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::WorkNotFound(_) => ErrorKind::NotFound,
            Self::LeaseLost(_) => ErrorKind::Conflict,
            Self::Stored(_) | Self::Inconsistent { .. } => ErrorKind::Internal,
            Self::Db(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::WorkNotFound(_) => "WORK_NOT_FOUND",
            Self::LeaseLost(_) => "LEASE_LOST",
            Self::Stored(_) | Self::Inconsistent { .. } => "INTERNAL",
            Self::Db(error) => error.reason(),
        }
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Db(error) => error.retry_after(),
            Self::WorkNotFound(_)
            | Self::LeaseLost(_)
            | Self::Stored(_)
            | Self::Inconsistent { .. } => None,
        }
    }
}

impl weir_pg::TxError for Error {
    fn db(&self) -> Option<&weir_pg::Error> {
        match self {
            Self::Db(error) => Some(error),
            Self::WorkNotFound(_)
            | Self::LeaseLost(_)
            | Self::Stored(_)
            | Self::Inconsistent { .. } => None,
        }
    }
}
