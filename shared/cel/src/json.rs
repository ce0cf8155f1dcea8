//! A strict reader of JSON documents (rule r50): what two readers could understand differently is
//! not read at all.
//!
//! Refused: what is not JSON, nesting deeper than [`MAX_DEPTH`], a repeated key in any object, a
//! lone surrogate (it is no Unicode text), a number no double can hold, more than
//! [`MAX_ELEMENTS`] values. A NUL is a character like others and is kept. The payload itself is
//! untouched by this (rule a04): it is a reading for expressions only.

use std::{cell::Cell, fmt, sync::Arc};

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use super::value::{Key, Map, Value};

/// Deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 64;
/// Most values in one document, which bounds its memory at some 100 MiB. The default payload of
/// 1 MiB cannot hold as many.
pub const MAX_ELEMENTS: usize = 1_000_000;

/// Why a document was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("data is not readable as strict JSON: {0}")]
pub struct Unreadable(String);

/// Reads a document.
///
/// # Errors
/// [`Unreadable`], with the first cause.
pub fn read(bytes: &[u8]) -> Result<Value, Unreadable> {
    let left = Cell::new(MAX_ELEMENTS);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Node {
        depth: 0,
        left: &left,
    }
    .deserialize(&mut reader)
    .and_then(|value| reader.end().map(|()| value))
    .map_err(|error| Unreadable(describe(&error)))?;
    Ok(value)
}

/// The error without the words of the document: only our own texts and the class survive.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.starts_with(NESTED) || text.starts_with(REPEATED) || text.starts_with(CROWDED) {
        text
    } else {
        format!(
            "syntax error at line {} column {}",
            error.line(),
            error.column()
        )
    }
}

const NESTED: &str = "nested deeper than 64";
const REPEATED: &str = "a key is repeated";
const CROWDED: &str = "more than 1000000 values";

#[derive(Clone, Copy)]
struct Node<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Node<'_> {
    fn child<E: serde::de::Error>(self) -> Result<Self, E> {
        // Checked on entry of the container, before anything recursive runs.
        if self.depth == MAX_DEPTH {
            return Err(E::custom(NESTED));
        }
        Ok(Self {
            depth: self.depth + 1,
            left: self.left,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return Err(D::Error::custom(CROWDED)),
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::integer(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // The reader hands an integer past 64 bits over as a rounded double. From here on it
        // cannot be told from a double of that size, so neither is trusted with its digits.
        const UINT_END: f64 = 18_446_744_073_709_551_616.0;
        const INT_START: f64 = -9_223_372_036_854_775_808.0;
        if value >= UINT_END || value <= INT_START {
            return Ok(Value::OutOfRange);
        }
        Ok(Value::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let child = self.child()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(child)? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(Value::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let child = self.child()?;
        let mut pairs = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            pairs.push((Key::String(Arc::from(key)), map.next_value_seed(child)?));
        }
        pairs.shrink_to_fit();
        let map = Map::new(pairs).map_err(|_| A::Error::custom(REPEATED))?;
        Ok(Value::Map(Arc::new(map)))
    }
}
