//! One decision about one event: the same function for routing and for traces (rules r03, r15, r26, r40).

use weir_kernel::{BindingId, FailureCode, Policy, ScopeId, WorkId, WorkState};

use crate::generation::Generation;
use crate::handler::{Answer, Ask, Registry, ask_routes};
use crate::route::policy::{self, Applied, Matched, Proofs};
use crate::route::view::{EventView, WorkView};

/// What a route said (rule r41).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It takes the event.
    Match,
    /// It declines.
    Skip,
    /// An earlier one matched or failed.
    NotReached,
    /// No route is consulted.
    Bypassed,
    /// It failed.
    Failed(FailureCode),
}

/// A route's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Its slot.
    pub slot: String,
    /// What it said.
    pub outcome: Outcome,
    /// Its reason.
    pub reason: String,
}

/// A route that was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Its slot.
    pub slot: String,
    /// Its binding, if it has one in the scope.
    pub binding: Option<BindingId>,
    /// Effective policy, fallbacks applied.
    pub policy: Policy,
    /// Reason for the record.
    pub reason: String,
    /// Keys to attach beside the event's own.
    pub attach: Vec<String>,
}

/// What is done with the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A new Work.
    Start(Selected),
    /// Input of its Work; the policy says whether the running attempt is asked.
    Input(WorkId, Selected),
    /// Dropped, by policy or fallback.
    Drop(Option<WorkId>, Selected),
    /// No route selects it.
    Unmatched(Option<WorkId>),
    /// Its Work has ended.
    Terminal(WorkId),
    /// The running attempt cannot take it (rule r10).
    Deferred {
        /// The Work.
        work: WorkId,
        /// The attempt waited for.
        attempt: i32,
        /// The route.
        slot: String,
        /// Why.
        reason: String,
    },
    /// It wins its own Work's wait (rule r17); no route was asked.
    Wake(WorkId),
    /// It belongs to more than one Work (rule r05).
    Conflict(Vec<WorkId>),
    /// A route failed.
    Failed {
        /// The Work it targets.
        work: Option<WorkId>,
        /// The route.
        slot: String,
        /// How.
        code: FailureCode,
        /// In words.
        error: String,
    },
}

impl Effect {
    /// Returns the Work that it wakes.
    #[must_use]
    pub const fn wakes(&self) -> Option<WorkId> {
        match self {
            Self::Wake(work) => Some(*work),
            _ => None,
        }
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What each route said, in order.
    pub verdicts: Vec<Verdict>,
    /// What is done.
    pub effect: Effect,
}

/// What a decision is made from.
pub struct Question<'a> {
    /// The configuration.
    pub generation: &'a Generation,
    /// Scope of the event.
    pub scope: ScopeId,
    /// The event.
    pub event: &'a EventView,
    /// The one Work it belongs to, if any.
    pub work: Option<&'a WorkView>,
    /// Says that the event names this Work, rather than carrying a key of it.
    pub named: bool,
    /// What registrations prove.
    pub proofs: &'a Proofs,
    /// Rust handlers.
    pub registry: &'a Registry,
    /// Says that nothing comes of it: a trace.
    pub dry_run: bool,
}

