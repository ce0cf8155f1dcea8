//! The configuration of a tenant as its author wrote it, with defaults filled in.
//!
//! `Serialize` writes the canonical form, which [`Document::parse`] reads back to an equal
//! document.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Serialize, Serializer};

/// Default depth limit (rule c02).
pub const DEFAULT_DEPTH: u16 = 32;
/// Default derived events per root and minute (rule c02).
pub const DEFAULT_DERIVED_PER_MINUTE: u32 = 128;
/// Default lease of a binding.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// Default of a binding's consecutive attempts.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 5;
/// Default time a route's handler has (rule r20).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A whole configuration: the scopes of a tenant, in the order of the document.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Document {
    /// The scopes.
    pub scopes: Vec<Scope>,
    /// Where each field stood in the text, by path. Not part of the content.
    #[serde(skip)]
    pub(super) places: BTreeMap<String, (u32, u32)>,
}

impl Document {
    /// Returns line and column of a field by its path, or of the nearest thing around it that was
    /// written; zeros when the document was not read from text.
    #[must_use]
    pub fn place(&self, path: &str) -> (u32, u32) {
        let mut at = path;
        loop {
            if let Some(place) = self.places.get(at) {
                return *place;
            }
            match at.rfind(['.', '[']) {
                Some(end) => at = &at[..end],
                None => return self.places.get("").copied().unwrap_or_default(),
            }
        }
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.scopes == other.scopes
    }
}

/// A scope: a node of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scope {
    /// Its name, unique in the tenant.
    pub name: String,
    /// The scope it inherits from; exactly one scope of a document has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Causal limits; what is not given comes from the nearest ancestor, else the defaults.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// The automatic brake (rule c10); inherited from the nearest ancestor that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brake: Option<Brake>,
    /// Its bindings by name; one of an ancestor's name replaces it here and below.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bindings: BTreeMap<String, Binding>,
    /// Its sources; one of an ancestor's name replaces it here and below (rule a07).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// Its routes in order (rule r02).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// Causal limits a scope sets (rule c02).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Deepest derived event, 0 to 1,024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u16>,
    /// New derived events per root and minute, 0 to 1,000,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived_per_minute: Option<u32>,
}

impl Limits {
    /// Whether neither is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.depth.is_none() && self.derived_per_minute.is_none()
    }
}

/// When a root is braked by itself (rule c10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Brake {
    /// Refusals of one root within a minute that set the brake, 1 to 1,000,000.
    pub after_refusals_per_minute: u32,
}

/// A scope's name for an executor and its settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binding {
    /// The executor; without one the binding only queues (rule r11).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// What the binding claims; it counts when the registration has it too (rule r11).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<Capability>,
    /// How long a claim holds without renewal, 1 s to 1 h.
    #[serde(serialize_with = "duration")]
    pub lease: Duration,
    /// Consecutive attempts before the Work is held, 1 to 100 (rule l07).
    pub max_attempts: u32,
    /// Higher is claimed first, -1,000 to 1,000 (rule l15).
    pub priority: i32,
    /// Limits on live attempts (rule l15).
    #[serde(skip_serializing_if = "Concurrency::is_empty")]
    pub concurrency: Concurrency,
    /// Globs on the types its attempts may emit; empty means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub emits: Vec<String>,
    /// What the cancel of a parent does to Work of this binding (rule l18).
    pub on_parent_cancel: OnParentCancel,
}

impl Default for Binding {
    fn default() -> Self {
        Self {
            executor: None,
            capabilities: BTreeSet::new(),
            lease: DEFAULT_LEASE,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            priority: 0,
            concurrency: Concurrency::default(),
            emits: Vec::new(),
            on_parent_cancel: OnParentCancel::Leave,
        }
    }
}

/// Something an executor can do for a running attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Take input while running.
    Inject,
    /// Be interrupted.
    Interrupt,
}

/// Limits on live attempts of a binding (rule l15).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Concurrency {
    /// Most at once, 1 to 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Most at once for each value of an expression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per: Vec<ConcurrencyKey>,
}

