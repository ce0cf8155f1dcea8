//! What an expression can see of an event and a Work: the detached snapshot of rule r01.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{
    json,
    value::{Map, Value},
};

/// An event as expressions see it, before it is prepared.
#[derive(Clone, Debug, Default)]
pub struct EventFacts {
    /// `event.id`.
    pub id: String,
    /// `event.source`.
    pub source: String,
    /// `event.type`.
    pub event_type: String,
    /// `event.subject`; absent when `None`.
    pub subject: Option<String>,
    /// `event.time`, RFC 3339 text as the producer gave it (`timestamp(event.time)` reads it).
    pub time: Option<String>,
    /// `event.datacontenttype`.
    pub datacontenttype: Option<String>,
    /// `event.dataschema`.
    pub dataschema: Option<String>,
    /// `event.spec_version`.
    pub spec_version: String,
    /// `event.scope`.
    pub scope: String,
    /// `event.keys`, the correlation keys.
    pub keys: Vec<String>,
    /// `event.depth`, the causal depth (rule c02).
    pub depth: i64,
    /// `event.ext.<name>`, and `event.<name>` unless an attribute above has that name.
    pub attributes: Vec<(String, String)>,
    /// The payload; `event.data` when it is readable JSON.
    pub data: Option<Bytes>,
}

/// A Work as expressions see it.
#[derive(Clone, Debug, Default)]
pub struct WorkFacts {
    /// `work.id`.
    pub id: String,
    /// `work.state`.
    pub state: String,
    /// `work.keys`, the correlation keys it owns.
    pub keys: Vec<String>,
    /// `work.binding`, the binding it runs on next.
    pub binding: Option<String>,
    /// `work.attempts`, how many attempts it has had.
    pub attempts: i64,
    /// `work.held_reason`, while it is held.
    pub held_reason: Option<String>,
    /// `work.created_at`, RFC 3339 text.
    pub created_at: String,
}

/// An event and its Work, prepared once and shared by all expressions that ask about them. The
/// payload is read at the first expression that needs it, and once.
#[derive(Debug)]
pub struct Facts {
    event: Arc<Map>,
    work: Arc<Map>,
    data: Option<Bytes>,
    json: bool,
    read: OnceLock<Option<Value>>,
}

/// What `event.data` is.
pub(super) enum Data<'a> {
    /// There is no payload.
    None,
    /// There is one that is not readable JSON.
    Unreadable,
    /// The document.
    Read(&'a Value),
}

impl Facts {
    /// Prepares an event and the Work it belongs to, if any (`work` is `{}` without one).
    #[must_use]
    pub fn new(event: EventFacts, work: Option<WorkFacts>) -> Self {
        let json = event.datacontenttype.as_deref().is_none_or(is_json);
        let mut fields = vec![
            ("id", Value::text(&event.id)),
            ("source", Value::text(&event.source)),
            ("type", Value::text(&event.event_type)),
            ("spec_version", Value::text(&event.spec_version)),
            ("scope", Value::text(&event.scope)),
            ("keys", texts(&event.keys)),
            ("depth", Value::Int(event.depth)),
        ];
        for (name, value) in [
            ("subject", &event.subject),
            ("time", &event.time),
            ("datacontenttype", &event.datacontenttype),
            ("dataschema", &event.dataschema),
        ] {
            fields.extend(value.as_deref().map(|v| (name, Value::text(v))));
        }
        let extensions = event
            .attributes
            .iter()
            .map(|(k, v)| (k.as_str(), Value::text(v)));
        let ext = Map::of_fields(extensions.clone().collect());
        fields.push(("ext", Value::Map(Arc::new(ext))));
        // An extension never takes the name of an attribute, present or not, nor of the payload.
        fields.extend(extensions.filter(|(name, _)| !ATTRIBUTES.contains(name)));
        Self {
            event: Arc::new(Map::of_fields(fields)),
            work: Arc::new(work.map(work_fields).unwrap_or_default()),
            data: event.data,
            json,
            read: OnceLock::new(),
        }
    }

    pub(super) fn event(&self) -> &Arc<Map> {
        &self.event
    }

    pub(super) fn work(&self) -> &Arc<Map> {
        &self.work
    }

    pub(super) fn data(&self) -> Data<'_> {
        let Some(bytes) = &self.data else {
            return Data::None;
        };
        let read = self.read.get_or_init(|| {
            if self.json {
                json::read(bytes).ok()
            } else {
                None
            }
        });
        read.as_ref().map_or(Data::Unreadable, Data::Read)
    }
}

/// The names that `event` gives a meaning to.
pub(super) const ATTRIBUTES: [&str; 13] = [
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
    "spec_version",
    "scope",
    "keys",
    "depth",
    "ext",
    "data",
];

fn work_fields(work: WorkFacts) -> Map {
    let mut fields = vec![
        ("id", Value::text(&work.id)),
        ("state", Value::text(&work.state)),
        ("keys", texts(&work.keys)),
        ("attempts", Value::Int(work.attempts)),
        ("created_at", Value::text(&work.created_at)),
    ];
    fields.extend(work.binding.as_deref().map(|v| ("binding", Value::text(v))));
    fields.extend(
        work.held_reason
            .as_deref()
            .map(|v| ("held_reason", Value::text(v))),
    );
    Map::of_fields(fields)
}

fn texts(items: &[String]) -> Value {
    Value::list(items.iter().map(|item| Value::text(item)).collect())
}

/// Whether a content type says JSON: `application/json`, `text/json` or a `+json` suffix, with or
/// without parameters, in any case.
fn is_json(content_type: &str) -> bool {
    let essence = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence.is_empty() || essence.ends_with("/json") || essence.ends_with("+json")
}
