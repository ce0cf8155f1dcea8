//! Traces: the decision about an event that nobody published (rules r40–r42). The same functions decide; nothing is
//! written, and what is read is read in READ ONLY transactions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_kernel::limits::text;
use weir_kernel::{Disposition, EventUid, PendingState, Policy, WorkId};
use weir_ledger::NewEvent;
use weir_proto::routing::v1::{TraceRequest, TraceResponse};
use weir_proto::types::v1::{self, EffectKind, VerdictOutcome};
use weir_rpc::Caller;

use crate::Error;
use crate::generation::{Generation, Generations};
use crate::publish::{Draft, prepare};
use crate::route::decide::{Effect, Outcome, Selected, Verdict};
use crate::route::evaluate::{Context, Evaluated, Fate, evaluate};
use crate::route::group::Joins;
use crate::route::snapshot::Snapshot;
use crate::route::view::{EventView, PendingRow};
use crate::route::worker::proofs;

/// Position of an event that has none: behind all others.
const NOWHERE: i64 = i64::MAX;

/// Decides a hypothetical event.
///
/// # Errors
/// What acceptance would refuse: INVALID_REQUEST, SCOPE_NOT_FOUND, EVENT_CONFLICT, WORK_NOT_FOUND, KEY_RULE_FAILED.
pub async fn trace(
    context: &Context,
    generations: &Generations,
    caller: &Caller,
    request: TraceRequest,
    max_payload: usize,
) -> Result<TraceResponse, Error> {
    text("filter", &request.filter, 255).map_err(|v| Error::Invalid(vec![v]))?;
    let generation = generations.refresh(&caller.tenant).await?;
    let scope = generation
        .scope_id(&request.scope)
        .ok_or_else(|| weir_ledger::Error::ScopeNotFound(request.scope.clone()))?;
    let event = prepared(&generation, caller, &request, max_payload).await?;
    let accepted_as = accepted_before(context, &generation, &event).await?;

    let mut tx = context.db.snapshot().await?;
    let keys: BTreeSet<&str> = event.keys.iter().map(String::as_str).collect();
    let targets: BTreeSet<WorkId> = event.target_work.into_iter().collect();
    let snapshot = Snapshot::load(tx.conn(), &generation, scope, &keys, &targets).await?;
    drop(tx);
    if let Some(work) = event
        .target_work
        .filter(|w| !snapshot.works.contains_key(w))
    {
        return Err(Error::TargetNotFound(work));
    }
    let view = EventView {
        envelope: Arc::new(event.envelope.clone()),
        scope: Arc::from(request.scope.as_str()),
        keys: event.keys.clone(),
        depth: 0,
    };
    let row = PendingRow {
        seq: NOWHERE,
        uid: EventUid(uuid::Uuid::nil()),
        accepted_at: snapshot.at,
        keys: event.keys.clone(),
        target: event.target_work,
        state: PendingState::Due,
        due: true,
        failures: 0,
        first_failed_at: None,
        hold: None,
        bytes: 0,
    };
    let proofs = proofs(&context.db, &generation, scope).await?;
    let events = HashMap::from([(NOWHERE, view)]);
    let evaluated = evaluate(
        context,
        &generation,
        scope,
        vec![row],
        &events,
        snapshot,
        &proofs,
        &Joins::new(),
        true,
    )
    .await?;
    Ok(answer(
        &generation,
        &request,
        &event,
        &evaluated,
        accepted_as,
    ))
}

async fn prepared(
    generation: &Arc<Generation>,
    caller: &Caller,
    request: &TraceRequest,
    max_payload: usize,
) -> Result<NewEvent, Error> {
    let draft = Draft {
        event: request.event.clone(),
        keys: request.keys.clone(),
        targets: request.targets.clone(),
    };
    let (generation, scope, actor) = (
        Arc::clone(generation),
        request.scope.clone(),
        caller.actor.clone(),
    );
    tokio::task::spawn_blocking(move || prepare(&generation, &scope, &actor, draft, max_payload))
        .await
        .unwrap_or_else(|_| Err(Error::field("event", "its key rules cannot be evaluated")))
}

/// Returns the uid of an earlier acceptance of the same content.
async fn accepted_before(
    context: &Context,
    generation: &Generation,
    event: &NewEvent,
) -> Result<Option<EventUid>, Error> {
    use sqlx::Row as _;
    let mut conn = context.db.acquire().await?;
    let row = sqlx::query(
        "SELECT uid, content FROM weir.event WHERE tenant_id = $1 AND source = $2 AND id = $3",
    )
    .bind(generation.tenant.0)
    .bind(&event.envelope.source)
    .bind(&event.envelope.id)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let uid = EventUid(row.try_get(0)?);
    if row.try_get::<uuid::Uuid, _>(1)? == event.content {
        return Ok(Some(uid));
    }
    Err(Error::EventConflict {
        source_name: event.envelope.source.clone(),
        id: event.envelope.id.clone(),
        uid,
    })
}

fn answer(
    generation: &Generation,
    request: &TraceRequest,
    event: &NewEvent,
    evaluated: &Evaluated,
    accepted_as: Option<EventUid>,
) -> TraceResponse {
    let mut verdicts = evaluated.verdicts.first().cloned().unwrap_or_default();
    if verdicts.is_empty() {
        // No route was consulted.
        let routes = generation
            .compiled
            .scope(&request.scope)
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
        .filter(|v| v.slot.contains(&request.filter))
        .map(verdict);
    TraceResponse {
        verdicts: shown.collect(),
        effect: evaluated
            .fates
            .first()
            .map(|fate| effect(generation, fate, event)),
        generation: generation.number.to_string(),
        keys: event.keys.clone(),
        accepted_as: accepted_as.map(|u| u.to_string()).unwrap_or_default(),
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

fn effect(generation: &Generation, fate: &Fate, event: &NewEvent) -> v1::Effect {
    let base = v1::Effect::default();
    match fate {
        Fate::Decided { effect, .. } => decided(generation, effect, event),
        Fate::Retry {
            slot, code, error, ..
        } => v1::Effect {
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
        Fate::Waits => v1::Effect {
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
