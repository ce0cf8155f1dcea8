//! The worker of one scope.

mod finish;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use weir_kernel::{ScopeId, TenantId, WorkId};
use weir_runtime::CancellationToken;

use super::turn::Turn;
use super::{
    GATHER, MAX_IN_EVALUATION, MAX_LOSSES, MAX_MEMBERS, MAX_PASS_BYTES, MarkBehind, Router, WINDOW,
    decides_in_process, proofs,
};
use crate::Error;
use crate::generation::Generation;
use crate::route::claim::Claim;
use crate::route::commit::DecideLocked;
use crate::route::evaluate::{Evaluated, evaluate};
use crate::route::group::{Blocked, Joins, Plan, plan};
use crate::route::policy::Proofs;
use crate::route::snapshot::{Snapshot, events, pending};
use crate::route::view::{EventView, PendingRow};

type Evaluation = Result<(Id, Result<Evaluated, Error>), JoinError>;

pub(super) struct Worker<'a> {
    router: &'a Router,
    tenant: TenantId,
    scope: ScopeId,
    /// Rows in evaluation.
    busy: HashSet<i64>,
    /// How often a group lost, by its first row.
    losses: HashMap<i64, u32>,
    joins: Joins,
    evaluating: JoinSet<Result<Evaluated, Error>>,
    /// The rows of each evaluation, also when it panics.
    rows: HashMap<Id, Vec<i64>>,
    /// What is in evaluation, for the others to see.
    claim: Claim,
}

impl<'a> Worker<'a> {
    pub(super) fn new(router: &'a Router, tenant: TenantId, scope: ScopeId, joins: Joins) -> Self {
        Self {
            router,
            tenant,
            scope,
            busy: HashSet::new(),
            losses: HashMap::new(),
            joins,
            evaluating: JoinSet::new(),
            rows: HashMap::new(),
            claim: Claim::new(
                router.context.db.clone(),
                router.context.replica.clone(),
                tenant,
                scope,
            ),
        }
    }

    /// Ends what is in evaluation and gives up the claim. An error says that it still stands.
    pub(super) async fn end(&mut self) -> Result<(), Error> {
        self.evaluating.shutdown().await;
        self.claim.release().await
    }

    /// Returns the ties it found.
    pub(super) fn into_joins(self) -> Joins {
        self.joins
    }

