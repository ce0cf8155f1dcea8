//! A database a test.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::sync::OnceCell;
use weir_pg::cluster::{
    SharedCluster, SharedOptions, TestDatabase, ensure_template, shared_for_tests,
};
use weir_pg::schema::TABLE;
use weir_pg::{Db, Options};

use crate::Hold;

/// What the kit's own sessions are called, so that it can tell them from those under test.
pub(crate) const APPLICATION: &str = "weir-testkit";

const TEST_CLOCK: &str = include_str!("test_clock.sql");
const SCHEMA_DUMP: &str = include_str!("schema_dump.sql");
const ADVANCE: &str =
    "UPDATE weir.test_clock SET offset_by = offset_by + make_interval(secs => $1)";
const BLOCKED: &str = "SELECT count(DISTINCT l.pid) FROM pg_catalog.pg_locks AS l \
     JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid \
     WHERE NOT l.granted AND a.datname = current_database()";
const SESSIONS: &str = "SELECT format('%s %s %s/%s: %s', pid, state, wait_event_type, wait_event, left(query, 120)) \
     FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY pid";
const TERMINATE: &str = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000)) FROM pg_catalog.pg_stat_activity \
     WHERE datname = current_database() AND backend_type = 'client backend' \
       AND pid <> pg_backend_pid() AND application_name <> $1";

/// How long something may take that a test waits for. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the database is asked meanwhile.
const INTERVAL: Duration = Duration::from_millis(5);

/// A fresh database for one test. It is dropped with the value; when the test panics it is kept,
/// its address is printed, and a later run removes it after an hour.
///
/// The server is a shared private one, or the one that `WEIR_TEST_DATABASE_URL` names.
#[derive(Debug)]
pub struct TestDb {
    /// Taken away when the database is to be kept.
    database: Option<TestDatabase>,
    url: String,
    pool: PgPool,
}

impl TestDb {
    /// A database with the schema of this workspace and a clock that [`TestDb::advance`] moves.
    ///
    /// # Panics
    /// When there is no server or the migrations fail.
    pub async fn new() -> TestDb {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let made = async {
            let template = TEMPLATE
                .get_or_try_init(async || {
                    let migrator = Migrator::new(migrations_folder())
                        .await
                        .context("cannot read the migrations")?;
                    template(migrator, TEST_CLOCK).await
                })
                .await?;
            Self::copy(template).await
        };
        made.await
            .unwrap_or_else(|error| panic!("no test database: {error:#}"))
    }

    /// A database with the schema of other migrations, and nothing else: no test clock.
    ///
    /// # Panics
    /// As [`TestDb::new`].
    pub async fn with_migrations(folder: &Path) -> TestDb {
        let made = async {
            let migrator = Migrator::new(folder)
                .await
                .context("cannot read the migrations")?;
            Self::copy(&template(migrator, "").await?).await
        };
        made.await
            .unwrap_or_else(|error| panic!("no test database: {error:#}"))
    }

    /// A database with nothing in it.
    ///
    /// # Panics
    /// As [`TestDb::new`].
    pub async fn empty() -> TestDb {
        Self::copy("template0")
            .await
            .unwrap_or_else(|error| panic!("no test database: {error:#}"))
    }

    async fn copy(template: &str) -> anyhow::Result<TestDb> {
        let database = TestDatabase::create(server().await?.admin_url(), template).await?;
        let url = database.url();
        let options = PgConnectOptions::from_str(&url)?.application_name(APPLICATION);
        let pool = PgPoolOptions::new()
            .max_connections(5)
            .connect_lazy_with(options);
        Ok(TestDb {
            database: Some(database),
            url,
            pool,
        })
    }

    /// The database's address, for what is under test.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A small pool of the test's own, for arrangements and assertions. What is under test has its
    /// own connections.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A pool for what is under test: each call opens another one, as another process would.
    ///
    /// # Panics
    /// Never: the pool connects when first used.
    #[must_use]
    pub fn open(&self, application_name: &str) -> Db {
        Db::open(&Options::new(&self.url, application_name)).expect("the kit made this address")
    }

