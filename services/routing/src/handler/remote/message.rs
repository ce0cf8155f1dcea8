//! What a remote handler is told, and what it says of samples.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tonic::Request;
use weir_proto::extension::v1 as proto;
use weir_proto::types::v1 as types;
use weir_rpc::convert::{envelope_from_proto, envelope_to_proto, timestamp};

use crate::cel::WorkFacts;
use crate::handler::Input;
use crate::handler::samples::{Place, Sample};

/// Makes a request with its deadline.
pub(super) fn request<Q>(question: Q, left: Duration) -> Request<Q> {
    let mut request = Request::new(question);
    request.set_timeout(left);
    request
}

/// Makes the question about an event.
pub(super) fn question(name: &str, input: &Input) -> proto::MatchRequest {
    proto::MatchRequest {
        name: name.to_owned(),
        scope: input.scope.to_string(),
        event: Some(envelope_to_proto((*input.event).clone())),
        keys: input.keys.clone(),
        work: input.work.as_ref().map(|work| snapshot(work, &input.scope)),
        dry_run: input.dry_run,
    }
}

/// Writes what any handler may see of a Work, and no more.
fn snapshot(work: &WorkFacts, scope: &str) -> types::Work {
    let state = format!("WORK_STATE_{}", work.state.to_ascii_uppercase());
    let created_at = DateTime::parse_from_rfc3339(&work.created_at).ok();
    types::Work {
        work: work.id.clone(),
        scope: scope.to_owned(),
        state: types::WorkState::from_str_name(&state)
            .unwrap_or_default()
            .into(),
        binding: work.binding.clone().unwrap_or_default(),
        keys: work.keys.clone(),
        created_at: created_at.map(|at| timestamp(at.to_utc())),
        held_reason: work.held_reason.clone().unwrap_or_default(),
        attempts: i32::try_from(work.attempts).unwrap_or(i32::MAX),
        ..types::Work::default()
    }
}

/// Makes the question for samples.
pub(super) fn samples_wanted(
    name: &str,
    place: &Place,
    now: DateTime<Utc>,
) -> proto::ListSamplesRequest {
    let scope = place.scope();
    proto::ListSamplesRequest {
        name: name.to_owned(),
        scope: scope.name.clone(),
        route: place.route().slot.clone(),
        now: Some(timestamp(now)),
        bindings: scope.bindings.keys().cloned().collect(),
        sources: scope.sources.iter().map(|s| s.name.clone()).collect(),
    }
}

/// Reads a sample.
///
/// # Errors
/// What is wrong with its event.
pub(super) fn sample(sample: proto::HandlerSample) -> Result<Sample, String> {
    let event = envelope_from_proto(sample.event.unwrap_or_default()).map_err(|violations| {
        let first = violations.first();
        first
            .map(|v| format!("{} {}", v.field, v.description))
            .unwrap_or_default()
    })?;
    Ok(Sample {
        name: sample.name,
        event,
        keys: sample.keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r51_a_handler_sees_of_a_work_what_expressions_see() {
        for state in weir_kernel::WorkState::ALL {
            let facts = WorkFacts {
                id: "w".to_owned(),
                state: state.as_str().to_owned(),
                keys: vec!["k".to_owned()],
                binding: Some("b".to_owned()),
                attempts: 3,
                held_reason: None,
                created_at: "2026-01-02T03:04:05.5Z".to_owned(),
            };
            let work = snapshot(&facts, "s");
            let named = work.state().as_str_name().to_ascii_lowercase();
            assert_eq!(named, format!("work_state_{}", state.as_str()));
            assert_eq!(
                (
                    work.work.as_str(),
                    work.scope.as_str(),
                    work.binding.as_str(),
                    work.attempts
                ),
                ("w", "s", "b", 3)
            );
            let at = work.created_at.expect("it has one");
            assert_eq!((at.seconds, at.nanos), (1_767_323_045, 500_000_000));
            assert_eq!((work.revision, work.epoch, work.blocked_by), (0, 0, None));
        }
    }
}
