//! Conditions: as text for the service, and what they come to in the model (rule r50).

use super::plan::{Attach, Cond, Datum, Draft, Kind, Seen, key};

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A bool.
    Is(bool),
    /// A field is missing: the route declines.
    Missing(&'static str),
    /// The route fails `handler_invalid`.
    Invalid,
}

/// What an expression can see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The event.
    pub(crate) kind: Kind,
    /// `event.data.n`.
    pub(crate) n: Option<i64>,
    /// `event.data.k`.
    pub(crate) k: Option<Datum>,
    /// The state of its Work, if it belongs to one.
    pub(crate) state: Option<&'a str>,
}

impl<'a> Facts<'a> {
    /// The facts of an event without Work.
    pub(crate) const fn of(draft: &Draft, state: Option<&'a str>) -> Self {
        Self {
            kind: draft.kind,
            n: draft.n,
            k: draft.k,
            state,
        }
    }
}

impl Cond {
    /// The expression.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Always => "true".to_owned(),
            Self::Never => "false".to_owned(),
            Self::IsType(kind) => format!("event.type == \"{}\"", kind.word()),
            Self::Big => "event.data.n > 1".to_owned(),
            Self::Number => "event.data.n".to_owned(),
            Self::Sum => "event.data.k + 1 > 1".to_owned(),
            Self::Missing => "event.data.missing == 1".to_owned(),
            Self::HasWork => "has(work.id)".to_owned(),
            Self::InState(seen) => format!("work.state == \"{}\"", seen.word()),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(a, b) => format!("({}) && ({})", a.text(), b.text()),
            Self::Or(a, b) => format!("({}) || ({})", a.text(), b.text()),
        }
    }

    /// What it comes to.
    pub(crate) fn value(&self, facts: Facts<'_>) -> Value {
        match self {
            Self::Always => Value::Is(true),
            Self::Never => Value::Is(false),
            Self::IsType(kind) => Value::Is(facts.kind == *kind),
            Self::Big => facts
                .n
                .map_or(Value::Missing("event.data.n"), |n| Value::Is(n > 1)),
            Self::Number => facts
                .n
                .map_or(Value::Missing("event.data.n"), |_| Value::Invalid),
            Self::Sum => match facts.k {
                None => Value::Missing("event.data.k"),
                Some(Datum::Number(k)) => Value::Is(k + 1 > 1),
                Some(Datum::Text(_)) => Value::Invalid,
            },
            Self::Missing => Value::Missing("event.data.missing"),
            Self::HasWork => Value::Is(facts.state.is_some()),
            Self::InState(seen) => in_state(*seen, facts),
            Self::Not(inner) => match inner.value(facts) {
                Value::Is(is) => Value::Is(!is),
                other => other,
            },
            Self::And(a, b) => absorbed(false, a.value(facts), b.value(facts)),
            Self::Or(a, b) => absorbed(true, a.value(facts), b.value(facts)),
        }
    }
}

fn in_state(seen: Seen, facts: Facts<'_>) -> Value {
    facts.state.map_or(Value::Missing("work.state"), |s| {
        Value::Is(s == seen.word())
    })
}

/// The logic of CEL: `absorbing` on one side is the result whatever the other side says; else an error wins.
fn absorbed(absorbing: bool, a: Value, b: Value) -> Value {
    let decisive = Value::Is(absorbing);
    match (a, b) {
        (a, b) if a == decisive || b == decisive => decisive,
        (Value::Is(_), b) => b,
        (a, _) => a,
    }
}

impl Attach {
    /// The expression.
    pub(crate) fn text(self) -> String {
        match self {
            Self::OfData => "\"k/\" + event.data.k".to_owned(),
            Self::Fixed(number) => format!("\"{}\"", key(number)),
        }
    }

    /// The key; none when the field is missing.
    ///
    /// # Errors
    /// A number cannot be added to a text.
    pub(crate) fn key(self, k: Option<Datum>) -> Result<Option<String>, NotText> {
        match (self, k) {
            (Self::Fixed(number), _) => Ok(Some(key(number))),
            (Self::OfData, None) => Ok(None),
            (Self::OfData, Some(Datum::Text(number))) => Ok(Some(key(number))),
            (Self::OfData, Some(Datum::Number(_))) => Err(NotText),
        }
    }
}

/// `event.data.k` is no text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotText;
