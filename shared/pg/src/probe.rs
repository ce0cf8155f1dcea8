//! What readiness asks (rule m04): is the database there, does it take writes, which migrations has
//! it.

use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;

use crate::{Db, Error};

/// How long one question of the probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

const PROBE: &str = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";

const HAS_MIGRATIONS: &str = "SELECT to_regclass('public.weir_migration') IS NOT NULL";

const APPLIED: &str = "SELECT version FROM public.weir_migration WHERE success ORDER BY version";

impl Db {
    /// Asks whether the database is reachable and takes writes. Uses a connection of its own, so
    /// that a busy pool does not look like an absent database.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] with the cause, or [`Error::ReadOnly`].
    pub async fn probe(&self) -> Result<(), Error> {
        let read_only = self
            .ask(async |connection: &mut PgConnection| {
                sqlx::query_scalar::<_, bool>(PROBE)
                    .persistent(false)
                    .fetch_one(connection)
                    .await
            })
            .await?;
        if read_only {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, Error> {
        let mut slot = self.probe.lock().await;
        let answer = tokio::time::timeout(PROBE_TIMEOUT, async {
            // Taken out while it is asked: a connection that failed, or was left in the middle of an
            // answer, is never asked again.
            let mut connection = match slot.take() {
                Some(mut connection) => match connection.ping().await {
                    Ok(()) => connection,
                    Err(_) => PgConnection::connect_with(&self.options).await?,
                },
                None => PgConnection::connect_with(&self.options).await?,
            };
            let answer = question(&mut connection).await?;
            *slot = Some(connection);
            Ok(answer)
        })
        .await;
        match answer {
            Ok(answer) => answer.map_err(Error::Unavailable),
            Err(_) => {
                let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
                Err(Error::Unavailable(sqlx::Error::Io(late)))
            }
        }
    }
}

/// Returns the versions that were applied in full, in order; `None` for a database that was never
/// migrated. Changes nothing.
///
/// # Errors
///
/// `DATABASE_UNAVAILABLE`.
pub async fn applied_migrations(db: &Db) -> Result<Option<Vec<i64>>, Error> {
    db.ask(async |connection: &mut PgConnection| {
        let present: bool = sqlx::query_scalar(HAS_MIGRATIONS)
            .persistent(false)
            .fetch_one(&mut *connection)
            .await?;
        if !present {
            return Ok(None);
        }
        sqlx::query_scalar(APPLIED)
            .persistent(false)
            .fetch_all(connection)
            .await
            .map(Some)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_name_the_one_table() {
        let table = crate::schema::TABLE;
        assert!(HAS_MIGRATIONS.contains(table) && APPLIED.contains(table));
    }
}
