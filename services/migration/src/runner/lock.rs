//! One runner at a time in a database (rule m02).

use std::fmt;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use sqlx::{PgConnection, Row as _};

use super::session::database;
use super::{Progress, Sink};
use crate::Error;

/// The advisory lock's key, `weirmigr`. Advisory locks belong to a database, so one key will do.
const KEY: i64 = i64::from_be_bytes(*b"weirmigr");

/// Polled, never waited for in the database: a waiting statement holds a snapshot, for which the
/// holder's `CREATE INDEX CONCURRENTLY` waits in turn, and that is a deadlock.
const POLL: Duration = Duration::from_millis(200);
/// How often the holder is shown again while it stays the same.
const REMIND: Duration = Duration::from_secs(10);

const TRY_LOCK: &str = "SELECT pg_catalog.pg_try_advisory_lock($1)";
const HOLDER: &str = "SELECT l.pid, a.application_name, host(a.client_addr) AS address, a.backend_start \
     FROM pg_catalog.pg_locks AS l LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid \
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
       AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) \
       AND l.classid = ($1::int8 >> 32)::oid AND l.objid = ($1::int8 & 4294967295)::oid";

/// Another runner, as the database sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id of its server process.
    pub pid: i32,
    /// The name that it gave itself.
    pub application_name: Option<String>,
    /// Where it connects from; none for a local socket.
    pub address: Option<String>,
    /// Since when it is connected, as far as this runner may know.
    pub since: Option<DateTime<Utc>>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "server process {} `{}`",
            self.pid,
            self.application_name.as_deref().unwrap_or("unknown")
        )?;
        if let Some(address) = &self.address {
            write!(f, " from {address}")?;
        }
        match self.since {
            Some(since) => write!(
                f,
                ", since {}",
                since.to_rfc3339_opts(SecondsFormat::Secs, true)
            ),
            None => Ok(()),
        }
    }
}

/// Takes the lock for the connection's life.
pub(super) async fn acquire(
    connection: &mut PgConnection,
    wait: Duration,
    progress: Sink<'_>,
) -> Result<(), Error> {
    let began = Instant::now();
    let mut shown: Option<(i32, Instant)> = None;
    loop {
        let taken: bool = sqlx::query_scalar(TRY_LOCK)
            .bind(KEY)
            .fetch_one(&mut *connection)
            .await
            .map_err(database)?;
        if taken {
            return Ok(());
        }
        let holder = holder(connection).await?;
        let waited = began.elapsed();
        if waited >= wait {
            return Err(Error::Locked {
                holder,
                waited: Duration::from_millis(waited.as_millis() as u64),
            });
        }
        if let Some(holder) = holder {
            let known = shown.is_some_and(|(pid, at)| pid == holder.pid && at.elapsed() < REMIND);
            if !known {
                let left = Duration::from_secs((wait - waited).as_secs_f64().ceil() as u64);
                let left = humantime::format_duration(left);
                let message = format!(
                    "another runner is migrating this database: {holder}; waiting up to {left}"
                );
                progress(Progress {
                    message,
                    version: 0,
                    done: 0,
                    total: 0,
                });
                shown = Some((holder.pid, Instant::now()));
            }
        }
        tokio::time::sleep(POLL.min(wait - waited)).await;
    }
}

async fn holder(connection: &mut PgConnection) -> Result<Option<Holder>, Error> {
    let row = sqlx::query(HOLDER)
        .bind(KEY)
        .fetch_optional(connection)
        .await
        .map_err(database)?;
    row.map(|row| {
        Ok(Holder {
            pid: row.try_get("pid")?,
            application_name: row.try_get("application_name")?,
            address: row.try_get("address")?,
            since: row.try_get("backend_start")?,
        })
    })
    .transpose()
    .map_err(database)
}
