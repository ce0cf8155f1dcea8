//! What can go wrong while migrating.

use std::error::Error as _;
use std::time::Duration;

use weir_kernel::{Classify, ErrorKind, Violation};

use crate::runner::Holder;

/// An error of a status, up or down.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `up` was told to reach a version that is behind the database (rule m02).
    #[error(
        "the database is at version {current}, going to {target} would be backward; use `down --target {target} --confirm`"
    )]
    Backward {
        /// Version asked for.
        target: i64,
        /// Version of the database.
        current: i64,
    },
    /// No migration of this binary has the version asked for (rule m02).
    #[error("there is no migration {target}, the known ones end at {latest}")]
    UnknownTarget {
        /// Version asked for.
        target: i64,
        /// Newest version of this binary.
        latest: i64,
    },
    /// `down` was told to go back to a version that the database never reached (rule m02).
    #[error(
        "migration {target} is not applied, the database is at version {current}; there is nothing to go back to"
    )]
    NotApplied {
        /// Version asked for.
        target: i64,
        /// Version of the database.
        current: i64,
    },
    /// `down` was called without a target (rule m02).
    #[error("`down` needs an explicit `target`, because it may lose data; 0 empties the schema")]
    TargetMissing,
    /// `down` was called without the confirmation (rule m02).
    #[error("going down to {target} may lose data; say `confirm` if that is meant")]
    NotConfirmed {
        /// Version asked for.
        target: i64,
    },
    /// Another runner is at work, and stayed for as long as this one would wait (rule m02).
    #[error("another runner is migrating this database, given up after {}: {}", humantime::format_duration(*.waited), describe_holder(.holder))]
    Locked {
        /// The other runner, if it could still be seen.
        holder: Option<Holder>,
        /// How long this one waited.
        waited: Duration,
    },
    /// Files differ from what was applied. Nothing was changed.
    #[error("the files of migrations {} differ from what was applied; migrations are never edited once applied, restore them", list(.versions))]
    ChecksumMismatch {
        /// The versions.
        versions: Vec<i64>,
    },
    /// The database has migrations of a newer binary. Nothing was changed.
    #[error("the database has migrations that this binary does not know ({}); use the newer binary that brought them", list(.versions))]
    UnknownApplied {
        /// The versions.
        versions: Vec<i64>,
    },
    /// A step to take back has no down file. Nothing was changed.
    #[error("migration {version} `{name}` has no down file, nothing was changed")]
    NoDownFile {
        /// Version of the step.
        version: i64,
        /// Name of the step.
        name: String,
    },
    /// A step failed (rule m05).
    #[error("migration {version} `{name}` failed going {direction}: {cause}; {left}")]
    Failed {
        /// Version of the step.
        version: i64,
        /// Name of the step.
        name: String,
        /// `up` or `down`.
        direction: &'static str,
        /// What the database said.
        cause: String,
        /// What the step left behind, and how to go on.
        left: String,
        /// Says that the connection was lost, so trying again is likely to help.
        disconnected: bool,
    },
    /// The time to wait for another runner is negative or not a duration. Reason `INVALID_ARGUMENT`.
    #[error("`wait` must be a duration of 0 s or more")]
    InvalidWait,
    /// The address of the database is not one.
    #[error("the database's address cannot be read")]
    Address(#[source] sqlx::Error),
    /// The database does not answer, or does not let this runner in or read.
    #[error("the database cannot be used: {}", describe(.0))]
    Database(weir_pg::Error),
}

impl From<weir_pg::Error> for Error {
    fn from(error: weir_pg::Error) -> Self {
        Self::Database(error)
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownTarget { .. }
            | Self::NotApplied { .. }
            | Self::TargetMissing
            | Self::NotConfirmed { .. }
            | Self::InvalidWait => ErrorKind::InvalidArgument,
            Self::Backward { .. }
            | Self::ChecksumMismatch { .. }
            | Self::UnknownApplied { .. }
            | Self::NoDownFile { .. } => ErrorKind::FailedPrecondition,
            // Not Internal: the operator must read what was left (rule m05), and Internal is hidden.
            Self::Failed { disconnected, .. } => {
                if *disconnected {
                    ErrorKind::Unavailable
                } else {
                    ErrorKind::FailedPrecondition
                }
            }
            Self::Locked { .. } => ErrorKind::Conflict,
            Self::Address(_) | Self::Database(_) => ErrorKind::Unavailable,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Backward { .. } => "MIGRATION_BACKWARD",
            Self::UnknownTarget { .. } | Self::NotApplied { .. } => "MIGRATION_UNKNOWN_TARGET",
            Self::TargetMissing | Self::NotConfirmed { .. } => "MIGRATION_NOT_CONFIRMED",
            Self::Locked { .. } => "MIGRATION_LOCKED",
            Self::ChecksumMismatch { .. } => "MIGRATION_CHECKSUM_MISMATCH",
            Self::UnknownApplied { .. } => "MIGRATION_UNKNOWN_APPLIED",
            Self::NoDownFile { .. } | Self::Failed { .. } => "MIGRATION_FAILED",
            Self::InvalidWait => "INVALID_ARGUMENT",
            Self::Address(_) | Self::Database(_) => "DATABASE_UNAVAILABLE",
        }
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::UnknownTarget { .. } | Self::NotApplied { .. } | Self::TargetMissing => {
                vec![Violation::new("target", self.to_string())]
            }
            Self::InvalidWait => vec![Violation::new("wait", self.to_string())],
            Self::NotConfirmed { .. } => vec![Violation::new("confirm", self.to_string())],
            _ => Vec::new(),
        }
    }
}

/// What the database or the driver said, in one line and without the row's values.
pub(crate) fn describe(error: &weir_pg::Error) -> String {
    let Some(said) = error
        .source()
        .and_then(|source| source.downcast_ref::<sqlx::Error>())
    else {
        return error.to_string();
    };
    match said {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            format!("{} ({code})", error.message().replace('\n', " "))
        }
        other => other.to_string().replace('\n', " "),
    }
}

fn describe_holder(holder: &Option<Holder>) -> String {
    holder.as_ref().map_or_else(
        || "it has just ended, try again".to_owned(),
        Holder::to_string,
    )
}

fn list(versions: &[i64]) -> String {
    versions
        .iter()
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
