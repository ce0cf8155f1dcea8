//! One step: whole or not at all, or with a precise account of what is left (rule m05).

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::Direction;
use super::session;
use crate::error::describe;
use crate::step::Script;
use crate::{Error, Step, script};

/// How often a step that met somebody else's table lock is tried.
const TRIES: u32 = 5;
/// The pause after the first such try; it grows with each.
const PAUSE: Duration = Duration::from_millis(500);

const INVALID_INDEXES: &str = "SELECT i.indexrelid::regclass::text FROM pg_catalog.pg_index AS i WHERE NOT i.indisvalid ORDER BY 1";

/// Takes a line for the operator.
pub(super) type Say<'s> = &'s mut (dyn FnMut(String) + Send);

/// Where a transactional step failed.
enum Fault {
    /// Before the commit, so nothing is left.
    Before(weir_pg::Error),
    /// During the commit; if the connection is lost there, nobody knows.
    Commit(weir_pg::Error),
}

pub(super) async fn run(
    connection: &mut PgConnection,
    direction: Direction,
    step: &Step,
    say: Say<'_>,
) -> Result<(), Error> {
    let script = match direction {
        Direction::Up => &step.up,
        Direction::Down => step.down.as_ref().ok_or_else(|| Error::NoDownFile {
            version: step.version,
            name: step.name.clone(),
        })?,
    };
    if script.no_transaction {
        piecewise(connection, direction, step, script).await
    } else {
        whole(connection, direction, step, script, say).await
    }
}

/// The script and its record in one transaction. Met with a lock that somebody else holds, it lets
/// go of everything and tries again, so that readers and writers are not held up.
async fn whole(
    connection: &mut PgConnection,
    direction: Direction,
    step: &Step,
    script: &Script,
    say: Say<'_>,
) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        let Err(fault) = transaction(connection, direction, step, script).await else {
            return Ok(());
        };
        let go_on = format!("fix the cause and run `{}` again", direction.as_str());
        let (error, left) = match fault {
            Fault::Before(error) if meets_lock(&error) && tries < TRIES => {
                say(format!(
                    "{} `{}` met a lock that somebody else holds, try {tries} of {TRIES}: {}",
                    step.version,
                    step.name,
                    describe(&error)
                ));
                tokio::time::sleep(PAUSE * tries).await;
                tries += 1;
                continue;
            }
            Fault::Before(error) => (
                error,
                format!("the step was rolled back and left nothing; {go_on}"),
            ),
            Fault::Commit(error) if is_lost(&error) => {
                let left = "that was the commit, so the step is there whole or not at all; `status` tells, and running \
                            again goes on from there";
                (error, left.to_owned())
            }
            Fault::Commit(error) => (
                error,
                format!("the step was not committed and left nothing; {go_on}"),
            ),
        };
        return Err(failed(direction, step, &error, left));
    }
}

async fn transaction(
    connection: &mut PgConnection,
    direction: Direction,
    step: &Step,
    script: &Script,
) -> Result<(), Fault> {
    let before = |error: sqlx::Error| Fault::Before(error.into());
    let mut tx = connection.begin().await.map_err(before)?;
    session::ensure_table(&mut tx)
        .await
        .map_err(Fault::Before)?;
    sqlx::raw_sql(script.sql.clone())
        .execute(&mut *tx)
        .await
        .map_err(before)?;
    match direction {
        Direction::Up => session::record(&mut tx, step, true).await,
        Direction::Down => session::forget(&mut tx, step.version).await,
    }
    .map_err(Fault::Before)?;
    tx.commit()
        .await
        .map_err(|error| Fault::Commit(error.into()))
}

/// Statement by statement, each on its own. The step is recorded as unfinished first, so that
/// whatever stops it, the next run knows and repeats it; its statements must bear that.
async fn piecewise(
    connection: &mut PgConnection,
    direction: Direction,
    step: &Step,
    script: &Script,
) -> Result<(), Error> {
    let nothing = || {
        format!(
            "nothing was done; fix the cause and run `{}` again",
            direction.as_str()
        )
    };
    let begun = async {
        session::ensure_table(connection).await?;
        session::record(connection, step, false).await
    };
    begun
        .await
        .map_err(|error| failed(direction, step, &error, nothing()))?;

    let statements = script::statements(script.sql.as_str());
    for (index, statement) in statements.iter().enumerate() {
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(*statement))
            .execute(&mut *connection)
            .await
        {
            let left = left_by_statement(connection, direction, index, statements.len()).await;
            return Err(failed(direction, step, &error.into(), left));
        }
    }
    let ended = match direction {
        Direction::Up => session::record(connection, step, true).await,
        Direction::Down => forget(connection, step).await,
    };
    ended.map_err(|error| {
        let left = format!(
            "all its statements are done and the step is still recorded as unfinished; run `{}` again, which repeats it",
            direction.as_str()
        );
        failed(direction, step, &error, left)
    })
}

async fn forget(connection: &mut PgConnection, step: &Step) -> Result<(), weir_pg::Error> {
    let mut tx = connection.begin().await?;
    session::forget(&mut tx, step.version).await?;
    Ok(tx.commit().await?)
}

/// Says what a failed statement of a step without a transaction left (rule m05).
async fn left_by_statement(
    connection: &mut PgConnection,
    direction: Direction,
    index: usize,
    total: usize,
) -> String {
    let mut left = format!(
        "that was statement {} of {total}, outside a transaction; ",
        index + 1
    );
    match index {
        0 => left.push_str("no statement before it was done; "),
        1 => left.push_str("statement 1 is done and stays; "),
        done => left.push_str(&format!("statements 1 to {done} are done and stay; ")),
    }
    match sqlx::query_scalar::<_, String>(INVALID_INDEXES)
        .fetch_all(connection)
        .await
    {
        Ok(names) if names.is_empty() => {}
        Ok(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            left.push_str(&format!(
                "invalid indexes in the database: {}; ",
                names.join(", ")
            ));
        }
        Err(_) => left.push_str(
            "the database does not answer any more, so an invalid index may be left too; ",
        ),
    }
    left.push_str(&format!(
        "the step is recorded as unfinished; fix the cause and run `{}` again, which repeats it from its first statement",
        direction.as_str()
    ));
    left
}

fn failed(direction: Direction, step: &Step, error: &weir_pg::Error, left: String) -> Error {
    Error::Failed {
        version: step.version,
        name: step.name.clone(),
        direction: direction.as_str(),
        cause: describe(error),
        left,
        disconnected: is_lost(error),
    }
}

/// Somebody else's lock, or a deadlock over one: gone when tried again.
fn meets_lock(error: &weir_pg::Error) -> bool {
    error.is_lock_timeout() || error.is_retryable()
}

fn is_lost(error: &weir_pg::Error) -> bool {
    matches!(error, weir_pg::Error::Unavailable(_))
}
