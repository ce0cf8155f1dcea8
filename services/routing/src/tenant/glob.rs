//! Globs on sources and types.

/// Whether a text fits a glob: `*` is any run of characters (`/` and `.` included, also none),
/// `?` any one character, everything else itself. At most `pattern × text` steps.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when the characters after the last star do not fit: the star takes one more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    (p, t) = (after, from + 1);
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a07_a_star_is_any_run_and_a_question_mark_one_character() {
        for (pattern, text) in [
            ("webhook/*/github", "webhook/root/github"),
            ("*", ""),
            ("**a*", "xxa"),
            ("issues.?pened", "issues.opened"),
            ("a*b*c", "a-b-b-c"),
            ("é?", "é日"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("webhook/*/github", "webhook/root/gitlab"),
            ("", "x"),
            ("?", ""),
            ("issues", "issues.opened"),
            ("a*b*c", "a-c-b"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a07_many_stars_take_no_exponential_time() {
        assert!(!matches(&"*a".repeat(127), &"a".repeat(126)));
        assert!(!matches(
            &format!("{}b", "*a".repeat(120)),
            &"a".repeat(255)
        ));
    }
}
