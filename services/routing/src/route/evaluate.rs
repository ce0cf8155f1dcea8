//! Evaluating a group on a detached snapshot: its events in order, each on the state that its predecessors left
//! (rule r06). No transaction is open.

mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use weir_kernel::limits::MAX_TEXT;
use weir_kernel::{BindingId, FailureCode, ScopeId, WorkId, WorkState};
use weir_ledger::UidSource;
use weir_pg::{Db, Reader};

use crate::Error;
use crate::generation::Generation;
use crate::handler::Registry;
use crate::route::decide::{
    CONTEXT, Decision, Effect, Outcome, Question, Selected, Verdict, decide, unrouted_input,
};
use crate::replica::Replica;
use crate::route::claim::Alone;
use crate::route::failure::{Limits, backoff, crashed_out, gives_up};
use crate::route::group::{Blocked, Joins};
use crate::route::policy::Proofs;
use crate::route::snapshot::Snapshot;
use crate::route::view::{EventView, Hold, PendingRow, WorkView};
use crate::wait::check::Check;
use waiting::Standing;

/// What becomes of one event of a group.
#[derive(Debug, Clone)]
pub enum Fate {
    /// It is routed.
    Decided {
        /// What is done; `Start` carries the new Work beside it.
        effect: Effect,
        /// The new Work.
        starts: Option<WorkId>,
        /// Routes that declined, for an unmatched event (rule r13).
        refusals: Vec<(String, String)>,
        /// Failures counted, for a failed one.
        attempts: i16,
    },
    /// A retryable failure backs off.
    Retry {
        /// The route.
        slot: String,
        /// How.
        code: FailureCode,
        /// In words.
        error: String,
        /// This one included.
        failures: i16,
        /// Until the next try.
        wait: Duration,
    },
    /// It waits for a running attempt.
    Deferred(Hold, String),
    /// It belongs to more than one Work.
    Conflict(Vec<WorkId>),
    /// It depends on a member that stopped; uncounted.
    Waits,
    /// Another candidate won its Work's wait first: it is decided a moment later, on the ready Work (rule r43).
    Paused,
    /// Another live replica has the handler that this one lacks; uncounted (rule r23).
    Left,
}

/// A wait that a member of a group wins.
#[derive(Debug, Clone)]
pub struct Wins {
    /// Position of the member.
    pub seq: i64,
    /// The check that said so; taken up again under the locks.
    pub check: Check,
}

/// An evaluated group, ready to be revalidated and written.
#[derive(Debug)]
pub struct Evaluated {
    /// The members.
    pub rows: Vec<PendingRow>,
    /// One fate each.
    pub fates: Vec<Fate>,
    /// Payload sizes by position.
    pub bytes: HashMap<i64, i32>,
    /// The configuration that decided.
    pub generation: Arc<Generation>,
    /// Who owned which key.
    pub owners: HashMap<String, Option<WorkId>>,
    /// Versions of the Works seen (rule r01).
    pub versions: HashMap<WorkId, (i64, i64)>,
    /// Keys that attach, with their Work and the position of the event that attaches them.
    pub attached: BTreeMap<String, (WorkId, i64)>,
    /// Ties that nobody meets: the event that wanted the key does not attach it.
    pub unmet: Vec<(i64, String)>,
    /// What the routes said of each member; empty where they were not asked.
    pub verdicts: Vec<Vec<Verdict>>,
    /// The wait that a member wins; one for each commit, as each wake appends a bridge that may be refused.
    pub wins: Option<Wins>,
    /// Waits that others win before the traced event is decided (rule r43).
    pub also: Vec<(WorkId, i32)>,
}

/// What evaluation needs beside the group.
#[derive(Clone)]
pub struct Context {
    /// For owners of keys that decisions attach.
    pub db: Db,
    /// The same for a trace, which has no connection that can write (rule r40).
    pub reader: Reader,
    /// Rust handlers.
    pub registry: Registry,
    /// When to give up.
    pub limits: Limits,
    /// This process among the others.
    pub replica: Replica,
    /// Marks which event is decided, in a group that is decided alone (rule r21).
    pub alone: Option<Alone>,
}

/// The state as the members decided so far leave it.
struct Overlay {
    dry_run: bool,
    snapshot: Snapshot,
    changed: HashSet<String>,
    stopped: Blocked,
    attached: BTreeMap<String, (WorkId, i64)>,
    uids: UidSource,
    wins: Option<Wins>,
    also: Vec<(WorkId, i32)>,
}

