//! An event as its producer wrote it: the CloudEvents envelope, checked against the written rules.

use crate::content::ContentDigest;
use crate::limits::{self, MAX_ATTRIBUTE, MAX_ATTRIBUTES, MAX_IDENTIFIER, MAX_KEY, MAX_KEYS};
use crate::{Violation, WorkId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The value of a CloudEvents attribute, with its type, so that it comes back as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attribute {
    /// Boolean.
    Bool(bool),
    /// 32-bit integer.
    Int(i32),
    /// String.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// URI.
    Uri(String),
    /// URI reference.
    UriRef(String),
    /// Instant: seconds and nanoseconds since 1970 UTC.
    Time(i64, i32),
}

impl Attribute {
    /// Returns the text of a string-like attribute.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(s) | Self::Uri(s) | Self::UriRef(s) => Some(s),
            Self::Bool(_) | Self::Int(_) | Self::Bytes(_) | Self::Time(..) => None,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Text(s) | Self::Uri(s) | Self::UriRef(s) => s.len(),
            Self::Bytes(b) => b.len(),
            Self::Bool(_) | Self::Int(_) | Self::Time(..) => 8,
        }
    }

    fn digest_bytes(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Bool(b) => (b'b', vec![u8::from(*b)]),
            Self::Int(i) => (b'i', i.to_be_bytes().to_vec()),
            Self::Text(s) => (b't', s.as_bytes().to_vec()),
            Self::Bytes(b) => (b'y', b.clone()),
            Self::Uri(s) => (b'u', s.as_bytes().to_vec()),
            Self::UriRef(s) => (b'r', s.as_bytes().to_vec()),
            Self::Time(s, n) => (
                b'T',
                [s.to_be_bytes().as_slice(), &n.to_be_bytes()].concat(),
            ),
        }
    }
}

/// A payload, kept exactly (rule a04).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Says that the producer gave text, so readers get text back.
    pub is_text: bool,
}

/// The envelope of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Producer's id, unique with `source` within a tenant (rule a01).
    pub id: String,
    /// Producer.
    pub source: String,
    /// Kind of event.
    pub kind: String,
    /// Always `1.0`.
    pub spec_version: String,
    /// Optional and extension attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// Payload, if any.
    pub payload: Option<Payload>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    v: String,
    a: BTreeMap<String, Attribute>,
}

/// The only version of the CloudEvents specification that is spoken.
pub const SPEC_VERSION: &str = "1.0";

impl Envelope {
    /// Makes an envelope of Weir's own with a JSON payload.
    #[must_use]
    pub fn json(id: String, source: &str, kind: &str, payload: String) -> Self {
        let mut attributes = BTreeMap::new();
        attributes.insert(
            "datacontenttype".to_owned(),
            Attribute::Text("application/json".to_owned()),
        );
        Self {
            id,
            source: source.to_owned(),
            kind: kind.to_owned(),
            spec_version: SPEC_VERSION.to_owned(),
            attributes,
            payload: Some(Payload {
                bytes: payload.into_bytes(),
                is_text: true,
            }),
        }
    }

