//! Migrations made for a test, and runs of them.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use weir_migration::{Error, Progress, Report, Runner};
use weir_testkit::TestDb;

pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// A folder of migrations.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    /// Two plain steps, `1_first` and `2_second`.
    pub(crate) fn two_steps() -> Folder {
        let second = "CREATE TABLE s.b (id int8 PRIMARY KEY); CREATE INDEX b_id ON s.b (id)";
        Folder::new()
            .step(
                1,
                "first",
                "CREATE SCHEMA s; CREATE TABLE s.a (id int8)",
                "DROP SCHEMA s CASCADE",
            )
            .step(2, "second", second, "DROP TABLE s.b")
    }

    pub(crate) fn step(self, version: i64, name: &str, up: &str, down: &str) -> Folder {
        self.file(&format!("{version:04}_{name}.up.sql"), up)
            .file(&format!("{version:04}_{name}.down.sql"), down)
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Folder {
        std::fs::write(self.0.path().join(name), content)
            .expect("the temporary folder can be written");
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) async fn runner(&self, db: &TestDb) -> Runner {
        runner(self.path(), db).await
    }
}

pub(crate) async fn runner(folder: &Path, db: &TestDb) -> Runner {
    let migrator = Migrator::new(folder)
        .await
        .expect("the folder holds migrations");
    Runner::new(db.url(), &migrator, "test").expect("the kit made this address")
}

pub(crate) async fn up(runner: &Runner, target: Option<i64>) -> Result<Report, Error> {
    runner.up(target, WAIT, &mut quiet).await
}

pub(crate) async fn down(runner: &Runner, target: i64) -> Result<Report, Error> {
    runner.down(Some(target), true, WAIT, &mut quiet).await
}

pub(crate) fn quiet(_: Progress) {}

/// Says whether a relation is there.
pub(crate) async fn exists(db: &TestDb, relation: &str) -> bool {
    let found = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(relation)
        .fetch_one(db.pool())
        .await;
    found.expect("the test server answers")
}