/// Evaluates a group. `events` has the members' events, `joins` the keys that tie members together, and `dry_run`
/// tells handlers that nothing comes of it.
///
/// # Errors
/// The database's, when owners of attached keys are looked up.
#[expect(
    clippy::too_many_arguments,
    reason = "one evaluation needs all of them"
)]
pub async fn evaluate(
    context: &Context,
    generation: &Arc<Generation>,
    scope: ScopeId,
    rows: Vec<PendingRow>,
    events: &HashMap<i64, EventView>,
    snapshot: Snapshot,
    proofs: &Proofs,
    joins: &Joins,
    dry_run: bool,
) -> Result<Evaluated, Error> {
    let mut overlay = Overlay {
        dry_run,
        uids: UidSource::at(snapshot.at),
        snapshot,
        changed: HashSet::new(),
        stopped: Blocked::default(),
        attached: BTreeMap::new(),
        wins: None,
        also: Vec::new(),
    };
    let versions = overlay
        .snapshot
        .works
        .iter()
        .map(|(id, w)| (*id, (w.revision, w.epoch)))
        .collect();
    overlay.join_early(&rows, joins);
    let mut fates = Vec::with_capacity(rows.len());
    let mut verdicts = Vec::with_capacity(rows.len());
    for row in &rows {
        let (fate, said) = match events.get(&row.seq) {
            None => (gone(context, row, overlay.snapshot.at), Vec::new()),
            Some(event) => {
                if let Some(alone) = &context.alone {
                    alone.deciding(row.seq).await?;
                }
                overlay
                    .member(context, generation, scope, row, event, proofs, joins)
                    .await?
            }
        };
        overlay.after(row, &fate, joins);
        fates.push(fate);
        verdicts.push(said);
    }
    let bytes = rows
        .iter()
        .filter_map(|r| {
            Some((
                r.seq,
                i32::try_from(events.get(&r.seq)?.envelope.payload_len()).ok()?,
            ))
        })
        .collect();
    let unmet = unmet(&rows, &fates, joins);
    Ok(Evaluated {
        unmet,
        rows,
        fates,
        bytes,
        generation: Arc::clone(generation),
        owners: overlay.owners_before(),
        versions,
        attached: overlay.attached,
        verdicts,
        wins: overlay.wins,
        also: overlay.also,
    })
}

/// Returns the ties of events that do not attach the key after all (rule r08).
fn unmet(rows: &[PendingRow], fates: &[Fate], joins: &Joins) -> Vec<(i64, String)> {
    let mut out = Vec::new();
    for (row, fate) in rows.iter().zip(fates) {
        let attach: &[String] = match fate {
            Fate::Decided {
                effect: Effect::Start(s) | Effect::Input(_, s),
                ..
            } => &s.attach,
            // It may yet.
            Fate::Waits | Fate::Left | Fate::Paused | Fate::Deferred(..) => continue,
            _ => &[],
        };
        let ties = joins.get(&row.seq).into_iter().flatten();
        out.extend(
            ties.filter(|k| !attach.contains(k))
                .map(|k| (row.seq, k.clone())),
        );
    }
    out
}

/// An event without a readable body fails for itself, retryably: it may be in the middle of being archived.
fn gone(context: &Context, row: &PendingRow, at: DateTime<Utc>) -> Fate {
    let failures = row.failures.saturating_add(1);
    let (slot, code) = (String::new(), FailureCode::HandlerFailed);
    let error = "the event's body is not there or not readable".to_owned();
    if gives_up(code, failures, row.first_failed_at, at, context.limits) {
        let effect = Effect::Failed {
            work: row.target,
            slot,
            code,
            error,
        };
        return Fate::Decided {
            effect,
            starts: None,
            refusals: Vec::new(),
            attempts: failures,
        };
    }
    Fate::Retry {
        slot,
        code,
        error,
        failures,
        wait: backoff(failures),
    }
}

impl Overlay {
    /// Returns who owned the keys before this group changed any.
    fn owners_before(&self) -> HashMap<String, Option<WorkId>> {
        let before = |(key, owner): (&String, &Option<WorkId>)| {
            (key.clone(), owner.filter(|_| !self.changed.contains(key)))
        };
        self.snapshot.owners.iter().map(before).collect()
    }

    /// A key that an event of a Work wants to attach draws earlier input with that key to the Work (rule r08).
    fn join_early(&mut self, rows: &[PendingRow], joins: &Joins) {
        for row in rows {
            let Some(keys) = joins.get(&row.seq) else {
                continue;
            };
            let [work] = self.targets(row, None)[..] else {
                continue;
            };
            for key in keys {
                if self.snapshot.owners.get(key).is_none_or(Option::is_none) {
                    self.snapshot.owners.insert(key.clone(), Some(work));
                    self.changed.insert(key.clone());
                }
            }
        }
    }