    /// Returns an attribute's text.
    #[must_use]
    pub fn text_attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Attribute::as_text)
    }

    /// Returns the payload's size in bytes.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.payload.as_ref().map_or(0, |p| p.bytes.len())
    }

    /// Checks names and sizes (rule a05). `max_payload` is in bytes.
    #[must_use]
    pub fn violations(&self, max_payload: usize) -> Vec<Violation> {
        let mut out = Vec::new();
        let mut check = |r: Result<(), Violation>| out.extend(r.err());
        check(limits::identifier("event.id", &self.id, MAX_IDENTIFIER));
        check(limits::identifier(
            "event.source",
            &self.source,
            MAX_IDENTIFIER,
        ));
        check(limits::identifier("event.type", &self.kind, MAX_IDENTIFIER));
        if self.spec_version != SPEC_VERSION {
            check(Err(Violation::new(
                "event.spec_version",
                "is not `1.0`, the only version spoken",
            )));
        }
        if self.attributes.len() > MAX_ATTRIBUTES {
            check(Err(Violation::new(
                "event.attributes",
                format!(
                    "has {} attributes, the limit is {MAX_ATTRIBUTES}",
                    self.attributes.len()
                ),
            )));
        }
        for (name, value) in &self.attributes {
            let field = format!("event.attributes.{}", limits::one_line(name, 64));
            let good = !name.is_empty()
                && name.len() <= 64
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            if !good {
                check(Err(Violation::new(
                    field,
                    "is not a name of 1 to 64 characters a-z and 0-9",
                )));
                continue;
            }
            if matches!(
                name.as_str(),
                "id" | "source" | "type" | "specversion" | "data"
            ) {
                check(Err(Violation::new(field, "has a field of its own")));
                continue;
            }
            if value.size() > MAX_ATTRIBUTE {
                check(Err(Violation::new(
                    field,
                    format!("is {} bytes, the limit is {MAX_ATTRIBUTE}", value.size()),
                )));
                continue;
            }
            if let Some(text) = value.as_text() {
                check(limits::optional_identifier(&field, text, MAX_ATTRIBUTE));
            }
        }
        if self.payload_len() > max_payload {
            check(Err(Violation::new(
                "event.data",
                format!(
                    "is {} bytes, the limit is {max_payload}",
                    self.payload_len()
                ),
            )));
        }
        out
    }

    /// Checks what only Weir may set (rule a06).
    #[must_use]
    pub fn reserved(&self) -> Vec<Violation> {
        let mut out = Vec::new();
        if is_core(&self.kind) {
            out.push(Violation::new(
                "event.type",
                "is reserved: `core` and `core.*` belong to weir",
            ));
        }
        if is_core(&self.source) {
            out.push(Violation::new(
                "event.source",
                "is reserved: `core` and `core.*` belong to weir",
            ));
        }
        if self.source.starts_with("work/") {
            out.push(Violation::new(
                "event.source",
                "is reserved: `work/…` belongs to what a work emits",
            ));
        }
        if self.id.starts_with("reroute/") {
            out.push(Violation::new(
                "event.id",
                "is reserved: `reroute/…` belongs to rerouted copies",
            ));
        }
        out
    }

    /// Returns the content digest (rule a01) for a scope, the keys as the producer gave them, and the
    /// Work and attempt it addressed.
    #[must_use]
    pub fn content(
        &self,
        scope: &str,
        given_keys: &[String],
        targets: (Option<WorkId>, i32),
    ) -> Uuid {
        let mut digest = ContentDigest::default();
        digest
            .field("scope", scope.as_bytes())
            .field("spec_version", self.spec_version.as_bytes())
            .field("type", self.kind.as_bytes());
        for (name, value) in &self.attributes {
            if matches!(name.as_str(), "traceparent" | "tracestate") {
                continue;
            }
            let (tag, bytes) = value.digest_bytes();
            digest
                .field("attribute", name.as_bytes())
                .field("kind", &[tag])
                .field("value", &bytes);
        }
        if let Some(payload) = &self.payload {
            digest.field("data", &payload.bytes);
        }
        if let (Some(work), attempt) = targets {
            digest
                .field("work", work.0.as_bytes())
                .field("attempt", &attempt.to_be_bytes());
        }
        let mut keys: Vec<&String> = given_keys.iter().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            digest.field("key", key.as_bytes());
        }
        digest.finish()
    }

    /// Encodes what is stored beside identity and payload.
    ///
    /// # Panics
    /// Never: strings and numbers always serialize.
    #[must_use]
    pub fn encode_attributes(&self) -> Vec<u8> {
        serde_json::to_vec(&Stored {
            v: self.spec_version.clone(),
            a: self.attributes.clone(),
        })
        .expect("strings and numbers always serialize")
    }

    /// Rebuilds an envelope from its stored parts.
    ///
    /// # Errors
    /// `attributes` is not what [`Self::encode_attributes`] wrote.
    pub fn decode(
        id: String,
        source: String,
        kind: String,
        attributes: &[u8],
        payload: Option<Payload>,
    ) -> Result<Self, serde_json::Error> {
        let stored: Stored = serde_json::from_slice(attributes)?;
        Ok(Self {
            id,
            source,
            kind,
            spec_version: stored.v,
            attributes: stored.a,
            payload,
        })
    }
}

