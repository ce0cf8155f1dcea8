//! Why there is no generation to decide by.

use std::time::Duration;

use weir_kernel::{Classify, ErrorKind};

/// An error of [`super::Generations`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The current document of a tenant was accepted by another version and is not by this one.
    /// Reason `CONFIG_UNUSABLE`. Final until another is published.
    #[error(
        "generation {generation} of the configuration does not compile in this version: {problem}; \
         publish a corrected one"
    )]
    Unusable {
        /// The generation.
        generation: i64,
        /// The first problem, with its place.
        problem: String,
    },
    /// A name of the generation has no number, although publication gives every name one.
    #[error("generation {generation} has the {what} `{name}` without a number")]
    Numberless {
        /// The generation.
        generation: i64,
        /// `scope`, `binding` or `route`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// No such tenant, or the database's.
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
            Self::Unusable { .. } | Self::Numberless { .. } => None,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unusable { .. } => ErrorKind::FailedPrecondition,
            Self::Numberless { .. } => ErrorKind::Internal,
            Self::Ledger(error) => error.kind(),
            Self::Db(error) => error.kind(),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "CONFIG_UNUSABLE",
            Self::Numberless { .. } => "INTERNAL",
            Self::Ledger(error) => error.reason(),
            Self::Db(error) => error.reason(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Ledger(error) => error.retry_after(),
            Self::Db(error) => error.retry_after(),
            Self::Unusable { .. } | Self::Numberless { .. } => None,
        }
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Unusable { generation, .. } => vec![("generation", generation.to_string())],
            Self::Numberless { .. } | Self::Ledger(_) | Self::Db(_) => Vec::new(),
        }
    }
}
