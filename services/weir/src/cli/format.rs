//! How values look to a person.

use chrono::{DateTime, SecondsFormat, Utc};
use prost_types::Timestamp;
use weir_proto::types::v1::{
    AttemptOutcome, Disposition, Event, InputState, PendingState, Policy, VerdictOutcome, WorkState,
};

/// A time in RFC 3339, UTC, to the millisecond; empty when unset.
pub(crate) fn time(timestamp: Option<Timestamp>) -> String {
    timestamp
        .and_then(|time| DateTime::<Utc>::from_timestamp(time.seconds, time.nanos.try_into().ok()?))
        .map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
        .unwrap_or_default()
}

/// Cuts a text to a cell.
pub(crate) fn short(text: &str, most: usize) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > most {
        line = line.chars().take(most.saturating_sub(1)).collect();
        line.push('…');
    }
    line
}

/// An enum's value without its prefix, lower-case; a number where this binary is too old for it.
macro_rules! word {
    ($name:ident, $type:ident, $prefix:literal) => {
        pub(crate) fn $name(value: i32) -> String {
            match $type::try_from(value) {
                Ok(_) if value == 0 => String::new(),
                Ok(known) => known
                    .as_str_name()
                    .trim_start_matches($prefix)
                    .to_lowercase(),
                Err(_) => value.to_string(),
            }
        }
    };
}

word!(disposition, Disposition, "DISPOSITION_");
word!(policy, Policy, "POLICY_");
word!(pending_state, PendingState, "PENDING_STATE_");
word!(work_state, WorkState, "WORK_STATE_");
word!(attempt_outcome, AttemptOutcome, "ATTEMPT_OUTCOME_");
word!(input_state, InputState, "INPUT_STATE_");
word!(verdict, VerdictOutcome, "VERDICT_OUTCOME_");

/// What became of an event, in a word or two.
pub(crate) fn status(event: &Event) -> String {
    match (&event.route, &event.pending) {
        (Some(route), _) => disposition(route.disposition),
        (None, Some(pending)) => format!("unrouted ({})", pending_state(pending.state)),
        (None, None) => "unrouted".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_proto::types::v1::{Pending, RouteRecord};

    #[test]
    fn values_look_like_the_words_of_the_documentation() {
        assert_eq!(disposition(2), "queue");
        assert_eq!(attempt_outcome(2), "failed_retryable");
        assert_eq!(attempt_outcome(0), "");
        assert_eq!(work_state(99), "99");
        assert_eq!(
            time(Some(Timestamp {
                seconds: 1,
                nanos: 2_000_000
            })),
            "1970-01-01T00:00:01.002Z"
        );
        assert_eq!(time(None), "");
        assert_eq!(short("a  b\nc", 10), "a b c");
        assert_eq!(short("abcdef", 4), "abc…");
    }

    #[test]
    fn an_event_says_what_became_of_it() {
        let mut event = Event::default();
        assert_eq!(status(&event), "unrouted");
        event.pending = Some(Pending {
            state: 2,
            ..Pending::default()
        });
        assert_eq!(status(&event), "unrouted (backoff)");
        event.route = Some(RouteRecord {
            disposition: 7,
            ..RouteRecord::default()
        });
        assert_eq!(status(&event), "unmatched");
    }
}
