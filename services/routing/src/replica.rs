//! What a routing process says of itself and knows of the others (rules r21, r23).
//!
//! Each process has an id of its own, new at each start, and rows in `weir.replica`, all by the database's clock. The
//! row of tenant 0 is the process: its Rust handlers and its heartbeat, one row a beat however many tenants there
//! are. A tenant's row says which generation the process runs, and is written when one is loaded, not with each beat.
//! A process is live while its last beat is younger than `dead_after`. One that ends by itself removes its rows and
//! claims; what a killed one leaves is deleted when it is dead for an hour.
//!
//! # Who may judge
//! After an outage of the database all beats are old, and who comes back first must not take the others for dead. So
//! a process judges only when it is *settled*: [`SETTLED`] beats in a row, each soon after the one before. That also
//! gives the others time when all start at once. Until then it leaves claims alone, and an event whose handler it
//! lacks undecided.
//!
//! A process that stood still for longer than `dead_after` is taken for dead while it is not. That is harmless: its
//! commits are revalidated as always, and the events that it was deciding are decided alone once.

mod tasks;

pub use tasks::tasks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row as _};
use tokio::sync::watch;
use uuid::Uuid;
use weir_kernel::{ScopeId, TenantId};
use weir_pg::Db;

use crate::Error;
use crate::generation::{Generation, Generations};
use crate::handler::Registry;
use crate::tenant::CompiledHandler;

/// Beats in a row after which a process may judge others.
pub const SETTLED: u32 = 3;
/// How long rows of a dead process are kept.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// Tenants that are loaded ahead of their first event, a few a step: so that a process is known to be able to
/// decide for them, and their first event waits for no compilation. Further ones are loaded on first use.
const AHEAD: usize = 256;
const AHEAD_AT_ONCE: usize = 16;

/// How a process tells that it lives.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Time between two beats.
    pub beat: Duration,
    /// Age of the last beat from which on a process counts as dead.
    pub dead_after: Duration,
}

/// This process, as the others see it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Replica(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: Uuid,
    db: Db,
    generations: Generations,
    handlers: Vec<String>,
    timing: Timing,
    beats: watch::Sender<Beats>,
    /// What the tenants' rows say.
    said: Mutex<HashMap<TenantId, i64>>,
    /// Set when it left; held while a row is written, so that none is written after that.
    left: tokio::sync::Mutex<bool>,
}

/// The beats so far.
#[derive(Debug, Clone, Copy, Default)]
struct Beats {
    /// Database time of the first.
    first: Option<DateTime<Utc>>,
    /// How many in a row.
    in_a_row: u32,
    /// The last one.
    last: Option<Instant>,
}

/// What a process runs of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The process.
    pub replica: Uuid,
    /// Its generation; 0 when it can use none.
    pub generation: i64,
    /// Its last beat.
    pub seen_at: DateTime<Utc>,
}

