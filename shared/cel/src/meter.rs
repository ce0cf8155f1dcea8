//! The limits of one evaluation, and comparisons, whose cost the data decides.
//!
//! The numbers: the most expensive evaluations found for [`MAX_STEPS`] (nested comprehensions,
//! searches of periodic text, patterns that defeat the caches) take some 0.3 s in a debug build,
//! far below the 5 s a route has by default (rule r20).
//! [`MAX_MEMORY`] is the sum of all that one evaluation allocates, whether still in use or not.

use std::cmp::Ordering;

use super::{error::EvalError, node::Operator, number, value::Value};

/// Most steps of one evaluation: nodes evaluated, elements compared, and one for each
/// `SCAN_BYTES` (64) bytes of text read.
pub const MAX_STEPS: u64 = 1_000_000;
/// Most bytes that one evaluation may allocate, 64 MiB.
pub const MAX_MEMORY: usize = 64 << 20;
/// Bytes of plain scanning that cost a step.
const SCAN_BYTES: usize = 64;

/// What is left of the limits of one evaluation.
#[derive(Debug)]
pub(super) struct Meter {
    steps: u64,
    memory: usize,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            steps: MAX_STEPS,
            memory: MAX_MEMORY,
        }
    }

    /// Charges steps.
    pub(super) fn step(&mut self, steps: usize) -> Result<(), EvalError> {
        match self.steps.checked_sub(steps as u64) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(EvalError::Limit(format!(
                "evaluation takes more than {MAX_STEPS} steps"
            ))),
        }
    }

    /// Charges the reading of `bytes` bytes.
    pub(super) fn scan(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.step(bytes / SCAN_BYTES)
    }

    /// Charges an allocation.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<(), EvalError> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => Err(EvalError::Limit(format!(
                "evaluation allocates more than {MAX_MEMORY} bytes"
            ))),
        }
    }

    /// Whether two values are equal as CEL has it: numbers across their types, everything else
    /// within one type.
    pub(super) fn equal(&mut self, a: &Value, b: &Value) -> Result<bool, EvalError> {
        self.step(1)?;
        Ok(match (a, b) {
            (Value::OutOfRange, _) | (_, Value::OutOfRange) => return Err(out_of_range()),
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => {
                self.scan(a.len().min(b.len()))?;
                a == b
            }
            (Value::Bytes(a), Value::Bytes(b)) => {
                self.scan(a.len().min(b.len()))?;
                a == b
            }
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(b.iter()) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                // Both are ordered by key, so equal maps agree pair by pair.
                for ((ka, va), (kb, vb)) in a.iter().zip(b.iter()) {
                    if ka != kb || !self.equal(va, vb)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => number::compare(a, b) == Some(Ordering::Equal),
        })
    }

    /// Whether `a op b` holds for one of `<`, `<=`, `>` and `>=`.
    pub(super) fn order(&mut self, op: Operator, a: &Value, b: &Value) -> Result<bool, EvalError> {
        let order = match (a, b) {
            (Value::String(a), Value::String(b)) => {
                self.scan(a.len().min(b.len()))?;
                Some(a.cmp(b))
            }
            (Value::Bytes(a), Value::Bytes(b)) => {
                self.scan(a.len().min(b.len()))?;
                Some(a.cmp(b))
            }
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            // A comparison with NaN is false, not an error.
            (Value::Double(a), Value::Double(b)) if a.is_nan() || b.is_nan() => return Ok(false),
            _ => Some(number::compare(a, b).ok_or_else(|| number::unfit(op, a, b))?),
        };
        Ok(match op {
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        })
    }
}

pub(super) fn out_of_range() -> EvalError {
    EvalError::Type("a number of the data is outside the 64 bit range".to_owned())
}
