//! Writing what was revalidated.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;
use weir_kernel::{
    BindingId, Disposition, EventUid, IntentKind, PendingState, Policy, RouteId, ScopeId, WorkId,
    WorkState,
};
use weir_ledger::work_marker;
use weir_pg::Tx;
use weir_work::effects::{Effects, NewInput, NewWork, apply};
use weir_work::{Locked, Queued, Won};

use super::wins::Bridges;
use crate::Error;
use crate::generation::Generation;
use crate::route::decide::{Effect, Selected};
use crate::route::evaluate::{Evaluated, Fate};
use crate::route::refusals;
use crate::route::view::PendingRow;

/// How long an event waits for a wake that comes before it, in ms.
const PAUSE_MS: i64 = 50;

/// The record of one decided event.
struct Record {
    seq: i64,
    uid: EventUid,
    disposition: Disposition,
    work: Option<WorkId>,
    route: Option<RouteId>,
    binding: Option<BindingId>,
    policy: Option<Policy>,
    reason: Option<String>,
    error: Option<String>,
    attempts: Option<i16>,
}

/// A row that stays pending.
struct Undecided {
    seq: i64,
    state: PendingState,
    reason: Option<String>,
    work: Option<WorkId>,
    attempt: Option<i32>,
    conflict: String,
    failures: Option<i16>,
    wait_ms: Option<i64>,
    code: Option<i16>,
    error: Option<String>,
    route: Option<i32>,
}

#[derive(Default)]
struct Batch {
    records: Vec<Record>,
    undecided: Vec<Undecided>,
    refusals: Vec<(EventUid, Vec<u8>, bool)>,
    gone_keys: Vec<(String, i64)>,
    effects: Effects,
    left: Vec<WorkId>,
}

pub(super) async fn write(
    tx: &mut Tx<'_>,
    generation: &Arc<Generation>,
    scope: ScopeId,
    groups: &[&Evaluated],
    locked: &mut HashMap<WorkId, Locked>,
    bridges: &Bridges,
) -> Result<(), Error> {
    let at: DateTime<Utc> = sqlx::query_scalar("SELECT weir.clock()")
        .fetch_one(tx.conn())
        .await?;
    let mut batch = Batch::default();
    for group in groups {
        for (key, (work, _)) in &group.attached {
            batch.effects.keys.insert(key.clone(), *work);
        }
    }
    for group in groups {
        for (row, fate) in group.rows.iter().zip(&group.fates) {
            batch.add(generation, scope, group, row, fate, locked);
        }
    }
    let asking = batch.context_of_waits(groups, locked);
    batch.wake(tx, generation, groups, locked, bridges).await?;
    apply(tx, generation.tenant, scope, at, locked, &batch.effects).await?;
    ask(tx, generation, &asking).await?;
    batch.write_decided(tx, generation, scope).await?;
    batch.write_undecided(tx, generation, scope).await?;
    // A Work whose last unrouted input went elsewhere has nothing left (rule l06).
    let mut left = std::mem::take(&mut batch.left);
    left.sort_unstable();
    left.dedup();
    weir_work::complete_if_drained(tx, generation.tenant, &left).await?;
    Ok(())
}

/// Has the loop look at the waits of these Works: an own event became context of a wait that it would win.
async fn ask(tx: &mut Tx<'_>, generation: &Generation, works: &[Uuid]) -> Result<(), Error> {
    if !works.is_empty() {
        sqlx::query(
            "UPDATE weir.wait w SET asked = w.asked + 1 \
             FROM (SELECT l.ctid AS at FROM unnest($2::uuid[]) AS u(work_id) \
                   CROSS JOIN LATERAL (SELECT ctid FROM weir.wait \
                       WHERE tenant_id = $1 AND work_id = u.work_id AND state = 1 \
                       LIMIT 1 FOR NO KEY UPDATE) l) locked \
             WHERE w.ctid = locked.at",
        )
        .bind(generation.tenant.0)
        .bind(works)
        .execute(tx.conn())
        .await?;
    }
    Ok(())
}