/// Decides. Writes nothing and holds nothing.
pub async fn decide(q: Question<'_>) -> Decision {
    let Some(scope) = q.generation.compiled.scope(&q.event.scope) else {
        return Decision {
            verdicts: Vec::new(),
            effect: Effect::Unmatched(q.work.map(|w| w.id)),
        };
    };
    let verdict = |slot: &str, outcome, reason: &str| Verdict {
        slot: slot.to_owned(),
        outcome,
        reason: reason.to_owned(),
    };
    if let Some(work) = q.work.filter(|w| w.state.is_terminal()) {
        let verdicts = scope
            .routes
            .iter()
            .map(|r| verdict(&r.slot, Outcome::Bypassed, ""))
            .collect();
        return Decision {
            verdicts,
            effect: Effect::Terminal(work.id),
        };
    }
    let answers = ask_routes(Ask {
        routes: &scope.routes,
        event: q.event,
        work: q.work,
        registry: q.registry,
        dry_run: q.dry_run,
    })
    .await;
    let mut verdicts = Vec::with_capacity(scope.routes.len());
    let mut effect = Effect::Unmatched(q.work.map(|w| w.id));
    for (i, route) in scope.routes.iter().enumerate() {
        match answers.get(i) {
            None => verdicts.push(verdict(&route.slot, Outcome::NotReached, "")),
            Some(Answer::Skip { reason }) => {
                verdicts.push(verdict(&route.slot, Outcome::Skip, reason))
            }
            Some(Answer::Failed { code, error }) => {
                verdicts.push(verdict(&route.slot, Outcome::Failed(*code), error));
                effect = failed(&q, &route.slot, *code, error.clone());
            }
            Some(Answer::Match { reason, attach }) => {
                verdicts.push(verdict(&route.slot, Outcome::Match, reason));
                let name = route.binding.as_deref();
                let binding = name.and_then(|name| {
                    Some((
                        q.generation.binding_id(q.scope, name)?,
                        scope.bindings.get(name)?.as_ref(),
                    ))
                });
                let matched = Matched {
                    policy: route.policy,
                    fallback: route.fallback,
                    binding_name: name,
                    binding,
                };
                effect = match policy::apply(&matched, q.work, q.proofs) {
                    Applied::Failed { code, error } => failed(&q, &route.slot, code, error),
                    Applied::Deferred { attempt, reason } => {
                        deferred(&q, &route.slot, attempt, reason)
                    }
                    Applied::Policy { policy, fallback } => {
                        let reason = match fallback {
                            Some(why) => format!("fallback: {why}"),
                            None => reason.clone(),
                        };
                        let selected = Selected {
                            slot: route.slot.clone(),
                            binding: binding.map(|(id, _)| id),
                            policy,
                            reason,
                            attach: attach.clone(),
                        };
                        carried_out(q.work.map(|w| w.id), selected)
                    }
                };
            }
        }
    }
    if let (Effect::Unmatched(_), Some(work)) = (&effect, q.work)
        && q.named
        && q.event.is_operators()
        && let Some(selected) = unrouted_input(q.generation, q.scope, work, ADDRESSED)
    {
        effect = Effect::Input(work.id, selected);
    }
    Decision { verdicts, effect }
}

/// Reason of an operator's input that no route selects (rule r14).
pub const ADDRESSED: &str = "addressed";
/// Reason of an own event that would win a wait which the causal limits keep from waking (rule r17).
pub const CONTEXT: &str = "context";

/// Returns what queues an event that no route selects on the binding that its Work runs on next; `None` when that
/// binding left the scope.
#[must_use]
pub fn unrouted_input(
    generation: &Generation,
    scope: ScopeId,
    work: &WorkView,
    reason: &str,
) -> Option<Selected> {
    let binding = work.next_binding();
    let (_, name) = generation.binding_name(binding)?;
    (generation.binding_id(scope, name) == Some(binding)).then(|| Selected {
        slot: String::new(),
        binding: Some(binding),
        policy: Policy::Queue,
        reason: reason.to_owned(),
        attach: Vec::new(),
    })
}

fn carried_out(work: Option<WorkId>, selected: Selected) -> Effect {
    match (selected.policy, work) {
        (Policy::Drop, work) => Effect::Drop(work, selected),
        (_, Some(work)) => Effect::Input(work, selected),
        (_, None) => Effect::Start(selected),
    }
}

fn failed(q: &Question<'_>, slot: &str, code: FailureCode, error: String) -> Effect {
    Effect::Failed {
        work: q.work.map(|w| w.id),
        slot: slot.to_owned(),
        code,
        error,
    }
}

/// Only a running attempt defers, and it belongs to a Work.
fn deferred(q: &Question<'_>, slot: &str, attempt: i32, reason: String) -> Effect {
    match q.work {
        Some(work) if work.state != WorkState::Waiting => Effect::Deferred {
            work: work.id,
            attempt,
            slot: slot.to_owned(),
            reason,
        },
        _ => failed(q, slot, FailureCode::PolicyInvalid, reason),
    }
}
