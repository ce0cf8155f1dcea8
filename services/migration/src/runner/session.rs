//! The runner's connection, and the table that records what was applied.
//!
//! The table has sqlx's columns, so that its tools can read it.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use weir_pg::schema::TABLE;

use crate::plan::Record;
use crate::{Error, Step};

/// What every session of a runner is set to.
const SETTINGS: &[&str] = &[
    // A step that waits for a table's lock makes everybody behind it wait, so it gives up and tries
    // again (see `stage`).
    "SET lock_timeout = '5s'",
    // A role's own limits are meant for services; a step may be long.
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET client_min_messages = warning",
];

/// Makes the server notice during a long statement that the runner is gone. Not every platform has it.
const WATCH: &str = "SET client_connection_check_interval = '2s'";

pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, Error> {
    let mut connection = PgConnection::connect_with(options)
        .await
        .map_err(database)?;
    for setting in SETTINGS {
        sqlx::raw_sql(*setting)
            .execute(&mut connection)
            .await
            .map_err(database)?;
    }
    if let Err(error) = sqlx::raw_sql(WATCH).execute(&mut connection).await {
        tracing::debug!(%error, "the server cannot watch connections");
    }
    Ok(connection)
}

/// Reads the records, oldest first; none when there is no table.
pub(super) async fn records(connection: &mut PgConnection) -> Result<Vec<Record>, Error> {
    if !table_exists(connection).await? {
        return Ok(Vec::new());
    }
    let select =
        format!("SELECT version, checksum, installed_on, success FROM {TABLE} ORDER BY version");
    let rows = match sqlx::query(AssertSqlSafe(select))
        .fetch_all(&mut *connection)
        .await
    {
        Ok(rows) => rows,
        // Gone in between: somebody went down to 0.
        Err(_) if !table_exists(connection).await? => return Ok(Vec::new()),
        Err(error) => return Err(database(error)),
    };
    rows.iter()
        .map(|row| {
            Ok(Record {
                version: row.try_get("version")?,
                checksum: row.try_get("checksum")?,
                at: row.try_get("installed_on")?,
                finished: row.try_get("success")?,
            })
        })
        .collect::<Result<_, sqlx::Error>>()
        .map_err(database)
}

/// Creates the table unless it is there. Inside the first step's transaction, so that a first step
/// that fails leaves nothing.
pub(super) async fn ensure_table(connection: &mut PgConnection) -> Result<(), weir_pg::Error> {
    if table_exists(connection).await? {
        return Ok(());
    }
    let create = format!(
        "CREATE TABLE {TABLE} (version int8 PRIMARY KEY, description text NOT NULL, \
         installed_on timestamptz NOT NULL DEFAULT now(), success boolean NOT NULL, \
         checksum bytea NOT NULL, execution_time int8 NOT NULL)"
    );
    sqlx::raw_sql(AssertSqlSafe(create))
        .execute(connection)
        .await?;
    Ok(())
}

/// Records a step as whole, or as begun.
pub(super) async fn record(
    connection: &mut PgConnection,
    step: &Step,
    finished: bool,
) -> Result<(), weir_pg::Error> {
    let upsert = format!(
        "INSERT INTO {TABLE} AS t (version, description, installed_on, success, checksum, execution_time) \
         VALUES ($1, $2, clock_timestamp(), $3, $4, -1) \
         ON CONFLICT (version) DO UPDATE SET description = excluded.description, \
             installed_on = excluded.installed_on, success = excluded.success, checksum = excluded.checksum"
    );
    sqlx::query(AssertSqlSafe(upsert))
        .bind(step.version)
        .bind(&step.name)
        .bind(finished)
        .bind(&step.checksum)
        .execute(connection)
        .await?;
    Ok(())
}

/// Removes a step's record, and the table with its last record.
pub(super) async fn forget(
    connection: &mut PgConnection,
    version: i64,
) -> Result<(), weir_pg::Error> {
    let delete = format!("DELETE FROM {TABLE} WHERE version = $1");
    sqlx::query(AssertSqlSafe(delete))
        .bind(version)
        .execute(&mut *connection)
        .await?;
    let any = format!("SELECT EXISTS (SELECT FROM {TABLE})");
    if !sqlx::query_scalar(AssertSqlSafe(any))
        .fetch_one(&mut *connection)
        .await?
    {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP TABLE {TABLE}")))
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// Sorts an error by what can be done about it.
pub(super) fn database(error: sqlx::Error) -> Error {
    Error::Database(error.into())
}

async fn table_exists(connection: &mut PgConnection) -> Result<bool, weir_pg::Error> {
    Ok(sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(TABLE)
        .fetch_one(connection)
        .await?)
}
