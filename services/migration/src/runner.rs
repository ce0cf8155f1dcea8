//! Brings the one schema up and down, one runner at a time.
//!
//! A runner works on a connection of its own, straight to the database and not through a
//! transaction pooler: the lock that keeps a second runner out belongs to the session, so it is
//! gone with the connection, however that ends. sqlx's own locking is not used: it waits without
//! end and forgets to unlock after an error.

mod lock;
mod session;
mod stage;

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

pub use self::lock::Holder;

use crate::plan;
use crate::{Error, Status, Step};

/// How long a runner waits for another one, when nothing else is said (rule m02).
pub const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// One line about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The line.
    pub message: String,
    /// Version just applied or taken back; 0 for a mere message.
    pub version: i64,
    /// Steps done so far.
    pub done: usize,
    /// Steps to do.
    pub total: usize,
}

/// Where a run's progress goes.
pub type Sink<'p> = &'p mut (dyn FnMut(Progress) + Send);

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Version before.
    pub from: i64,
    /// Version after.
    pub to: i64,
    /// Versions applied, or taken back, in that order.
    pub versions: Vec<i64>,
}

/// Runs the migrations of a binary against one database.
#[derive(Debug, Clone)]
pub struct Runner {
    options: PgConnectOptions,
    steps: Arc<[Step]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

impl Runner {
    /// A runner for the database at `url`, which must not lead through a transaction pooler. `name`
    /// says who runs (a pod's name): a second runner shows it while it waits. Connects to nothing.
    ///
    /// # Errors
    /// DATABASE_UNAVAILABLE when `url` is not an address.
    pub fn new(url: &str, migrator: &Migrator, name: &str) -> Result<Self, Error> {
        let options = PgConnectOptions::from_str(url).map_err(Error::Address)?;
        // PostgreSQL keeps 63 bytes.
        let name: String = format!("weir-migration {name}")
            .chars()
            .filter(char::is_ascii)
            .take(63)
            .collect();
        let options = options
            .application_name(name.trim_end())
            .disable_statement_logging();
        Ok(Self {
            options,
            steps: Step::all(migrator),
        })
    }

    /// The migrations that this runner knows.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Compares binary and database (rule m01). Changes nothing, takes no lock, and works on an
    /// empty database and while another runner works.
    ///
    /// # Errors
    /// DATABASE_UNAVAILABLE.
    pub async fn status(&self) -> Result<Status, Error> {
        let mut connection = session::connect(&self.options).await?;
        let records = session::records(&mut connection).await?;
        let _ = connection.close().await;
        Ok(plan::status(&self.steps, &records))
    }

    /// Applies what is missing up to `target`, or all of it, in order (rule m02). Waits up to `wait`
    /// for another runner. May be repeated: what is applied stays applied, and nothing to do is a
    /// success. Each step is one transaction with its record; a step marked `-- no-transaction` is
    /// recorded as unfinished before it begins and repeated whole by the next run (rule m05). When
    /// the future is dropped, so is the connection, and with it the step that was running.
    ///
    /// # Errors
    /// MIGRATION_UNKNOWN_TARGET, MIGRATION_LOCKED, MIGRATION_UNKNOWN_APPLIED,
    /// MIGRATION_CHECKSUM_MISMATCH and MIGRATION_BACKWARD, with nothing changed; MIGRATION_FAILED,
    /// which says what was left; DATABASE_UNAVAILABLE.
    pub async fn up(
        &self,
        target: Option<i64>,
        wait: Duration,
        progress: Sink<'_>,
    ) -> Result<Report, Error> {
        plan::check_up(&self.steps, target)?;
        self.run(Direction::Up, target, wait, progress).await
    }

    /// Takes back every step above `target`, newest first (rule m02); 0 leaves nothing, not even the
    /// table that records. Otherwise as [`Runner::up`].
    ///
    /// # Errors
    /// MIGRATION_NOT_CONFIRMED without a target or without `confirm`, MIGRATION_UNKNOWN_TARGET also
    /// for a version that is not applied; otherwise those of [`Runner::up`].
    pub async fn down(
        &self,
        target: Option<i64>,
        confirm: bool,
        wait: Duration,
        progress: Sink<'_>,
    ) -> Result<Report, Error> {
        let target = plan::check_down(&self.steps, target, confirm)?;
        self.run(Direction::Down, Some(target), wait, progress)
            .await
    }

    async fn run(
        &self,
        direction: Direction,
        target: Option<i64>,
        wait: Duration,
        progress: Sink<'_>,
    ) -> Result<Report, Error> {
        let mut connection = session::connect(&self.options).await?;
        lock::acquire(&mut connection, wait, progress).await?;
        // Only now: whoever had the lock may have changed everything.
        let records = session::records(&mut connection).await?;
        let steps = match direction {
            Direction::Up => plan::up(&self.steps, &records, target)?,
            Direction::Down => plan::down(&self.steps, &records, target.unwrap_or(0))?,
        };
        let total = steps.len();
        let mut versions = Vec::with_capacity(total);
        for step in steps {
            let began = Instant::now();
            let mut say = |message| {
                progress(Progress {
                    message,
                    version: 0,
                    done: versions.len(),
                    total,
                })
            };
            stage::run(&mut connection, direction, step, &mut say).await?;
            versions.push(step.version);
            let done = match direction {
                Direction::Up => "applied",
                Direction::Down => "took back",
            };
            let message = format!(
                "{done} {} `{}` in {} ms",
                step.version,
                step.name,
                began.elapsed().as_millis()
            );
            tracing::info!(
                migration.version = step.version,
                direction = direction.as_str(),
                "migrated"
            );
            progress(Progress {
                message,
                version: step.version,
                done: versions.len(),
                total,
            });
        }
        let from = plan::current(&records);
        let to = plan::current(&session::records(&mut connection).await?);
        if total == 0 {
            progress(Progress {
                message: format!("nothing to do, the database is at version {to}"),
                version: 0,
                done: 0,
                total,
            });
        }
        let _ = connection.close().await;
        Ok(Report { from, to, versions })
    }
}