    /// Returns the Works that an event belongs to (rule r05).
    fn targets(&self, row: &PendingRow, joined: Option<&BTreeSet<String>>) -> Vec<WorkId> {
        let owned = row
            .keys
            .iter()
            .filter_map(|k| self.snapshot.owners.get(k).copied().flatten());
        // A joined key counts only where a member of this group gave it its Work.
        let joined = joined
            .into_iter()
            .flatten()
            .filter(|k| self.changed.contains(*k))
            .filter_map(|k| self.snapshot.owners.get(k).copied().flatten());
        let all: BTreeSet<WorkId> = row.target.into_iter().chain(owned).chain(joined).collect();
        all.into_iter().collect()
    }

    #[expect(clippy::too_many_arguments, reason = "one decision needs all of them")]
    async fn member(
        &mut self,
        context: &Context,
        generation: &Arc<Generation>,
        scope: ScopeId,
        row: &PendingRow,
        event: &EventView,
        proofs: &Proofs,
        joins: &Joins,
    ) -> Result<(Fate, Vec<Verdict>), Error> {
        let joined = joins.get(&row.seq);
        if let Some(hold) = self.stopped.find(row.tokens(&self.snapshot.owners, joined)) {
            let fate = match hold {
                Some(hold) => {
                    let reason = format!("behind {}", hold.event);
                    Fate::Deferred(hold, reason)
                }
                None => Fate::Waits,
            };
            return Ok((fate, Vec::new()));
        }
        let targets = self.targets(row, joined);
        if targets.len() > 1 {
            return Ok((Fate::Conflict(targets), Vec::new()));
        }
        let mut context_only = None;
        if let Some(work) = targets.first().copied() {
            match self.standing(context, generation, scope, row, work).await? {
                Standing::Routes => {}
                Standing::Context => context_only = Some(work),
                Standing::Behind(n) if self.dry_run => {
                    self.also.push((work, n));
                    if let Some(view) = self.snapshot.works.get_mut(&work) {
                        view.state = WorkState::Ready;
                    }
                }
                Standing::Behind(_) => return Ok((Fate::Paused, Vec::new())),
                // One bridge a commit.
                Standing::Wins(_) if self.wins.is_some() => {
                    return Ok((Fate::Paused, Vec::new()));
                }
                Standing::Wins(check) => {
                    let fate = self
                        .wake(context, generation, scope, row, work, *check)
                        .await?;
                    return Ok((fate, Vec::new()));
                }
            }
        }
        let work = targets.first().and_then(|w| self.snapshot.works.get(w));
        if let Some(effect) = crashed_out(row, work) {
            let fate = Fate::Decided {
                effect,
                starts: None,
                refusals: Vec::new(),
                attempts: row.failures,
            };
            return Ok((fate, Vec::new()));
        }
        let mut decision = decide(Question {
            generation,
            scope,
            event,
            work,
            named: row.target.is_some() && row.target == targets.first().copied(),
            proofs,
            registry: &context.registry,
            dry_run: self.dry_run,
        })
        .await;
        if let (Effect::Unmatched(_), Some(id), Some(view)) = (&decision.effect, context_only, work)
            && let Some(selected) = unrouted_input(generation, scope, view, CONTEXT)
        {
            decision.effect = Effect::Input(id, selected);
        }
        let verdicts = decision.verdicts.clone();
        Ok((
            self.settle(context, generation, scope, row, decision)
                .await?,
            verdicts,
        ))
    }

