//! The envelope of an event and instants, between the wire and the domain.
//!
//! Every service that accepts or answers events does it through here, so that a CloudEvent means the
//! same to each of them, and a payload comes back byte for byte (rule a04).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use prost_types::Timestamp;
use weir_kernel::Violation;
use weir_kernel::envelope::{Attribute, Envelope, Payload, SPEC_VERSION};
use weir_kernel::limits::one_line;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::cloud_event_attribute_value::Attr;
use weir_proto::cloudevents::v1::cloud_event::{CloudEventAttributeValue, Data};

/// The instants that a `google.protobuf.Timestamp` may hold: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const NANOS: std::ops::RangeInclusive<i32> = 0..=999_999_999;

/// Reads an envelope as a producer sends it. An empty `spec_version` is `1.0`. Only the form is
/// checked here; names and sizes are [`Envelope::violations`], what is reserved
/// [`Envelope::reserved`].
///
/// # Errors
/// What has no place in an envelope: a protobuf message as payload, whose bytes could not be kept, an
/// attribute without a value, an instant that is none. Fields are named as in a request that has the
/// envelope as `event`.
pub fn envelope_from_proto(event: CloudEvent) -> Result<Envelope, Vec<Violation>> {
    let mut violations = Vec::new();
    let mut attributes = BTreeMap::new();
    for (name, value) in event.attributes {
        match attribute(value) {
            Ok(value) => {
                attributes.insert(name, value);
            }
            Err(what) => {
                let field = format!("event.attributes.{}", one_line(&name, 64));
                violations.push(Violation::new(field, what));
            }
        }
    }
    let payload = match event.data {
        None => None,
        Some(Data::BinaryData(bytes)) => Some(Payload {
            bytes,
            is_text: false,
        }),
        Some(Data::TextData(text)) => Some(Payload {
            bytes: text.into_bytes(),
            is_text: true,
        }),
        Some(Data::ProtoData(_)) => {
            violations.push(Violation::new(
                "event.proto_data",
                "is not taken, as its exact bytes cannot be kept; send `binary_data` or `text_data`",
            ));
            None
        }
    };
    if !violations.is_empty() {
        // Attributes travel as a map, whose order changes from one reading to the next.
        violations.sort_by(|a, b| a.field.cmp(&b.field));
        return Err(violations);
    }
    let spec_version = if event.spec_version.is_empty() {
        SPEC_VERSION.to_owned()
    } else {
        event.spec_version
    };
    Ok(Envelope {
        id: event.id,
        source: event.source,
        kind: event.r#type,
        spec_version,
        attributes,
        payload,
    })
}

/// Writes an envelope as it was given: each attribute with its type, text as text, bytes as bytes.
pub fn envelope_to_proto(envelope: Envelope) -> CloudEvent {
    let attributes = envelope.attributes.into_iter().map(|(name, value)| {
        let attr = match value {
            Attribute::Bool(v) => Attr::CeBoolean(v),
            Attribute::Int(v) => Attr::CeInteger(v),
            Attribute::Text(v) => Attr::CeString(v),
            Attribute::Bytes(v) => Attr::CeBytes(v),
            Attribute::Uri(v) => Attr::CeUri(v),
            Attribute::UriRef(v) => Attr::CeUriRef(v),
            Attribute::Time(seconds, nanos) => Attr::CeTimestamp(Timestamp { seconds, nanos }),
        };
        (name, CloudEventAttributeValue { attr: Some(attr) })
    });
    CloudEvent {
        id: envelope.id,
        source: envelope.source,
        spec_version: envelope.spec_version,
        r#type: envelope.kind,
        attributes: attributes.collect(),
        data: envelope.payload.map(data),
    }
}

/// Writes a payload as it was given (rule a04).
pub fn data(payload: Payload) -> Data {
    if !payload.is_text {
        return Data::BinaryData(payload.bytes);
    }
    match String::from_utf8(payload.bytes) {
        Ok(text) => Data::TextData(text),
        // Text was UTF-8 when it was accepted; whatever it is now, its bytes are answered.
        Err(bytes) => Data::BinaryData(bytes.into_bytes()),
    }
}

