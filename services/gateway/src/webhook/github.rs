//! A GitHub delivery as an event (rule a07).

use crate::Error;
use crate::http::cloudevents::{content_type, data, is_json, media_type, text};
use http::HeaderMap;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::fmt;
use weir_proto::cloudevents::v1::CloudEvent;

/// Header that names the event.
const EVENT: &str = "x-github-event";
/// Header that names the delivery; the same when it is sent again.
const DELIVERY: &str = "x-github-delivery";

/// Makes the event of a delivery whose signature fits. The payload is the body, byte for byte.
///
/// # Errors
/// A form-encoded body, or no event name.
pub(crate) fn event(
    scope: &str,
    source: &str,
    headers: &HeaderMap,
    body: Vec<u8>,
) -> Result<CloudEvent, Error> {
    let sent_as = content_type(headers);
    if !sent_as.is_empty() && !is_json(&sent_as) {
        return Err(Error::UnsupportedMediaType(format!(
            "the webhook sends `{}`; set its content type to `application/json`",
            media_type(&sent_as)
        )));
    }
    let name = value(headers, EVENT)?.ok_or_else(|| Error::field(EVENT, "is required"))?;
    let id = match value(headers, DELIVERY)? {
        Some(delivery) => delivery.to_owned(),
        None => hex::encode(Sha256::digest(&body)),
    };
    let r#type = match action(&body) {
        Some(action) => format!("{name}.{action}"),
        None => name.to_owned(),
    };
    Ok(CloudEvent {
        id,
        source: format!("webhook/{scope}/{source}"),
        spec_version: "1.0".to_owned(),
        r#type,
        attributes: [("datacontenttype".to_owned(), text("application/json"))].into(),
        data: Some(data(body)),
    })
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Error> {
    match headers.get(name) {
        None => Ok(None),
        Some(value) => match value.to_str() {
            Ok("") => Ok(None),
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::field(name, "is not plain ASCII")),
        },
    }
}

/// Returns the text of the payload's `action`, if it is an object with one. Of several the last
/// counts, as it does to the handlers that read the payload later.
fn action(body: &[u8]) -> Option<String> {
    let Action(action) = serde_json::from_slice(body).ok()?;
    action.filter(|action| !action.is_empty())
}

struct Action(Option<String>);

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Find;
        impl<'de> Visitor<'de> for Find {
            type Value = Action;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Action, A::Error> {
                let mut action = None;
                // Names are read unparsed: one with a lone surrogate is no reason to stop.
                while let Some(name) = map.next_key::<&'de RawValue>()? {
                    if name.get() == "\"action\"" {
                        let value: &'de RawValue = map.next_value()?;
                        action = serde_json::from_str(value.get()).ok();
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Action(action))
            }
        }
        deserializer.deserialize_map(Find)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use weir_proto::cloudevents::v1::cloud_event::Data;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| {
                (
                    http::HeaderName::from_static(n),
                    HeaderValue::from_static(v),
                )
            })
            .collect()
    }

    #[test]
    fn a07_a_delivery_becomes_an_event_with_the_senders_id() {
        let body = br#"{"z":{"action":"no"},"action":"opened","n":1.0}"#;
        let sent = headers(&[
            (EVENT, "issues"),
            (DELIVERY, "d-1"),
            ("content-type", "application/json"),
        ]);
        let event = event("github", "main", &sent, body.to_vec()).expect("an event");
        assert_eq!(event.id, "d-1");
        assert_eq!(event.source, "webhook/github/main");
        assert_eq!(event.r#type, "issues.opened");
        let Some(Data::TextData(kept)) = event.data else {
            panic!("text")
        };
        assert_eq!(kept.as_bytes(), body);
    }

    #[test]
    fn a07_without_a_delivery_id_the_body_names_itself() {
        let event =
            event("s", "x", &headers(&[(EVENT, "push")]), b"{}".to_vec()).expect("an event");
        assert_eq!(
            event.id,
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        assert_eq!(event.r#type, "push");
    }

    #[test]
    fn only_a_text_action_counts() {
        for (body, expected) in [
            (r#"{"action":"a"}"#, Some("a")),
            (r#"{"\ud800":1,"action":"a","x":"\ud800"}"#, Some("a")),
            (r#"{"action":"a","action":"b"}"#, Some("b")),
            (r#"{"action":7}"#, None),
            (r#"{"action":""}"#, None),
            (r#"["action"]"#, None),
            (r#"{"action":"a""#, None),
            ("", None),
        ] {
            assert_eq!(action(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn a_form_is_refused_with_what_to_do() {
        let sent = headers(&[
            (EVENT, "push"),
            ("content-type", "application/x-www-form-urlencoded"),
        ]);
        let refused = event("s", "x", &sent, b"payload=%7B%7D".to_vec()).expect_err("refused");
        assert!(
            refused
                .to_string()
                .contains("set its content type to `application/json`")
        );
        let refused = event("s", "x", &headers(&[]), b"{}".to_vec()).expect_err("refused");
        assert_eq!(refused, Error::field(EVENT, "is required"));
    }
}
