//! Traces: what the model foresees, what the service says, and what it does then (rules r40, r41, r42).

use std::collections::BTreeSet;

use weir_proto::gateway::v1::TraceEventResponse;
use weir_proto::routing::v1::GetRouteResponse;
use weir_proto::types::v1::{
    self as types, Disposition, Effect as Traced, EffectKind, PendingState, VerdictOutcome,
};

use super::check::{Difference, Names, missing, policy, reason, same, slot};
use super::decide::{Decision, Effect, Selected, Verdict, decide};
use super::plan::Policy;
use super::world::{Event, Hold, Mark, Reason, Work, WorkNo, World};

/// What the model foresees.
#[derive(Debug)]
pub(crate) struct Foreseen {
    verdicts: Vec<Verdict>,
    kind: EffectKind,
    works: BTreeSet<WorkNo>,
    slot: Option<u8>,
    binding: Option<u8>,
    policy: Option<Policy>,
    reason: Option<Reason>,
    keys: Option<BTreeSet<String>>,
}

/// Foresees what would become of an event if it were accepted and decided now, before all others.
pub(crate) fn foresee(world: &World, event: &Event) -> Foreseen {
    let works = world.targets(event);
    let bypassed = |r: &super::plan::Route| Verdict {
        slot: r.slot,
        outcome: VerdictOutcome::Bypassed,
        missing: None,
        code: "",
    };
    if works.len() > 1 {
        let routes = world.effective(event.scope).routes;
        return Foreseen {
            works,
            ..plain(EffectKind::Conflict, routes.iter().map(bypassed).collect())
        };
    }
    if let Some(hold) = behind(world, event) {
        let routes = world.effective(event.scope).routes;
        return Foreseen {
            works: BTreeSet::from([hold.work]),
            ..plain(EffectKind::Pending, routes.iter().map(bypassed).collect())
        };
    }
    let work = works.first().map(|w| &world.works[*w]);
    let Decision { verdicts, effect } = decide(world, event, work);
    let of = |kind| Foreseen {
        works: works.clone(),
        ..plain(kind, verdicts.clone())
    };
    match effect {
        Effect::Input(selected) => input(world, event, &works, work, verdicts, selected),
        Effect::Drop(selected) => taken(of(EffectKind::Drop), &selected),
        Effect::Unmatched(_) => Foreseen {
            reason: Some(Reason::Word("no_match")),
            ..of(EffectKind::Unmatched)
        },
        Effect::Terminal => Foreseen {
            reason: Some(Reason::Word("terminal")),
            ..of(EffectKind::Drop)
        },
        Effect::Deferred => of(EffectKind::Pending),
        Effect::Failed { slot, code } => Foreseen {
            slot: Some(slot),
            reason: Some(Reason::Word(code)),
            ..of(EffectKind::Failed)
        },
    }
}

/// The deferral that an event would stand behind: no handler is asked for it (rule r10).
fn behind(world: &World, event: &Event) -> Option<Hold> {
    let targets = world.targets(event);
    world.pending(event.scope).into_iter().find_map(|number| {
        let other = &world.events[number];
        let ties = other.keys.iter().any(|k| event.keys.contains(k))
            || !world.targets(other).is_disjoint(&targets);
        match &other.pending()?.mark {
            Mark::Deferred(hold) if ties => Some(*hold),
            _ => None,
        }
    })
}

fn plain(kind: EffectKind, verdicts: Vec<Verdict>) -> Foreseen {
    Foreseen {
        verdicts,
        kind,
        works: BTreeSet::new(),
        slot: None,
        binding: None,
        policy: None,
        reason: None,
        keys: None,
    }
}

fn taken(foreseen: Foreseen, selected: &Selected) -> Foreseen {
    Foreseen {
        slot: Some(selected.slot),
        policy: Some(selected.policy),
        reason: Some(selected.reason),
        ..foreseen
    }
}

fn input(
    world: &World,
    event: &Event,
    works: &BTreeSet<WorkNo>,
    work: Option<&Work>,
    verdicts: Vec<Verdict>,
    selected: Selected,
) -> Foreseen {
    let owners = selected
        .attach
        .iter()
        .filter_map(|k| world.owner(event.scope, k));
    let all: BTreeSet<WorkNo> = works.iter().copied().chain(owners).collect();
    // What a new Work wants and another owns is a conflict, too.
    if all.len() > works.len() {
        return Foreseen {
            works: all,
            ..plain(EffectKind::Conflict, verdicts)
        };
    }
    let kind = match (selected.policy, work) {
        (_, None) => EffectKind::Start,
        (Policy::Inject, _) => EffectKind::Inject,
        (Policy::Interrupt, _) => EffectKind::Interrupt,
        _ => EffectKind::Queue,
    };
    let keys = event.keys.union(&selected.attach).cloned().collect();
    let foreseen = Foreseen {
        works: works.clone(),
        binding: Some(selected.binding),
        keys: Some(keys),
        ..plain(kind, verdicts)
    };
    taken(foreseen, &selected)
}