/// Says whether a type or source belongs to Weir.
#[must_use]
pub fn is_core(name: &str) -> bool {
    name == "core" || name.starts_with("core.")
}

/// Checks a list of correlation keys (rule a05).
#[must_use]
pub fn key_violations(field: &str, keys: &[String]) -> Vec<Violation> {
    let mut out = Vec::new();
    if keys.len() > MAX_KEYS {
        out.push(Violation::new(
            field,
            format!("has {} keys, the limit is {MAX_KEYS}", keys.len()),
        ));
    }
    for (i, key) in keys.iter().enumerate().take(MAX_KEYS) {
        out.extend(limits::identifier(&format!("{field}[{i}]"), key, MAX_KEY).err());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Envelope {
        Envelope::json("1".into(), "demo", "issues.opened", "{}".into())
    }

    #[test]
    fn a01_content_covers_all_but_trace_context_and_key_order() {
        let base = event();
        let digest = |e: &Envelope, keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|k| (*k).to_owned()).collect();
            e.content("s", &keys, (None, 0))
        };
        let same = digest(&base, &["a", "b"]);
        assert_eq!(same, digest(&base, &["b", "a", "a"]));
        let mut traced = base.clone();
        traced
            .attributes
            .insert("traceparent".into(), Attribute::Text("00-1".into()));
        assert_eq!(same, digest(&traced, &["a", "b"]));
        let mut subject = base.clone();
        subject
            .attributes
            .insert("subject".into(), Attribute::Text("x".into()));
        assert_ne!(same, digest(&subject, &["a", "b"]));
        let mut data = base.clone();
        data.payload = Some(Payload {
            bytes: b"{ }".to_vec(),
            is_text: true,
        });
        assert_ne!(same, digest(&data, &["a", "b"]));
        assert_ne!(
            same,
            base.content("other", &["a".into(), "b".into()], (None, 0))
        );
    }

    #[test]
    fn a05_every_fault_is_named() {
        let mut bad = event();
        bad.id.clear();
        bad.attributes
            .insert("Bad-Name".into(), Attribute::Bool(true));
        bad.payload = Some(Payload {
            bytes: vec![0; 11],
            is_text: false,
        });
        let found: Vec<String> = bad
            .violations(10)
            .into_iter()
            .map(|v| format!("{} {}", v.field, v.description))
            .collect();
        assert_eq!(
            found,
            [
                "event.id is required",
                "event.attributes.Bad-Name is not a name of 1 to 64 characters a-z and 0-9",
                "event.data is 11 bytes, the limit is 10",
            ]
        );
    }

    #[test]
    fn a06_what_belongs_to_weir_is_refused() {
        for (id, source, kind) in [
            ("reroute/x", "s", "t"),
            ("1", "core.manual", "t"),
            ("1", "core", "t"),
            ("1", "s", "core.work.created"),
            ("1", "work/0199", "t"),
        ] {
            let e = Envelope {
                id: id.into(),
                source: source.into(),
                kind: kind.into(),
                ..event()
            };
            assert_eq!(e.reserved().len(), 1, "{id} {source} {kind}");
        }
        let fine = Envelope {
            source: "corelation".into(),
            kind: "cores.x".into(),
            ..event()
        };
        assert!(fine.reserved().is_empty());
    }

    #[test]
    fn attributes_read_back_with_their_types() {
        let mut e = event();
        e.attributes.insert("n".into(), Attribute::Int(7));
        e.attributes.insert("when".into(), Attribute::Time(1, 2));
        e.attributes
            .insert("raw".into(), Attribute::Bytes(vec![0, 255]));
        let back = Envelope::decode(
            e.id.clone(),
            e.source.clone(),
            e.kind.clone(),
            &e.encode_attributes(),
            e.payload.clone(),
        );
        assert_eq!(back.expect("what was written reads back"), e);
    }
}