    /// Works until nothing is in evaluation and nothing may be decided now.
    pub(super) async fn run(&mut self, shutdown: CancellationToken) -> Result<(), Error> {
        while !shutdown.is_cancelled() {
            let generation = self.router.generations.by_id(self.tenant).await?;
            if generation.scope_name(self.scope).is_none() {
                return Ok(());
            }
            self.fill(&generation).await?;
            if self.evaluating.is_empty() {
                return Ok(());
            }
            let first = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                // New events can be decided while slow groups are in evaluation.
                () = self.router.arrived.notified(), if self.evaluating.len() < MAX_IN_EVALUATION => None,
                () = tokio::time::sleep(self.router.poll) => None,
                finished = self.evaluating.join_next_with_id() => finished,
            };
            // Outside the choice above: what was taken and then cancelled would stay busy.
            let ready = match first {
                Some(first) => gather(first, &mut self.evaluating).await,
                None => Vec::new(),
            };
            self.finish(&generation, ready).await?;
        }
        Ok(())
    }

    /// Reads a pass and starts evaluating its groups.
    async fn fill(&mut self, generation: &Arc<Generation>) -> Result<(), Error> {
        let (mut floor, mut members, mut bytes) = (0, 0, 0);
        let mut blocked = Blocked::default();
        let mut standing: HashSet<i64> = HashSet::new();
        let off = self.keep_off(generation).await?;
        while members < MAX_MEMBERS
            && bytes < MAX_PASS_BYTES
            && self.evaluating.len() < MAX_IN_EVALUATION
        {
            let mut conn = self.router.context.db.acquire().await?;
            let rows = pending(
                &mut conn,
                self.tenant,
                self.scope,
                floor,
                generation.number,
                WINDOW,
            )
            .await?;
            let Some(last) = rows.last() else { break };
            floor = last.seq;
            standing.extend(rows.iter().map(|r| r.seq));
            let full = i64::try_from(rows.len()).unwrap_or(0) == WINDOW;
            let tied: Vec<&String> = rows
                .iter()
                .filter_map(|r| self.joins.get(&r.seq))
                .flatten()
                .collect();
            let keys: BTreeSet<&str> = rows
                .iter()
                .flat_map(|r| &r.keys)
                .chain(tied)
                .map(String::as_str)
                .collect();
            let works: BTreeSet<WorkId> = rows.iter().filter_map(|r| r.target).collect();
            let snapshot = Snapshot::load(&mut conn, generation, self.scope, &keys, &works).await?;
            let Plan { groups, behind } =
                plan(rows, &snapshot.owners, &self.joins, &off, &mut blocked);
            drop(conn);
            if !behind.is_empty() {
                let command = MarkBehind {
                    generation,
                    scope: self.scope,
                    rows: &behind,
                };
                self.router.context.db.run(&command).await?;
            }
            members += groups.iter().map(Vec::len).sum::<usize>();
            bytes += self
                .start(generation, groups, &snapshot, MAX_PASS_BYTES - bytes)
                .await?;
            if !full {
                // All of the scope was read: what is not there any more was decided elsewhere.
                self.losses.retain(|seq, _| standing.contains(seq));
                self.joins.retain(|seq, _| standing.contains(seq));
                break;
            }
        }
        Ok(())
    }

    /// Returns the rows that are not to be started: in evaluation here, or left to others.
    async fn keep_off(&self, generation: &Generation) -> Result<HashSet<i64>, Error> {
        let mut off = self.busy.clone();
        if !decides_in_process(generation, self.scope) {
            off.extend(self.claim.elsewhere().await?);
            off.extend(self.router.left.of(self.tenant, self.scope));
        }
        Ok(off)
    }

    /// Starts evaluating groups whose payloads fit into `room` bytes, and the first in any case. Returns their size.
    async fn start(
        &mut self,
        generation: &Arc<Generation>,
        groups: Vec<Vec<PendingRow>>,
        snapshot: &Snapshot,
        room: i64,
    ) -> Result<i64, Error> {
        if groups.is_empty() {
            return Ok(0);
        }
        let name: Arc<str> = Arc::from(generation.scope_name(self.scope).unwrap_or_default());
        let proofs = Arc::new(proofs(&self.router.context.db, generation, self.scope).await?);
        let mut used = 0;
        let mut fitting = Vec::with_capacity(groups.len());
        for group in groups {
            let size: i64 = group.iter().map(|r| r.bytes).sum();
            let fits = used == 0 || used + size <= room;
            used += size;
            if !fits {
                // It is read again by the next pass; nothing of it is in memory.
                break;
            }
            fitting.push(group);
        }
        let rows: Vec<&PendingRow> = fitting.iter().flatten().collect();
        if !decides_in_process(generation, self.scope) {
            let mut seqs = self.busy.clone();
            seqs.extend(rows.iter().map(|r| r.seq));
            self.claim.take(&seqs).await?;
        }
        let mut conn = self.router.context.db.acquire().await?;
        let mut all = events(&mut conn, self.tenant, self.scope, &name, &rows).await?;
        drop(conn);
        for group in fitting {
            // Each group holds its own events, and no longer than it is in evaluation.
            let own = group
                .iter()
                .filter_map(|r| Some((r.seq, all.remove(&r.seq)?)))
                .collect();
            self.start_group(generation, group, own, snapshot, &proofs)
                .await?;
        }
        Ok(used)
    }

    async fn start_group(
        &mut self,
        generation: &Arc<Generation>,
        group: Vec<PendingRow>,
        all: HashMap<i64, EventView>,
        snapshot: &Snapshot,
        proofs: &Arc<Proofs>,
    ) -> Result<(), Error> {
        let seqs: Vec<i64> = group.iter().map(|r| r.seq).collect();
        let joins: Joins = seqs
            .iter()
            .filter_map(|s| Some((*s, self.joins.get(s)?.clone())))
            .collect();
        let lost_often = self.losses.get(&seqs[0]).is_some_and(|n| *n >= MAX_LOSSES);
        self.busy.extend(&seqs);
        if lost_often && decides_in_process(generation, self.scope) {
            return self
                .decide_locked(generation, group, &all, proofs, &joins)
                .await;
        }
        let turn = if decides_in_process(generation, self.scope) {
            Turn::Any
        } else if group.iter().any(|r| r.crashes.is_suspect()) {
            Turn::Alone(Arc::clone(&self.router.turns), Box::new(self.claim.alone()))
        } else {
            Turn::Shared(Arc::clone(&self.router.turns))
        };
        let (mut context, scope) = (self.router.context.clone(), self.scope);
        context.alone = turn.alone();
        let snapshot = of_group(snapshot, &group, &joins);
        let (generation, proofs) = (Arc::clone(generation), Arc::clone(proofs));
        let task = self.evaluating.spawn(turn.take(async move {
            evaluate(
                &context,
                &generation,
                scope,
                group,
                &all,
                snapshot,
                &proofs,
                &joins,
                false,
            )
            .await
        }));
        self.rows.insert(task.id(), seqs);
        Ok(())
    }

    /// Decides a group that lost too often, all in one transaction under its locks.
    async fn decide_locked(
        &mut self,
        generation: &Arc<Generation>,
        rows: Vec<PendingRow>,
        all: &HashMap<i64, EventView>,
        proofs: &Arc<Proofs>,
        joins: &Joins,
    ) -> Result<(), Error> {
        let seqs: Vec<i64> = rows.iter().map(|r| r.seq).collect();
        let command = DecideLocked {
            context: &self.router.context,
            generation,
            scope: self.scope,
            rows: &rows,
            events: all,
            proofs,
            joins,
        };
        let result = self.router.context.db.run(&command).await?;
        self.settle(generation, &seqs, result).await
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
}

/// Takes with a finished group what else finishes within a moment.
async fn gather(
    first: Evaluation,
    evaluating: &mut JoinSet<Result<Evaluated, Error>>,
) -> Vec<Evaluation> {
    let mut ready = vec![first];
    let deadline = tokio::time::sleep(GATHER);
    tokio::pin!(deadline);
    while ready.len() < MAX_IN_EVALUATION {
        tokio::select! {
            biased;
            Some(next) = evaluating.join_next_with_id() => ready.push(next),
            () = &mut deadline => break,
            else => break,
        }
    }
    ready
}

/// Cuts the pass's snapshot down to what a group can see, so that others' changes do not lose it.
fn of_group(snapshot: &Snapshot, rows: &[PendingRow], joins: &Joins) -> Snapshot {
    let keys = rows
        .iter()
        .flat_map(|r| r.keys.iter().chain(joins.get(&r.seq).into_iter().flatten()));
    let owners: HashMap<String, Option<WorkId>> = keys
        .map(|k| (k.clone(), snapshot.owners.get(k).copied().flatten()))
        .collect();
    let works = owners
        .values()
        .flatten()
        .copied()
        .chain(rows.iter().filter_map(|r| r.target));
    let works = works
        .filter_map(|w| Some((w, snapshot.works.get(&w)?.clone())))
        .collect();
    Snapshot {
        at: snapshot.at,
        owners,
        works,
    }
}
