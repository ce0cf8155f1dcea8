//! One decision in the model: the routes in order, then the checks of rule r26.

use std::collections::BTreeSet;

use weir_proto::types::v1::VerdictOutcome;

use super::config::Effective;
use super::expr::{Facts, Value};
use super::plan::{Asks, Attach, Datum, Fallback, Kind, Policy, Route};
use super::world::{Event, Reason, Work, World};

/// What each route says, and what is done.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// In route order.
    pub(crate) verdicts: Vec<Verdict>,
    /// What is done with the event.
    pub(crate) effect: Effect,
}

/// What a route says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Its slot.
    pub(crate) slot: u8,
    /// What it says.
    pub(crate) outcome: VerdictOutcome,
    /// The field that is missing, if that is why it skips.
    pub(crate) missing: Option<&'static str>,
    /// How it failed.
    pub(crate) code: &'static str,
}

/// What is done with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It becomes input of its Work, or of a new one.
    Input(Selected),
    /// A route or a fallback drops it.
    Drop(Selected),
    /// No route takes it; these declined.
    Unmatched(Vec<(u8, Option<&'static str>)>),
    /// Its Work has ended (rule r15).
    Terminal,
    /// The running attempt cannot take it (rule r10).
    Deferred,
    /// A route failed.
    Failed {
        /// Its slot.
        slot: u8,
        /// How.
        code: &'static str,
    },
}

/// A route that took the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selected {
    /// Its slot.
    pub(crate) slot: u8,
    /// Its binding.
    pub(crate) binding: u8,
    /// The policy, fallbacks applied.
    pub(crate) policy: Policy,
    /// Why.
    pub(crate) reason: Reason,
    /// Keys that it attaches.
    pub(crate) attach: BTreeSet<String>,
}

/// What one route says, before any policy.
enum Answer {
    Match(BTreeSet<String>),
    Skip(Option<&'static str>),
    Failed(&'static str),
}

/// Decides about an event and the Work that it belongs to.
pub(crate) fn decide(world: &World, event: &Event, work: Option<&Work>) -> Decision {
    let effective = world.effective(event.scope);
    if work.is_some_and(Work::is_terminal) {
        let bypassed = |r: &Route| verdict(r.slot, VerdictOutcome::Bypassed);
        return Decision {
            verdicts: effective.routes.iter().map(bypassed).collect(),
            effect: Effect::Terminal,
        };
    }
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut effect = None;
    for route in &effective.routes {
        if effect.is_some() {
            verdicts.push(verdict(route.slot, VerdictOutcome::NotReached));
            continue;
        }
        match ask(route, event, work) {
            Answer::Skip(missing) => verdicts.push(Verdict {
                missing,
                ..verdict(route.slot, VerdictOutcome::Skip)
            }),
            Answer::Failed(code) => {
                verdicts.push(Verdict {
                    code,
                    ..verdict(route.slot, VerdictOutcome::Failed)
                });
                effect = Some(Effect::Failed {
                    slot: route.slot,
                    code,
                });
            }
            Answer::Match(attach) => {
                verdicts.push(verdict(route.slot, VerdictOutcome::Match));
                effect = Some(applied(world, &effective, route, work, attach));
            }
        }
    }
    let declined = || verdicts.iter().map(|v| (v.slot, v.missing)).collect();
    let effect = effect.unwrap_or_else(|| Effect::Unmatched(declined()));
    Decision { verdicts, effect }
}

const fn verdict(slot: u8, outcome: VerdictOutcome) -> Verdict {
    Verdict {
        slot,
        outcome,
        missing: None,
        code: "",
    }
}

fn ask(route: &Route, event: &Event, work: Option<&Work>) -> Answer {
    let facts = Facts::of(&event.draft, work.map(Work::state_word));
    match &route.asks {
        Asks::Absent => Answer::Failed("handler_missing"),
        Asks::When(cond) => match cond.value(facts) {
            Value::Is(true) => attached(route.attach, event.draft.k),
            Value::Is(false) => Answer::Skip(None),
            Value::Missing(field) => Answer::Skip(Some(field)),
            Value::Invalid => Answer::Failed("handler_invalid"),
        },
        Asks::Choosy => match event.draft.kind {
            Kind::Taken => attached(route.attach, event.draft.k),
            Kind::A | Kind::B => Answer::Skip(None),
            Kind::Flaky => Answer::Failed("handler_failed"),
            Kind::Bad => Answer::Failed("handler_invalid"),
            Kind::Boom => Answer::Failed("handler_panic"),
        },
    }
}

/// A match, with the key that the route attaches; a route whose key cannot be made fails.
fn attached(attach: Option<Attach>, k: Option<Datum>) -> Answer {
    match attach.map(|a| a.key(k)) {
        None => Answer::Match(BTreeSet::new()),
        Some(Ok(key)) => Answer::Match(key.into_iter().collect()),
        Some(Err(_)) => Answer::Failed("handler_invalid"),
    }
}

/// What a matched route does: the checks of rule r26, in their order.
fn applied(
    world: &World,
    effective: &Effective,
    route: &Route,
    work: Option<&Work>,
    attach: BTreeSet<String>,
) -> Effect {
    let select = |policy, reason| Selected {
        slot: route.slot,
        binding: route.binding,
        policy,
        reason,
        attach,
    };
    let failed = |code| Effect::Failed {
        slot: route.slot,
        code,
    };
    if route.policy == Policy::Drop {
        return Effect::Drop(select(Policy::Drop, Reason::Handler));
    }
    let Some(binding) = effective.bindings.get(&route.binding) else {
        return failed("binding_invalid");
    };
    let running = work.and_then(|w| w.running.as_ref());
    let (Some(running), Policy::Inject | Policy::Interrupt) = (running, route.policy) else {
        return Effect::Input(select(Policy::Queue, Reason::Handler));
    };
    let needs = |caps: super::plan::Caps| match route.policy {
        Policy::Inject => caps.inject,
        _ => caps.interrupt,
    };
    let proved = binding
        .executor
        .and_then(|e| world.registered.get(&e))
        .is_some_and(|registered| registered.prove(binding.claimed()));
    let otherwise = if !proved {
        failed("binding_invalid")
    } else if !needs(binding.claimed()) {
        failed("policy_invalid")
    } else if running.binding != route.binding || !needs(running.caps) {
        Effect::Deferred
    } else {
        return Effect::Input(select(route.policy, Reason::Handler));
    };
    match route.fallback {
        None => otherwise,
        Some(Fallback::Queue) => Effect::Input(select(Policy::Queue, Reason::Fallback)),
        Some(Fallback::Drop) => Effect::Drop(select(Policy::Drop, Reason::Fallback)),
    }
}
