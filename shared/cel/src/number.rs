//! Arithmetic and ordering of numbers, timestamps and durations. Nothing here wraps or panics.

use std::cmp::Ordering;

use super::{error::EvalError, meter::out_of_range, node::Operator, time, value::Value};

/// Orders two numbers across their types, exactly. `None` when one is no number, is NaN or has no
/// known digits.
pub(super) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => {
            Some(u64::try_from(*a).map_or(Ordering::Less, |a| a.cmp(b)))
        }
        (Value::Uint(_), Value::Int(_)) => compare(b, a).map(Ordering::reverse),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => with_integer(*a, i128::from(*b)),
        (Value::Double(a), Value::Uint(b)) => with_integer(*a, i128::from(*b)),
        (Value::Int(_) | Value::Uint(_), Value::Double(_)) => compare(b, a).map(Ordering::reverse),
        _ => None,
    }
}

/// Orders a double and an integer without rounding the integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the double is inside the range when it is cut"
)]
fn with_integer(a: f64, b: i128) -> Option<Ordering> {
    const END: f64 = 18_446_744_073_709_551_616.0;
    if a.is_nan() {
        return None;
    }
    if a >= END {
        return Some(Ordering::Greater);
    }
    if a <= -END {
        return Some(Ordering::Less);
    }
    let whole = a.floor();
    Some((whole as i128).cmp(&b).then(if a > whole {
        Ordering::Greater
    } else {
        Ordering::Equal
    }))
}

/// An index into a list: outer `None` when the type is wrong, inner when nothing can be there.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only whole doubles of a safe range"
)]
pub(super) fn to_index(value: &Value) -> Option<Option<usize>> {
    match value {
        Value::Int(n) => Some(usize::try_from(*n).ok()),
        Value::Uint(n) => Some(usize::try_from(*n).ok()),
        Value::Double(x) if x.fract() == 0.0 => Some(
            (0.0..=9_007_199_254_740_992.0)
                .contains(x)
                .then_some(*x as usize),
        ),
        _ => None,
    }
}

pub(super) fn negate(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(n) => n
            .checked_neg()
            .map(Value::Int)
            .ok_or_else(|| overflow(Operator::Subtract)),
        Value::Double(x) => Ok(Value::Double(-x)),
        Value::Duration(d) => Ok(Value::Duration(-*d)),
        Value::OutOfRange => Err(out_of_range()),
        other => Err(EvalError::Type(format!(
            "`-` does not take ({})",
            other.type_name()
        ))),
    }
}

/// Applies `+ - * / %` to everything but text, bytes and lists.
pub(super) fn arithmetic(op: Operator, a: &Value, b: &Value) -> Result<Value, EvalError> {
    let done = match (a, b) {
        (Value::Int(x), Value::Int(y)) => {
            let by_zero = *y == 0 && matches!(op, Operator::Divide | Operator::Remainder);
            if by_zero {
                return Err(zero(op));
            }
            match op {
                Operator::Add => x.checked_add(*y),
                Operator::Subtract => x.checked_sub(*y),
                Operator::Multiply => x.checked_mul(*y),
                Operator::Divide => x.checked_div(*y),
                Operator::Remainder => x.checked_rem(*y),
                _ => return Err(unfit(op, a, b)),
            }
            .map(Value::Int)
        }
        (Value::Uint(x), Value::Uint(y)) => {
            let by_zero = *y == 0 && matches!(op, Operator::Divide | Operator::Remainder);
            if by_zero {
                return Err(zero(op));
            }
            match op {
                Operator::Add => x.checked_add(*y),
                Operator::Subtract => x.checked_sub(*y),
                Operator::Multiply => x.checked_mul(*y),
                Operator::Divide => x.checked_div(*y),
                Operator::Remainder => x.checked_rem(*y),
                _ => return Err(unfit(op, a, b)),
            }
            .map(Value::Uint)
        }
        (Value::Double(x), Value::Double(y)) => Some(Value::Double(match op {
            Operator::Add => x + y,
            Operator::Subtract => x - y,
            Operator::Multiply => x * y,
            Operator::Divide => x / y,
            _ => return Err(unfit(op, a, b)),
        })),
        (Value::Timestamp(t), Value::Duration(d)) => match op {
            Operator::Add => t.checked_add_signed(*d),
            Operator::Subtract => t.checked_sub_signed(*d),
            _ => return Err(unfit(op, a, b)),
        }
        .and_then(time::in_range)
        .map(Value::Timestamp),
        (Value::Duration(d), Value::Timestamp(t)) if op == Operator::Add => t
            .checked_add_signed(*d)
            .and_then(time::in_range)
            .map(Value::Timestamp),
        (Value::Timestamp(x), Value::Timestamp(y)) if op == Operator::Subtract => {
            time::bounded(x.signed_duration_since(*y)).map(Value::Duration)
        }
        (Value::Duration(x), Value::Duration(y)) => match op {
            Operator::Add => x.checked_add(y),
            Operator::Subtract => x.checked_sub(y),
            _ => return Err(unfit(op, a, b)),
        }
        .and_then(time::bounded)
        .map(Value::Duration),
        (Value::OutOfRange, _) | (_, Value::OutOfRange) => return Err(out_of_range()),
        _ => return Err(unfit(op, a, b)),
    };
    done.ok_or_else(|| overflow(op))
}

pub(super) fn unfit(op: Operator, a: &Value, b: &Value) -> EvalError {
    EvalError::Type(format!(
        "`{}` does not take ({}, {})",
        op.symbol(),
        a.type_name(),
        b.type_name()
    ))
}

fn overflow(op: Operator) -> EvalError {
    EvalError::Arithmetic(format!("overflow of `{}`", op.symbol()))
}

fn zero(op: Operator) -> EvalError {
    EvalError::Arithmetic(
        if op == Operator::Divide {
            "division by zero"
        } else {
            "remainder by zero"
        }
        .to_owned(),
    )
}
