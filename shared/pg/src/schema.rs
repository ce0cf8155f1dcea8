//! Whether the database has the schema that this build was made for (rule m04).
//!
//! A service asks, is not ready while the answer is no, and never migrates by itself. Migrations
//! that are newer than the build do not matter: they only expand until every older build is gone.

use std::error::Error as _;

use crate::{Db, Error, applied_migrations};

/// The table that records what was applied: a row a version, with sqlx's columns. It stands outside
/// the schema `weir`, which the migrations make and unmake.
pub const TABLE: &str = "public.weir_migration";

/// The migrations that this build knows, by version, with their names.
pub const KNOWN: &[(i64, &str)] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// Says why a service of this build cannot work on the database, in a line for the operator: it is
/// not reachable, not writable, or a migration is pending. Changes nothing, and needs no connection
/// of the pool.
///
/// # Errors
/// The line.
pub async fn readiness(db: &Db) -> Result<(), String> {
    db.probe().await.map_err(|error| in_a_line(&error))?;
    match pending(db).await?.first() {
        None => Ok(()),
        Some((version, name)) => Err(format!(
            "migration {version} `{name}` is pending; run `weir migrate up`"
        )),
    }
}

/// Says whether every known migration up to `latest` is applied.
///
/// # Errors
/// The reason why the database cannot be asked, in a line.
pub async fn is_current(db: &Db, latest: i64) -> Result<bool, String> {
    Ok(pending(db)
        .await?
        .iter()
        .all(|(version, _)| *version > latest))
}

async fn pending(db: &Db) -> Result<Vec<(i64, &'static str)>, String> {
    let applied = applied_migrations(db)
        .await
        .map_err(|error| in_a_line(&error))?;
    Ok(missing(KNOWN, &applied.unwrap_or_default()))
}

fn missing(known: &[(i64, &'static str)], applied: &[i64]) -> Vec<(i64, &'static str)> {
    known
        .iter()
        .filter(|(version, _)| !applied.contains(version))
        .copied()
        .collect()
}

fn in_a_line(error: &Error) -> String {
    match error.source() {
        None => error.to_string(),
        Some(cause) => format!("{error}: {}", cause.to_string().replace('\n', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, missing};

    #[test]
    fn m04_a_known_migration_that_is_not_applied_is_pending_and_a_newer_one_is_not() {
        assert_eq!(missing(&[(1, "a"), (2, "b")], &[1]), [(2, "b")]);
        assert_eq!(missing(&[(1, "a"), (2, "b")], &[1, 2, 3]), []);
    }

    #[test]
    fn m04_the_known_migrations_are_in_order() {
        assert!(KNOWN.is_sorted_by(|a, b| a.0 < b.0), "{KNOWN:?}");
        assert!(!KNOWN.is_empty());
    }
}
