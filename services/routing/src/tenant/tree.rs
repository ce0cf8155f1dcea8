//! A document as a tree in which every node knows its line and column.
//!
//! YAML and JSON go through the same reader, as JSON is YAML. A tree comes between the reader and
//! the model so that *all* problems can be reported, each with its place: a derived `Deserialize`
//! stops at the first and cannot say where a value of an inner struct stood.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::problem::{Problem, Severity};

/// Largest document, in bytes.
pub const MAX_DOCUMENT: usize = 1 << 20;
/// Deepest nesting of lists and maps. The model needs nine.
pub const MAX_NESTING: usize = 32;
/// Most nodes, after aliases are expanded; so an alias bomb ends here.
pub const MAX_NODES: usize = 200_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is no 64 bit integer; no field takes one.
    Number,
    Text(String),
    List(Vec<Located>),
    Map(Vec<(Spanned<String>, Located)>),
}

pub(super) type Located = Spanned<Tree>;

impl Tree {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Number => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Line and column of a node.
pub(super) fn place<T>(node: &Spanned<T>) -> (u32, u32) {
    let at = node.referenced;
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    (narrow(at.line()), narrow(at.column()))
}

/// Reads a text into a tree.
pub(super) fn read(text: &str) -> Result<Located, Problem> {
    let refuse = |line, column, message: String, reason| Problem {
        severity: Severity::Error,
        path: String::new(),
        line,
        column,
        message,
        reason,
    };
    if text.len() > MAX_DOCUMENT {
        let message = format!(
            "the document is {} bytes, the limit is {MAX_DOCUMENT}",
            text.len()
        );
        return Err(refuse(1, 1, message, "too_large"));
    }
    serde_saphyr::from_str_with_options::<Located>(text, options()).map_err(|error| {
        let error = error.without_snippet();
        let (line, column) = error.location().map_or((1, 1), |at| {
            (
                u32::try_from(at.line()).unwrap_or(u32::MAX),
                u32::try_from(at.column()).unwrap_or(u32::MAX),
            )
        });
        refuse(
            line,
            column,
            weir_kernel::limits::one_line(&error.to_string(), 300),
            "not_readable",
        )
    })
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_NESTING,
            flow_nesting_limit: MAX_NESTING,
            max_documents: 1,
            max_events: 2 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_aliases: 10_000,
            max_anchors: 10_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(i64::try_from(value).map_or(Tree::Number, Tree::Integer))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Tree, E> {
        Ok(Tree::Number)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Tree, E> {
        Ok(Tree::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Tree::Map(pairs))
    }
}
