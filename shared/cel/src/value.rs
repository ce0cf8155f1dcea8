//! The values an expression works with.
//!
//! They are our own and not those of the `cel` crate: an integer of a JSON document is an `int`
//! here (the crate makes it a `uint`, so `event.data.n + 1` would be a type error), a number that
//! no 64 bit type holds keeps a type of its own instead of losing digits, and cloning any value
//! is one reference count.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

/// A value of an expression. Cloning is cheap: whatever is large is shared.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The absence of a value, `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed 64 bit integer; every JSON integer that fits is one.
    Int(i64),
    /// An unsigned 64 bit integer: a literal like `1u`, or a JSON integer above the signed range.
    Uint(u64),
    /// A double.
    Double(f64),
    /// A JSON number outside every 64 bit integer range. Its digits are not known to be exact, so
    /// comparing it or computing with it is a type error rather than a wrong answer.
    OutOfRange,
    /// Text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map.
    Map(Arc<Map>),
    /// An instant.
    Timestamp(DateTime<Utc>),
    /// A length of time.
    Duration(TimeDelta),
    /// A type, as `type(x)` answers it.
    Type(&'static str),
}

impl Value {
    /// Makes a text value.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::String(Arc::from(text))
    }

    /// Makes a list value.
    #[must_use]
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(items))
    }

    /// Makes an integer value of the narrower kind: `int` when it fits.
    #[must_use]
    pub fn integer(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Uint(value), Self::Int)
    }

    /// The name of the value's type, as CEL spells it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::OutOfRange => "number_out_of_range",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
        }
    }
}

/// A key of a map. An unsigned integer that fits the signed range is kept as `Int`, because the
/// two are equal in CEL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above the signed range.
    Uint(u64),
    /// Text.
    String(Arc<str>),
}

impl Key {
    /// The key that a value stands for, if it can be one.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(b) => Some(Self::Bool(*b)),
            Value::Int(n) => Some(Self::Int(*n)),
            Value::Uint(n) => Some(i64::try_from(*n).map_or(Self::Uint(*n), Self::Int)),
            Value::String(s) => Some(Self::String(Arc::clone(s))),
            _ => None,
        }
    }

    /// The key as a value, which is what iterating a map yields.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(n) => Value::Int(*n),
            Self::Uint(n) => Value::Uint(*n),
            Self::String(s) => Value::String(Arc::clone(s)),
        }
    }
}

/// A map, kept as sorted pairs: a document of many small objects costs a fifth of what a tree per
/// object would, and iteration has one order everywhere, so that a decision can be repeated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<(Key, Value)>);

impl Map {
    /// Makes a map of pairs in any order.
    ///
    /// # Errors
    /// The key that occurs twice.
    pub fn new(mut pairs: Vec<(Key, Value)>) -> Result<Self, Key> {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        match pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[0].0.clone()),
            None => Ok(Self(pairs)),
        }
    }

    /// Makes a map of fields, of which a later one loses to an earlier one of the same name.
    pub(super) fn of_fields(fields: Vec<(&str, Value)>) -> Self {
        let mut pairs: Vec<_> = fields
            .into_iter()
            .map(|(k, v)| (Key::String(Arc::from(k)), v))
            .collect();
        // The sort is stable, so the first of equal names stays first and survives.
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, first| later.0 == first.0);
        Self(pairs)
    }

    /// The value under a field name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        let found = self.0.binary_search_by(|(key, _)| match key {
            Key::String(s) => (**s).cmp(name),
            // The variants order before text, as the derived order has it.
            Key::Bool(_) | Key::Int(_) | Key::Uint(_) => std::cmp::Ordering::Less,
        });
        found.ok().map(|at| &self.0[at].1)
    }

    /// The value under a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.0
            .binary_search_by(|(k, _)| k.cmp(key))
            .ok()
            .map(|at| &self.0[at].1)
    }

    /// The pairs, ordered by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Key, Value)> {
        self.0.iter()
    }

    /// How many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
