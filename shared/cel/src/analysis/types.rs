//! What a condition asks of `event.type`.

use super::MAX_ALTERNATIVES;
use crate::{
    Value,
    functions::Function,
    node::{Node, Operator},
};

/// A set of event types.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypePattern {
    /// This one.
    Is(String),
    /// All that start so, end so and contain each of these; empty texts ask nothing.
    Like {
        /// How they start.
        starts: String,
        /// How they end.
        ends: String,
        /// What they contain; sorted, each once, none empty.
        contains: Vec<String>,
    },
}

impl TypePattern {
    /// Every type.
    #[must_use]
    pub fn any() -> Self {
        Self::like("", "", "")
    }

    fn like(starts: &str, ends: &str, contains: &str) -> Self {
        Self::Like {
            starts: starts.to_owned(),
            ends: ends.to_owned(),
            contains: Some(contains.to_owned())
                .filter(|text| !text.is_empty())
                .into_iter()
                .collect(),
        }
    }

    /// Whether it is every type.
    #[must_use]
    pub fn is_any(&self) -> bool {
        matches!(self, Self::Like { starts, ends, contains }
            if starts.is_empty() && ends.is_empty() && contains.is_empty())
    }

    /// Whether a type is in the set.
    #[must_use]
    pub fn fits(&self, event_type: &str) -> bool {
        match self {
            Self::Is(text) => text == event_type,
            Self::Like {
                starts,
                ends,
                contains,
            } => {
                event_type.starts_with(starts.as_str())
                    && event_type.ends_with(ends.as_str())
                    && contains
                        .iter()
                        .all(|part| event_type.contains(part.as_str()))
            }
        }
    }

    /// Whether every type of the other set is in this one. `false` also where it is not seen.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Is(text)) => self.fits(text),
            (Self::Is(_), _) => false,
            (
                Self::Like {
                    starts,
                    ends,
                    contains,
                },
                Self::Like {
                    starts: s,
                    ends: e,
                    contains: c,
                },
            ) => {
                let inside = |part: &String| {
                    [s, e]
                        .into_iter()
                        .chain(c)
                        .any(|text| text.contains(part.as_str()))
                };
                s.starts_with(starts.as_str())
                    && e.ends_with(ends.as_str())
                    && contains.iter().all(inside)
            }
        }
    }

    /// The types of both sets; `None` when there is none.
    fn and(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Is(text), set) | (set, Self::Is(text)) => {
                set.fits(text).then(|| Self::Is(text.clone()))
            }
            (
                Self::Like {
                    starts: s1,
                    ends: e1,
                    contains: c1,
                },
                Self::Like {
                    starts: s2,
                    ends: e2,
                    contains: c2,
                },
            ) => {
                let starts = if s1.starts_with(s2.as_str()) {
                    s1
                } else if s2.starts_with(s1.as_str()) {
                    s2
                } else {
                    return None;
                };
                let ends = if e1.ends_with(e2.as_str()) {
                    e1
                } else if e2.ends_with(e1.as_str()) {
                    e2
                } else {
                    return None;
                };
                let mut contains: Vec<String> = c1.iter().chain(c2).cloned().collect();
                contains.sort_unstable();
                contains.dedup();
                Some(Self::Like {
                    starts: starts.clone(),
                    ends: ends.clone(),
                    contains,
                })
            }
        }
    }
}

/// The types of both lists of sets; `None` when they are too many to keep.
pub(super) fn intersection(a: &[TypePattern], b: &[TypePattern]) -> Option<Vec<TypePattern>> {
    let mut both = Vec::new();
    for left in a {
        for right in b {
            if let Some(set) = left.and(right)
                && !both.contains(&set)
            {
                if both.len() == MAX_ALTERNATIVES {
                    return None;
                }
                both.push(set);
            }
        }
    }
    Some(both)
}

/// The types that can fulfil a condition, and whether it holds for exactly those.
pub(super) fn types_of(node: &Node) -> (Vec<TypePattern>, bool) {
    let unknown = || (vec![TypePattern::any()], false);
    match node {
        Node::Or(a, b) => {
            let ((mut a, exact_a), (b, exact_b)) = (types_of(a), types_of(b));
            a.extend(b);
            if a.len() > MAX_ALTERNATIVES {
                return unknown();
            }
            (a, exact_a && exact_b)
        }
        Node::And(a, b) => {
            let ((a, exact_a), (b, exact_b)) = (types_of(a), types_of(b));
            match intersection(&a, &b) {
                Some(both) => (both, exact_a && exact_b),
                None => unknown(),
            }
        }
        Node::If(parts) => {
            let [_, then, otherwise] = &**parts;
            let (mut types, _) = types_of(then);
            types.extend(types_of(otherwise).0);
            if types.len() > MAX_ALTERNATIVES {
                return unknown();
            }
            (types, false)
        }
        Node::Const(Value::Bool(true)) => (vec![TypePattern::any()], true),
        Node::Const(Value::Bool(false)) => (Vec::new(), true),
        Node::Binary(Operator::Equal, a, b) => match (&**a, &**b) {
            (this, Node::Const(Value::String(text))) | (Node::Const(Value::String(text)), this)
                if is_type(this) =>
            {
                (vec![TypePattern::Is(text.to_string())], true)
            }
            _ => unknown(),
        },
        Node::Binary(Operator::In, this, list) if is_type(this) => match &**list {
            Node::List(items) => one_of(items).map_or_else(unknown, |types| (types, true)),
            _ => unknown(),
        },
        Node::Call(function, arguments) => match (function, arguments.as_slice()) {
            (Function::StartsWith, [this, Node::Const(Value::String(text))]) if is_type(this) => {
                (vec![TypePattern::like(text, "", "")], true)
            }
            (Function::EndsWith, [this, Node::Const(Value::String(text))]) if is_type(this) => {
                (vec![TypePattern::like("", text, "")], true)
            }
            (Function::Contains, [this, Node::Const(Value::String(text))]) if is_type(this) => {
                (vec![TypePattern::like("", "", text)], true)
            }
            _ => unknown(),
        },
        // `matches` and all that negates says something, but nothing that is followed here.
        _ => unknown(),
    }
}

fn is_type(node: &Node) -> bool {
    matches!(node, Node::Select { of, field, .. } if matches!(**of, Node::Event) && field == "type")
}

fn one_of(items: &[Node]) -> Option<Vec<TypePattern>> {
    if items.len() > MAX_ALTERNATIVES {
        return None;
    }
    items
        .iter()
        .map(|item| match item {
            Node::Const(Value::String(text)) => Some(TypePattern::Is(text.to_string())),
            _ => None,
        })
        .collect()
}
