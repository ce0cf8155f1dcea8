//! From a decision to the answer of a trace (rules r41, r42).

use std::collections::BTreeSet;

use weir_kernel::{Disposition, EventUid, Policy, WorkId};
use weir_ledger::NewEvent;
use weir_proto::routing::v1::TraceResponse;
use weir_proto::types::v1::{self, EffectKind, VerdictOutcome};

use crate::generation::Generation;
use crate::route::decide::{Effect, Outcome, Selected, Verdict};
use crate::route::evaluate::{Evaluated, Fate};

/// What was traced.
pub(super) struct Traced<'a> {
    /// Name of the event's scope.
    pub(super) scope: &'a str,
    /// What slots of shown verdicts contain (rule r40).
    pub(super) filter: &'a str,
    /// The event, its derived keys included.
    pub(super) event: &'a NewEvent,
    /// The one Work that it belongs to, if any.
    pub(super) work: Option<WorkId>,
    /// The uid of an earlier acceptance of the same content.
    pub(super) accepted_as: Option<EventUid>,
    /// What the answer calls the generation.
    pub(super) label: String,
    /// Waits that are won beside or before (rules r43, r44).
    pub(super) also: Vec<v1::Also>,
}

/// Makes the answer.
pub(super) fn answer(
    generation: &Generation,
    traced: Traced<'_>,
    evaluated: &Evaluated,
) -> TraceResponse {
    let mut verdicts = evaluated.verdicts.first().cloned().unwrap_or_default();
    if verdicts.is_empty() {
        // No route was consulted.
        let routes = generation
            .compiled
            .scope(traced.scope)
            .map(|s| s.routes.as_slice())
            .unwrap_or_default();
        let bypassed = |slot: &str| Verdict {
            slot: slot.to_owned(),
            outcome: Outcome::Bypassed,
            reason: String::new(),
        };
        verdicts = routes.iter().map(|r| bypassed(&r.slot)).collect();
    }
    let shown = verdicts
        .iter()
        .filter(|v| v.slot.contains(traced.filter))
        .map(verdict);
    TraceResponse {
        verdicts: shown.collect(),
        effect: evaluated.fates.first().map(|fate| v1::Effect {
            also: traced.also,
            ..effect(generation, fate, traced.event, traced.work)
        }),
        generation: traced.label,
        keys: traced.event.keys.clone(),
        accepted_as: traced
            .accepted_as
            .map(|u| u.to_string())
            .unwrap_or_default(),
    }
}

fn verdict(verdict: &Verdict) -> v1::Verdict {
    let (outcome, failure) = match verdict.outcome {
        Outcome::Match => (VerdictOutcome::Match, ""),
        Outcome::Skip => (VerdictOutcome::Skip, ""),
        Outcome::NotReached => (VerdictOutcome::NotReached, ""),
        Outcome::Bypassed => (VerdictOutcome::Bypassed, ""),
        Outcome::Failed(code) => (VerdictOutcome::Failed, code.as_str()),
    };
    v1::Verdict {
        route: verdict.slot.clone(),
        outcome: outcome.into(),
        reason: verdict.reason.clone(),
        failure: failure.to_owned(),
    }
}

fn effect(
    generation: &Generation,
    fate: &Fate,
    event: &NewEvent,
    work: Option<WorkId>,
) -> v1::Effect {
    let base = v1::Effect::default();
    match fate {
        Fate::Decided { effect, .. } => decided(generation, effect, event),
        Fate::Retry {
            slot, code, error, ..
        } => v1::Effect {
            work: work.map(|w| w.to_string()).unwrap_or_default(),
            kind: EffectKind::Failed.into(),
            route: slot.clone(),
            reason: code.as_str().to_owned(),
            error: error.clone(),
            ..base
        },
        Fate::Deferred(hold, reason) => v1::Effect {
            kind: EffectKind::Pending.into(),
            work: hold.work.to_string(),
            reason: reason.clone(),
            ..base
        },
        Fate::Conflict(works) => v1::Effect {
            kind: EffectKind::Conflict.into(),
            conflicting_works: works.iter().map(ToString::to_string).collect(),
            reason: "belongs to more than one work".to_owned(),
            ..base
        },
        Fate::Left => v1::Effect {
            kind: EffectKind::Pending.into(),
            reason: "left to a live replica that has the handler".to_owned(),
            ..base
        },
        Fate::Waits | Fate::Paused => v1::Effect {
            kind: EffectKind::Pending.into(),
            ..base
        },
    }
}

fn decided(generation: &Generation, effect: &Effect, event: &NewEvent) -> v1::Effect {
    let name = |work: &Option<WorkId>| work.map(|w| w.to_string()).unwrap_or_default();
    let base = v1::Effect::default();
    match effect {
        Effect::Start(selected) => v1::Effect {
            kind: EffectKind::Start.into(),
            keys: keys(event, selected),
            ..of_route(generation, selected)
        },
        Effect::Input(work, selected) => {
            let kind = match selected.policy {
                Policy::Inject => EffectKind::Inject,
                Policy::Interrupt => EffectKind::Interrupt,
                Policy::Queue | Policy::Drop => EffectKind::Queue,
            };
            v1::Effect {
                kind: kind.into(),
                work: work.to_string(),
                keys: keys(event, selected),
                ..of_route(generation, selected)
            }
        }
        Effect::Drop(work, selected) => v1::Effect {
            kind: EffectKind::Drop.into(),
            work: name(work),
            ..of_route(generation, selected)
        },
        Effect::Wake(work) => v1::Effect {
            kind: EffectKind::Wake.into(),
            work: work.to_string(),
            reason: "wait_won".to_owned(),
            keys: event.keys.clone(),
            ..base
        },
        Effect::Unmatched(work) => v1::Effect {
            kind: EffectKind::Unmatched.into(),
            work: name(work),
            reason: "no_match".to_owned(),
            ..base
        },
        Effect::Terminal(work) => v1::Effect {
            kind: EffectKind::Drop.into(),
            work: work.to_string(),
            reason: Disposition::Terminal.as_str().to_owned(),
            ..base
        },
        Effect::Deferred {
            work, slot, reason, ..
        } => v1::Effect {
            kind: EffectKind::Pending.into(),
            work: work.to_string(),
            route: slot.clone(),
            reason: reason.clone(),
            ..base
        },
        Effect::Conflict(works) => v1::Effect {
            kind: EffectKind::Conflict.into(),
            conflicting_works: works.iter().map(ToString::to_string).collect(),
            ..base
        },
        Effect::Failed {
            work,
            slot,
            code,
            error,
        } => v1::Effect {
            kind: EffectKind::Failed.into(),
            work: name(work),
            route: slot.clone(),
            reason: code.as_str().to_owned(),
            error: error.clone(),
            ..base
        },
    }
}

fn of_route(generation: &Generation, selected: &Selected) -> v1::Effect {
    let binding = selected.binding.and_then(|b| generation.binding_name(b));
    v1::Effect {
        route: selected.slot.clone(),
        binding: binding.map(|(_, name)| name.to_owned()).unwrap_or_default(),
        policy: i32::from(selected.policy.code()),
        reason: selected.reason.clone(),
        ..v1::Effect::default()
    }
}

fn keys(event: &NewEvent, selected: &Selected) -> Vec<String> {
    let all: BTreeSet<String> = event.keys.iter().chain(&selected.attach).cloned().collect();
    all.into_iter().collect()
}
