//! Expressions over an event and its Work (rule r50): CEL, bounded in size, steps, memory and
//! depth, so that no expression and no payload can stall or end the process.
//!
//! A [`Program`] is compiled once per generation and shared; [`Facts`] are prepared once per event
//! and shared by all programs that ask about it. Both are `Send + Sync`, evaluation writes nothing.
//!
//! The language is CEL with its standard macros and functions, with these differences:
//! - JSON integers are `int` (`uint` only above the signed range), so `event.data.n + 1` works.
//! - A field of `null` is a missing field, not a type error: `"assignee": null` is common.
//! - `matches` takes a literal pattern only; no optionals, no message literals.
//! - Time zones are `UTC` or an offset, no names.
//!
//! The `cel` crate is the parser; the `eval` module says why it is not the interpreter. A test
//! compares the two on generated expressions.

use std::sync::Arc;

mod analysis;
pub mod compile;
mod error;
mod eval;
mod facts;
mod functions;
pub mod json;
mod macros;
pub mod meter;
mod node;
mod number;
mod time;
mod value;

#[cfg(test)]
mod analysis_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

pub use analysis::{Case, Condition, Known, TypePattern};
pub use error::{CompileError, EvalError, Verdict};
pub use facts::{EventFacts, Facts, WorkFacts};
pub use value::{Key, Map, Value};

/// Longest key an expression may yield, in bytes (rule a05).
const MAX_KEY: usize = weir_kernel::limits::MAX_KEY;

/// A compiled expression. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Program(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: String,
    node: node::Node,
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Program {
    /// Compiles an expression of at most [`compile::MAX_SOURCE`] bytes. Takes about a tenth of a
    /// millisecond, and a thread for that long.
    ///
    /// # Errors
    /// [`CompileError`] with line and column: a syntax error, an unknown name or function, a
    /// limit passed. Final: the same text never compiles.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        let node = compile::compile(source)?;
        Ok(Self(Arc::new(Inner {
            source: source.to_owned(),
            node,
        })))
    }

    /// The text it was compiled from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Evaluates the expression, within [`meter::MAX_STEPS`] and [`meter::MAX_MEMORY`] and on a
    /// stack of 2 MiB also in a debug build. Deterministic: the same facts give the same answer.
    ///
    /// # Errors
    /// [`EvalError`]; none of them carries payload.
    pub fn evaluate(&self, facts: &Facts) -> Result<Value, EvalError> {
        eval::Evaluation::new(facts).run(&self.0.node)
    }

    /// Evaluates the expression as a route's condition.
    #[must_use]
    pub fn as_match(&self, facts: &Facts) -> Verdict {
        match self.evaluate(facts) {
            Ok(Value::Bool(true)) => Verdict::Match,
            Ok(Value::Bool(false)) => Verdict::Skip {
                reason: "condition is false".to_owned(),
            },
            Ok(other) => Verdict::Invalid {
                error: format!("condition is a {}, not a bool", other.type_name()),
            },
            Err(error @ (EvalError::Missing { .. } | EvalError::DataUnreadable)) => Verdict::Skip {
                reason: error.to_string(),
            },
            Err(error) => Verdict::Invalid {
                error: error.to_string(),
            },
        }
    }

    /// Evaluates the expression as a condition of a `sources` or key rule: a missing field is
    /// "no" (rule a07).
    ///
    /// # Errors
    /// Every other [`EvalError`], and [`EvalError::Type`] when the result is no bool.
    pub fn as_condition(&self, facts: &Facts) -> Result<bool, EvalError> {
        match self.evaluate(facts) {
            Ok(Value::Bool(value)) => Ok(value),
            Ok(other) => Err(EvalError::Type(format!(
                "condition is a {}, not a bool",
                other.type_name()
            ))),
            Err(EvalError::Missing { .. } | EvalError::DataUnreadable) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Evaluates the expression as a correlation key: `None` when a field is missing (rule a07).
    ///
    /// # Errors
    /// Every other [`EvalError`], and [`EvalError::Type`] when the result is no text, is empty, is
    /// longer than 512 bytes or has a control character (rule a05).
    pub fn as_key(&self, facts: &Facts) -> Result<Option<String>, EvalError> {
        let key = match self.evaluate(facts) {
            Ok(Value::String(key)) => key,
            Ok(other) => {
                return Err(EvalError::Type(format!(
                    "key is a {}, not a string",
                    other.type_name()
                )));
            }
            Err(EvalError::Missing { .. } | EvalError::DataUnreadable) => return Ok(None),
            Err(error) => return Err(error),
        };
        weir_kernel::limits::identifier("key", &key, MAX_KEY)
            .map_err(|v| EvalError::Type(format!("key {}", v.description)))?;
        Ok(Some(key.to_string()))
    }
}
