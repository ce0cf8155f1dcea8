//! From domain types to wire types.

use uuid::Uuid;
use weir_kernel::{AttemptOutcome, EventUid, IntentKind, WorkId, WorkState};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1 as types;
use weir_rpc::convert::{duration, envelope_to_proto, timestamp};

use crate::command::Claimed;
use crate::query::{AttemptView, Blocker, InputView, WorkView};
use crate::store::StoredEvent;

fn text(id: Option<impl ToString>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

/// Writes a state; the wire's numbers are the column codes.
pub(super) fn state(state: WorkState) -> types::WorkState {
    match state {
        WorkState::Ready => types::WorkState::Ready,
        WorkState::Running => types::WorkState::Running,
        WorkState::Waiting => types::WorkState::Waiting,
        WorkState::Held => types::WorkState::Held,
        WorkState::Completed => types::WorkState::Completed,
        WorkState::Failed => types::WorkState::Failed,
        WorkState::Cancelled => types::WorkState::Cancelled,
    }
}

fn outcome(outcome: AttemptOutcome) -> types::AttemptOutcome {
    match outcome {
        AttemptOutcome::Completed => types::AttemptOutcome::Completed,
        AttemptOutcome::FailedRetryable => types::AttemptOutcome::FailedRetryable,
        AttemptOutcome::FailedPermanent => types::AttemptOutcome::FailedPermanent,
        AttemptOutcome::LeaseLost => types::AttemptOutcome::LeaseLost,
        AttemptOutcome::Released => types::AttemptOutcome::Released,
        AttemptOutcome::Parked => types::AttemptOutcome::Parked,
        AttemptOutcome::Cancelled => types::AttemptOutcome::Cancelled,
    }
}

/// Writes a Work.
pub(crate) fn work(view: WorkView) -> types::Work {
    types::Work {
        work: view.work.to_string(),
        scope: view.scope,
        state: state(view.state).into(),
        revision: view.revision,
        binding: view.binding,
        priority: view.priority.into(),
        keys: view.keys,
        created_at: Some(timestamp(view.created_at)),
        ended_at: view.ended_at.map(timestamp),
        held_reason: view.held_reason.unwrap_or_default(),
        parent: text(view.parent),
        predecessor: text(view.predecessor),
        attempts: view.attempts,
        tries: view.tries.into(),
        open_inputs: view.open_inputs,
        blocked_by: Some(blocker(view.blocked_by)),
        epoch: view.epoch,
    }
}

fn blocker(blocker: Blocker) -> types::Blocker {
    types::Blocker {
        kind: blocker.kind.to_owned(),
        since: blocker.since.map(timestamp),
        until: blocker.until.map(timestamp),
        detail: blocker.detail,
        event: text(blocker.event),
    }
}

/// Writes an attempt.
pub(super) fn attempt(work: WorkId, view: AttemptView) -> types::Attempt {
    let ended = view
        .outcome
        .and_then(|code| AttemptOutcome::from_code(code).ok());
    let trigger = (!view.trigger_uid.is_nil()).then_some(EventUid(view.trigger_uid));
    types::Attempt {
        work: work.to_string(),
        attempt: view.number,
        epoch: view.epoch,
        owner: view.owner,
        binding: view.binding.unwrap_or_default(),
        generation: view.generation,
        registration: view.registration,
        capabilities: capabilities(view.capabilities),
        trigger: text(trigger),
        claimed_at: Some(timestamp(view.claimed_at)),
        ended_at: view.ended_at.map(timestamp),
        outcome: ended
            .map_or(types::AttemptOutcome::Unspecified, outcome)
            .into(),
        lease_until: view.lease_until.map(timestamp),
        error: view.error.unwrap_or_default(),
        result: view.result.unwrap_or_default(),
    }
}

fn capabilities(bits: i16) -> Vec<String> {
    let named = [(1, IntentKind::Inject), (2, IntentKind::Interrupt)];
    named
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, kind)| kind.to_string())
        .collect()
}

/// Writes an input.
pub(super) fn input(work: WorkId, view: InputView) -> types::Input {
    let state = types::InputState::try_from(i32::from(view.state));
    let intent = view
        .intent
        .and_then(|code| IntentKind::from_code(code).ok());
    types::Input {
        work: work.to_string(),
        number: view.n,
        event: Uuid::to_string(&view.uid),
        state: state.unwrap_or(types::InputState::Unspecified).into(),
        attempt: view.attempt.unwrap_or(0),
        binding: view.binding.unwrap_or_default(),
        intent: text(intent),
    }
}

/// Writes an event that an attempt is given. Its route record is not asked for here.
pub(super) fn event(event: StoredEvent) -> types::Event {
    types::Event {
        uid: event.uid.to_string(),
        scope: event.scope,
        position: event.seq,
        accepted_at: Some(timestamp(event.accepted_at)),
        event: Some(envelope_to_proto(event.envelope)),
        keys: event.keys,
        root: event.root.to_string(),
        parent: text(event.parent),
        depth: event.depth.into(),
        copy_of: text(event.copy_of),
        route: None,
        pending: None,
        actor: event.actor,
        target_work: text(event.target_work),
    }
}

/// Writes a claimed Work.
pub(super) fn claimed(binding: &str, claimed: Claimed) -> pb::ClaimedWork {
    pb::ClaimedWork {
        lease: Some(types::Lease {
            work: claimed.lease.work.to_string(),
            attempt: claimed.lease.attempt,
            epoch: claimed.lease.epoch,
        }),
        scope: claimed.scope,
        binding: binding.to_owned(),
        lease_until: Some(timestamp(claimed.lease_until)),
        lease_duration: Some(duration(claimed.lease_duration)),
        inputs: claimed.inputs.into_iter().map(event).collect(),
        trigger: claimed.trigger.to_string(),
        generation: claimed.generation,
        keys: claimed.keys,
        tries: claimed.tries.into(),
    }
}

/// Writes the payload of a control event.
pub(crate) fn control_payload(work: WorkId, actor: &str, reason: &str) -> String {
    serde_json::json!({ "work": work.to_string(), "actor": actor, "reason": reason }).to_string()
}
