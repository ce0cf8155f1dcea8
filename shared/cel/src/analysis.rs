//! What can be said of an expression without any event: whether a condition is constant, which
//! types of events can fulfil it, and which of its names no event and no Work ever has.
//!
//! Everything here is sound in one direction and says which: a condition called [`Known::Never`]
//! never holds, but one that never holds need not be found out.

mod canonical;
mod types;

use std::collections::BTreeSet;

use canonical::{canonical, opposite};
pub use types::TypePattern;
use types::types_of;

use super::{
    EventFacts, Facts, Program, Value, error::EvalError, eval, facts::ATTRIBUTES, node::Node,
};

/// Most alternatives of types that one case keeps; past that the condition counts as one that
/// says nothing about the type.
const MAX_ALTERNATIVES: usize = 128;
/// What every event has.
const ALWAYS: [&str; 8] = [
    "id",
    "source",
    "type",
    "spec_version",
    "scope",
    "keys",
    "depth",
    "ext",
];
/// What a Work can have.
pub(super) const WORK: [&str; 7] = [
    "id",
    "state",
    "keys",
    "attempts",
    "created_at",
    "binding",
    "held_reason",
];
/// Longest name of an extension attribute, in bytes.
const MAX_EXTENSION: usize = 64;

/// What a condition is for every event alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It holds, or the evaluation passes a limit: nothing gets past it.
    Always,
    /// It does not hold.
    Never,
    /// It has no value, or one that is no bool: a route's event fails `handler_invalid`.
    Fails,
}

/// A condition taken apart at its outer `||`: it holds exactly when one of its cases does, apart
/// from evaluations that fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is for every event, if that can be told.
    pub known: Option<Known>,
    /// The cases that can hold; none when it never does or always fails.
    pub cases: Vec<Case>,
}

/// One way to fulfil a condition: the event's type is one of `types` **and** everything of `rest`
/// holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The types that can; never empty. [`TypePattern::any`] where nothing is asked of the type.
    pub types: Vec<TypePattern>,
    /// What else is asked, each in a canonical form: equal texts are equal conditions. Sorted,
    /// each once.
    pub rest: Vec<String>,
}

impl Case {
    /// Whether the case says which types it takes.
    #[must_use]
    pub fn constrains_type(&self) -> bool {
        !self.types.iter().any(TypePattern::is_any)
    }
}

impl Program {
    /// Takes the expression apart as a condition.
    #[must_use]
    pub fn condition(&self) -> Condition {
        let node = &self.0.node;
        if is_closed(node) && fold(node).is_none() {
            // It has a value, or none, that no event changes.
            let known = match value(node) {
                Err(EvalError::Missing { .. }) => Known::Never,
                _ => Known::Fails,
            };
            return Condition {
                known: Some(known),
                cases: Vec::new(),
            };
        }
        let mut disjuncts = Vec::new();
        flatten(node, true, &mut disjuncts);
        let cases: Vec<Case> = disjuncts.into_iter().filter_map(case).collect();
        let known = if cases.is_empty() {
            Some(Known::Never)
        } else if cases
            .iter()
            .any(|case| case.rest.is_empty() && !case.constrains_type())
        {
            Some(Known::Always)
        } else {
            None
        };
        Condition { known, cases }
    }

    /// Whether it looks at `work`.
    #[must_use]
    pub fn reads_work(&self) -> bool {
        let mut reads = false;
        visit(&self.0.node, &mut |node| {
            reads |= matches!(node, Node::Work);
        });
        reads
    }

    /// The fields of `event` and `work` it names that none ever has: `work.stat`,
    /// `event.event_type`. An extension attribute can have any name of `a-z` and `0-9`, so a
    /// misspelt `event.typ` is not among them. Sorted, each once.
    #[must_use]
    pub fn undeclared(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        visit(&self.0.node, &mut |node| {
            if let Some((root, field)) = field_of(node)
                && !exists(root, field)
            {
                found.insert(format!("{root}.{field}"));
            }
        });
        found.into_iter().collect()
    }
}

/// The field that a node takes of `event`, `event.ext` or `work`.
fn field_of(node: &Node) -> Option<(&'static str, &str)> {
    let (of, field) = match node {
        Node::Select { of, field, .. } | Node::Has { of, field } => (&**of, field.as_str()),
        Node::Index { of, at, .. } => match &**at {
            Node::Const(Value::String(field)) => (&**of, &**field),
            _ => return None,
        },
        _ => return None,
    };
    let root = match of {
        Node::Event => "event",
        Node::Work => "work",
        Node::Select { of, field, .. } if matches!(**of, Node::Event) && field == "ext" => {
            "event.ext"
        }
        _ => return None,
    };
    Some((root, field))
}

