//! From a request's event to one that can be appended: the written rules, and derived keys (rules a05–a07).

use weir_kernel::Violation;
use weir_kernel::WorkId;
use weir_kernel::envelope::{Envelope, key_violations};
use weir_kernel::limits::MAX_KEYS;
use weir_ledger::{Cause, NewEvent};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::types::v1::Targets;

use crate::Error;
use crate::cel::Facts;
use crate::generation::Generation;
use crate::route::view::EventView;

/// An event as a caller gives it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The event.
    pub event: Option<CloudEvent>,
    /// Its keys.
    pub keys: Vec<String>,
    /// The Work it is for.
    pub targets: Option<Targets>,
}

/// Checks an external event and adds the keys that the scope's source rules derive. Evaluates expressions: call it
/// where blocking harms nobody.
///
/// # Errors
/// `Invalid` with every violation; `KeyRule` when a key rule cannot be evaluated for it.
pub fn prepare(
    generation: &Generation,
    scope: &str,
    actor: &str,
    draft: Draft,
    max_payload: usize,
) -> Result<NewEvent, Error> {
    checked(generation, scope, actor, draft, max_payload, |_| true)
}

/// The same for a trace, which may also be of the input that an operator would send to a Work (rule r14): source
/// `core.manual`, naming the Work.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_traced(
    generation: &Generation,
    scope: &str,
    actor: &str,
    draft: Draft,
    max_payload: usize,
) -> Result<NewEvent, Error> {
    let source = draft.event.as_ref().map(|e| e.source.as_str());
    let named = draft.targets.as_ref().is_some_and(|t| !t.work.is_empty());
    let is_operators = source == Some(OPERATORS) && named;
    checked(generation, scope, actor, draft, max_payload, |v| {
        !(is_operators && v.field == "event.source")
    })
}

/// Source of what operators send.
const OPERATORS: &str = "core.manual";

fn checked(
    generation: &Generation,
    scope: &str,
    actor: &str,
    draft: Draft,
    max_payload: usize,
    is_reserved: impl Fn(&Violation) -> bool,
) -> Result<NewEvent, Error> {
    let event = draft
        .event
        .ok_or_else(|| Error::field("event", "is required"))?;
    let envelope = weir_rpc::convert::envelope_from_proto(event).map_err(Error::Invalid)?;
    let mut violations = envelope.violations(max_payload);
    violations.extend(envelope.reserved().into_iter().filter(is_reserved));
    violations.extend(key_violations("keys", &draft.keys));
    let target = target(draft.targets.as_ref(), &mut violations);
    if !violations.is_empty() {
        return Err(Error::Invalid(violations));
    }
    let (target_work, attempt) = target;
    let content = envelope.content(scope, &draft.keys, (target_work, attempt));
    let keys = all_keys(generation, scope, &envelope, draft.keys)?;
    Ok(NewEvent {
        envelope,
        keys,
        target_work,
        content,
        actor: actor.to_owned(),
        cause: Cause::Root,
        routed: None,
    })
}

fn target(targets: Option<&Targets>, violations: &mut Vec<Violation>) -> (Option<WorkId>, i32) {
    let Some(targets) = targets else {
        return (None, 0);
    };
    if targets.work.is_empty() {
        if targets.attempt != 0 {
            violations.push(Violation::new(
                "targets.work",
                "is required with an attempt",
            ));
        }
        return (None, 0);
    }
    if targets.attempt < 0 {
        violations.push(Violation::new("targets.attempt", "is negative"));
    }
    match targets.work.parse() {
        Ok(work) => (Some(work), targets.attempt),
        Err(error) => {
            violations.push(Violation::new("targets.work", error.to_string()));
            (None, 0)
        }
    }
}

/// Returns the producer's keys and the derived ones, sorted (rule a07).
fn all_keys(
    generation: &Generation,
    scope: &str,
    envelope: &Envelope,
    mut keys: Vec<String>,
) -> Result<Vec<String>, Error> {
    if let Some(effective) = generation.compiled.scope(scope)
        && effective
            .sources
            .iter()
            .any(|s| s.is_for(&envelope.source, &envelope.kind))
    {
        let view = EventView {
            envelope: std::sync::Arc::new(envelope.clone()),
            scope: std::sync::Arc::from(scope),
            keys: keys.clone(),
            depth: 0,
        };
        let facts = Facts::new(view.facts(), None);
        keys.extend(effective.derive_keys(&facts, &envelope.source, &envelope.kind)?);
    }
    keys.sort_unstable();
    keys.dedup();
    if keys.len() > MAX_KEYS {
        let text = format!(
            "are {} with the derived ones, the limit is {MAX_KEYS}",
            keys.len()
        );
        return Err(Error::field("keys", text));
    }
    Ok(keys)
}