/// Writes an instant of the database.
pub fn timestamp(at: DateTime<Utc>) -> Timestamp {
    // A leap second has up to two seconds of nanoseconds, which a Timestamp may not have.
    let nanos = at.timestamp_subsec_nanos().min(999_999_999);
    Timestamp {
        seconds: at.timestamp(),
        nanos: i32::try_from(nanos).unwrap_or(999_999_999),
    }
}

/// Writes a duration, cut to what the wire type can hold.
pub fn duration(value: std::time::Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: value.subsec_nanos().cast_signed(),
    }
}

fn attribute(value: CloudEventAttributeValue) -> Result<Attribute, &'static str> {
    Ok(match value.attr {
        None => return Err("has no value"),
        Some(Attr::CeBoolean(v)) => Attribute::Bool(v),
        Some(Attr::CeInteger(v)) => Attribute::Int(v),
        Some(Attr::CeString(v)) => Attribute::Text(v),
        Some(Attr::CeBytes(v)) => Attribute::Bytes(v),
        Some(Attr::CeUri(v)) => Attribute::Uri(v),
        Some(Attr::CeUriRef(v)) => Attribute::UriRef(v),
        Some(Attr::CeTimestamp(at))
            if SECONDS.contains(&at.seconds) && NANOS.contains(&at.nanos) =>
        {
            Attribute::Time(at.seconds, at.nanos)
        }
        Some(Attr::CeTimestamp(_)) => return Err("is not an instant of the years 1 to 9999"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(attr: Attr) -> CloudEventAttributeValue {
        CloudEventAttributeValue { attr: Some(attr) }
    }

    fn event(data: Option<Data>) -> CloudEvent {
        let attributes = [
            ("subject", Attr::CeString("a/b".into())),
            ("flag", Attr::CeBoolean(false)),
            ("count", Attr::CeInteger(-1)),
            ("raw", Attr::CeBytes(vec![0, 255])),
            ("dataschema", Attr::CeUri("http://x/y".into())),
            ("ref", Attr::CeUriRef("../y".into())),
            (
                "time",
                Attr::CeTimestamp(Timestamp {
                    seconds: -1,
                    nanos: 999_999_999,
                }),
            ),
        ];
        CloudEvent {
            id: "1".into(),
            source: "demo".into(),
            spec_version: "1.0".into(),
            r#type: "issues.opened".into(),
            attributes: attributes
                .into_iter()
                .map(|(n, a)| (n.to_owned(), value(a)))
                .collect(),
            data,
        }
    }

    #[test]
    fn a04_an_envelope_comes_back_as_it_was_given() {
        for data in [
            None,
            Some(Data::BinaryData(vec![0, 0xff, 0xfe, b'{'])),
            Some(Data::BinaryData(Vec::new())),
            Some(Data::TextData(
                "{\"a\":1,\"a\":18446744073709551615,\"b\":\"\\ud800\\u0000\"}\r\n".into(),
            )),
            Some(Data::TextData(String::new())),
        ] {
            let given = event(data);
            let envelope = envelope_from_proto(given.clone()).expect("it is well-formed");
            assert_eq!(envelope_to_proto(envelope), given);
        }
    }

    #[test]
    fn a04_a_message_as_payload_is_refused_because_its_bytes_cannot_be_kept() {
        let found = envelope_from_proto(event(Some(Data::ProtoData(prost_types::Any::default()))));
        let found = found.expect_err("a message was given");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].field, "event.proto_data");
        assert!(
            found[0].description.contains("`binary_data`"),
            "{}",
            found[0].description
        );
    }

    #[test]
    fn what_is_no_attribute_is_named() {
        let mut bad = event(None);
        bad.spec_version.clear();
        assert_eq!(
            envelope_from_proto(bad.clone())
                .expect("1.0 is meant")
                .spec_version,
            "1.0"
        );
        bad.attributes
            .insert("none".into(), CloudEventAttributeValue { attr: None });
        let never = Timestamp {
            seconds: i64::MAX,
            nanos: 0,
        };
        bad.attributes
            .insert("late".into(), value(Attr::CeTimestamp(never)));
        let found: Vec<String> = envelope_from_proto(bad)
            .expect_err("two are wrong")
            .into_iter()
            .map(|v| v.field)
            .collect();
        assert_eq!(found, ["event.attributes.late", "event.attributes.none"]);
    }
}
