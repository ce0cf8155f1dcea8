//! The written rule for identifiers and sizes (rule a05), checked the same way everywhere.
//!
//! One rule for every identifier a caller gives (event id, source, type, subject, key, actor,
//! request id): UTF-8 of 1 to its limit in bytes, no control characters (so no NUL, no line break),
//! compared byte for byte: no case folding, no Unicode normalisation, by nobody.

use crate::Violation;

/// Longest event id, source or type, in bytes.
pub const MAX_IDENTIFIER: usize = 255;
/// Longest correlation key, in bytes.
pub const MAX_KEY: usize = 512;
/// Most keys of one event.
pub const MAX_KEYS: usize = 32;
/// Largest payload by default, in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// Most events of one batch.
pub const MAX_BATCH_EVENTS: usize = 1_000;
/// Largest batch: the sum of its payloads, in bytes.
pub const MAX_BATCH_BYTES: usize = 4 << 20;
/// Longest reason, error text or other free line a caller gives, in bytes.
pub const MAX_TEXT: usize = 4_096;
/// Most extension attributes of one event, and the longest value of one, in bytes.
pub const MAX_ATTRIBUTES: usize = 64;
/// Longest value of one extension attribute, in bytes.
pub const MAX_ATTRIBUTE: usize = 4_096;
/// Largest result of an attempt, in bytes.
pub const MAX_RESULT: usize = 64 << 10;
/// Most inputs that one claim presents (rule l04).
pub const MAX_CLAIM_INPUTS: usize = 100;
/// Most payload bytes that one claim presents (rule l04).
pub const MAX_CLAIM_BYTES: usize = 4 << 20;
/// Absolute bound on causal depth, also a CHECK of the event table.
pub const MAX_DEPTH: i16 = 1_024;

/// Checks an identifier of at most `max` bytes.
///
/// # Errors
/// The violation, naming `field`, the limit and the size.
pub fn identifier(field: &str, value: &str, max: usize) -> Result<(), Violation> {
    if value.is_empty() {
        return Err(Violation::new(field, "is required"));
    }
    optional_identifier(field, value, max)
}

/// Checks an identifier that may be empty.
///
/// # Errors
/// The violation, naming `field`, the limit and the size.
pub fn optional_identifier(field: &str, value: &str, max: usize) -> Result<(), Violation> {
    if value.len() > max {
        return Err(Violation::new(
            field,
            format!("is {} bytes, the limit is {max}", value.len()),
        ));
    }
    if let Some((at, c)) = value.char_indices().find(|(_, c)| c.is_control()) {
        let what = if c == '\0' {
            "NUL".to_owned()
        } else {
            format!("U+{:04X}", c as u32)
        };
        return Err(Violation::new(
            field,
            format!("has the control character {what} at byte {at}; identifiers have none"),
        ));
    }
    Ok(())
}

/// Checks free text (a reason, an error): bounded, without NUL, which the store cannot keep.
///
/// # Errors
/// The violation, naming `field`, the limit and the size.
pub fn text(field: &str, value: &str, max: usize) -> Result<(), Violation> {
    if value.len() > max {
        return Err(Violation::new(
            field,
            format!("is {} bytes, the limit is {max}", value.len()),
        ));
    }
    match value.find('\0') {
        Some(at) => Err(Violation::new(
            field,
            format!("has a NUL at byte {at}; text has none"),
        )),
        None => Ok(()),
    }
}

/// Checks free text that must say something.
///
/// # Errors
/// The violation, naming `field`, the limit and the size.
pub fn required_text(field: &str, value: &str, max: usize) -> Result<(), Violation> {
    if value.trim().is_empty() {
        return Err(Violation::new(field, "is required"));
    }
    text(field, value, max)
}

/// Cuts a text to its first line and at most `max` bytes, at a character boundary, and drops NUL.
#[must_use]
pub fn one_line(value: &str, max: usize) -> String {
    let line = value
        .lines()
        .find(|l| !l.trim().is_empty())
        .unwrap_or_default();
    let clean: String = line.chars().filter(|c| !c.is_control()).collect();
    cut(&clean, max).to_owned()
}

/// Cuts a text to at most `max` bytes at a character boundary.
#[must_use]
pub fn cut(value: &str, max: usize) -> &str {
    if value.len() <= max {
        return value;
    }
    let mut end = max;
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a05_a_violation_names_field_limit_and_size() {
        let long = "x".repeat(256);
        let v = identifier("event.id", &long, MAX_IDENTIFIER).expect_err("too long");
        assert_eq!(
            (v.field.as_str(), v.description.as_str()),
            ("event.id", "is 256 bytes, the limit is 255")
        );
        let v = identifier("event.id", "a\0b", MAX_IDENTIFIER).expect_err("NUL");
        assert!(v.description.contains("NUL at byte 1"), "{}", v.description);
        assert!(identifier("event.id", "é–日本", MAX_IDENTIFIER).is_ok());
        assert!(identifier("event.id", "", MAX_IDENTIFIER).is_err());
    }

    #[test]
    fn lines_are_cut_at_character_boundaries() {
        assert_eq!(one_line("\n  ä\0b\nsecond", 100), "  äb");
        assert_eq!(cut("ää", 3), "ä");
    }
}
