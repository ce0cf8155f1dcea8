//! The only place that reads a SQLSTATE.

use std::time::Duration;

use weir_kernel::{Classify, ErrorKind};

/// When a caller may try again while the database is away. Longer than one failed acquire would
/// make a recovered database look absent; shorter would make the callers a herd.
const RETRY_UNAVAILABLE: Duration = Duration::from_secs(1);

/// When a caller may try again after the runner lost every race of its budget.
const RETRY_CONTENTION: Duration = Duration::from_millis(200);

/// Why a statement or a transaction failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be reached, is full of connections, shuts down or is read-only. Nothing
    /// was committed. Reason `DATABASE_UNAVAILABLE`.
    #[error("the database is unavailable")]
    Unavailable(#[source] sqlx::Error),
    /// The database answers, but refuses writes: a standby, or set read-only. Reason
    /// `DATABASE_UNAVAILABLE`.
    #[error("the database is read-only")]
    ReadOnly,
    /// The connection was lost during COMMIT, so the transaction may or may not be there. Never
    /// retried here; the caller's request id makes the repeat safe (rule o08). Reason
    /// `COMMIT_UNKNOWN`.
    #[error("the connection was lost during commit, its outcome is unknown")]
    CommitUnknown(#[source] sqlx::Error),
    /// A serialization failure or a deadlock; [`crate::Db::run`] has already repeated the command
    /// when a caller sees it. Reason `CONTENTION`.
    #[error("the transaction lost its race")]
    Contention(#[source] sqlx::Error),
    /// The command saw, inside its transaction, that what it decided on has changed, and wants to
    /// be repeated with fresh eyes. Reason `CONTENTION` once the budget of repeats is spent.
    #[error("the data changed under the transaction")]
    Again,
    /// The role for reading is missing, or this service's user is no member of it. Reason
    /// `READ_ROLE_UNUSABLE`; the operator's to mend.
    #[error(
        "setting `READ_ROLE` names role `{role}`, which is missing or not for this service's user"
    )]
    Role {
        /// The role.
        role: String,
        /// What the server said.
        source: sqlx::Error,
    },
    /// Any other failure of a statement: a violated constraint, a bug. Reason `INTERNAL`; its text
    /// is never shown to a caller.
    #[error("a statement failed")]
    Query(#[source] sqlx::Error),
}

impl Error {
    /// Returns the name of the violated constraint, for a store to map to its domain error.
    pub fn constraint_name(&self) -> Option<&str> {
        match self {
            Self::Query(error) => error.as_database_error().and_then(|e| e.constraint()),
            Self::Unavailable(_)
            | Self::ReadOnly
            | Self::CommitUnknown(_)
            | Self::Contention(_)
            | Self::Role { .. }
            | Self::Again => None,
        }
    }

    /// Returns whether repeating the whole transaction can help and cannot harm.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Contention(_) | Self::Again)
    }

    /// Returns whether a statement gave up its wait for somebody else's lock (`lock_timeout`, NOWAIT).
    /// Not repeated by [`crate::Db::run`]; a migration lets go of everything and tries again.
    pub fn is_lock_timeout(&self) -> bool {
        matches!(self, Self::Query(error) if sqlstate(error).as_deref() == Some("55P03"))
    }

    /// Reads a failure before the first statement: whatever it is, nothing has happened yet, and
    /// only the operator or time can mend it.
    pub(crate) fn at_begin(error: sqlx::Error) -> Self {
        Self::Unavailable(error)
    }

    /// Reads a failure to take a role on: no such role (22023), or not a member of it (42501).
    pub(crate) fn at_role(role: &str, error: sqlx::Error) -> Self {
        match sqlstate(&error).as_deref() {
            Some("22023" | "42501") => Self::Role {
                role: role.to_owned(),
                source: error,
            },
            _ => Self::from(error),
        }
    }

    /// Reads a failure of COMMIT. An answer of the server is a definite rollback, except where it
    /// says that it goes away: a session that is terminated may have committed first.
    pub(crate) fn at_commit(error: sqlx::Error) -> Self {
        match sqlstate(&error) {
            Some(code) if !is_session_lost(&code) => Self::from(error),
            _ => Self::CommitUnknown(error),
        }
    }

    /// Returns whether the session is gone, so that another connection may work at once.
    pub(crate) fn is_connection_lost(error: &sqlx::Error) -> bool {
        match sqlstate(error) {
            Some(code) => is_session_lost(&code),
            None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_)),
        }
    }
}

