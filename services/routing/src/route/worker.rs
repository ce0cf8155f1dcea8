//! The routing loop: one worker per scope with undecided events, found by one manager.
//!
//! A worker reads, groups, evaluates side by side and commits what is ready. Groups in evaluation are remembered
//! by their rows, so the next read goes round them: a hung handler delays its own group and what depends on it
//! (rule r04). A worker ends when nothing is in evaluation and nothing may be decided now; the manager looks again
//! on every wake-up and at a jittered interval.
//!
//! # Claims and turns (rule r21)
//! What asks handlers is claimed before, all groups of a pass in one statement, and takes a turn: groups share
//! theirs, a suspect has its own with nothing else in evaluation in the process ([`crate::route::claim`]). The
//! scope's claim has one writer, its worker, which therefore always writes the whole of it: what is in evaluation.
//! An event left to another replica is not looked at again for some polls (rule r23). A worker gives its claim up
//! when it ends; where that fails, the scope's next worker does it before anything else.

mod scope;
mod turn;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Row as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weir_kernel::{ScopeId, TenantId};
use weir_pg::{Command, Tx};
use weir_runtime::CancellationToken;

use crate::Error;
use crate::generation::{Generation, Generations, registrations};
use crate::route::claim::{self, Left, Turns};
use crate::route::evaluate::Context;
use crate::route::group::Joins;
use crate::route::policy::Proofs;
use crate::route::view::{Hold, PendingRow};

use scope::Worker;

/// How long a scope is left alone after its worker failed: the database is away, or its configuration is
/// unusable.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Payload bytes of one pass at most, its first group apart: what it holds in memory.
const MAX_PASS_BYTES: i64 = 32 << 20;
/// Members of one pass at most, oldest first (rule r06).
const MAX_MEMBERS: usize = 1_000;
/// Rows of one read.
const WINDOW: i64 = 250;
/// Groups in evaluation at once: a bound on memory and on threads that hung handlers keep.
const MAX_IN_EVALUATION: usize = 256;
/// How long finished groups wait for others to be committed with them.
const GATHER: Duration = Duration::from_millis(1);
/// For how many polls an event is left to another replica before it is looked at again.
const LEFT_POLLS: u32 = 4;
/// After so many losses a group is decided under the locks (rule r01).
pub const MAX_LOSSES: u32 = 5;

/// Ties by scope.
pub type Ties = HashMap<(TenantId, ScopeId), Joins>;

/// What the loop needs.
#[derive(Clone)]
pub struct Router {
    /// Evaluation's needs.
    pub context: Context,
    /// Configurations.
    pub generations: Generations,
    /// Wakes the manager.
    pub wake: Arc<Notify>,
    /// Tells workers that events arrived.
    pub arrived: Arc<Notify>,
    /// Told after each commit, for watchers and the lifecycle.
    pub routed: Arc<Notify>,
    /// How often the manager looks without a wake-up.
    pub poll: Duration,
    /// Whose turn it is to ask handlers, over all scopes (rule r21).
    pub turns: Turns,
    /// Events left to other replicas (rule r23).
    pub left: Left,
    /// Claims that their workers could not give up. Nobody else writes them.
    pub unreleased: Arc<Mutex<HashSet<(TenantId, ScopeId)>>>,
    /// Ties found so far (rule r08), kept while a scope has no worker: finding one costs a handler's call.
    pub joins: Arc<Mutex<Ties>>,
}

