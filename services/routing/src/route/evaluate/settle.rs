//! What becomes of a member once it is decided: its fate, and the state that it leaves to the members after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_kernel::limits::MAX_TEXT;
use weir_kernel::{BindingId, FailureCode, ScopeId, WorkId, WorkState};

use super::{Context, Fate, Overlay};
use crate::Error;
use crate::generation::Generation;
use crate::route::decide::{Decision, Effect, Outcome, Selected};
use crate::route::failure::{backoff, gives_up};
use crate::route::view::{Hold, PendingRow, WorkView};

impl Overlay {
    pub(super) async fn settle(
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
    pub(super) async fn attach(
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
}
