//! Binary mode: attributes in `ce-*` headers, the payload as the body, byte for byte.

use super::{attribute_name, content_type, data, required, set, text};
use crate::Error;
use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode;
use weir_kernel::Violation;
use weir_proto::cloudevents::v1::CloudEvent;

pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<CloudEvent, Error> {
    let mut event = CloudEvent::default();
    let mut violations = Vec::new();
    for name in headers.keys() {
        let Some(attribute) = name.as_str().strip_prefix("ce-") else {
            continue;
        };
        if let Err(violation) = add(&mut event, name.as_str(), attribute, headers) {
            violations.push(violation);
        }
    }
    let missing = required(&event, "ce-");
    // A header that could not be read is named once, not as missing too.
    violations.extend(
        missing
            .into_iter()
            .filter(|v| !headers.contains_key(&v.field)),
    );
    if !violations.is_empty() {
        return Err(Error::Invalid(violations));
    }
    let content_type = content_type(headers);
    if !content_type.is_empty() {
        event
            .attributes
            .insert("datacontenttype".to_owned(), text(content_type));
    }
    if !body.is_empty() {
        event.data = Some(data(body.to_vec()));
    }
    Ok(event)
}

fn add(
    event: &mut CloudEvent,
    header: &str,
    attribute: &str,
    headers: &HeaderMap,
) -> Result<(), Violation> {
    attribute_name(header, attribute)?;
    if attribute == "datacontenttype" {
        return Err(Violation::new(
            header,
            "is said by the header `content-type`",
        ));
    }
    let mut values = headers.get_all(header).iter();
    let value = values.next().expect("the name came from the map");
    if values.next().is_some() {
        return Err(Violation::new(header, "is given more than once"));
    }
    let value = decode(value).ok_or_else(|| Violation::new(header, "is not UTF-8"))?;
    if value.is_empty() {
        return Err(Violation::new(header, "is empty"));
    }
    set(event, header, attribute, value)
}

/// Decodes a header value as the binding says: quotes off, then one round of percent-decoding. A `%`
/// that starts no code stands for itself.
fn decode(value: &HeaderValue) -> Option<String> {
    let bytes = value.as_bytes();
    let bytes = match bytes {
        [b'"', inner @ .., b'"'] => unquote(inner),
        _ => bytes.to_vec(),
    };
    String::from_utf8(percent_decode(&bytes).collect()).ok()
}

fn unquote(inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next()),
            byte => out.push(*byte),
        }
    }
    out
}
