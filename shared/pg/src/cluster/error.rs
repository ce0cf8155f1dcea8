//! Why a private cluster could not be started, stopped or used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a call of [`crate::cluster`] failed. No variant is retried by the library; where trying
/// again can help, the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No folder with both `initdb` and `postgres` was found.
    #[error(
        "no PostgreSQL server binaries found: run `make setup`, or install the `postgresql` package{}",
        looked_at(.explicit)
    )]
    BinariesMissing {
        /// The folder that the caller named, when it named one.
        explicit: Option<PathBuf>,
    },
    /// A server program did not say a version that could be read.
    #[error("cannot read the version of `{}`: {detail}", program.display())]
    BinariesVersion {
        /// The program that was asked.
        program: PathBuf,
        /// What it said instead, or why it could not be run.
        detail: String,
    },
    /// The data was written by another major version of PostgreSQL than the one at hand.
    #[error(
        "`{}` was created by PostgreSQL {found} but the binaries are of version {binaries}: install PostgreSQL {found}, or remove the directory to begin anew",
        directory.display()
    )]
    DataVersion {
        /// The data directory.
        directory: PathBuf,
        /// Major version in the data directory.
        found: String,
        /// Major version of the binaries.
        binaries: u32,
    },
    /// This process is root, PostgreSQL refuses root, and there is no user to switch to.
    #[error(
        "PostgreSQL does not run as root and there is no user `postgres` or `nobody` to run it as"
    )]
    NoAccount,
    /// The user that has to run the server cannot reach a folder it needs.
    #[error("user `{account}` cannot reach `{}`: every parent folder must be searchable by it", path.display())]
    Unreachable {
        /// The user that would run the server.
        account: String,
        /// The folder that it cannot enter.
        path: PathBuf,
    },
    /// A folder belongs to a user that this process must not trust or cannot act for.
    #[error("`{}` belongs to user {owner}, not to this user: remove it, or choose another directory", path.display())]
    ForeignOwner {
        /// The folder.
        path: PathBuf,
        /// Its owner's numeric user id.
        owner: u32,
    },
    /// Another process holds the directory. Trying again helps once that process has ended.
    #[error("data directory `{}` is in use by {}", directory.display(), holder(.pid))]
    Locked {
        /// The directory that was asked for.
        directory: PathBuf,
        /// The process that holds it, when it could be read.
        pid: Option<i32>,
    },
    /// A PostgreSQL server that this library did not start runs on the data directory.
    #[error("a PostgreSQL server with process id {pid} that was not started here runs on `{}`: stop it first", directory.display())]
    ForeignServer {
        /// The data directory.
        directory: PathBuf,
        /// The server's process id.
        pid: i32,
    },
    /// A directory that is removed at the end must not hold anything at the start.
    #[error("`{}` is not empty, so it cannot hold a cluster that is removed at its end", directory.display())]
    NotEmpty {
        /// The directory that was asked for.
        directory: PathBuf,
    },
    /// The socket's path would be longer than the system allows (107 bytes).
    #[error("socket path `{}` is longer than 107 bytes: choose a shorter socket folder", path.display())]
    SocketPath {
        /// The path that is too long.
        path: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb failed: {detail}")]
    Initdb {
        /// The last line that it wrote.
        detail: String,
    },
    /// The server ended before it accepted a connection.
    #[error("PostgreSQL ended while starting, see `{}`: {detail}", log.display())]
    Died {
        /// The server's log file.
        log: PathBuf,
        /// The last line of the log.
        detail: String,
    },
    /// The server did not accept a connection in time. Trying again may help: recovery goes on.
    #[error("PostgreSQL did not accept connections in time, see `{}`: {detail}", log.display())]
    NotReady {
        /// The server's log file.
        log: PathBuf,
        /// What the last attempt to connect said.
        detail: String,
    },
    /// The server did not end in time, not even after an immediate shutdown.
    #[error("PostgreSQL process {pid} did not stop in time")]
    NotStopped {
        /// The server's process id.
        pid: i32,
    },
    /// A name is not a plain database name: 1 to 63 of `a-z`, `0-9` and `_`.
    #[error("`{name}` is not a plain database name: use 1 to 63 of `a-z`, `0-9`, `_`")]
    Name {
        /// The name.
        name: String,
    },
    /// A file operation failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The server refused a statement or a connection.
    #[error("cannot {action}: {source}")]
    Sql {
        /// What was tried.
        action: &'static str,
        /// The driver's reason.
        source: sqlx::Error,
    },
    /// The caller's own step, which builds a template database, failed.
    #[error("cannot build template database `{name}`: {source}")]
    Template {
        /// The template's name.
        name: String,
        /// The caller's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// For `map_err` after a file operation.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }

    /// For `map_err` after a statement.
    pub(super) fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> Error {
        move |source| Error::Sql { action, source }
    }
}

fn looked_at(explicit: &Option<PathBuf>) -> String {
    explicit.as_ref().map_or_else(String::new, |path| {
        format!(
            " (`{}` does not hold `initdb` and `postgres`)",
            path.display()
        )
    })
}

fn holder(pid: &Option<i32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}