/// Compares what the service says of an event with what the model foresees.
pub(crate) fn compare(
    trace: &TraceEventResponse,
    model: &Foreseen,
    names: &Names,
    keys: &BTreeSet<String>,
) -> Result<(), Difference> {
    let effect = trace.effect.as_ref().ok_or("the trace has no effect")?;
    let carried: BTreeSet<String> = trace.keys.iter().cloned().collect();
    same("trace: keys of the event", &carried, keys)?;
    verdicts(&trace.verdicts, &model.verdicts)?;
    same(
        &format!("trace: effect ({})", effect.reason),
        &effect.kind(),
        &model.kind,
    )?;
    let works: BTreeSet<&str> = model
        .works
        .iter()
        .map(|w| names.works[*w].as_str())
        .collect();
    let conflicting: BTreeSet<&str> = effect
        .conflicting_works
        .iter()
        .map(String::as_str)
        .collect();
    if model.kind == EffectKind::Conflict {
        return same("trace: conflicting works", &conflicting, &works);
    }
    let work: BTreeSet<&str> = Some(effect.work.as_str())
        .filter(|w| !w.is_empty())
        .into_iter()
        .collect();
    same("trace: work", &work, &works)?;
    if model.kind == EffectKind::Pending {
        return Ok(());
    }
    same("trace: route", &effect.route, &slot(model.slot))?;
    same("trace: policy", &effect.policy(), &policy(model.policy))?;
    if let Some(binding) = model.binding {
        same("trace: binding", &effect.binding, &format!("b{binding}"))?;
    }
    if let Some(keys) = &model.keys {
        let attach: BTreeSet<String> = effect.keys.iter().cloned().collect();
        same("trace: keys that attach", &attach, keys)?;
    }
    model
        .reason
        .map_or(Ok(()), |r| reason("trace", &effect.reason, r))
}

fn verdicts(service: &[types::Verdict], model: &[Verdict]) -> Result<(), Difference> {
    let seen: Vec<_> = service
        .iter()
        .map(|v| (v.route.clone(), v.outcome(), v.failure.as_str()))
        .collect();
    let said: Vec<_> = model
        .iter()
        .map(|v| (slot(Some(v.slot)), v.outcome, v.code))
        .collect();
    same("trace: verdicts", &seen, &said)?;
    for (seen, said) in service.iter().zip(model) {
        if said.outcome == VerdictOutcome::Skip {
            missing("trace: verdict", &seen.reason, said.missing)?;
        }
    }
    Ok(())
}

/// Compares what the service said of an event with what it did with it then, field by field.
pub(crate) fn agree(trace: &Traced, done: &GetRouteResponse) -> Result<(), Difference> {
    let became = match (&done.record, &done.pending) {
        (Some(record), _) => kind_of(record),
        (None, Some(pending)) => match pending.state() {
            PendingState::Backoff => EffectKind::Failed,
            PendingState::Deferred => EffectKind::Pending,
            PendingState::Conflict => EffectKind::Conflict,
            _ => EffectKind::Unspecified,
        },
        (None, None) => EffectKind::Unspecified,
    };
    same("decision and trace: effect", &became, &trace.kind())?;
    if let Some(pending) = &done.pending {
        return pending_agrees(trace, pending);
    }
    let Some(record) = &done.record else {
        return Ok(());
    };
    // A new Work has no name before it is there.
    if became != EffectKind::Start {
        same("decision and trace: work", &record.work, &trace.work)?;
    }
    same("decision and trace: route", &record.route, &trace.route)?;
    same(
        "decision and trace: binding",
        &record.binding,
        &trace.binding,
    )?;
    same(
        "decision and trace: policy",
        &record.policy(),
        &trace.policy(),
    )?;
    same("decision and trace: reason", &record.reason, &trace.reason)?;
    // The backtrace of a panic says where it was called from.
    let first = |text: &str| text.lines().next().map(str::to_owned);
    same(
        "decision and trace: error",
        &first(&record.error),
        &first(&trace.error),
    )
}

fn pending_agrees(trace: &Traced, pending: &types::Pending) -> Result<(), Difference> {
    let works: BTreeSet<&String> = pending.works.iter().collect();
    match trace.kind() {
        EffectKind::Conflict => {
            let said: BTreeSet<&String> = trace.conflicting_works.iter().collect();
            same("decision and trace: conflicting works", &works, &said)
        }
        EffectKind::Pending => {
            same(
                "decision and trace: waits for",
                &works,
                &BTreeSet::from([&trace.work]),
            )?;
            same("decision and trace: reason", &pending.reason, &trace.reason)
        }
        _ => same(
            "decision and trace: error",
            &pending.last_error,
            &format!("{}: {}", trace.reason, trace.error),
        ),
    }
}

fn kind_of(record: &types::RouteRecord) -> EffectKind {
    match record.disposition() {
        Disposition::Start => EffectKind::Start,
        Disposition::Queue => EffectKind::Queue,
        Disposition::Inject => EffectKind::Inject,
        Disposition::Interrupt => EffectKind::Interrupt,
        Disposition::Wake => EffectKind::Wake,
        Disposition::Drop | Disposition::Terminal => EffectKind::Drop,
        Disposition::Unmatched => EffectKind::Unmatched,
        Disposition::Failed => EffectKind::Failed,
        Disposition::Skipped | Disposition::Unspecified => EffectKind::Unspecified,
    }
}