impl Batch {
    /// Returns the waiting Works that get input by this commit and are not woken by it.
    fn context_of_waits(
        &self,
        groups: &[&Evaluated],
        locked: &HashMap<WorkId, Locked>,
    ) -> Vec<Uuid> {
        let woken = |work: &WorkId| {
            groups
                .iter()
                .any(|g| g.wins.as_ref().is_some_and(|w| w.check.wait.work == *work))
        };
        let mut works: Vec<Uuid> = self
            .effects
            .inputs
            .iter()
            .map(|i| i.work)
            .filter(|w| {
                locked
                    .get(w)
                    .is_some_and(|l| l.work.state == WorkState::Waiting)
                    && !woken(w)
            })
            .map(|w| w.0)
            .collect();
        works.sort_unstable();
        works.dedup();
        works
    }

    /// Wakes Works: their winners are their own events, routed here.
    async fn wake(
        &mut self,
        tx: &mut Tx<'_>,
        generation: &Generation,
        groups: &[&Evaluated],
        locked: &mut HashMap<WorkId, Locked>,
        bridges: &Bridges,
    ) -> Result<(), Error> {
        // Wait rows come in the order of their Works, as for whoever ends a Work that several wait for.
        let mut groups: Vec<&&Evaluated> = groups.iter().filter(|g| g.wins.is_some()).collect();
        groups.sort_by_key(|g| g.wins.as_ref().map(|w| w.check.wait.work));
        for group in groups {
            let Some(wins) = &group.wins else { continue };
            let work = wins.check.wait.work;
            let row = group.rows.iter().find(|r| r.seq == wins.seq);
            let (Some(row), Some((n, bridge)), Some(held)) =
                (row, bridges.get(&work), locked.get(&work))
            else {
                continue;
            };
            let own = Queued {
                uid: row.uid,
                seq: row.seq,
                accepted_at: row.accepted_at,
                bytes: group.bytes.get(&row.seq).copied().unwrap_or(0),
                binding: bridge.binding,
            };
            let woken = weir_work::wake(tx, generation.tenant, held, *n, Won::Own(own), *bridge);
            let woken = woken.await?;
            locked.insert(work, woken);
        }
        Ok(())
    }

    fn add(
        &mut self,
        generation: &Generation,
        scope: ScopeId,
        group: &Evaluated,
        row: &PendingRow,
        fate: &Fate,
        locked: &HashMap<WorkId, Locked>,
    ) {
        match fate {
            Fate::Waits | Fate::Left => {}
            Fate::Paused => self.undecided.push(Undecided {
                wait_ms: Some(PAUSE_MS),
                ..Undecided::new(row.seq)
            }),
            Fate::Retry {
                slot,
                code,
                error,
                failures,
                wait,
            } => self.undecided.push(Undecided {
                state: PendingState::Backoff,
                failures: Some(*failures),
                wait_ms: i64::try_from(wait.as_millis()).ok(),
                code: Some(code.code()),
                error: Some(error.clone()),
                route: generation.route_id(scope, slot).map(|r| r.0),
                ..Undecided::new(row.seq)
            }),
            Fate::Deferred(hold, reason) => self.undecided.push(Undecided {
                state: PendingState::Deferred,
                reason: Some(reason.clone()),
                work: Some(hold.work),
                attempt: Some(hold.attempt),
                ..Undecided::new(row.seq)
            }),
            Fate::Conflict(works) => {
                // It may have been a Work's last unrouted input (rule l06); those it saw are locked.
                self.left
                    .extend(works.iter().filter(|w| group.versions.contains_key(w)));
                self.undecided.push(Undecided {
                    state: PendingState::Conflict,
                    reason: Some("belongs to more than one work".to_owned()),
                    conflict: works
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(","),
                    ..Undecided::new(row.seq)
                });
            }
            Fate::Decided {
                effect,
                starts,
                refusals,
                attempts,
            } => {
                self.decide(generation, scope, group, row, (effect, *starts), locked);
                if let Some(record) = self.records.last_mut()
                    && *attempts > 0
                {
                    record.attempts = Some(*attempts);
                }
                if !refusals.is_empty() {
                    let declined: Vec<(RouteId, String)> = refusals
                        .iter()
                        .filter_map(|(slot, reason)| {
                            Some((generation.route_id(scope, slot)?, reason.clone()))
                        })
                        .collect();
                    let (packed, truncated) = refusals::pack(&declined);
                    self.refusals.push((row.uid, packed, truncated));
                }
                self.forget_keys(group, row);
            }
        }
    }

