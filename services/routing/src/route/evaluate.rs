//! Evaluating a group on a detached snapshot: its events in order, each on the state that its predecessors left
//! (rule r06). No transaction is open.

mod settle;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use weir_kernel::{FailureCode, ScopeId, WorkId, WorkState};
use weir_ledger::UidSource;
use weir_pg::{Db, Reader};

use crate::Error;
use crate::generation::Generation;
use crate::handler::Registry;
use crate::replica::Replica;
use crate::route::claim::Alone;
use crate::route::decide::{CONTEXT, Effect, Question, Verdict, decide, unrouted_input};
use crate::route::failure::{Limits, backoff, crashed_out, gives_up};
use crate::route::group::{Blocked, Joins};
use crate::route::policy::Proofs;
use crate::route::snapshot::Snapshot;
use crate::route::view::{EventView, Hold, PendingRow};
use crate::wait::check::Check;
use waiting::Standing;

pub(crate) use waiting::root_refusal;

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

impl Fate {
    /// Says whether it counts a failure of the event (rule r21).
    #[must_use]
    pub const fn counts(&self) -> bool {
        matches!(
            self,
            Self::Retry { .. }
                | Self::Decided {
                    effect: Effect::Failed { .. },
                    ..
                }
        )
    }
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
    /// Waiting Works that a member would wake if the causal limits let it.
    held_up: HashSet<WorkId>,
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
        held_up: HashSet::new(),
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
            match self
                .standing(context, generation, scope, row, event, work)
                .await?
            {
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
