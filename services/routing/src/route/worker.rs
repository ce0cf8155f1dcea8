//! The routing loop: one worker per scope with undecided events, found by one manager.
//!
//! A worker reads, groups, evaluates side by side and commits what is ready. Groups in evaluation are remembered
//! by their rows, so the next read goes round them: a hung handler delays its own group and what depends on it
//! (rule r04). A worker ends when nothing is in evaluation and nothing may be decided now; the manager looks again
//! on every wake-up and at a jittered interval.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sqlx::Row as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weir_kernel::{ScopeId, TenantId, WorkId};
use weir_pg::{Command, Tx};
use weir_runtime::CancellationToken;

use crate::Error;
use crate::generation::{Generation, Generations, registrations};
use crate::route::commit::{Commit, CommitGroups};
use crate::route::evaluate::{Context, Evaluated, evaluate};
use crate::route::group::{Blocked, Joins, Plan, plan};
use crate::route::policy::Proofs;
use crate::route::snapshot::{Snapshot, events, pending};
use crate::route::view::{Hold, PendingRow};

/// Members of one pass at most, oldest first (rule r06).
const MAX_MEMBERS: usize = 1_000;
/// Rows of one read.
const WINDOW: i64 = 250;
/// Groups in evaluation at once: a bound on memory and on threads that hung handlers keep.
const MAX_IN_EVALUATION: usize = 256;
/// How long finished groups wait for others to be committed with them.
const GATHER: Duration = Duration::from_millis(1);
/// After so many losses a group is decided under the locks (rule r01).
pub const MAX_LOSSES: u32 = 5;

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
}

impl Router {
    /// Runs until `shutdown`: starts a worker for each scope that has undecided events.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut workers: JoinSet<(TenantId, ScopeId)> = JoinSet::new();
        let mut active: HashSet<(TenantId, ScopeId)> = HashSet::new();
        let mut failing = false;
        loop {
            // Registered before the look, so that a wake-up during it is not lost.
            let woken = self.wake.notified();
            match self.scopes().await {
                Ok(scopes) => {
                    failing = false;
                    for (tenant, scope) in scopes {
                        if active.insert((tenant, scope)) {
                            let (router, stop) = (self.clone(), shutdown.clone());
                            workers.spawn(async move {
                                router.work(tenant, scope, stop).await;
                                (tenant, scope)
                            });
                        }
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
                () = woken => {}
                () = tokio::time::sleep(pause) => {}
                Some(done) = workers.join_next(), if !workers.is_empty() => {
                    if let Ok(scope) = done {
                        active.remove(&scope);
                    } else {
                        // A worker panicked. Which one is unknown: forget all that are not running.
                        tracing::error!("a routing worker panicked");
                        workers.abort_all();
                        while workers.join_next().await.is_some() {}
                        active.clear();
                    }
                }
            }
        }
        workers.abort_all();
    }

    /// Returns the scopes with undecided events: a skip scan, one index probe per scope.
    async fn scopes(&self) -> Result<Vec<(TenantId, ScopeId)>, Error> {
        let mut conn = self.context.db.acquire().await?;
        let rows = sqlx::query(include_str!("sql/select_scopes.sql")).fetch_all(&mut *conn).await?;
        rows.iter().map(|r| Ok((TenantId(r.try_get(0)?), ScopeId(r.try_get(1)?)))).collect()
    }

    async fn work(&self, tenant: TenantId, scope: ScopeId, shutdown: CancellationToken) {
        let mut worker = Worker {
            router: self,
            tenant,
            scope,
            busy: HashSet::new(),
            losses: HashMap::new(),
            joins: Joins::new(),
            evaluating: JoinSet::new(),
        };
        if let Err(error) = worker.run(shutdown).await {
            tracing::warn!(error = %weir_rpc::chain(&error), "routing a scope stopped; it starts again");
        }
    }
}

struct Worker<'a> {
    router: &'a Router,
    tenant: TenantId,
    scope: ScopeId,
    busy: HashSet<i64>,
    losses: HashMap<i64, u32>,
    joins: Joins,
    evaluating: JoinSet<(Vec<i64>, Result<Evaluated, Error>)>,
}

