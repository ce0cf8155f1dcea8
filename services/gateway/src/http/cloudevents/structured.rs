//! Structured and batched mode: events as JSON, with `data` cut out of the text as it stands.

use super::{attribute_name, data, is_json, required, set, text};
use crate::Error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use weir_kernel::{Violation, limits};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::CloudEventAttributeValue;
use weir_proto::cloudevents::v1::cloud_event::cloud_event_attribute_value::Attr;

/// The members of a JSON object in order, values unparsed, names unique.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event as a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.iter().any(|(known, _)| *known == name) {
                        let name: String = name.chars().take(64).collect();
                        return Err(A::Error::custom(format!("`{name}` is given twice")));
                    }
                    // Bounded here, because the search above is quadratic in it.
                    if members.len() == 2 * limits::MAX_ATTRIBUTES {
                        return Err(A::Error::custom("an event has too many attributes"));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

pub(super) fn read(body: &[u8]) -> Result<CloudEvent, Error> {
    let members = serde_json::from_slice::<Members<'_>>(body).map_err(not_json)?;
    event(members, "").map_err(Error::Invalid)
}

pub(super) fn read_batch(body: &[u8]) -> Result<Vec<CloudEvent>, Error> {
    let items = serde_json::from_slice::<Vec<&RawValue>>(body).map_err(not_json)?;
    if items.len() > limits::MAX_BATCH_EVENTS {
        let (size, limit) = (items.len(), limits::MAX_BATCH_EVENTS);
        return Err(Error::field(
            "events",
            format!("are {size}, the limit is {limit}"),
        ));
    }
    let mut events = Vec::with_capacity(items.len());
    let mut violations = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let read = serde_json::from_str::<Members<'_>>(item.get())
            .map_err(|error| vec![Violation::new(format!("[{index}]"), reason(&error))])
            .and_then(|members| event(members, &format!("[{index}].")));
        match read {
            Ok(event) => events.push(event),
            Err(found) => violations.extend(found),
        }
        // Enough to see what is wrong; a batch of a thousand broken events is not listed whole.
        if violations.len() >= 32 {
            break;
        }
    }
    if violations.is_empty() {
        Ok(events)
    } else {
        Err(Error::Invalid(violations))
    }
}

fn not_json(error: serde_json::Error) -> Error {
    Error::field("body", reason(&error))
}

/// Says where JSON breaks. The parser's texts name characters and places, never content.
fn reason(error: &serde_json::Error) -> String {
    format!("is not a JSON event: {error}")
}

fn event(members: Members<'_>, prefix: &str) -> Result<CloudEvent, Vec<Violation>> {
    let mut event = CloudEvent::default();
    let mut violations = Vec::new();
    let mut payload: Option<(&str, &RawValue)> = None;
    for (name, value) in &members.0 {
        let field = format!("{prefix}{name}");
        let outcome = match name.as_str() {
            "data" | "data_base64" => match payload.replace((name, value)) {
                Some((other, _)) => {
                    Err(Violation::new(field, format!("is given beside `{other}`")))
                }
                None => Ok(()),
            },
            _ => attribute(&mut event, &field, name, value.get()),
        };
        violations.extend(outcome.err());
    }
    if let Err(violation) = put_data(&mut event, prefix, payload) {
        violations.push(violation);
    }
    for missing in required(&event, prefix) {
        if violations.iter().all(|known| known.field != missing.field) {
            violations.push(missing);
        }
    }
    if violations.is_empty() {
        Ok(event)
    } else {
        Err(violations)
    }
}

/// Reads one attribute: text, a truth value or a 32-bit integer; null is an absent one.
fn attribute(event: &mut CloudEvent, field: &str, name: &str, json: &str) -> Result<(), Violation> {
    attribute_name(field, name)?;
    let known = matches!(
        name,
        "id" | "source"
            | "type"
            | "specversion"
            | "time"
            | "subject"
            | "dataschema"
            | "datacontenttype"
    );
    let attr = match json.as_bytes().first() {
        Some(b'n') => return Ok(()),
        Some(b'"') => {
            let value = serde_json::from_str(json)
                .map_err(|_| Violation::new(field, "is not text: it has a lone surrogate"))?;
            return set(event, field, name, value);
        }
        _ if known => return Err(Violation::new(field, "is not a string")),
        Some(b't' | b'f') => Attr::CeBoolean(json == "true"),
        _ => match json.parse() {
            Ok(integer) => Attr::CeInteger(integer),
            Err(_) => {
                return Err(Violation::new(
                    field,
                    "is not a string, a truth value or a 32-bit integer",
                ));
            }
        },
    };
    event.attributes.insert(
        name.to_owned(),
        CloudEventAttributeValue { attr: Some(attr) },
    );
    Ok(())
}

/// Puts the payload in. JSON stays the text it is. Text of another media type is what the JSON string
/// says, because there the string is only its envelope.
fn put_data(
    event: &mut CloudEvent,
    prefix: &str,
    payload: Option<(&str, &RawValue)>,
) -> Result<(), Violation> {
    let Some((name, value)) = payload else {
        return Ok(());
    };
    let field = format!("{prefix}{name}");
    let json = value.get();
    if name == "data_base64" {
        let encoded: String = serde_json::from_str(json)
            .map_err(|_| Violation::new(field.clone(), "is not a string"))?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| Violation::new(field, "is not base64"))?;
        event.data = Some(data(bytes));
        return Ok(());
    }
    let declared = event
        .attributes
        .get("datacontenttype")
        .and_then(|v| match &v.attr {
            Some(Attr::CeString(media)) => Some(media.clone()),
            _ => None,
        });
    let bytes = match declared {
        Some(media) if !is_json(&media) && json.starts_with('"') => {
            serde_json::from_str::<String>(json).map_err(|_| {
                Violation::new(
                    field,
                    "is not text: it has a lone surrogate; use `data_base64`",
                )
            })?
        }
        Some(_) => json.to_owned(),
        None => {
            // The JSON format implies it, and it would be lost with the envelope.
            event
                .attributes
                .insert("datacontenttype".to_owned(), text("application/json"));
            json.to_owned()
        }
    };
    event.data = Some(data(bytes.into_bytes()));
    Ok(())
}
