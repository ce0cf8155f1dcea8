//! Events as they are given on a command line or in a file.

use std::io::Read as _;

use clap::Args;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::CloudEventAttributeValue;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::cloudevents::v1::cloud_event::cloud_event_attribute_value::Attr;

use super::error::Failure;

/// The envelope and the payload of an event.
#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// Type of the event, such as issues.opened
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Producer's source
    #[arg(long, default_value = "demo")]
    pub(crate) source: String,
    /// What the event is about
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Payload: as text, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) data: Option<String>,
    /// Content type of the payload; JSON when not given
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
}

impl EventArgs {
    /// Builds the event.
    pub(crate) fn build(&self, id: &str) -> Result<CloudEvent, Failure> {
        let mut event = CloudEvent {
            id: id.to_owned(),
            source: self.source.clone(),
            spec_version: "1.0".to_owned(),
            r#type: self.kind.clone().unwrap_or_default(),
            ..CloudEvent::default()
        };
        for (name, value) in [
            ("subject", &self.subject),
            ("datacontenttype", &self.content_type),
        ] {
            if let Some(value) = value {
                event.attributes.insert(name.to_owned(), text(value));
            }
        }
        event.data = match &self.data {
            None => None,
            Some(given) => Some(payload(read(given)?)),
        };
        Ok(event)
    }
}

/// A string attribute.
pub(crate) fn text(value: &str) -> CloudEventAttributeValue {
    CloudEventAttributeValue {
        attr: Some(Attr::CeString(value.to_owned())),
    }
}

/// Bytes as text where they are text: both are kept exactly, and text can be read in answers.
pub(crate) fn payload(bytes: Vec<u8>) -> Data {
    match String::from_utf8(bytes) {
        Ok(text) => Data::TextData(text),
        Err(error) => Data::BinaryData(error.into_bytes()),
    }
}

/// Reads what `given` names: itself, the file after an `@`, or standard input for `-`.
pub(crate) fn read(given: &str) -> Result<Vec<u8>, Failure> {
    match given.strip_prefix('@') {
        Some(path) => file(path),
        None if given == "-" => file("-"),
        None => Ok(given.as_bytes().to_vec()),
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn file(path: &str) -> Result<Vec<u8>, Failure> {
    let read = if path == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| Failure::failed(format!("cannot read `{path}`: {error}")))
}

/// Reads a file that must be text.
pub(crate) fn text_file(path: &str) -> Result<String, Failure> {
    String::from_utf8(file(path)?)
        .map_err(|_| Failure::failed(format!("`{path}` is not UTF-8 text")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> EventArgs {
        EventArgs {
            kind: Some("issues.opened".to_owned()),
            source: "demo".to_owned(),
            subject: Some("octo/repo".to_owned()),
            data: Some(r#"{"a": 1}"#.to_owned()),
            content_type: None,
        }
    }

    #[test]
    fn an_event_is_built_with_its_payload_as_it_was_given() {
        let event = args().build("1").expect("plain text");
        assert_eq!(
            (event.id.as_str(), event.spec_version.as_str()),
            ("1", "1.0")
        );
        assert_eq!(event.data, Some(Data::TextData(r#"{"a": 1}"#.to_owned())));
        assert_eq!(event.attributes["subject"], text("octo/repo"));
        assert!(!event.attributes.contains_key("datacontenttype"));
    }

    #[test]
    fn bytes_that_are_no_text_stay_bytes() {
        assert_eq!(
            payload(vec![0xff, 0x00]),
            Data::BinaryData(vec![0xff, 0x00])
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let mut args = args();
        args.data = Some("@no/such/file.json".to_owned());
        let failure = args.build("1").expect_err("no such file");
        assert!(
            failure.lines()[0].contains("cannot read `no/such/file.json`"),
            "{failure:?}"
        );
    }
}
