//! What routing knows of an event and of a Work while it decides.

use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use weir_kernel::envelope::{Attribute, Envelope};
use weir_kernel::{BindingId, EventUid, PendingState, WorkId, WorkState};

use crate::cel::{EventFacts, WorkFacts};

/// An accepted event that is not decided: its pending row.
#[derive(Debug, Clone)]
pub struct PendingRow {
    /// Position in the scope.
    pub seq: i64,
    /// The event.
    pub uid: EventUid,
    /// When it was accepted.
    pub accepted_at: DateTime<Utc>,
    /// Its keys.
    pub keys: Vec<String>,
    /// Work that it names.
    pub target: Option<WorkId>,
    /// Why it is undecided.
    pub state: PendingState,
    /// Says that it may be decided now: no backoff runs, or a new generation lifted it (rule r22), or the
    /// attempt it waited for is over (rule r10).
    pub due: bool,
    /// Failures counted so far.
    pub failures: i16,
    /// When it failed first.
    pub first_failed_at: Option<DateTime<Utc>>,
    /// What it waits for, when it is deferred.
    pub hold: Option<Hold>,
    /// Size of its payload, in bytes.
    pub bytes: i64,
    /// What processes that died while they decided it say of it.
    pub crashes: Crashes,
}

/// What is known of an event's crashes (rule r21).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// 0 for an innocent event, 1 for a suspect, one more for each crash alone.
    pub count: i16,
    /// Says that its crashes passed both limits: it is routed `failed` without asking its routes (rule r23).
    pub gave_up: bool,
}

impl Crashes {
    /// Says that it is to be decided alone.
    #[must_use]
    pub const fn is_suspect(self) -> bool {
        self.count > 0 && !self.gave_up
    }
}

/// The attempt that a deferred event, and all that stands behind it, waits for (rule r10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The deferred event.
    pub event: EventUid,
    /// The Work.
    pub work: WorkId,
    /// The attempt.
    pub attempt: i32,
}

impl PendingRow {
    /// Returns what stands for the event in r06's closure: each key, or the Work that owns it, and the Work that
    /// it names.
    pub fn tokens<'a>(
        &'a self,
        owners: &'a HashMap<String, Option<WorkId>>,
        joined: Option<&'a BTreeSet<String>>,
    ) -> impl Iterator<Item = String> + 'a {
        let keys = self.keys.iter().chain(joined.into_iter().flatten());
        let keyed = keys.map(|key| match owners.get(key) {
            Some(Some(work)) => weir_ledger::work_marker(*work),
            _ => key.clone(),
        });
        keyed.chain(self.target.map(weir_ledger::work_marker))
    }
}

/// An event as handlers see it.
#[derive(Debug, Clone)]
pub struct EventView {
    /// The envelope.
    pub envelope: Arc<Envelope>,
    /// Name of its scope.
    pub scope: Arc<str>,
    /// Its keys, derived ones included.
    pub keys: Vec<String>,
    /// Causal depth.
    pub depth: i16,
}

impl EventView {
    /// Returns the facts for expressions.
    #[must_use]
    pub fn facts(&self) -> EventFacts {
        let e = &self.envelope;
        let text = |name: &str| e.text_attribute(name).map(str::to_owned);
        let named = ["subject", "datacontenttype", "dataschema", "time"];
        let attributes = e
            .attributes
            .iter()
            .filter(|(name, _)| !named.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), attribute_text(value)))
            .collect();
        EventFacts {
            id: e.id.clone(),
            source: e.source.clone(),
            event_type: e.kind.clone(),
            subject: text("subject"),
            time: e.attributes.get("time").map(attribute_text),
            datacontenttype: text("datacontenttype"),
            dataschema: text("dataschema"),
            spec_version: e.spec_version.clone(),
            scope: self.scope.to_string(),
            keys: self.keys.clone(),
            depth: self.depth.into(),
            attributes,
            data: e
                .payload
                .as_ref()
                .map(|p| bytes::Bytes::copy_from_slice(&p.bytes)),
        }
    }

    /// Says that an operator sent it: input for the Work that it names, whatever the routes say (rule r14).
    #[must_use]
    pub fn is_operators(&self) -> bool {
        self.envelope.source == "core.manual" && !self.envelope.kind.starts_with("core.")
    }

    /// Returns the Work that emitted it, which Weir wrote into its source (rule c01).
    #[must_use]
    pub fn emitter(&self) -> Option<WorkId> {
        self.envelope
            .source
            .strip_prefix("work/")
            .and_then(|id| id.parse().ok())
    }
}

fn attribute_text(value: &Attribute) -> String {
    match value {
        Attribute::Bool(b) => b.to_string(),
        Attribute::Int(i) => i.to_string(),
        Attribute::Text(s) | Attribute::Uri(s) | Attribute::UriRef(s) => s.clone(),
        Attribute::Bytes(b) => b.iter().map(|b| format!("{b:02x}")).collect(),
        Attribute::Time(seconds, nanos) => {
            DateTime::<Utc>::from_timestamp(*seconds, nanos.cast_unsigned())
                .map(|t| t.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true))
                .unwrap_or_default()
        }
    }
}

/// A live attempt of a Work, with what its claim pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub attempt: i32,
    /// Its epoch.
    pub epoch: i64,
    /// Its binding.
    pub binding: BindingId,
    /// Its capabilities (bits: 1 inject, 2 interrupt).
    pub capabilities: i16,
}

/// A detached snapshot of a Work.
#[derive(Debug, Clone)]
pub struct WorkView {
    /// The Work.
    pub id: WorkId,
    /// Where it stands; `running` is derived.
    pub state: WorkState,
    /// Version, first half (rule r01).
    pub revision: i64,
    /// Version, second half.
    pub epoch: i64,
    /// Attempts so far.
    pub attempts: i32,
    /// The live attempt.
    pub running: Option<Running>,
    /// Name of the binding it runs on next.
    pub binding: Option<String>,
    /// The binding it runs on next when nothing is queued: its retry's, its last rebind's or attempt's, or the one
    /// it was created on (rule r14).
    pub own_binding: BindingId,
    /// The binding of its first input that is not consumed.
    pub queued_binding: Option<BindingId>,
    /// Keys it owns.
    pub keys: Vec<String>,
    /// Why it is held.
    pub held_reason: Option<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Says that this very commit creates it.
    pub is_new: bool,
}

impl WorkView {
    /// Returns the binding that input runs on which no route sends (rule r14).
    #[must_use]
    pub fn next_binding(&self) -> BindingId {
        self.queued_binding.unwrap_or(self.own_binding)
    }

    /// Adds keys that it owns now.
    pub fn add_keys(&mut self, keys: &[String]) {
        let all: BTreeSet<String> = self.keys.drain(..).chain(keys.iter().cloned()).collect();
        self.keys = all.into_iter().collect();
    }

    /// Returns the facts for expressions.
    #[must_use]
    pub fn facts(&self) -> WorkFacts {
        WorkFacts {
            id: self.id.to_string(),
            state: self.state.as_str().to_owned(),
            keys: self.keys.clone(),
            binding: self.binding.clone(),
            attempts: self.attempts.into(),
            held_reason: self.held_reason.clone(),
            created_at: self
                .created_at
                .to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true),
        }
    }
}