    fn decide(
        &mut self,
        generation: &Generation,
        scope: ScopeId,
        group: &Evaluated,
        row: &PendingRow,
        (effect, starts): (&Effect, Option<WorkId>),
        locked: &HashMap<WorkId, Locked>,
    ) {
        let mut record = Record::new(row);
        match effect {
            Effect::Start(selected) => {
                record.select(generation, scope, selected);
                record.disposition = Disposition::Start;
                record.work = starts;
                let Some(work) = starts else { return };
                let priority = self.input(generation, scope, group, row, work, selected, None);
                self.effects.works.push(NewWork {
                    work,
                    priority,
                    cause: row.uid,
                });
            }
            Effect::Input(work, selected) => {
                record.select(generation, scope, selected);
                record.work = Some(*work);
                let kind = match selected.policy {
                    Policy::Inject => Some(IntentKind::Inject),
                    Policy::Interrupt => Some(IntentKind::Interrupt),
                    Policy::Queue | Policy::Drop => None,
                };
                // The version was revalidated, so the attempt seen is the one that runs.
                let attempt = locked
                    .get(work)
                    .and_then(|l| l.ready.as_ref())
                    .map(|r| (r.attempt, r.epoch));
                let intent = kind
                    .zip(attempt)
                    .map(|(kind, (attempt, epoch))| (kind, attempt, epoch));
                self.input(generation, scope, group, row, *work, selected, intent);
            }
            Effect::Wake(work) => {
                record.disposition = Disposition::Wake;
                record.reason = Some("wait_won".to_owned());
                record.work = Some(*work);
                record.binding = locked.get(work).map(|l| l.work.binding_id);
            }
            Effect::Drop(work, selected) => {
                record.select(generation, scope, selected);
                record.work = *work;
                self.left.extend(*work);
            }
            Effect::Unmatched(work) => {
                record.disposition = Disposition::Unmatched;
                record.reason = Some("no_match".to_owned());
                record.work = *work;
                self.left.extend(*work);
            }
            Effect::Terminal(work) => {
                record.disposition = Disposition::Terminal;
                record.reason = Some("terminal".to_owned());
                record.work = Some(*work);
            }
            Effect::Failed {
                work,
                slot,
                code,
                error,
            } => {
                record.disposition = Disposition::Failed;
                record.reason = Some(code.as_str().to_owned());
                record.error = Some(error.clone());
                record.route = generation.route_id(scope, slot);
                record.work = *work;
                self.left.extend(*work);
            }
            Effect::Deferred { .. } | Effect::Conflict(_) => return,
        }
        self.records.push(record);
    }

    /// Queues the event and returns the priority of its binding.
    #[expect(clippy::too_many_arguments, reason = "an input is made of all of them")]
    fn input(
        &mut self,
        generation: &Generation,
        scope: ScopeId,
        group: &Evaluated,
        row: &PendingRow,
        work: WorkId,
        selected: &Selected,
        intent: Option<(IntentKind, i32, i64)>,
    ) -> i16 {
        let name = selected
            .binding
            .and_then(|b| generation.binding_name(b))
            .map(|(_, name)| name);
        let priority = name
            .and_then(|n| generation.settings(scope, n))
            .map_or(0, |s| s.priority);
        let binding = selected.binding.unwrap_or(BindingId(0));
        self.effects.inputs.push(NewInput {
            work,
            queued: Queued {
                uid: row.uid,
                seq: row.seq,
                accepted_at: row.accepted_at,
                bytes: group.bytes.get(&row.seq).copied().unwrap_or(0),
                binding,
            },
            priority,
            intent,
        });
        priority
    }

    /// Also the marks of Works that this very commit gave its keys to, whichever group did.
    fn forget_keys(&mut self, group: &Evaluated, row: &PendingRow) {
        let owner = |key: &String| {
            let attached = self.effects.keys.get(key).copied();
            attached.or_else(|| group.owners.get(key).copied().flatten())
        };
        let marks = row
            .keys
            .iter()
            .filter_map(owner)
            .chain(row.target)
            .map(work_marker);
        self.gone_keys
            .extend(row.keys.iter().cloned().chain(marks).map(|k| (k, row.seq)));
    }