    /// A session of the test's own.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn connect(&self) -> PgConnection {
        let options = PgConnectOptions::from_str(&self.url).expect("the kit made this address");
        PgConnection::connect_with(&options.application_name(APPLICATION))
            .await
            .expect("the test server answers")
    }

    /// Moves the database's clock forward, for every session at once. It keeps running meanwhile.
    ///
    /// # Panics
    /// When the database was not made by [`TestDb::new`].
    pub async fn advance(&self, by: Duration) {
        let done = sqlx::query(ADVANCE)
            .bind(by.as_secs_f64())
            .execute(&self.pool)
            .await;
        done.expect("`advance` needs a database from `TestDb::new`");
    }

    /// What the database's clock shows (`weir.clock()`).
    ///
    /// # Panics
    /// When there is no such clock.
    pub async fn now(&self) -> DateTime<Utc> {
        sqlx::query_scalar("SELECT weir.clock()")
            .fetch_one(&self.pool)
            .await
            .expect("the schema has a clock")
    }

    /// Opens a transaction that keeps its locks until it is released.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn hold(&self) -> Hold {
        Hold::begin(self.connect().await).await
    }

    /// Waits until at least `sessions` sessions of this database wait for a lock. Together with a
    /// [`Hold`] this is a barrier: the others stand where the hold stops them.
    ///
    /// # Panics
    /// When that does not happen within 30 s; the message lists what the sessions do.
    pub async fn wait_until_blocked(&self, sessions: i64) {
        let began = Instant::now();
        loop {
            let blocked: i64 = sqlx::query_scalar(BLOCKED)
                .fetch_one(&self.pool)
                .await
                .expect("the test server answers");
            if blocked >= sessions {
                return;
            }
            if began.elapsed() >= PATIENCE {
                let all: Vec<String> = sqlx::query_scalar(SESSIONS)
                    .fetch_all(&self.pool)
                    .await
                    .unwrap_or_default();
                panic!(
                    "{blocked} of {sessions} sessions wait for a lock after {PATIENCE:?}:\n{}",
                    all.join("\n")
                );
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Asks `condition` again and again until it holds, for what a lock cannot signal.
    ///
    /// # Panics
    /// When that does not happen within 30 s; the message has `what`.
    pub async fn wait_until(&self, what: &str, mut condition: impl AsyncFnMut(&PgPool) -> bool) {
        let began = Instant::now();
        while !condition(&self.pool).await {
            assert!(
                began.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}"
            );
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Describes every object that migrations have made, a line each and sorted, for comparisons.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn schema_dump(&self) -> Vec<String> {
        sqlx::query_scalar(SCHEMA_DUMP)
            .fetch_all(&self.pool)
            .await
            .expect("the catalogue can be read")
    }

    /// Ends every session of this database but the kit's own, as a failing server or network would,
    /// and waits until they are gone. Returns how many there were.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn terminate_backends(&self) -> i64 {
        sqlx::query_scalar(TERMINATE)
            .bind(APPLICATION)
            .fetch_one(&self.pool)
            .await
            .expect("the test server answers")
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(database) = self.database.take()
        {
            eprintln!("the test's database is kept for an hour: {}", self.url);
            std::mem::forget(database);
        }
    }
}

/// The folder of this workspace's migrations.
#[must_use]
pub fn migrations_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no configuration but the environment"
)]
async fn server() -> anyhow::Result<&'static SharedCluster> {
    let options = SharedOptions {
        external_url: std::env::var("WEIR_TEST_DATABASE_URL")
            .ok()
            .filter(|url| !url.is_empty()),
        binaries: std::env::var_os("WEIR_PG_BIN").map(PathBuf::from),
        home: std::env::var_os("HOME").map(PathBuf::from),
        ..SharedOptions::default()
    };
    Ok(shared_for_tests(options).await?)
}

/// A template with the migrations and a further script, made once for all processes and runs.
async fn template(mut migrator: Migrator, script: &'static str) -> anyhow::Result<String> {
    let mut fingerprint = Vec::new();
    for migration in migrator
        .iter()
        .filter(|m| m.migration_type.is_up_migration())
    {
        fingerprint.extend_from_slice(&migration.version.to_be_bytes());
        fingerprint.extend_from_slice(&migration.checksum);
    }
    fingerprint.extend_from_slice(script.as_bytes());
    migrator.dangerous_set_table_name(TABLE);
    // Whoever builds a template is alone with it.
    migrator.set_locking(false);
    let build = async |url: String| -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(&url).await?;
        migrator.run_direct(None, &mut connection, false).await?;
        sqlx::raw_sql(script).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    };
    Ok(ensure_template(
        server().await?.admin_url(),
        "weir_template",
        &fingerprint,
        build,
    )
    .await?)
}