impl Concurrency {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.max.is_none() && self.per.is_empty()
    }
}

/// A limit for each value of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConcurrencyKey {
    /// The expression; a missing field means no limit.
    pub key: String,
    /// Most at once for one value, 1 to 100,000.
    pub max: u32,
}

/// What happens to a child when its parent is cancelled (rule l18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnParentCancel {
    /// It goes on.
    #[default]
    Leave,
    /// It is cancelled too.
    Cancel,
}

/// A source of events: how keys are derived for events that fit, and an endpoint for webhooks
/// (rule a07).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its name, unique in the scope.
    pub name: String,
    /// Which events its rules are for.
    #[serde(rename = "match")]
    pub matches: Match,
    /// The webhook endpoint, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// The rules that yield keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyRule>,
}

/// Globs on an event; both must fit, an absent one always does. `*` is any run of characters, `/`
/// included, `?` is any one character, everything else is itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Glob on `event.source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Glob on `event.type`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
}

/// A webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Webhook {
    /// Who sends.
    pub kind: WebhookKind,
    /// Name of the secret that signs: `WEIR_WEBHOOK_SECRET_<TENANT>_<SECRET>`.
    pub secret: String,
}

/// A kind of webhook sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookKind {
    /// GitHub: `X-Hub-Signature-256`, `X-GitHub-Delivery`; type `<X-GitHub-Event>[.<action>]`.
    Github,
}

/// A rule that yields a correlation key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRule {
    /// Condition; absent means always. A missing field means no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The key; a missing field yields none.
    pub key: String,
}

/// A route as a scope writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Its slot, unique in the scope; an ancestor's slot is overridden in place (rule r02).
    pub slot: String,
    /// Who decides; `None` only when disabled.
    #[serde(flatten)]
    pub handler: Option<Handler>,
    /// The binding's name, looked up in the scope of the event (rule r02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// What to do with a match (rule r09).
    pub policy: Policy,
    /// What to do when the policy cannot be applied (rules r09, r26).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Expressions of further keys to attach (rule r08); a missing field attaches none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<String>,
    /// Whether events that the route's own Work emitted are declined (rule r28).
    #[serde(rename = "self")]
    pub self_policy: SelfPolicy,
    /// Switches the slot off here and below (rule r02).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Time the handler has, 10 ms to 60 s (rule r20).
    #[serde(serialize_with = "duration")]
    pub timeout: Duration,
}

/// Who decides about a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Handler {
    /// An expression (rule r50).
    #[serde(rename = "when")]
    Cel(String),
    /// Something else that is named.
    #[serde(rename = "handler")]
    Named(NamedHandler),
}

/// A handler that is no expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NamedHandler {
    /// A gRPC service (rule r51).
    Remote {
        /// Its address.
        remote: String,
        /// The handler's name there.
        name: String,
    },
    /// A handler of the process's registry (rule r52).
    Rust {
        /// Its name in the registry.
        rust: String,
    },
}

/// What to do with a matched event (rule r09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Queue it on the Work.
    Queue,
    /// Also hand it to the running attempt.
    Inject,
    /// Also interrupt the running attempt.
    Interrupt,
    /// Drop it.
    Drop,
}

impl Policy {
    /// The name in documents and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Inject => "inject",
            Self::Interrupt => "interrupt",
            Self::Drop => "drop",
        }
    }

    /// What a binding must claim for this policy.
    #[must_use]
    pub fn capability(self) -> Option<Capability> {
        match self {
            Self::Queue | Self::Drop => None,
            Self::Inject => Some(Capability::Inject),
            Self::Interrupt => Some(Capability::Interrupt),
        }
    }
}

/// What to do when a policy cannot be applied (rule r09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Queue it.
    Queue,
    /// Drop it.
    Drop,
}

/// Whether a route takes what its own Work emitted (rule r28).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfPolicy {
    /// It does.
    #[default]
    Allow,
    /// It declines, as a recorded refusal.
    Avoid,
}

fn duration<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*value))
}
