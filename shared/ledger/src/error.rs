//! What can go wrong while appending, apart from refusals, which are outcomes.

use weir_kernel::{Classify, ErrorKind};

/// An error of the ledger.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tenant has no configuration yet, or does not exist.
    #[error("tenant `{0}` is not known; publish a configuration first")]
    TenantNotFound(String),
    /// The scope is not in the tenant's current configuration.
    #[error("scope `{0}` is not in the current configuration; see `weir config get`")]
    ScopeNotFound(String),
    /// The request id was used with other content.
    #[error("request id `{0}` was used before with other content; use a fresh one")]
    RequestConflict(String),
    /// A stored envelope cannot be read.
    #[error("stored attributes of an event are unreadable")]
    Corrupt(#[from] serde_json::Error),
    /// A stored code is outside its vocabulary.
    #[error(transparent)]
    Unknown(#[from] weir_kernel::UnknownCode),
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
            Self::Db(e) => Some(e),
            _ => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::TenantNotFound(_) | Self::ScopeNotFound(_) => ErrorKind::NotFound,
            Self::RequestConflict(_) => ErrorKind::AlreadyExists,
            Self::Corrupt(_) | Self::Unknown(_) => ErrorKind::Internal,
            Self::Db(e) => e.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::TenantNotFound(_) => "TENANT_NOT_FOUND",
            Self::ScopeNotFound(_) => "SCOPE_NOT_FOUND",
            Self::RequestConflict(_) => "REQUEST_CONFLICT",
            Self::Corrupt(_) | Self::Unknown(_) => "INTERNAL",
            Self::Db(e) => e.reason(),
        }
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Db(e) => e.retry_after(),
            _ => None,
        }
    }
}
