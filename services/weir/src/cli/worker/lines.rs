//! Lines of a program that may print anything.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Longest line kept, in bytes; the rest of a longer one is thrown away.
const MAX_LINE: usize = 64 << 10;

/// Returns the next line without its end; none at the end of the output, or when it cannot be read.
///
/// # Cancel safety
/// A line that was begun is lost when it is dropped.
pub(super) async fn next_line<R: AsyncBufRead + Unpin>(reader: &mut R) -> Option<String> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let chunk = reader.fill_buf().await.ok()?;
        if chunk.is_empty() {
            return any.then(|| text(&line));
        }
        any = true;
        let (part, used, ended) = match chunk.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&chunk[..end], end + 1, true),
            None => (chunk, chunk.len(), false),
        };
        let room = MAX_LINE.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        reader.consume(used);
        if ended {
            return Some(text(&line));
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .trim_end_matches('\r')
        .to_owned()
}

/// Reads an acknowledgement: `{"ack":"<uid>"}`.
pub(super) fn acknowledged(line: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ack {
        ack: String,
    }
    serde_json::from_str::<Ack>(line.trim())
        .ok()
        .map(|line| line.ack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    #[tokio::test]
    async fn lines_are_bounded_and_the_last_needs_no_end() {
        let long = "x".repeat(MAX_LINE + 10);
        let text = format!("one\r\n\n{long}\nlast");
        let mut reader = BufReader::new(text.as_bytes());
        assert_eq!(next_line(&mut reader).await.as_deref(), Some("one"));
        assert_eq!(next_line(&mut reader).await.as_deref(), Some(""));
        assert_eq!(
            next_line(&mut reader).await.map(|line| line.len()),
            Some(MAX_LINE)
        );
        assert_eq!(next_line(&mut reader).await.as_deref(), Some("last"));
        assert_eq!(next_line(&mut reader).await, None);
    }

    #[test]
    fn only_an_acknowledgement_is_one() {
        assert_eq!(
            acknowledged(r#" {"ack": "0199"} "#).as_deref(),
            Some("0199")
        );
        assert_eq!(acknowledged(r#"{"ack": 1}"#), None);
        assert_eq!(acknowledged(r#"{"ack": "0199", "more": 1}"#), None);
        assert_eq!(acknowledged("ack 0199"), None);
    }
}
