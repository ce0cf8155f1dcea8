//! Texts in a tree, read into typed values.
//!
//! The environment has only texts, and only the type that is read knows which of them are numbers.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A variable of this service that it does not know.
    #[error("`{name}` is not a setting; the settings are: {known}")]
    Unknown {
        /// The variable.
        name: String,
        /// All variables.
        known: String,
    },
    /// A setting is given twice, by value and by file.
    #[error("`{name}` sets what another variable sets too")]
    Twice {
        /// The second variable.
        name: String,
    },
    /// A file that a variable names cannot be read.
    #[error("`{name}` names the file `{path}`, which cannot be read")]
    File {
        /// The variable.
        name: String,
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A value of the wrong form.
    #[error("`{name}`: {message}")]
    Value {
        /// The variable.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A combination that does not work.
    #[error("{0}")]
    Invalid(String),
}

impl ConfigError {
    fn at(self, name: &str) -> Self {
        match self {
            Self::Invalid(message) => Self::Value {
                name: name.to_owned(),
                message,
            },
            named => named,
        }
    }
}

impl serde::de::Error for ConfigError {
    fn custom<T: Display>(message: T) -> Self {
        Self::Invalid(message.to_string())
    }
}

/// A setting or a section.
#[derive(Debug)]
pub(crate) enum Node {
    /// A text and the variable it came from; none for the parts of a list.
    Text { name: String, text: String },
    /// A section.
    Section(BTreeMap<String, Node>),
}

impl Node {
    pub(crate) fn root() -> Self {
        Self::Section(BTreeMap::new())
    }

    /// Puts a text at a path.
    pub(crate) fn put(
        &mut self,
        name: &str,
        path: &[String],
        text: String,
    ) -> Result<(), ConfigError> {
        let twice = || ConfigError::Twice {
            name: name.to_owned(),
        };
        let Self::Section(fields) = self else {
            return Err(twice());
        };
        match path {
            [] => Err(twice()),
            [last] if fields.contains_key(last) => Err(twice()),
            [last] => {
                fields.insert(
                    last.clone(),
                    Self::Text {
                        name: name.to_owned(),
                        text,
                    },
                );
                Ok(())
            }
            [first, rest @ ..] => fields
                .entry(first.clone())
                .or_insert_with(Self::root)
                .put(name, rest, text),
        }
    }

    /// Returns whether something is set at a path.
    pub(crate) fn has(&self, path: &[String]) -> bool {
        match (self, path) {
            (_, []) => true,
            (Self::Section(fields), [first, rest @ ..]) => {
                fields.get(first).is_some_and(|field| field.has(rest))
            }
            (Self::Text { .. }, _) => false,
        }
    }

    /// Parts the fields of a section in two.
    pub(crate) fn split(self, first: impl Fn(&str) -> bool) -> (Self, Self) {
        let Self::Section(fields) = self else {
            return (Self::root(), self);
        };
        let (yes, no) = fields.into_iter().partition(|(key, _)| first(key));
        (Self::Section(yes), Self::Section(no))
    }

    /// Reads a typed value.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, ConfigError> {
        T::deserialize(self)
    }

    fn text(self, what: &str) -> Result<(String, String), ConfigError> {
        match self {
            Self::Text { name, text } => Ok((name, text)),
            Self::Section(_) => Err(ConfigError::custom(format!(
                "expected {what}, not a section"
            ))),
        }
    }
}

impl<'de> IntoDeserializer<'de, ConfigError> for Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty, $what:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
            let (name, text) = self.text($what)?;
            // The text is not quoted: it may be a secret in the wrong place.
            let value: $type = text.trim().parse().map_err(|_| {
                ConfigError::custom(concat!("expected ", $what)).at(&name)
            })?;
            visitor.$visit(value).map_err(|error: ConfigError| error.at(&name))
        }
    )*};
}

impl<'de> Deserializer<'de> for Node {
    type Error = ConfigError;

    parsed! {
        deserialize_bool visit_bool bool, "`true` or `false`";
        deserialize_i8 visit_i8 i8, "a whole number";
        deserialize_i16 visit_i16 i16, "a whole number";
        deserialize_i32 visit_i32 i32, "a whole number";
        deserialize_i64 visit_i64 i64, "a whole number";
        deserialize_u8 visit_u8 u8, "a whole number, not negative";
        deserialize_u16 visit_u16 u16, "a whole number, not negative";
        deserialize_u32 visit_u32 u32, "a whole number, not negative";
        deserialize_u64 visit_u64 u64, "a whole number, not negative";
        deserialize_f32 visit_f32 f32, "a number";
        deserialize_f64 visit_f64 f64, "a number";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        match self {
            Self::Text { name, text } => visitor
                .visit_string(text)
                .map_err(|error: ConfigError| error.at(&name)),
            Self::Section(fields) => visitor.visit_map(MapDeserializer::new(fields.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        visitor.visit_newtype_struct(self)
    }

    /// Reads a list as its parts with commas between.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigError> {
        let (name, text) = self.text("a list with commas")?;
        let parts: Vec<Node> = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| Self::Text {
                name: name.clone(),
                text: part.to_owned(),
            })
            .collect();
        visitor.visit_seq(SeqDeserializer::new(parts.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigError> {
        let (name, text) = self.text("a name")?;
        visitor
            .visit_enum(text.into_deserializer())
            .map_err(|error: ConfigError| error.at(&name))
    }

    fn is_human_readable(&self) -> bool {
        true
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct
        identifier ignored_any
    }
}