impl Router {
    /// Runs until `shutdown`: starts a worker for each scope that has undecided events.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => return,
            // A claim of a process that nobody knows would count as a dead one's.
            _ = self.context.replica.started() => {}
        }
        let mut workers: JoinSet<(TenantId, ScopeId, Duration)> = JoinSet::new();
        let mut active: HashSet<(TenantId, ScopeId)> = HashSet::new();
        // Scopes that have nothing to decide now, or failed: not before, unless something arrives.
        let mut resting: HashMap<(TenantId, ScopeId), Instant> = HashMap::new();
        // Scopes whose workers ran when something arrived: they may have looked just before it.
        let mut missed: HashSet<(TenantId, ScopeId)> = HashSet::new();
        let mut failing = false;
        loop {
            // Registered before the look, so that a wake-up during it is not lost.
            let woken = self.wake.notified();
            match self.scopes().await {
                Ok(scopes) => {
                    failing = false;
                    let now = Instant::now();
                    resting.retain(|_, until| *until > now);
                    for (tenant, scope) in scopes {
                        if resting.contains_key(&(tenant, scope)) || !active.insert((tenant, scope))
                        {
                            continue;
                        }
                        let (router, stop) = (self.clone(), shutdown.clone());
                        workers.spawn(async move {
                            let rest = router.work(tenant, scope, stop).await;
                            (tenant, scope, rest)
                        });
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(error = %weir_rpc::chain(&error), "cannot look for undecided events");
                    }
                }
            }
            let pause = self.poll.mul_f64(rand::random_range(0.8..1.2));
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = woken => {
                    resting.clear();
                    missed.extend(&active);
                }
                () = tokio::time::sleep(pause) => {}
                Some(done) = workers.join_next(), if !workers.is_empty() => {
                    if let Ok((tenant, scope, rest)) = done {
                        active.remove(&(tenant, scope));
                        if !missed.remove(&(tenant, scope)) {
                            resting.insert((tenant, scope), Instant::now() + rest);
                        }
                    } else {
                        // A worker panicked. Which one is unknown: forget all that are not running.
                        tracing::error!("a routing worker panicked");
                        workers.abort_all();
                        while workers.join_next().await.is_some() {}
                        self.unreleased().extend(active.drain());
                    }
                }
            }
        }
        // No claim is written once they are gone.
        workers.shutdown().await;
    }

    /// Returns the scopes with undecided events: a skip scan, one index probe per scope.
    async fn scopes(&self) -> Result<Vec<(TenantId, ScopeId)>, Error> {
        let mut conn = self.context.db.acquire().await?;
        let rows = sqlx::query(include_str!("sql/select_scopes.sql"))
            .fetch_all(&mut *conn)
            .await?;
        rows.iter()
            .map(|r| Ok((TenantId(r.try_get(0)?), ScopeId(r.try_get(1)?))))
            .collect()
    }

    /// Works until nothing may be decided now, and returns how long to leave the scope alone.
    async fn work(
        &self,
        tenant: TenantId,
        scope: ScopeId,
        shutdown: CancellationToken,
    ) -> Duration {
        if let Err(error) = self.release_again(tenant, scope).await {
            tracing::warn!(error = %weir_rpc::chain(&error), "a scope's claim cannot be given up; it is tried again");
            return AFTER_FAILURE;
        }
        let known = self
            .joins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(tenant, scope));
        let mut worker = Worker::new(self, tenant, scope, known.unwrap_or_default());
        let result = worker.run(shutdown).await;
        let ended = worker.end().await;
        if ended.is_err() {
            self.unreleased().insert((tenant, scope));
        }
        let joins = worker.into_joins();
        if !joins.is_empty() {
            self.joins
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert((tenant, scope), joins);
        }
        match result.and(ended) {
            Ok(()) => self.poll,
            Err(error) => {
                tracing::warn!(error = %weir_rpc::chain(&error), "routing a scope stopped; it starts again");
                AFTER_FAILURE
            }
        }
    }
}

impl Router {
    /// Gives up what a former worker of the scope could not.
    async fn release_again(&self, tenant: TenantId, scope: ScopeId) -> Result<(), Error> {
        if self.unreleased().contains(&(tenant, scope)) {
            claim::release(&self.context.db, &self.context.replica, tenant, scope).await?;
            self.unreleased().remove(&(tenant, scope));
        }
        Ok(())
    }

    fn unreleased(&self) -> MutexGuard<'_, HashSet<(TenantId, ScopeId)>> {
        self.unreleased
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether only expressions decide in a scope: they cannot take the process down, and need no claim.
fn decides_in_process(generation: &Generation, scope: ScopeId) -> bool {
    let name = generation.scope_name(scope).unwrap_or_default();
    generation.compiled.scope(name).is_some_and(|s| {
        s.routes
            .iter()
            .all(|r| matches!(r.handler, crate::tenant::CompiledHandler::Cel(_)))
    })
}

/// Reads what the registrations of a scope's executors prove (rule r11).
pub async fn proofs(
    db: &weir_pg::Db,
    generation: &Generation,
    scope: ScopeId,
) -> Result<Proofs, Error> {
    let mut tx = db.snapshot().await?;
    proved(&mut tx, generation, scope).await
}

/// The same in a transaction that is open already.
pub async fn proved(
    tx: &mut Tx<'_>,
    generation: &Generation,
    scope: ScopeId,
) -> Result<Proofs, Error> {
    let name = generation.scope_name(scope).unwrap_or_default();
    let Some(effective) = generation.compiled.scope(name) else {
        return Ok(Proofs::new());
    };
    let executors: BTreeSet<&str> = effective
        .bindings
        .values()
        .filter_map(|b| b.executor.as_deref())
        .collect();
    let executors: Vec<&str> = executors.into_iter().collect();
    let found = registrations(tx, generation.tenant, &executors).await?;
    Ok(found
        .into_iter()
        .map(|(executor, r)| (executor, r.capabilities))
        .collect())
}

/// Marks rows that stand behind a deferred one as deferred too (rule r10).
struct MarkBehind<'a> {
    generation: &'a Generation,
    scope: ScopeId,
    rows: &'a [(PendingRow, Hold)],
}

impl Command for MarkBehind<'_> {
    const NAME: &'static str = "routing.mark_behind";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        sqlx::query(include_str!("sql/mark_behind.sql"))
            .bind(self.generation.tenant.0)
            .bind(self.scope.0)
            .bind(self.rows.iter().map(|(r, _)| r.seq).collect::<Vec<_>>())
            .bind(
                self.rows
                    .iter()
                    .map(|(_, h)| format!("behind {}", h.event))
                    .collect::<Vec<_>>(),
            )
            .bind(self.rows.iter().map(|(_, h)| h.work.0).collect::<Vec<_>>())
            .bind(self.rows.iter().map(|(_, h)| h.attempt).collect::<Vec<_>>())
            .bind(self.generation.number)
            .execute(tx.conn())
            .await?;
        Ok(())
    }
}
