//! The CloudEvents HTTP binding: binary, structured and batched mode.
//!
//! Payload bytes are never re-encoded (rule a04): binary mode takes the body as it is, structured mode
//! cuts the value of `data` out of the JSON text. Whether an event is acceptable is routing's to say;
//! here a request is only taken apart, and refused where it cannot be.

mod binary;
mod structured;

use crate::Error;
use chrono::{DateTime, SecondsFormat, Utc};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use weir_kernel::{Violation, limits};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::cloud_event_attribute_value::Attr;
use weir_proto::cloudevents::v1::cloud_event::{CloudEventAttributeValue, Data};

/// How a request carries its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Attributes are `ce-*` headers, the body is the payload.
    Binary,
    /// The body is one event as JSON.
    Structured,
    /// The body is a JSON array of events.
    Batched,
}

impl Mode {
    /// Tells the mode from the media type.
    ///
    /// # Errors
    /// A CloudEvents media type that is not JSON, or a charset that is not UTF-8.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Error> {
        let content_type = content_type(headers);
        let media = media_type(&content_type);
        let mode = match media.as_str() {
            "application/cloudevents" | "application/cloudevents+json" => Self::Structured,
            "application/cloudevents-batch" | "application/cloudevents-batch+json" => Self::Batched,
            other if other.starts_with("application/cloudevents") => {
                return Err(Error::UnsupportedMediaType(format!(
                    "the event format `{other}` is not known; `application/cloudevents+json` is"
                )));
            }
            _ => return Ok(Self::Binary),
        };
        match charset(&content_type) {
            Some(charset) if !charset.eq_ignore_ascii_case("utf-8") => {
                Err(Error::UnsupportedMediaType(format!(
                    "the charset `{charset}` is not known; JSON events are UTF-8"
                )))
            }
            _ => Ok(mode),
        }
    }

    /// Returns how large a body may be so that its payload may be `max_payload` bytes.
    pub(crate) fn max_body(self, max_payload: usize) -> usize {
        match self {
            Self::Binary => max_payload,
            // Base64 grows by a third, escaped text up to twofold in practice; attributes on top.
            Self::Structured => 2 * max_payload + (64 << 10),
            Self::Batched => 2 * limits::MAX_BATCH_BYTES,
        }
    }
}

/// Reads one event.
///
/// # Errors
/// What is wrong, by header or by JSON field.
pub(crate) fn read(mode: Mode, headers: &HeaderMap, body: &[u8]) -> Result<CloudEvent, Error> {
    match mode {
        Mode::Binary => binary::read(headers, body),
        Mode::Structured | Mode::Batched => structured::read(body),
    }
}

/// Reads a batch.
///
/// # Errors
/// What is wrong, with fields like `[3].id`.
pub(crate) fn read_batch(body: &[u8]) -> Result<Vec<CloudEvent>, Error> {
    structured::read_batch(body)
}

/// Returns the size of a payload, in bytes.
pub(crate) fn payload_size(event: &CloudEvent) -> usize {
    match &event.data {
        Some(Data::BinaryData(bytes)) => bytes.len(),
        Some(Data::TextData(text)) => text.len(),
        Some(Data::ProtoData(any)) => any.value.len(),
        None => 0,
    }
}

/// Wraps payload bytes: as text where they are UTF-8, so that they stay readable; the bytes are the
/// same either way.
pub(crate) fn data(bytes: Vec<u8>) -> Data {
    match String::from_utf8(bytes) {
        Ok(text) => Data::TextData(text),
        Err(not_text) => Data::BinaryData(not_text.into_bytes()),
    }
}

/// Wraps a text attribute.
pub(crate) fn text(value: impl Into<String>) -> CloudEventAttributeValue {
    CloudEventAttributeValue {
        attr: Some(Attr::CeString(value.into())),
    }
}

/// Puts one attribute that came as text where it belongs.
fn set(event: &mut CloudEvent, field: &str, name: &str, value: String) -> Result<(), Violation> {
    match name {
        "id" => event.id = value,
        "source" => event.source = value,
        "type" => event.r#type = value,
        "specversion" => event.spec_version = value,
        "time" => {
            let attr = Attr::CeTimestamp(timestamp(field, &value)?);
            event.attributes.insert(
                name.to_owned(),
                CloudEventAttributeValue { attr: Some(attr) },
            );
        }
        "dataschema" => {
            let attr = Attr::CeUri(value);
            event.attributes.insert(
                name.to_owned(),
                CloudEventAttributeValue { attr: Some(attr) },
            );
        }
        _ => {
            event.attributes.insert(name.to_owned(), text(value));
        }
    }
    Ok(())
}

/// Checks the alphabet of attribute names: lower-case letters and digits, as the specification says.
fn attribute_name(field: &str, name: &str) -> Result<(), Violation> {
    if !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    {
        return Ok(());
    }
    Err(Violation::new(
        field,
        "is not an attribute name: those are of a-z and 0-9",
    ))
}

fn timestamp(field: &str, value: &str) -> Result<prost_types::Timestamp, Violation> {
    let time = DateTime::parse_from_rfc3339(value)
        .map_err(|_| {
            let now = DateTime::<Utc>::UNIX_EPOCH.to_rfc3339_opts(SecondsFormat::Secs, true);
            Violation::new(field, format!("is not a time like `{now}` (RFC 3339)"))
        })?
        .to_utc();
    Ok(prost_types::Timestamp {
        seconds: time.timestamp(),
        // A leap second is counted on as nanoseconds beyond the second; the wire knows none.
        nanos: i32::try_from(time.timestamp_subsec_nanos().min(999_999_999))
            .expect("less than a second"),
    })
}

/// Names what an event lacks, by the names that the sender knows.
fn required(event: &CloudEvent, prefix: &str) -> Vec<Violation> {
    [
        ("id", &event.id),
        ("source", &event.source),
        ("type", &event.r#type),
        ("specversion", &event.spec_version),
    ]
    .into_iter()
    .filter(|(_, value)| value.is_empty())
    .map(|(name, _)| Violation::new(format!("{prefix}{name}"), "is required"))
    .collect()
}

/// Says whether a media type declares JSON.
pub(crate) fn is_json(content_type: &str) -> bool {
    let media = media_type(content_type);
    media
        .split_once('/')
        .is_some_and(|(_, sub)| sub == "json" || sub.ends_with("+json"))
}

/// Returns the media type without parameters, in lower case.
pub(crate) fn media_type(content_type: &str) -> String {
    content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

fn charset(content_type: &str) -> Option<&str> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches('"'))
    })
}

/// Returns the content type, empty where there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    headers
        .get(CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
