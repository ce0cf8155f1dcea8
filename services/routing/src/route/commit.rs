//! The routing transaction: revalidate under locks, then write decisions, effects and checkpoints (rules r01,
//! r08, r12). Locks and interleavings: the module above.

mod wins;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sqlx::Row as _;
use weir_kernel::{Disposition, FailureCode, Policy, ScopeId, WorkId};
use weir_pg::locks::{Mode, lock_config, lock_scope_order};
use weir_pg::{Command, Tx};
use weir_work::Locked;

use crate::Error;
use crate::generation::Generation;
use crate::route::claim::InCommit;
use crate::route::decide::Effect;
use crate::route::evaluate::{Context, Evaluated, Fate, evaluate};
use crate::route::group::Joins;
use crate::route::policy::Proofs;
use crate::route::snapshot::{Snapshot, owners};
use crate::route::view::{EventView, PendingRow};

/// Commits groups of one scope that were evaluated under one generation.
pub struct CommitGroups<'a> {
    /// The configuration that decided.
    pub generation: &'a Arc<Generation>,
    /// The scope.
    pub scope: ScopeId,
    /// The groups.
    pub groups: &'a [Evaluated],
    /// What the process claimed for them; nothing where only expressions decide (rule r21).
    pub claim: Option<InCommit<'a>>,
}

/// What became of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// It is written.
    Done,
    /// Something changed since its snapshot: it is evaluated again, with these keys tied in.
    Lost(Vec<(i64, String)>),
    /// The configuration changed.
    Stale,
}

impl Command for CommitGroups<'_> {
    const NAME: &'static str = "routing.commit_groups";
    type Output = Vec<Commit>;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Vec<Commit>, Error> {
        let tenant = self.generation.tenant;
        lock_config(tx, tenant, Mode::Shared).await?;
        if weir_ledger::tenant::generation(tx, tenant).await? != self.generation.number {
            return Ok(vec![Commit::Stale; self.groups.len()]);
        }
        if self.groups.iter().any(|g| g.wins.is_some()) {
            // A bridge is appended. Whoever has it exclusively keeps publishers out, too.
            lock_scope_order(tx, tenant, &[(self.scope, Mode::Exclusive)]).await?;
        } else if self.groups.iter().any(|g| !g.attached.is_empty()) {
            // Keeps publishers out while keys attach, not other routers.
            lock_scope_order(tx, tenant, &[(self.scope, Mode::Shared)]).await?;
        }
        let mut results = vec![Commit::Done; self.groups.len()];
        self.drop_missing(tx, &mut results).await?;
        let mut locked = self.drop_moved(tx, &mut results).await?;
        self.drop_reowned(tx, &mut results).await?;
        self.drop_early(tx, &mut results).await?;
        if let Some(claim) = &self.claim {
            claim
                .drop_served(tx, self.generation, self.groups, &mut results)
                .await?;
        }
        wins::drop_lost(self, tx, &mut results).await?;
        let bridges = wins::append_bridges(self, tx, &locked, &mut results).await?;

        let winners: Vec<&Evaluated> = self
            .groups
            .iter()
            .zip(&results)
            .filter(|(_, r)| **r == Commit::Done)
            .map(|(g, _)| g)
            .collect();
        if !winners.is_empty() {
            write::write(
                tx,
                self.generation,
                self.scope,
                &winners,
                &mut locked,
                &bridges,
            )
            .await?;
        }
        if let Some(claim) = &self.claim {
            claim.take_off(tx, self.groups, &results).await?;
        }
        Ok(results)
    }
}