impl From<sqlx::Error> for Error {
    /// Reads the failure of a statement inside a transaction that has not been committed.
    fn from(error: sqlx::Error) -> Self {
        if let Some(code) = sqlstate(&error) {
            return match code.as_str() {
                "40001" | "40P01" => Self::Contention(error),
                code if is_session_lost(code) || is_out_of_service(code) => {
                    Self::Unavailable(error)
                }
                _ => Self::Query(error),
            };
        }
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Self::Unavailable(error),
            other => Self::Query(other),
        }
    }
}

fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error
        .as_database_error()
        .and_then(|e| e.code())
        .map(|code| code.into_owned())
}

/// Class 08 (connection exceptions), the shutdown of a server or the end of this session, and a
/// statement whose completion the server itself does not know.
fn is_session_lost(code: &str) -> bool {
    code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "40003")
}

/// Too many connections, no memory, no disk, a standby or a server set read-only, or a database that
/// is being dropped: the operator's, not the caller's.
fn is_out_of_service(code: &str) -> bool {
    code.starts_with("53") || matches!(code, "25006" | "57P04" | "57014" | "25P03")
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) | Self::ReadOnly | Self::CommitUnknown(_) => {
                ErrorKind::Unavailable
            }
            Self::Contention(_) | Self::Again => ErrorKind::Conflict,
            Self::Role { .. } => ErrorKind::FailedPrecondition,
            Self::Query(_) => ErrorKind::Internal,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable(_) | Self::ReadOnly => "DATABASE_UNAVAILABLE",
            Self::CommitUnknown(_) => "COMMIT_UNKNOWN",
            Self::Contention(_) | Self::Again => "CONTENTION",
            Self::Role { .. } => "READ_ROLE_UNUSABLE",
            Self::Query(_) => "INTERNAL",
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(_) | Self::ReadOnly | Self::CommitUnknown(_) => {
                Some(RETRY_UNAVAILABLE)
            }
            Self::Contention(_) | Self::Again => Some(RETRY_CONTENTION),
            Self::Role { .. } | Self::Query(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> sqlx::Error {
        sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into())
    }

    #[test]
    fn a_lost_connection_is_unavailable_before_commit_and_unknown_during_it() {
        assert!(matches!(Error::from(refused()), Error::Unavailable(_)));
        assert!(matches!(
            Error::at_commit(refused()),
            Error::CommitUnknown(_)
        ));
        assert!(matches!(
            Error::from(sqlx::Error::PoolTimedOut),
            Error::Unavailable(_)
        ));
        assert!(matches!(
            Error::from(sqlx::Error::RowNotFound),
            Error::Query(_)
        ));
    }

    #[test]
    fn only_lost_races_are_repeated() {
        assert!(Error::Again.is_retryable());
        assert!(!Error::at_commit(refused()).is_retryable());
        assert!(!Error::ReadOnly.is_retryable());
    }

    #[test]
    fn states_are_read_by_class() {
        for code in ["57P01", "57P02", "57P03", "08006", "08P01", "40003"] {
            assert!(is_session_lost(code), "{code}");
        }
        for code in ["53300", "53100", "25006"] {
            assert!(is_out_of_service(code) && !is_session_lost(code), "{code}");
        }
        assert!(!is_session_lost("40001") && !is_out_of_service("23505"));
    }
}
