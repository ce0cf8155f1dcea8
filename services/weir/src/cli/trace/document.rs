//! An event in a file: the CloudEvents JSON format, or the request of a contract call.
//!
//! Both spellings are read, because both are at hand: what a producer sends (`specversion`, `data`)
//! and what `grpcurl -d` takes (`spec_version`, `text_data`). `data` keeps its text exactly.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;
use serde_json::value::RawValue;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::cloud_event_attribute_value::Attr;
use weir_proto::cloudevents::v1::cloud_event::{CloudEventAttributeValue, Data};

use super::super::input::{payload, text};

type Object<'a> = BTreeMap<String, &'a RawValue>;

/// An event, and what was given around it.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) scope: Option<String>,
    pub(crate) event: CloudEvent,
    pub(crate) keys: Vec<String>,
}

impl Document {
    /// Reads a document. The error is one line.
    pub(crate) fn parse(document: &str) -> Result<Self, String> {
        let object: Object<'_> =
            serde_json::from_str(document).map_err(|error| error.to_string())?;
        let Some(event) = object.get("event") else {
            return Ok(Self {
                scope: None,
                event: cloud_event(object)?,
                keys: Vec::new(),
            });
        };
        if let Some(name) = object
            .keys()
            .find(|name| !["scope", "event", "keys"].contains(&name.as_str()))
        {
            return Err(format!("unknown field `{name}` beside `event`"));
        }
        let inner: Object<'_> =
            serde_json::from_str(event.get()).map_err(|error| format!("in `event`: {error}"))?;
        let keys = match object.get("keys") {
            Some(keys) => {
                serde_json::from_str(keys.get()).map_err(|error| format!("in `keys`: {error}"))?
            }
            None => Vec::new(),
        };
        let scope = object
            .get("scope")
            .map(|scope| string("scope", scope))
            .transpose()?;
        Ok(Self {
            scope,
            event: cloud_event(inner)?,
            keys,
        })
    }
}

fn cloud_event(object: Object<'_>) -> Result<CloudEvent, String> {
    let mut event = CloudEvent {
        spec_version: "1.0".to_owned(),
        ..CloudEvent::default()
    };
    let mut data = None;
    for (name, value) in object {
        match name.as_str() {
            "id" => event.id = string(&name, value)?,
            "source" => event.source = string(&name, value)?,
            "type" => event.r#type = string(&name, value)?,
            "specversion" | "spec_version" | "specVersion" => {
                event.spec_version = string(&name, value)?
            }
            "text_data" | "textData" => event.data = Some(Data::TextData(string(&name, value)?)),
            "data_base64" | "binary_data" | "binaryData" => {
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(string(&name, value)?)
                    .map_err(|error| format!("`{name}` is not base64: {error}"))?;
                event.data = Some(payload(bytes));
            }
            "data" => data = Some(value),
            "attributes" => {
                return Err("give attributes beside `id`, not below `attributes`".to_owned());
            }
            _ => {
                let value = attribute(&name, value)?;
                event.attributes.insert(name, value);
            }
        }
    }
    if let Some(data) = data {
        // A text payload of another type than JSON is a string in the JSON format.
        let text = if is_json(&event) {
            data.get().to_owned()
        } else {
            string("data", data)?
        };
        event.data = Some(Data::TextData(text));
    }
    if event.id.is_empty() {
        event.id = super::ID.to_owned();
    }
    Ok(event)
}

fn is_json(event: &CloudEvent) -> bool {
    match event
        .attributes
        .get("datacontenttype")
        .and_then(|value| value.attr.as_ref())
    {
        Some(Attr::CeString(kind)) => {
            let kind = kind
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            kind.ends_with("/json") || kind.ends_with("+json")
        }
        _ => true,
    }
}

fn string(name: &str, value: &RawValue) -> Result<String, String> {
    serde_json::from_str(value.get()).map_err(|_| format!("`{name}` must be a string"))
}

fn attribute(name: &str, value: &RawValue) -> Result<CloudEventAttributeValue, String> {
    let refused = || format!("`{name}` must be a string, a boolean or an integer of 32 bits");
    let value: Value = serde_json::from_str(value.get()).map_err(|_| refused())?;
    match value {
        Value::String(value) => Ok(text(&value)),
        Value::Bool(value) => Ok(CloudEventAttributeValue {
            attr: Some(Attr::CeBoolean(value)),
        }),
        Value::Number(value) => {
            let number = value
                .as_i64()
                .and_then(|value| i32::try_from(value).ok())
                .ok_or_else(refused)?;
            Ok(CloudEventAttributeValue {
                attr: Some(Attr::CeInteger(number)),
            })
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_event_keeps_the_text_of_its_data() {
        let document = Document::parse(
            r#"{"specversion":"1.0","id":"7","source":"demo","type":"t","subject":"s","tries":3,"data":{"n": 1.0,"n":2}}"#,
        )
        .expect("a CloudEvent");
        assert_eq!(
            document.event.data,
            Some(Data::TextData(r#"{"n": 1.0,"n":2}"#.to_owned()))
        );
        assert_eq!(
            document.event.attributes["tries"].attr,
            Some(Attr::CeInteger(3))
        );
        assert_eq!(document.scope, None);
    }

    #[test]
    fn a_request_of_grpcurl_is_read_too() {
        let document = Document::parse(
            r#"{"scope":"github","event":{"source":"demo","spec_version":"1.0","type":"t","text_data":"{}"},"keys":["issue/1"]}"#,
        )
        .expect("a request");
        assert_eq!(document.scope.as_deref(), Some("github"));
        assert_eq!(document.keys, ["issue/1"]);
        assert_eq!(document.event.id, super::super::ID);
    }

    #[test]
    fn what_is_no_event_is_refused_with_its_place() {
        let refused = |text: &str| Document::parse(text).expect_err(text);
        assert!(refused("{").contains("line 1"), "{}", refused("{"));
        assert!(refused(r#"{"id":1}"#).contains("`id` must be a string"));
        assert!(refused(r#"{"event":{},"scopes":"x"}"#).contains("unknown field `scopes`"));
        assert!(refused(r#"{"x":[1]}"#).contains("`x` must be"));
        assert!(
            refused(r#"{"datacontenttype":"text/plain","data":{}}"#)
                .contains("`data` must be a string")
        );
    }
}
