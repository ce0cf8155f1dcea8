//! The migrations that a binary knows, each an up and a down.

use std::sync::Arc;

use sqlx::SqlStr;
use sqlx::migrate::Migrator;

/// One migration: a step up and the step back.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its version, the number that its files begin with.
    pub version: i64,
    /// Its name, as in the files' names (`ledger_events`).
    pub name: String,
    /// Digest of the up file, compared with the one that was recorded when it was applied.
    pub checksum: Vec<u8>,
    pub(crate) up: Script,
    pub(crate) down: Option<Script>,
}

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) sql: SqlStr,
    /// Says that the file begins with `-- no-transaction`.
    pub(crate) no_transaction: bool,
}

impl Step {
    /// Reads the steps of a migrator, in the order of their versions.
    #[must_use]
    pub fn all(migrator: &Migrator) -> Arc<[Step]> {
        let down = |version| {
            migrator
                .iter()
                .find(|m| m.version == version && m.migration_type.is_down_migration())
                .map(|m| Script {
                    sql: m.sql.clone(),
                    no_transaction: m.no_tx,
                })
        };
        let mut steps: Vec<Step> = migrator
            .iter()
            .filter(|m| m.migration_type.is_up_migration())
            .map(|m| Step {
                version: m.version,
                // sqlx shows the underscores of the file's name as spaces.
                name: m.description.replace(' ', "_"),
                checksum: m.checksum.to_vec(),
                up: Script {
                    sql: m.sql.clone(),
                    no_transaction: m.no_tx,
                },
                down: down(m.version),
            })
            .collect();
        steps.sort_by_key(|step| step.version);
        steps.into()
    }
}