impl Replica {
    /// Makes the process's identity. It is unknown to others before its first beat.
    #[must_use]
    pub fn new(db: Db, generations: Generations, registry: &Registry, timing: Timing) -> Self {
        Self(Arc::new(Inner {
            id: Uuid::now_v7(),
            db,
            generations,
            handlers: registry.names(),
            timing,
            beats: watch::Sender::default(),
            said: Mutex::default(),
            left: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns its id, which owns its claims.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// Returns the age of a beat, in milliseconds, from which on its process counts as dead.
    #[must_use]
    pub fn dead_after_ms(&self) -> i64 {
        i64::try_from(self.0.timing.dead_after.as_millis()).unwrap_or(i64::MAX)
    }

    /// Waits until the others can know it: before that it may not claim. Returns the database time of that beat.
    pub async fn started(&self) -> DateTime<Utc> {
        let mut beats = self.0.beats.subscribe();
        loop {
            if let Some(first) = beats.borrow_and_update().first {
                return first;
            }
            // This value holds the sender, so it cannot be gone.
            let _ = beats.changed().await;
        }
    }

    /// Says whether it may take others for dead.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let beats = self.0.beats.borrow();
        let recent = |last: Instant| last.elapsed() < self.0.timing.dead_after;
        beats.in_a_row >= SETTLED && beats.last.is_some_and(recent)
    }

    /// Beats once. A gap since the last beat starts the count anew: the others may have had the same.
    ///
    /// # Errors
    /// The database's; then it is not settled.
    pub async fn beat(&self) -> Result<(), Error> {
        let left = self.0.left.lock().await;
        if *left {
            return Ok(());
        }
        let written = self.write_beat().await;
        drop(left);
        let (before, now) = match written {
            Ok(written) => written,
            Err(error) => {
                self.0.beats.send_modify(|beats| beats.in_a_row = 0);
                return Err(error);
            }
        };
        let timing = self.0.timing;
        let longest = timing.dead_after.saturating_sub(timing.beat);
        let gap = before.is_none_or(|before| (now - before).to_std().is_ok_and(|g| g > longest));
        if before.is_none() {
            // Its rows were taken for those of a dead one and deleted, or it is new.
            self.said().clear();
            self.0.generations.learned().notify_one();
        }
        self.0.beats.send_modify(|beats| {
            beats.first.get_or_insert(now);
            beats.in_a_row = if gap {
                1
            } else {
                beats.in_a_row.saturating_add(1)
            };
            beats.last = Some(Instant::now());
        });
        Ok(())
    }

    async fn write_beat(&self) -> Result<(Option<DateTime<Utc>>, DateTime<Utc>), Error> {
        let mut conn = self.0.db.acquire().await?;
        let row = sqlx::query(include_str!("replica/sql/beat.sql"))
            .bind(self.0.id)
            .bind(&self.0.handlers)
            .fetch_one(&mut *conn)
            .await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Loads what was published since, and says which generations it runs, where that is news.
    ///
    /// # Errors
    /// The database's.
    pub async fn follow(&self) -> Result<(), Error> {
        let known: HashMap<TenantId, (i64, bool)> = self.loaded();
        let ids: Vec<i64> = known.keys().map(|t| t.0).collect();
        let room = AHEAD.saturating_sub(ids.len()).min(AHEAD_AT_ONCE);
        let mut conn = self.0.db.acquire().await?;
        let newest = sqlx::query(include_str!("replica/sql/newest.sql"))
            .bind(&ids)
            .bind(i64::try_from(room).unwrap_or(0))
            .fetch_all(&mut *conn)
            .await?;
        drop(conn);
        for row in newest {
            let (tenant, name, number) = (
                TenantId(row.try_get(0)?),
                row.try_get::<String, _>(1)?,
                row.try_get(2)?,
            );
            if known.get(&tenant).is_none_or(|(known, _)| *known < number)
                && let Err(error) = self.0.generations.refresh(&name).await
            {
                // One that does not compile was logged; it concerns its tenant only.
                tracing::debug!(error = %weir_rpc::chain(&error), "a generation is not loaded");
            }
        }
        self.announce().await
    }

    fn loaded(&self) -> HashMap<TenantId, (i64, bool)> {
        let loaded = self.0.generations.loaded();
        loaded.into_iter().map(|(t, n, ok)| (t, (n, ok))).collect()
    }

    async fn announce(&self) -> Result<(), Error> {
        let news: Vec<(TenantId, i64)> = {
            let said = self.said();
            let runs = self.loaded().into_iter().map(|(tenant, (number, usable))| {
                // One that cannot be used is not taken up: the row stays behind, or says that there is none.
                let before = said.get(&tenant).copied().unwrap_or(0);
                (tenant, if usable { number } else { before })
            });
            runs.filter(|(tenant, number)| said.get(tenant) != Some(number))
                .collect()
        };
        let left = self.0.left.lock().await;
        if news.is_empty() || *left {
            return Ok(());
        }
        let mut conn = self.0.db.acquire().await?;
        sqlx::query(include_str!("replica/sql/announce.sql"))
            .bind(self.0.id)
            .bind(news.iter().map(|(t, _)| t.0).collect::<Vec<_>>())
            .bind(news.iter().map(|(_, n)| *n).collect::<Vec<_>>())
            .execute(&mut *conn)
            .await?;
        self.said().extend(news);
        Ok(())
    }

    fn said(&self) -> std::sync::MutexGuard<'_, HashMap<TenantId, i64>> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether an event whose route's handler this process lacks is left to another live one that has it (rule
    /// r23). One that may not judge yet leaves it, too; a trace, with `dry_run`, judges by what it sees.
    ///
    /// # Errors
    /// The database's.
    pub async fn leaves(
        &self,
        conn: &mut PgConnection,
        generation: &Generation,
        scope: ScopeId,
        slot: &str,
        dry_run: bool,
    ) -> Result<bool, Error> {
        let name = generation.scope_name(scope).unwrap_or_default();
        let route = generation
            .compiled
            .scope(name)
            .and_then(|s| s.routes.iter().find(|r| r.slot == slot));
        let Some(CompiledHandler::Rust(handler)) = route.map(|r| &r.handler) else {
            return Ok(false);
        };
        if self.0.handlers.contains(handler) {
            return Ok(false);
        }
        if !dry_run && !self.is_settled() {
            return Ok(true);
        }
        Ok(
            sqlx::query_scalar(include_str!("replica/sql/elsewhere.sql"))
                .bind(self.0.id)
                .bind(self.dead_after_ms())
                .bind(generation.tenant.0)
                .bind(generation.number)
                .bind(handler)
                .fetch_one(conn)
                .await?,
        )
    }

    /// Returns what each live process runs of a tenant, by process.
    ///
    /// # Errors
    /// The database's.
    pub async fn status(&self, tenant: TenantId) -> Result<Vec<Status>, Error> {
        let mut conn = self.0.db.acquire().await?;
        let rows = sqlx::query(include_str!("replica/sql/status.sql"))
            .bind(tenant.0)
            .bind(self.dead_after_ms())
            .fetch_all(&mut *conn)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Status {
                    replica: row.try_get(0)?,
                    generation: row.try_get(1)?,
                    seen_at: row.try_get(2)?,
                })
            })
            .collect()
    }

    /// Deletes the rows of processes that are dead for long.
    ///
    /// # Errors
    /// The database's.
    pub async fn forget(&self) -> Result<(), Error> {
        let kept = KEPT.max(self.0.timing.dead_after * 10);
        let mut conn = self.0.db.acquire().await?;
        sqlx::query(include_str!("replica/sql/forget.sql"))
            .bind(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX))
            .execute(&mut *conn)
            .await?;
        Ok(())
    }

    /// Removes its rows and claims, for good. What cannot be removed is a dead process's.
    pub async fn leave(&self) {
        let mut left = self.0.left.lock().await;
        *left = true;
        let removed = async {
            let mut conn = self.0.db.acquire().await?;
            sqlx::query(include_str!("replica/sql/leave.sql"))
                .bind(self.0.id)
                .execute(&mut *conn)
                .await?;
            Ok::<(), Error>(())
        };
        if let Err(error) = removed.await {
            tracing::debug!(error = %weir_rpc::chain(&error), "left without saying so");
        }
    }
}
