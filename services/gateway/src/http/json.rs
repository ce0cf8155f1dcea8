//! The proto JSON mapping, from the same descriptors that reflection shows: field names in
//! lowerCamelCase, 64-bit integers as strings, enums by name.

use crate::Error;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, SerializeOptions};

/// Answers a message as JSON. Fields at their default are written too: a reader in a shell should see
/// `"deduplicated": false` rather than have to know that it was left out.
pub(crate) fn answer<M: Message>(status: StatusCode, name: &str, message: &M) -> Response {
    let message = dynamic(name, message);
    let mut body = Vec::new();
    let mut json = serde_json::Serializer::new(&mut body);
    let options = SerializeOptions::new().skip_default_fields(false);
    match message.serialize_with_options(&mut json, &options) {
        Ok(()) => {
            let mut response = (status, body).into_response();
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        // Only an `Any` of a foreign type cannot be written, and Weir keeps none.
        Err(error) => {
            tracing::error!(%error, message = name, "could not write an answer as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Reads a request message from a JSON body; an empty body is an empty message. Unknown fields are
/// refused, and both `requestId` and `request_id` are known.
///
/// # Errors
/// What is wrong and where; parser texts name places, never content.
pub(crate) fn read<M: Message + Default>(name: &str, body: &[u8]) -> Result<M, Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(M::default());
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let message = DynamicMessage::deserialize(descriptor(name), &mut json)
        .and_then(|message| json.end().map(|()| message))
        .map_err(|error| Error::field("body", format!("is not JSON of this call: {error}")))?;
    Ok(message
        .transcode_to()
        .expect("one descriptor set describes both"))
}

fn dynamic<M: Message>(name: &str, message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor(name));
    dynamic
        .transcode_from(message)
        .expect("one descriptor set describes both");
    dynamic
}

fn descriptor(name: &str) -> MessageDescriptor {
    weir_proto::DESCRIPTORS
        .get_message_by_name(name)
        .expect("the name is one of the contracts'")
}
