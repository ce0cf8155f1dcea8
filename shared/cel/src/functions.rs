//! The standard functions. Names and argument counts are checked when an expression is compiled;
//! argument types when it is evaluated.

use std::sync::Arc;

use super::{
    error::EvalError,
    meter::Meter,
    time::{self, Part},
    value::Value,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Type,
    Dyn,
    Timestamp,
    Duration,
    /// A part of a timestamp or duration; the second argument is a time zone offset.
    Part(Part),
}

/// How a function can be written.
enum Form {
    Global,
    Method,
    Both,
}

const TABLE: [(&str, Function, Form, usize, usize); 14] = [
    ("size", Function::Size, Form::Both, 1, 1),
    ("contains", Function::Contains, Form::Method, 2, 2),
    ("startsWith", Function::StartsWith, Form::Method, 2, 2),
    ("endsWith", Function::EndsWith, Form::Method, 2, 2),
    ("bool", Function::Bool, Form::Global, 1, 1),
    ("int", Function::Int, Form::Global, 1, 1),
    ("uint", Function::Uint, Form::Global, 1, 1),
    ("double", Function::Double, Form::Global, 1, 1),
    ("string", Function::String, Form::Global, 1, 1),
    ("bytes", Function::Bytes, Form::Global, 1, 1),
    ("type", Function::Type, Form::Global, 1, 1),
    ("dyn", Function::Dyn, Form::Global, 1, 1),
    ("timestamp", Function::Timestamp, Form::Global, 1, 1),
    ("duration", Function::Duration, Form::Global, 1, 1),
];

/// Finds a function by how it was written; `arguments` counts the target too.
///
/// # Errors
/// One line that says what exists.
pub(super) fn find(name: &str, method: bool, arguments: usize) -> Result<Function, String> {
    let rows = TABLE
        .iter()
        .map(|(n, f, form, min, max)| (*n, *f, form, *min, *max));
    let parts = Part::ALL
        .iter()
        .map(|(n, part)| (*n, Function::Part(*part), &Form::Method, 1, 2));
    let Some((_, function, form, min, max)) = rows.chain(parts).find(|row| row.0 == name) else {
        let names: Vec<_> = TABLE
            .iter()
            .map(|row| row.0)
            .chain(Part::ALL.iter().map(|row| row.0))
            .collect();
        return Err(format!(
            "there is no function `{name}`; there are has, all, exists, exists_one, map, filter, matches, {}",
            names.join(", ")
        ));
    };
    match (form, method) {
        (Form::Global, true) => return Err(format!("`{name}` is a function, write `{name}(x)`")),
        (Form::Method, false) => return Err(format!("`{name}` is a method, write `x.{name}(…)`")),
        (Form::Global, false) | (Form::Method, true) | (Form::Both, _) => {}
    }
    if !(min..=max).contains(&arguments) {
        let implied = usize::from(method);
        return Err(format!(
            "`{name}` takes {} arguments, not {}",
            min - implied,
            arguments - implied
        ));
    }
    Ok(function)
}