impl CommitGroups<'_> {
    fn alive<'r>(&'r self, results: &'r [Commit]) -> impl Iterator<Item = (usize, &'r Evaluated)> {
        self.groups
            .iter()
            .enumerate()
            .filter(|(i, _)| results[*i] == Commit::Done)
    }

    /// Somebody else routed, skipped or took one of its rows, or counted or forgot its failures.
    async fn drop_missing(&self, tx: &mut Tx<'_>, results: &mut [Commit]) -> Result<(), Error> {
        let mut seqs: Vec<i64> = self
            .groups
            .iter()
            .flat_map(|g| g.rows.iter().map(|r| r.seq))
            .collect();
        seqs.sort_unstable();
        let standing: Vec<(i64, i16)> = sqlx::query_as(include_str!("sql/lock_pending.sql"))
            .bind(self.generation.tenant.0)
            .bind(self.scope.0)
            .bind(&seqs)
            .fetch_all(tx.conn())
            .await?;
        let standing: HashMap<i64, i16> = standing.into_iter().collect();
        for (i, group) in self.groups.iter().enumerate() {
            let stands = |(row, fate): (&PendingRow, &Fate)| {
                // A failure is counted on top of those that it knew: who counted or forgot some meanwhile wins.
                let counted = standing.get(&row.seq);
                counted.is_some_and(|n| *n == row.failures || !fate.counts())
            };
            if !group.rows.iter().zip(&group.fates).all(stands) {
                results[i] = Commit::Lost(Vec::new());
            }
        }
        Ok(())
    }

    /// A Work that it saw is at another version.
    async fn drop_moved(
        &self,
        tx: &mut Tx<'_>,
        results: &mut [Commit],
    ) -> Result<HashMap<WorkId, Locked>, Error> {
        let seen: BTreeSet<WorkId> = self
            .alive(results)
            .flat_map(|(_, g)| g.versions.keys().copied())
            .collect();
        let ids: Vec<WorkId> = seen.into_iter().collect();
        let locked: HashMap<WorkId, Locked> = weir_work::lock(tx, self.generation.tenant, &ids)
            .await?
            .into_iter()
            .map(|l| (l.work.work_id, l))
            .collect();
        let moved = |group: &Evaluated| {
            group.versions.iter().any(|(id, version)| {
                locked
                    .get(id)
                    .is_none_or(|l| (l.work.revision, l.epoch()) != *version)
            })
        };
        let lost: Vec<usize> = self
            .alive(results)
            .filter(|(_, g)| moved(g))
            .map(|(i, _)| i)
            .collect();
        for i in lost {
            results[i] = Commit::Lost(Vec::new());
        }
        Ok(locked)
    }

    /// A key that it looked up has another owner, or got one.
    async fn drop_reowned(&self, tx: &mut Tx<'_>, results: &mut [Commit]) -> Result<(), Error> {
        let keys: BTreeSet<&str> = self
            .alive(results)
            .flat_map(|(_, g)| g.owners.keys().map(String::as_str))
            .collect();
        if keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = keys.into_iter().collect();
        let now = owners(tx.conn(), self.generation.tenant, self.scope, &keys).await?;
        let mut first: HashMap<&str, usize> = HashMap::new();
        let mut lost = Vec::new();
        for (i, group) in self.alive(results) {
            let changed = group
                .owners
                .iter()
                .any(|(k, owner)| now.get(k) != Some(owner));
            // Two groups of one commit that attach one key: the later is decided on what the earlier did.
            let twice = group
                .attached
                .keys()
                .any(|k| *first.entry(k).or_insert(i) != i);
            if changed || twice {
                lost.push(i);
            }
        }
        for i in lost {
            results[i] = Commit::Lost(Vec::new());
        }
        Ok(())
    }

    /// A key that it attaches beyond its events' own is carried by an undecided event that is earlier than one of them:
    /// it is to be decided with them, in order (rules r06, r08).
    async fn drop_early(&self, tx: &mut Tx<'_>, results: &mut [Commit]) -> Result<(), Error> {
        let mut wanted: BTreeMap<&str, Vec<(usize, i64)>> = BTreeMap::new();
        for (i, group) in self.alive(results) {
            for (key, (_, seq)) in &group.attached {
                let own = group
                    .rows
                    .iter()
                    .any(|r| r.seq == *seq && r.keys.contains(key));
                if !own {
                    wanted.entry(key).or_default().push((i, *seq));
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = wanted.keys().copied().collect();
        let rows = sqlx::query(include_str!("sql/earlier.sql"))
            .bind(self.generation.tenant.0)
            .bind(self.scope.0)
            .bind(&keys)
            .fetch_all(tx.conn())
            .await?;
        let mut ties: HashMap<usize, Vec<(i64, String)>> = HashMap::new();
        for row in rows {
            let (key, seq): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            for (i, attaching) in wanted.get(key.as_str()).into_iter().flatten() {
                let group = &self.groups[*i];
                // A conflict that this commit marks stands aside as one marked before does (rule r05).
                let decided = group.rows.iter().zip(&group.fates).any(|(r, f)| {
                    r.seq == seq && matches!(f, Fate::Decided { .. } | Fate::Conflict(_))
                });
                // Later input of the group must not overtake it either: it belongs to the same Work then (rule r06).
                let overtaken = group.rows.iter().any(|r| r.seq > seq);
                if (seq < *attaching || overtaken) && !decided {
                    ties.entry(*i).or_default().push((*attaching, key.clone()));
                }
            }
        }
        for (i, ties) in ties {
            results[i] = Commit::Lost(ties);
        }
        Ok(())
    }
}

/// Decides one group under its locks, with expressions only, after it lost five times (rule r01): whatever it
/// reads cannot move before it commits.
pub struct DecideLocked<'a> {
    /// Evaluation's needs.
    pub context: &'a Context,
    /// The configuration.
    pub generation: &'a Arc<Generation>,
    /// The scope.
    pub scope: ScopeId,
    /// The members.
    pub rows: &'a [PendingRow],
    /// Their events.
    pub events: &'a HashMap<i64, EventView>,
    /// What registrations prove.
    pub proofs: &'a Proofs,
    /// Keys that tie members together.
    pub joins: &'a Joins,
}

impl Command for DecideLocked<'_> {
    const NAME: &'static str = "routing.decide_locked";
    type Output = Commit;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Commit, Error> {
        let tenant = self.generation.tenant;
        lock_config(tx, tenant, Mode::Shared).await?;
        // What it decides is not known yet: it may append a bridge, and never upgrades.
        lock_scope_order(tx, tenant, &[(self.scope, Mode::Exclusive)]).await?;
        let mut seqs: Vec<i64> = self.rows.iter().map(|r| r.seq).collect();
        seqs.sort_unstable();
        sqlx::query(include_str!("sql/lock_pending.sql"))
            .bind(tenant.0)
            .bind(self.scope.0)
            .bind(&seqs)
            .execute(tx.conn())
            .await?;
        let keys: BTreeSet<&str> = self
            .rows
            .iter()
            .flat_map(|r| &r.keys)
            .chain(self.joins.values().flatten())
            .map(String::as_str)
            .collect();
        let targets: BTreeSet<WorkId> = self.rows.iter().filter_map(|r| r.target).collect();
        let named = owners(
            tx.conn(),
            tenant,
            self.scope,
            &keys.iter().copied().collect::<Vec<_>>(),
        )
        .await?;
        let works: BTreeSet<WorkId> = named
            .into_values()
            .flatten()
            .chain(targets.iter().copied())
            .collect();
        weir_work::lock(tx, tenant, &works.into_iter().collect::<Vec<_>>()).await?;
        let snapshot =
            Snapshot::load(tx.conn(), self.generation, self.scope, &keys, &targets).await?;
        let evaluated = evaluate(
            self.context,
            self.generation,
            self.scope,
            self.rows.to_vec(),
            self.events,
            snapshot,
            self.proofs,
            self.joins,
            false,
        )
        .await?;
        let groups = [evaluated];
        let command = CommitGroups {
            generation: self.generation,
            scope: self.scope,
            groups: &groups,
            claim: None,
        };
        Ok(command.execute(tx).await?.pop().unwrap_or(Commit::Stale))
    }
}