fn exists(root: &str, field: &str) -> bool {
    let extension = (1..=MAX_EXTENSION).contains(&field.len())
        && field
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && !matches!(field, "id" | "source" | "type" | "specversion" | "data");
    match root {
        "work" => WORK.contains(&field),
        "event" => ATTRIBUTES.contains(&field) || extension,
        _ => extension,
    }
}

fn case(disjunct: &Node) -> Option<Case> {
    let mut conjuncts = Vec::new();
    flatten(disjunct, false, &mut conjuncts);
    let mut types = vec![TypePattern::any()];
    let mut rest = BTreeSet::new();
    for conjunct in conjuncts {
        match fold(conjunct) {
            Some(true) => continue,
            Some(false) => return None,
            None => {}
        }
        let (may, exact) = types_of(conjunct);
        let both = types::intersection(&types, &may);
        match both {
            Some(both) => {
                types = both;
                if !exact {
                    rest.insert(canonical(conjunct));
                }
            }
            // Too many: what the conjunct asks of the type is left in words.
            None => {
                rest.insert(canonical(conjunct));
            }
        }
    }
    let contradictory = rest.iter().any(|one| rest.contains(&opposite(one)));
    (!types.is_empty() && !contradictory).then(|| Case {
        types,
        rest: rest.into_iter().collect(),
    })
}

/// The parts of a chain of `||` (or of `&&`).
fn flatten<'n>(node: &'n Node, or: bool, parts: &mut Vec<&'n Node>) {
    match node {
        Node::Or(a, b) if or => {
            flatten(a, or, parts);
            flatten(b, or, parts);
        }
        Node::And(a, b) if !or => {
            flatten(a, or, parts);
            flatten(b, or, parts);
        }
        other => parts.push(other),
    }
}

/// The value of a condition, when it is the same for every event. As in evaluation, either side of
/// a junction can decide alone.
fn fold(node: &Node) -> Option<bool> {
    match node {
        Node::And(a, b) => match (fold(a), fold(b)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Node::Or(a, b) => match (fold(a), fold(b)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Node::Not(of) => fold(of).map(|b| !b),
        Node::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            fold(if fold(condition)? { then } else { otherwise })
        }
        Node::Has { .. } => {
            let (root, field) = field_of(node)?;
            if root == "event" && ALWAYS.contains(&field) {
                return Some(true);
            }
            (!exists(root, field)).then_some(false)
        }
        _ if is_closed(node) => match value(node) {
            Ok(Value::Bool(b)) => Some(b),
            _ => None,
        },
        _ => None,
    }
}

/// Whether no event and no Work has a say in the value. Comprehensions do not count: their cost is
/// not bounded by their length.
fn is_closed(node: &Node) -> bool {
    let mut closed = true;
    visit(node, &mut |node| {
        closed &= !matches!(
            node,
            Node::Event | Node::Work | Node::Data | Node::HasData | Node::Local(_) | Node::Fold(_)
        );
    });
    closed
}

fn value(node: &Node) -> Result<Value, EvalError> {
    let facts = Facts::new(EventFacts::default(), None);
    eval::Evaluation::new(&facts).run(node)
}

/// Shows every node of a tree, whose depth is bounded when it is compiled.
fn visit(node: &Node, see: &mut impl FnMut(&Node)) {
    see(node);
    match node {
        Node::Const(_) | Node::Event | Node::Work | Node::Data | Node::Local(_) | Node::HasData => {
        }
        Node::Select { of, .. }
        | Node::Has { of, .. }
        | Node::Not(of)
        | Node::Negate(of)
        | Node::Matches(of, _) => visit(of, see),
        Node::Index { of, at, .. } => {
            visit(of, see);
            visit(at, see);
        }
        Node::And(a, b) | Node::Or(a, b) | Node::Binary(_, a, b) => {
            visit(a, see);
            visit(b, see);
        }
        Node::If(parts) => parts.iter().for_each(|part| visit(part, see)),
        Node::List(items) | Node::Call(_, items) => items.iter().for_each(|item| visit(item, see)),
        Node::Map(pairs) => {
            for (key, value) in pairs {
                visit(key, see);
                visit(value, see);
            }
        }
        Node::Fold(fold) => {
            visit(&fold.range, see);
            visit(&fold.body, see);
            if let super::node::FoldKind::Map(Some(condition)) = &fold.kind {
                visit(condition, see);
            }
        }
    }
}