    async fn write_decided(
        &self,
        tx: &mut Tx<'_>,
        generation: &Generation,
        scope: ScopeId,
    ) -> Result<(), Error> {
        if self.records.is_empty() {
            return Ok(());
        }
        let r = &self.records;
        sqlx::query(include_str!("../sql/write_decisions.sql"))
            .bind(generation.tenant.0)
            .bind(scope.0)
            .bind(r.iter().map(|r| r.seq).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.uid.0).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.disposition.code()).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.work.map(|w| w.0)).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.route.map(|x| x.0)).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.binding.map(|b| b.0)).collect::<Vec<_>>())
            .bind(
                r.iter()
                    .map(|r| r.policy.map(Policy::code))
                    .collect::<Vec<_>>(),
            )
            .bind(r.iter().map(|r| r.reason.as_deref()).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.error.as_deref()).collect::<Vec<_>>())
            .bind(r.iter().map(|r| r.attempts).collect::<Vec<_>>())
            .bind(generation.number)
            .bind(
                self.gone_keys
                    .iter()
                    .map(|k| k.0.as_str())
                    .collect::<Vec<_>>(),
            )
            .bind(self.gone_keys.iter().map(|k| k.1).collect::<Vec<_>>())
            .bind(self.refusals.iter().map(|x| x.0.0).collect::<Vec<_>>())
            .bind(
                self.refusals
                    .iter()
                    .map(|x| x.1.as_slice())
                    .collect::<Vec<_>>(),
            )
            .bind(self.refusals.iter().map(|x| x.2).collect::<Vec<_>>())
            .execute(tx.conn())
            .await?;
        Ok(())
    }

    async fn write_undecided(
        &self,
        tx: &mut Tx<'_>,
        generation: &Generation,
        scope: ScopeId,
    ) -> Result<(), Error> {
        if self.undecided.is_empty() {
            return Ok(());
        }
        let u = &self.undecided;
        sqlx::query(include_str!("../sql/write_undecided.sql"))
            .bind(generation.tenant.0)
            .bind(scope.0)
            .bind(u.iter().map(|u| u.seq).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.state.code()).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.reason.as_deref()).collect::<Vec<_>>())
            .bind(
                u.iter()
                    .map(|u| u.work.map(|w| w.0))
                    .collect::<Vec<Option<Uuid>>>(),
            )
            .bind(u.iter().map(|u| u.attempt).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.conflict.as_str()).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.failures).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.wait_ms).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.code).collect::<Vec<_>>())
            .bind(u.iter().map(|u| u.error.as_deref()).collect::<Vec<_>>())
            .bind(generation.number)
            .bind(u.iter().map(|u| u.route).collect::<Vec<_>>())
            .execute(tx.conn())
            .await?;
        Ok(())
    }
}

impl Undecided {
    fn new(seq: i64) -> Self {
        Self {
            seq,
            state: PendingState::Due,
            reason: None,
            work: None,
            attempt: None,
            conflict: String::new(),
            failures: None,
            wait_ms: None,
            code: None,
            error: None,
            route: None,
        }
    }
}

impl Record {
    fn new(row: &PendingRow) -> Self {
        Self {
            seq: row.seq,
            uid: row.uid,
            disposition: Disposition::Drop,
            work: None,
            route: None,
            binding: None,
            policy: None,
            reason: None,
            error: None,
            attempts: None,
        }
    }

    /// Takes over what a selected route decides: its effective policy names the disposition.
    fn select(&mut self, generation: &Generation, scope: ScopeId, selected: &Selected) {
        self.disposition = match selected.policy {
            Policy::Queue => Disposition::Queue,
            Policy::Inject => Disposition::Inject,
            Policy::Interrupt => Disposition::Interrupt,
            Policy::Drop => Disposition::Drop,
        };
        self.route = generation.route_id(scope, &selected.slot);
        self.binding = selected.binding;
        self.policy = Some(selected.policy);
        self.reason = Some(selected.reason.clone());
    }
}
