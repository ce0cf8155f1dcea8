//! Cuts a script into its statements.
//!
//! Needed for `-- no-transaction` files only: PostgreSQL runs several statements that arrive
//! together as one transaction, which is what such a file must avoid (`CREATE INDEX CONCURRENTLY`).
//! And a failure can then name the statement.

/// Returns the statements of a script, without the separators and without empty ones. Semicolons
/// inside quotes, dollar quotes and comments separate nothing.
pub(crate) fn statements(script: &str) -> Vec<&str> {
    let bytes = script.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at, mut empty) = (0, 0, true);
    while at < bytes.len() {
        let rest = &script[at..];
        let step = match bytes[at] {
            b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => comment(rest),
            b';' => {
                if !empty {
                    found.push(script[start..at].trim());
                }
                (start, empty) = (at + 1, true);
                1
            }
            byte if byte.is_ascii_whitespace() => 1,
            byte => {
                empty = false;
                match byte {
                    b'\'' => quoted(rest, b'\'', escapes(script, at)),
                    b'"' => quoted(rest, b'"', false),
                    b'$' if !follows_word(script, at) => dollar_quoted(rest),
                    _ => rest.chars().next().map_or(1, char::len_utf8),
                }
            }
        };
        at += step;
    }
    if !empty {
        found.push(script[start..].trim());
    }
    found
}

/// Length of a comment that may contain others.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of a quoted string or name; a doubled quote is seen as two strings in a row, which ends
/// at the same place.
fn quoted(text: &str, quote: u8, escapes: bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote {
            return at + 1;
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Says whether the string that begins at a quote is an `E'…'`.
fn escapes(script: &str, quote: usize) -> bool {
    quote > 0
        && matches!(script.as_bytes()[quote - 1], b'e' | b'E')
        && !follows_word(script, quote - 1)
}

fn follows_word(script: &str, at: usize) -> bool {
    at > 0 && is_word(script.as_bytes()[at - 1])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Length of a `$tag$ … $tag$` string, or of the sign alone.
fn dollar_quoted(text: &str) -> usize {
    let Some(end) = text[1..].find('$').map(|end| end + 2) else {
        return 1;
    };
    let tag = &text[..end];
    let name = &tag.as_bytes()[1..end - 1];
    if name.first().is_some_and(u8::is_ascii_digit) || !name.iter().all(|byte| is_word(*byte)) {
        return 1;
    }
    text[end..]
        .find(tag)
        .map_or(text.len(), |close| end + close + end)
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn statements_end_at_semicolons_outside_quotes_and_comments() {
        let script = "-- no-transaction; really\nSELECT ';', \"a;b\", 'it''s;' ; ;\n/* a; /* b; */ c; */\n\
                      DO $x$ BEGIN; $$;$$ END $x$;\nSELECT E'\\';', $1, é$a$;";
        assert_eq!(
            statements(script),
            [
                "-- no-transaction; really\nSELECT ';', \"a;b\", 'it''s;'",
                "/* a; /* b; */ c; */\nDO $x$ BEGIN; $$;$$ END $x$",
                "SELECT E'\\';', $1, é$a$",
            ]
        );
    }

    #[test]
    fn a_script_without_a_last_semicolon_or_without_anything_is_read() {
        assert_eq!(
            statements("SELECT 1;\nSELECT 2\n"),
            ["SELECT 1", "SELECT 2"]
        );
        assert_eq!(statements(" ; -- nothing\n"), Vec::<&str>::new());
        assert_eq!(statements("SELECT 'open; $$"), ["SELECT 'open; $$"]);
        assert_eq!(statements("SELECT $a$ open; "), ["SELECT $a$ open;"]);
    }
}