/// Counts a failure on rows that cannot be evaluated or written at all, and backs off, so that they stop nobody
/// but those that depend on them.
pub struct SetAside<'a> {
    /// The configuration.
    pub generation: &'a Arc<Generation>,
    /// The scope.
    pub scope: ScopeId,
    /// The rows.
    pub seqs: &'a [i64],
}

impl Command for SetAside<'_> {
    const NAME: &'static str = "routing.set_aside";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        sqlx::query(include_str!("sql/set_aside.sql"))
            .bind(self.generation.tenant.0)
            .bind(self.scope.0)
            .bind(self.seqs)
            .bind(FailureCode::HandlerFailed.code())
            .bind(self.generation.number)
            .execute(tx.conn())
            .await?;
        Ok(())
    }
}

/// Logs and counts what a committed group decided (rule r19): once, and only what is true.
pub fn announce(group: &Evaluated) {
    for (row, fate) in group.rows.iter().zip(&group.fates) {
        let Fate::Decided { effect, .. } = fate else {
            continue;
        };
        let disposition = disposition(effect);
        tracing::debug!(event.uid = %row.uid, disposition = %disposition, "routed");
        metrics::counter!("weir_routing_events_routed_total", "disposition" => disposition.as_str()).increment(1);
        match effect {
            Effect::Unmatched(_) => {
                tracing::info!(event.uid = %row.uid, "no route selected an event")
            }
            Effect::Failed { slot, code, .. } => {
                tracing::warn!(event.uid = %row.uid, route = %slot, code = %code, "gave up on an event");
                metrics::counter!("weir_routing_events_failed_total", "code" => code.as_str())
                    .increment(1);
            }
            _ => {}
        }
    }
}

const fn disposition(effect: &Effect) -> Disposition {
    match effect {
        Effect::Start(_) => Disposition::Start,
        Effect::Input(_, selected) => match selected.policy {
            Policy::Inject => Disposition::Inject,
            Policy::Interrupt => Disposition::Interrupt,
            Policy::Queue | Policy::Drop => Disposition::Queue,
        },
        Effect::Wake(_) => Disposition::Wake,
        Effect::Drop(..) => Disposition::Drop,
        Effect::Unmatched(_) | Effect::Deferred { .. } | Effect::Conflict(_) => {
            Disposition::Unmatched
        }
        Effect::Terminal(_) => Disposition::Terminal,
        Effect::Failed { .. } => Disposition::Failed,
    }
}