impl Worker<'_> {
    async fn run(&mut self, shutdown: CancellationToken) -> Result<(), Error> {
        while !shutdown.is_cancelled() {
            let generation = self.router.generations.by_id(self.tenant).await?;
            if generation.scope_name(self.scope).is_none() {
                return Ok(());
            }
            self.fill(&generation).await?;
            if self.evaluating.is_empty() {
                return Ok(());
            }
            let ready = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                // New events can be decided while slow groups are in evaluation.
                () = self.router.arrived.notified(), if self.evaluating.len() < MAX_IN_EVALUATION => Vec::new(),
                () = tokio::time::sleep(self.router.poll) => Vec::new(),
                ready = gather(&mut self.evaluating) => ready,
            };
            self.commit(ready).await?;
        }
        Ok(())
    }

    /// Reads a pass and starts evaluating its groups.
    async fn fill(&mut self, generation: &Arc<Generation>) -> Result<(), Error> {
        let name: Arc<str> = Arc::from(generation.scope_name(self.scope).unwrap_or_default());
        let (mut floor, mut members) = (0, 0);
        let mut blocked = Blocked::default();
        while members < MAX_MEMBERS && self.evaluating.len() < MAX_IN_EVALUATION {
            let mut conn = self.router.context.db.acquire().await?;
            let rows =
                pending(&mut conn, self.tenant, self.scope, floor, generation.number, WINDOW).await?;
            let Some(last) = rows.last() else { break };
            floor = last.seq;
            let full = i64::try_from(rows.len()).unwrap_or(0) == WINDOW;
            let tied: Vec<&String> = rows.iter().filter_map(|r| self.joins.get(&r.seq)).flatten().collect();
            let keys: BTreeSet<&str> =
                rows.iter().flat_map(|r| &r.keys).chain(tied).map(String::as_str).collect();
            let works: BTreeSet<WorkId> = rows.iter().filter_map(|r| r.target).collect();
            let snapshot = Snapshot::load(&mut conn, generation, self.scope, &keys, &works).await?;
            let Plan { groups, behind } =
                plan(rows, &snapshot.owners, &self.joins, &self.busy, &mut blocked);
            drop(conn);
            if !behind.is_empty() {
                let command = MarkBehind { generation, scope: self.scope, rows: &behind };
                self.router.context.db.run(&command).await?;
            }
            members += groups.iter().map(Vec::len).sum::<usize>();
            self.start(generation, &name, groups, snapshot).await?;
            if !full {
                break;
            }
        }
        Ok(())
    }

    async fn start(
        &mut self,
        generation: &Arc<Generation>,
        name: &Arc<str>,
        groups: Vec<Vec<PendingRow>>,
        snapshot: Snapshot,
    ) -> Result<(), Error> {
        if groups.is_empty() {
            return Ok(());
        }
        let proofs = self.proofs(generation).await?;
        let mut conn = self.router.context.db.acquire().await?;
        let rows: Vec<&PendingRow> = groups.iter().flatten().collect();
        let all = Arc::new(events(&mut conn, self.tenant, self.scope, name, &rows).await?);
        drop(conn);
        for group in groups {
            let seqs: Vec<i64> = group.iter().map(|r| r.seq).collect();
            let locked = self.losses.get(&seqs[0]).is_some_and(|n| *n >= MAX_LOSSES);
            self.busy.extend(&seqs);
            let joins: Joins =
                seqs.iter().filter_map(|s| Some((*s, self.joins.get(s)?.clone()))).collect();
            let (context, generation, scope) =
                (self.router.context.clone(), Arc::clone(generation), self.scope);
            let (all, snapshot, proofs) = (Arc::clone(&all), of_group(&snapshot, &group, &joins), Arc::clone(&proofs));
            if locked && decides_in_process(&generation, scope) {
                self.decide_locked(&generation, group, &all, &proofs, &joins).await?;
                continue;
            }
            self.evaluating.spawn(async move {
                let result =
                    evaluate(&context, &generation, scope, group, &all, snapshot, &proofs, &joins, false).await;
                (seqs, result)
            });
        }
        Ok(())
    }

    async fn proofs(&self, generation: &Arc<Generation>) -> Result<Arc<Proofs>, Error> {
        proofs(&self.router.context.db, generation, self.scope).await.map(Arc::new)
    }

    /// Decides a group that lost too often, all in one transaction under its locks.
    async fn decide_locked(
        &mut self,
        generation: &Arc<Generation>,
        rows: Vec<PendingRow>,
        all: &Arc<HashMap<i64, crate::route::view::EventView>>,
        proofs: &Arc<Proofs>,
        joins: &Joins,
    ) -> Result<(), Error> {
        let seqs: Vec<i64> = rows.iter().map(|r| r.seq).collect();
        let command = crate::route::commit::DecideLocked {
            context: &self.router.context,
            generation,
            scope: self.scope,
            rows: &rows,
            events: all,
            proofs,
            joins,
        };
        self.router.context.db.run(&command).await?;
        self.done(&seqs, true);
        self.router.routed.notify_waiters();
        Ok(())
    }

    fn done(&mut self, seqs: &[i64], decided: bool) {
        for seq in seqs {
            self.busy.remove(seq);
            if decided {
                self.losses.remove(seq);
                self.joins.remove(seq);
            }
        }
    }

    /// Commits evaluated groups, those of one generation together.
    async fn commit(&mut self, ready: Vec<(Vec<i64>, Result<Evaluated, Error>)>) -> Result<(), Error> {
        let mut groups: Vec<Evaluated> = Vec::with_capacity(ready.len());
        for (seqs, result) in ready {
            match result {
                Ok(evaluated) => groups.push(evaluated),
                Err(error) => {
                    self.done(&seqs, false);
                    return Err(error);
                }
            }
        }
        groups.sort_by_key(|g| g.generation.number);
        for batch in groups.chunk_by(|a, b| a.generation.number == b.generation.number) {
            let generation = Arc::clone(&batch[0].generation);
            let command = CommitGroups { generation: &generation, scope: self.scope, groups: batch };
            let results = self.router.context.db.run(&command).await;
            let results = match results {
                Ok(results) => results,
                Err(error) => {
                    for group in batch {
                        self.done(&group.rows.iter().map(|r| r.seq).collect::<Vec<_>>(), false);
                    }
                    return Err(error);
                }
            };
            let mut stale = false;
            for (group, result) in batch.iter().zip(results) {
                let seqs: Vec<i64> = group.rows.iter().map(|r| r.seq).collect();
                self.done(&seqs, result == Commit::Done);
                match result {
                    Commit::Done => {}
                    Commit::Stale => stale = true,
                    Commit::Lost(ties) => {
                        metrics::counter!("weir_routing_groups_lost_total").increment(1);
                        *self.losses.entry(seqs[0]).or_default() += 1;
                        for (seq, key) in ties {
                            self.joins.entry(seq).or_default().insert(key);
                        }
                    }
                }
            }
            if stale {
                self.router.generations.refresh(&generation.tenant_name).await?;
            }
            self.router.routed.notify_waiters();
        }
        Ok(())
    }
}

