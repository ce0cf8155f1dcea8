//! The id that ties the log lines of one request together.

use http::{HeaderMap, HeaderValue};
use uuid::Uuid;

use crate::headers::REQUEST_ID;

/// Longest id that is taken over from a caller, in bytes.
const MAX: usize = 128;

tokio::task_local! {
    pub(crate) static CURRENT: HeaderValue;
}

/// Returns the id of the request that the calling task answers, if it answers one.
pub fn request_id() -> Option<HeaderValue> {
    CURRENT.try_with(HeaderValue::clone).ok()
}

/// Takes over the id that came along, or makes one.
pub(crate) fn of(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        (1..=MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    given.cloned().unwrap_or_else(new)
}

/// Makes an id.
pub(crate) fn new() -> HeaderValue {
    HeaderValue::try_from(Uuid::now_v7().to_string()).expect("a UUID is ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_over_if_it_is_one() {
        let mut headers = HeaderMap::new();
        assert_eq!(of(&headers).len(), 36);
        headers.insert(REQUEST_ID, HeaderValue::from_static("mine-1"));
        assert_eq!(of(&headers), "mine-1");
        headers.insert(REQUEST_ID, HeaderValue::from_static("two words"));
        assert_eq!(of(&headers).len(), 36);
    }
}