/// Names that stand for types, as in `type(x) == string`.
pub(super) const TYPES: [&str; 10] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
];

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Part(part) => Part::ALL
                .iter()
                .find(|row| row.1 == part)
                .map_or("", |row| row.0),
            _ => TABLE
                .iter()
                .find(|row| row.1 == self)
                .map_or("", |row| row.0),
        }
    }

    /// Calls the function. What it copies and scans is charged to `meter` first.
    pub(super) fn call(self, args: &[Value], meter: &mut Meter) -> Result<Value, EvalError> {
        let unfit = || {
            let types: Vec<_> = args.iter().map(Value::type_name).collect();
            EvalError::Type(format!(
                "`{}` does not take ({})",
                self.name(),
                types.join(", ")
            ))
        };
        let unreadable = || {
            EvalError::Type(format!(
                "`{}` cannot convert this {}",
                self.name(),
                args[0].type_name()
            ))
        };
        let text_pair = || match args {
            [Value::String(a), Value::String(b)] => Ok((a, b)),
            _ => Err(unfit()),
        };
        Ok(match self {
            Self::Size => Value::integer(size(&args[0], meter)?.ok_or_else(unfit)? as u64),
            Self::Contains => {
                let (text, part) = text_pair()?;
                meter.scan(text.len() + part.len())?;
                Value::Bool(text.contains(&**part))
            }
            Self::StartsWith => {
                let (text, part) = text_pair()?;
                meter.scan(part.len())?;
                Value::Bool(text.starts_with(&**part))
            }
            Self::EndsWith => {
                let (text, part) = text_pair()?;
                meter.scan(part.len())?;
                Value::Bool(text.ends_with(&**part))
            }
            Self::Bool => match &args[0] {
                Value::Bool(b) => Value::Bool(*b),
                Value::String(s) => match &**s {
                    "true" | "True" | "TRUE" | "t" | "1" => Value::Bool(true),
                    "false" | "False" | "FALSE" | "f" | "0" => Value::Bool(false),
                    _ => return Err(unreadable()),
                },
                _ => return Err(unfit()),
            },
            Self::Int => match &args[0] {
                Value::Int(n) => Value::Int(*n),
                Value::Uint(n) => Value::Int(i64::try_from(*n).map_err(|_| overflow("int"))?),
                Value::Double(x) => Value::Int(double_to_int(*x).ok_or_else(|| overflow("int"))?),
                Value::String(s) => Value::Int(s.parse().map_err(|_| unreadable())?),
                Value::Timestamp(t) => Value::Int(t.timestamp()),
                _ => return Err(unfit()),
            },
            Self::Uint => match &args[0] {
                Value::Uint(n) => Value::Uint(*n),
                Value::Int(n) => Value::Uint(u64::try_from(*n).map_err(|_| overflow("uint"))?),
                Value::Double(x) => {
                    Value::Uint(double_to_uint(*x).ok_or_else(|| overflow("uint"))?)
                }
                Value::String(s) => Value::Uint(s.parse().map_err(|_| unreadable())?),
                _ => return Err(unfit()),
            },
            Self::Double => match &args[0] {
                Value::Double(x) => Value::Double(*x),
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the conversion CEL defines: the nearest double"
                )]
                Value::Int(n) => Value::Double(*n as f64),
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the conversion CEL defines: the nearest double"
                )]
                Value::Uint(n) => Value::Double(*n as f64),
                Value::String(s) => Value::Double(s.parse().map_err(|_| unreadable())?),
                _ => return Err(unfit()),
            },
            Self::String => match &args[0] {
                Value::String(s) => Value::String(Arc::clone(s)),
                Value::Bool(b) => Value::text(if *b { "true" } else { "false" }),
                Value::Int(n) => Value::text(&n.to_string()),
                Value::Uint(n) => Value::text(&n.to_string()),
                Value::Double(x) => Value::text(&x.to_string()),
                Value::Bytes(b) => {
                    meter.scan(b.len())?;
                    meter.allocate(b.len())?;
                    Value::text(std::str::from_utf8(b).map_err(|_| unreadable())?)
                }
                Value::Timestamp(t) => Value::text(&time::timestamp_text(*t)),
                Value::Duration(d) => Value::text(&time::duration_text(*d)),
                _ => return Err(unfit()),
            },
            Self::Bytes => match &args[0] {
                Value::Bytes(b) => Value::Bytes(Arc::clone(b)),
                Value::String(s) => {
                    meter.scan(s.len())?;
                    meter.allocate(s.len())?;
                    Value::Bytes(Arc::from(s.as_bytes()))
                }
                _ => return Err(unfit()),
            },
            Self::Type => Value::Type(args[0].type_name()),
            Self::Dyn => args[0].clone(),
            Self::Timestamp => match &args[0] {
                Value::Timestamp(t) => Value::Timestamp(*t),
                Value::Int(n) => {
                    Value::Timestamp(time::from_unix(*n).ok_or_else(|| overflow("timestamp"))?)
                }
                Value::String(s) => {
                    Value::Timestamp(time::parse_timestamp(s).ok_or_else(unreadable)?)
                }
                _ => return Err(unfit()),
            },
            Self::Duration => match &args[0] {
                Value::Duration(d) => Value::Duration(*d),
                Value::String(s) => {
                    Value::Duration(time::parse_duration(s).ok_or_else(unreadable)?)
                }
                _ => return Err(unfit()),
            },
            Self::Part(part) => match args {
                [Value::Duration(d)] => Value::Int(part.of_duration(*d).ok_or_else(unfit)?),
                [Value::Timestamp(t)] => Value::Int(part.of_timestamp(*t, 0)),
                [Value::Timestamp(t), Value::String(zone)] => {
                    let offset = time::parse_offset(zone).ok_or_else(|| {
                        EvalError::Type(
                            "a time zone is `UTC` or an offset like `+02:00`".to_owned(),
                        )
                    })?;
                    Value::Int(part.of_timestamp(*t, offset))
                }
                _ => return Err(unfit()),
            },
        })
    }
}

fn overflow(to: &str) -> EvalError {
    EvalError::Arithmetic(format!("value out of range of `{to}`"))
}

/// The size of a value: characters of text, bytes, elements.
fn size(value: &Value, meter: &mut Meter) -> Result<Option<usize>, EvalError> {
    Ok(match value {
        Value::String(s) => {
            meter.scan(s.len())?;
            Some(s.chars().count())
        }
        Value::Bytes(b) => Some(b.len()),
        Value::List(items) => Some(items.len()),
        Value::Map(map) => Some(map.len()),
        _ => None,
    })
}

/// Truncates toward zero; `None` outside the range, which a cast would saturate.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the range is checked just before"
)]
fn double_to_int(x: f64) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    (x > -END && x < END).then_some(x as i64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked just before"
)]
fn double_to_uint(x: f64) -> Option<u64> {
    const END: f64 = 18_446_744_073_709_551_616.0;
    (0.0..END).contains(&x).then_some(x as u64)
}