/// Waits for a finished group and takes what finishes within a moment.
async fn gather(
    evaluating: &mut JoinSet<(Vec<i64>, Result<Evaluated, Error>)>,
) -> Vec<(Vec<i64>, Result<Evaluated, Error>)> {
    let mut ready = Vec::new();
    let Some(first) = evaluating.join_next().await else { return ready };
    ready.extend(first.ok());
    let deadline = tokio::time::sleep(GATHER);
    tokio::pin!(deadline);
    while ready.len() < MAX_IN_EVALUATION {
        tokio::select! {
            biased;
            Some(next) = evaluating.join_next() => ready.extend(next.ok()),
            () = &mut deadline => break,
            else => break,
        }
    }
    ready
}

/// Cuts the pass's snapshot down to what a group can see, so that others' changes do not lose it.
fn of_group(snapshot: &Snapshot, rows: &[PendingRow], joins: &Joins) -> Snapshot {
    let keys = rows.iter().flat_map(|r| r.keys.iter().chain(joins.get(&r.seq).into_iter().flatten()));
    let owners: HashMap<String, Option<WorkId>> =
        keys.map(|k| (k.clone(), snapshot.owners.get(k).copied().flatten())).collect();
    let works = owners.values().flatten().copied().chain(rows.iter().filter_map(|r| r.target));
    let works = works.filter_map(|w| Some((w, snapshot.works.get(&w)?.clone()))).collect();
    Snapshot { at: snapshot.at, owners, works }
}

fn decides_in_process(generation: &Generation, scope: ScopeId) -> bool {
    let name = generation.scope_name(scope).unwrap_or_default();
    generation.compiled.scope(name).is_some_and(|s| {
        s.routes.iter().all(|r| matches!(r.handler, crate::tenant::CompiledHandler::Cel(_)))
    })
}

/// Reads what the registrations of a scope's executors prove (rule r11).
pub async fn proofs(
    db: &weir_pg::Db,
    generation: &Generation,
    scope: ScopeId,
) -> Result<Proofs, Error> {
    let name = generation.scope_name(scope).unwrap_or_default();
    let Some(effective) = generation.compiled.scope(name) else { return Ok(Proofs::new()) };
    let executors: BTreeSet<&str> =
        effective.bindings.values().filter_map(|b| b.executor.as_deref()).collect();
    let executors: Vec<&str> = executors.into_iter().collect();
    let mut tx = db.snapshot().await?;
    let found = registrations(&mut tx, generation.tenant, &executors).await?;
    Ok(found.into_iter().map(|(executor, r)| (executor, r.capabilities)).collect())
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
            .bind(self.rows.iter().map(|(_, h)| format!("behind {}", h.event)).collect::<Vec<_>>())
            .bind(self.rows.iter().map(|(_, h)| h.work.0).collect::<Vec<_>>())
            .bind(self.rows.iter().map(|(_, h)| h.attempt).collect::<Vec<_>>())
            .bind(self.generation.number)
            .execute(tx.conn())
            .await?;
        Ok(())
    }
}
