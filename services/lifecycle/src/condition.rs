//! Conditions of a wait, as a caller names them and as readers are told (rule l10).

use std::fmt;

use weir_kernel::WorkId;
use weir_kernel::limits::one_line;

/// Longest part of a filter that words show, in bytes.
const SHOWN: usize = 200;

/// What a wait is won by, with the scope's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Any further input of the Work.
    Own,
    /// An accepted event.
    Event {
        /// Its scope.
        scope: String,
        /// Expression over it; empty: any.
        filter: String,
        /// The Work that emitted it; anybody when `None`.
        emitter: Option<WorkId>,
    },
    /// The end of another Work.
    Ended(WorkId),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("any further input of the work"),
            Self::Event {
                scope,
                filter,
                emitter,
            } => {
                write!(f, "an event of scope `{scope}`")?;
                if let Some(work) = emitter {
                    write!(f, " that work `{work}` emitted")?;
                }
                if !filter.is_empty() {
                    write!(f, " where `{}`", shown(filter))?;
                }
                Ok(())
            }
            Self::Ended(work) => write!(f, "the end of work `{work}`"),
        }
    }
}

/// A filter as one line: its line breaks are blanks to the expression, too.
fn shown(filter: &str) -> String {
    let line: Vec<&str> = filter.split_whitespace().collect();
    let line = line.join(" ");
    let cut = one_line(&line, SHOWN);
    if cut.len() < line.len() {
        format!("{cut} …")
    } else {
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn l10_conditions_are_told_in_one_line_each() {
        let work = WorkId(Uuid::nil());
        let event = |filter: &str, emitter| Condition::Event {
            scope: "ops".to_owned(),
            filter: filter.to_owned(),
            emitter,
        };
        assert_eq!(event("", None).to_string(), "an event of scope `ops`");
        let both = event("event.type == 'x'\n  && event.data.n > 1", Some(work)).to_string();
        assert_eq!(
            both,
            format!(
                "an event of scope `ops` that work `{work}` emitted where `event.type == 'x' && event.data.n > 1`"
            )
        );
        let long = event(&"é".repeat(500), None).to_string();
        assert!(long.len() < 240 && long.ends_with(" …`"), "{long}");
        assert_eq!(Condition::Own.to_string(), "any further input of the work");
        assert_eq!(
            Condition::Ended(work).to_string(),
            format!("the end of work `{work}`")
        );
    }
}
