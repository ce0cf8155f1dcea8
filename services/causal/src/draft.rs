//! From a request's event to one that can be appended: the written rules (rules a05, a06, c01).

use weir_kernel::envelope::{Envelope, key_violations};
use weir_kernel::{EventUid, Violation, WorkId};
use weir_ledger::{Cause, NewEvent};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::types::v1::Targets;

use crate::Error;

/// The source of what a Work emits.
pub(crate) fn work_source(work: WorkId) -> String {
    format!("work/{work}")
}

/// An event that keeps the written rules, before its scope and parent are known.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    envelope: Envelope,
    /// As given, sorted, each once.
    keys: Vec<String>,
    target_work: Option<WorkId>,
    target_attempt: i32,
}

impl Draft {
    /// Checks an emission of a Work and sets its source. `max_payload` is in bytes.
    ///
    /// # Errors
    /// `FOREIGN_SOURCE`; `INVALID_REQUEST` with every violation.
    pub(crate) fn emitted(
        work: WorkId,
        event: Option<CloudEvent>,
        keys: Vec<String>,
        targets: Option<&Targets>,
        max_payload: usize,
    ) -> Result<Self, Error> {
        let mut event = event.ok_or_else(|| Error::field("event", "is required"))?;
        let source = work_source(work);
        if !event.source.is_empty() && event.source != source {
            return Err(Error::ForeignSource(source));
        }
        event.source = source;
        // The source is the only reserved thing that an emission has, and it was just set.
        Self::check(event, keys, targets, max_payload, |v| {
            v.field != "event.source"
        })
    }

    /// Checks an event whose source a trusted caller gives. `max_payload` is in bytes.
    ///
    /// # Errors
    /// `INVALID_REQUEST` with every violation.
    pub(crate) fn derived(
        event: Option<CloudEvent>,
        keys: Vec<String>,
        targets: Option<&Targets>,
        max_payload: usize,
    ) -> Result<Self, Error> {
        let event = event.ok_or_else(|| Error::field("event", "is required"))?;
        Self::check(event, keys, targets, max_payload, |_| true)
    }

    fn check(
        event: CloudEvent,
        mut keys: Vec<String>,
        targets: Option<&Targets>,
        max_payload: usize,
        is_reserved: impl Fn(&Violation) -> bool,
    ) -> Result<Self, Error> {
        let envelope = weir_rpc::convert::envelope_from_proto(event).map_err(Error::Invalid)?;
        let mut violations = envelope.violations(max_payload);
        violations.extend(envelope.reserved().into_iter().filter(|v| is_reserved(v)));
        violations.extend(key_violations("keys", &keys));
        let (target_work, target_attempt) = target(targets, &mut violations);
        if !violations.is_empty() {
            return Err(Error::Invalid(violations));
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Self {
            envelope,
            keys,
            target_work,
            target_attempt,
        })
    }

    /// Gives it its place. `scope` is the name of the accepting scope, part of its content (rule a01).
    pub(crate) fn below(&self, parent: EventUid, scope: &str, actor: &str) -> NewEvent {
        let targets = (self.target_work, self.target_attempt);
        NewEvent {
            content: self.envelope.content(scope, &self.keys, targets),
            envelope: self.envelope.clone(),
            keys: self.keys.clone(),
            target_work: self.target_work,
            actor: actor.to_owned(),
            cause: Cause::Derived { parent },
            routed: None,
        }
    }

    /// Source and id.
    pub(crate) fn identity(&self) -> (&str, &str) {
        (&self.envelope.source, &self.envelope.id)
    }
}

fn target(targets: Option<&Targets>, violations: &mut Vec<Violation>) -> (Option<WorkId>, i32) {
    let Some(targets) = targets else {
        return (None, 0);
    };
    if targets.attempt < 0 {
        violations.push(Violation::new("targets.attempt", "is negative"));
    }
    if targets.work.is_empty() {
        if targets.attempt != 0 {
            violations.push(Violation::new(
                "targets.work",
                "is required with an attempt",
            ));
        }
        return (None, 0);
    }
    match targets.work.parse() {
        Ok(work) => (Some(work), targets.attempt),
        Err(error) => {
            violations.push(Violation::new("targets.work", error.to_string()));
            (None, 0)
        }
    }
}