    async fn settle(
        &mut self,
        context: &Context,
        generation: &Arc<Generation>,
        scope: ScopeId,
        row: &PendingRow,
        decision: Decision,
    ) -> Result<Fate, Error> {
        let decided = |effect, starts| Fate::Decided {
            effect,
            starts,
            refusals: Vec::new(),
            attempts: 0,
        };
        Ok(match decision.effect {
            Effect::Start(selected) => {
                let work = WorkId(self.uids.next());
                if let Some(conflict) = self
                    .attach(context, generation, scope, row, work, &selected)
                    .await?
                {
                    return Ok(conflict);
                }
                let keys = row
                    .keys
                    .iter()
                    .chain(&selected.attach)
                    .cloned()
                    .collect::<BTreeSet<_>>();
                let view = WorkView {
                    id: work,
                    state: WorkState::Ready,
                    revision: 1,
                    epoch: 0,
                    attempts: 0,
                    running: None,
                    binding: selected
                        .binding
                        .and_then(|b| generation.binding_name(b))
                        .map(|(_, name)| name.to_owned()),
                    own_binding: selected.binding.unwrap_or(BindingId(0)),
                    queued_binding: selected.binding,
                    keys: keys.into_iter().collect(),
                    held_reason: None,
                    created_at: self.snapshot.at,
                    is_new: true,
                };
                self.snapshot.works.insert(work, view);
                decided(Effect::Start(selected), Some(work))
            }
            Effect::Input(work, selected) => {
                if let Some(conflict) = self
                    .attach(context, generation, scope, row, work, &selected)
                    .await?
                {
                    return Ok(conflict);
                }
                if let Some(view) = self.snapshot.works.get_mut(&work) {
                    view.add_keys(&row.keys);
                    view.add_keys(&selected.attach);
                    view.queued_binding = view.queued_binding.or(selected.binding);
                }
                decided(Effect::Input(work, selected), None)
            }
            Effect::Unmatched(work) => Fate::Decided {
                effect: Effect::Unmatched(work),
                starts: None,
                refusals: decision
                    .verdicts
                    .into_iter()
                    .filter(|v| v.outcome == Outcome::Skip)
                    .map(|v| (v.slot, v.reason))
                    .collect(),
                attempts: 0,
            },
            Effect::Failed {
                work,
                slot,
                code,
                error,
            } => {
                if code == FailureCode::HandlerMissing {
                    let mut look = context.look_up(self.dry_run).await?;
                    let replica = &context.replica;
                    if replica
                        .leaves(look.conn(), generation, scope, &slot, self.dry_run)
                        .await?
                    {
                        return Ok(Fate::Left);
                    }
                }
                let failures = row.failures.saturating_add(1);
                let error = weir_kernel::limits::cut(&error, 2 * MAX_TEXT).to_owned();
                if gives_up(
                    code,
                    failures,
                    row.first_failed_at,
                    self.snapshot.at,
                    context.limits,
                ) {
                    Fate::Decided {
                        effect: Effect::Failed {
                            work,
                            slot,
                            code,
                            error,
                        },
                        starts: None,
                        refusals: Vec::new(),
                        attempts: failures,
                    }
                } else {
                    Fate::Retry {
                        slot,
                        code,
                        error,
                        failures,
                        wait: backoff(failures),
                    }
                }
            }
            Effect::Deferred {
                work,
                attempt,
                reason,
                ..
            } => Fate::Deferred(
                Hold {
                    event: row.uid,
                    work,
                    attempt,
                },
                reason,
            ),
            Effect::Conflict(works) => Fate::Conflict(works),
            effect @ (Effect::Drop(..) | Effect::Terminal(_) | Effect::Wake(_)) => {
                decided(effect, None)
            }
        })
    }

    /// Attaches the event's keys and the decision's (rule r08), or says with whom they conflict (rule r05).
    async fn attach(
        &mut self,
        context: &Context,
        generation: &Generation,
        scope: ScopeId,
        row: &PendingRow,
        work: WorkId,
        selected: &Selected,
    ) -> Result<Option<Fate>, Error> {
        let wanted: BTreeSet<&str> = selected.attach.iter().map(String::as_str).collect();
        if wanted
            .iter()
            .any(|k| !self.snapshot.owners.contains_key(*k))
        {
            let mut look = context.look_up(self.dry_run).await?;
            self.snapshot
                .look_up(look.conn(), generation, scope, &wanted, &BTreeSet::new())
                .await?;
        }
        let owner = |key: &String| self.snapshot.owners.get(key).copied().flatten();
        let others: BTreeSet<WorkId> = selected
            .attach
            .iter()
            .filter_map(owner)
            .filter(|o| *o != work)
            .collect();
        if !others.is_empty() {
            let mine = self.snapshot.works.contains_key(&work).then_some(work);
            return Ok(Some(Fate::Conflict(
                mine.into_iter().chain(others).collect(),
            )));
        }
        for key in row.keys.iter().chain(&selected.attach) {
            if self.snapshot.owners.get(key).is_none_or(Option::is_none) {
                self.snapshot.owners.insert(key.clone(), Some(work));
                self.changed.insert(key.clone());
            }
            if self.changed.contains(key) {
                self.attached.entry(key.clone()).or_insert((work, row.seq));
            }
        }
        Ok(None)
    }

    /// A member that stopped stops those that depend on it.
    fn after(&mut self, row: &PendingRow, fate: &Fate, joins: &Joins) {
        let tokens: Vec<String> = row
            .tokens(&self.snapshot.owners, joins.get(&row.seq))
            .collect();
        match fate {
            Fate::Decided { .. } | Fate::Conflict(_) => {}
            Fate::Retry { .. } | Fate::Waits | Fate::Left | Fate::Paused => {
                self.stopped.add(tokens.into_iter(), None)
            }
            Fate::Deferred(hold, _) => self.stopped.add(tokens.into_iter(), Some(hold)),
        }
    }
}
