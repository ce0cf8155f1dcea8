//! Evaluation with a meter.
//!
//! The `cel` crate parses, but does not evaluate here: its interpreter has no step limit, cannot
//! be cancelled, compiles a regular expression at every call and recurses without a bound, so
//! that one expression over one event can stall or abort the process. This one walks our own
//! tree: its depth is bounded when it is compiled, every node costs a step, every byte that is
//! scanned or copied costs too, and a limit ends it.

use std::sync::Arc;

use super::{
    error::EvalError,
    facts::{Data, Facts},
    functions::Function,
    meter::Meter,
    node::{Fold, FoldKind, Node, Operator},
    number,
    value::{Key, Map, Value},
};

/// Bytes of matching a regular expression that cost a step: an order slower than a plain scan.
const MATCH_BYTES: usize = 2;
/// Bytes a list element or map pair is charged with.
const ELEMENT_BYTES: usize = 64;

/// One evaluation.
pub(super) struct Evaluation<'a> {
    facts: &'a Facts,
    locals: Vec<Value>,
    meter: Meter,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(facts: &'a Facts) -> Self {
        Self {
            facts,
            locals: Vec::new(),
            meter: Meter::new(),
        }
    }

    pub(super) fn run(&mut self, node: &Node) -> Result<Value, EvalError> {
        self.meter.step(1)?;
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Event => self.whole_event(),
            Node::Work => Ok(Value::Map(Arc::clone(self.facts.work()))),
            Node::Data => match self.facts.data() {
                Data::Read(value) => Ok(value.clone()),
                Data::Unreadable => Err(EvalError::DataUnreadable),
                Data::None => Err(EvalError::Missing {
                    path: "event.data".to_owned(),
                }),
            },
            Node::HasData => Ok(Value::Bool(matches!(self.facts.data(), Data::Read(_)))),
            Node::Local(at) => Ok(self.locals[*at].clone()),
            Node::Select { of, field, path } => self.select(of, field, path),
            Node::Has { of, field } => self.has(of, field),
            Node::Index { of, at, path } => self.index(of, at, path),
            Node::And(a, b) => self.junction(a, b, false),
            Node::Or(a, b) => self.junction(a, b, true),
            Node::Not(of) => Ok(Value::Bool(!self.truth(of, "!")?)),
            Node::Negate(of) => number::negate(&self.run(of)?),
            Node::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                if self.truth(condition, "?:")? {
                    self.run(then)
                } else {
                    self.run(otherwise)
                }
            }
            Node::Binary(op, a, b) => self.binary(*op, a, b),
            Node::List(items) => self.list(items),
            Node::Map(pairs) => self.map(pairs),
            Node::Call(function, args) => self.call(*function, args),
            Node::Matches(of, regex) => match self.run(of)? {
                Value::String(text) => {
                    self.meter.step(text.len() / MATCH_BYTES)?;
                    Ok(Value::Bool(regex.is_match(&text)))
                }
                other => Err(EvalError::Type(format!(
                    "`matches` does not take ({})",
                    other.type_name()
                ))),
            },
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// `event` as a value: its fields and, when it can be read, the data.
    fn whole_event(&mut self) -> Result<Value, EvalError> {
        let event = self.facts.event();
        self.meter.step(event.len())?;
        let mut pairs: Vec<_> = event.iter().cloned().collect();
        if let Data::Read(data) = self.facts.data() {
            pairs.push((Key::String(Arc::from("data")), data.clone()));
        }
        let map = Map::new(pairs)
            .map_err(|_| EvalError::Type("an attribute of the event repeats".to_owned()))?;
        Ok(Value::Map(Arc::new(map)))
    }

    fn select(&mut self, of: &Node, field: &str, path: &str) -> Result<Value, EvalError> {
        let missing = || EvalError::Missing {
            path: path.to_owned(),
        };
        // The two roots are maps already: no need to make a value of them first.
        let found = match of {
            Node::Event => self.facts.event().field(field).cloned(),
            Node::Work => self.facts.work().field(field).cloned(),
            _ => match self.run(of)? {
                Value::Map(map) => map.field(field).cloned(),
                // `null` has no fields: GitHub writes `"assignee": null` for "there is none".
                Value::Null => None,
                other => {
                    return Err(EvalError::Type(format!(
                        "{path}: a {} has no fields",
                        other.type_name()
                    )));
                }
            },
        };
        found.ok_or_else(missing)
    }

    fn has(&mut self, of: &Node, field: &str) -> Result<Value, EvalError> {
        Ok(Value::Bool(match of {
            Node::Event => self.facts.event().field(field).is_some(),
            Node::Work => self.facts.work().field(field).is_some(),
            _ => match self.run(of)? {
                Value::Map(map) => map.field(field).is_some(),
                Value::Null => false,
                other => {
                    return Err(EvalError::Type(format!(
                        "has(): a {} has no field `{field}`",
                        other.type_name()
                    )));
                }
            },
        }))
    }

    fn index(&mut self, of: &Node, at: &Node, path: &str) -> Result<Value, EvalError> {
        let (of, at) = (self.run(of)?, self.run(at)?);
        let found = match &of {
            Value::List(items) => {
                let at = number::to_index(&at).ok_or_else(|| {
                    EvalError::Type(format!(
                        "{path}: a list has no index of type {}",
                        at.type_name()
                    ))
                })?;
                at.and_then(|at| items.get(at)).cloned()
            }
            Value::Map(map) => {
                let key = Key::of(&at).ok_or_else(|| {
                    EvalError::Type(format!(
                        "{path}: a map has no key of type {}",
                        at.type_name()
                    ))
                })?;
                map.get(&key).cloned()
            }
            Value::Null => None,
            other => {
                return Err(EvalError::Type(format!(
                    "{path}: a {} cannot be indexed",
                    other.type_name()
                )));
            }
        };
        found.ok_or_else(|| EvalError::Missing {
            path: path.to_owned(),
        })
    }

    fn truth(&mut self, node: &Node, what: &str) -> Result<bool, EvalError> {
        match self.run(node)? {
            Value::Bool(b) => Ok(b),
            other => Err(EvalError::Type(format!(
                "`{what}` needs a bool, not a {}",
                other.type_name()
            ))),
        }
    }

    /// `&&` and `||`: either side can decide alone, also when the other has no value. A limit is
    /// no value of either side and ends the evaluation.
    fn junction(&mut self, a: &Node, b: &Node, decisive: bool) -> Result<Value, EvalError> {
        let symbol = if decisive { "||" } else { "&&" };
        let left = match self.truth(a, symbol) {
            Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
            Err(limit @ EvalError::Limit(_)) => return Err(limit),
            left => left,
        };
        match self.truth(b, symbol) {
            Ok(value) if value == decisive => Ok(Value::Bool(decisive)),
            Err(limit @ EvalError::Limit(_)) => Err(limit),
            right => left.and(right).map(Value::Bool),
        }
    }

    fn binary(&mut self, op: Operator, a: &Node, b: &Node) -> Result<Value, EvalError> {
        let (a, b) = (self.run(a)?, self.run(b)?);
        match op {
            Operator::Equal => Ok(Value::Bool(self.meter.equal(&a, &b)?)),
            Operator::NotEqual => Ok(Value::Bool(!self.meter.equal(&a, &b)?)),
            Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => Ok(Value::Bool(self.meter.order(op, &a, &b)?)),
            Operator::In => self.contains(&a, &b).map(Value::Bool),
            Operator::Add => match (&a, &b) {
                (Value::String(x), Value::String(y)) => {
                    self.copy(x.len() + y.len())?;
                    Ok(Value::String(Arc::from([&**x, &**y].concat())))
                }
                (Value::Bytes(x), Value::Bytes(y)) => {
                    self.copy(x.len() + y.len())?;
                    Ok(Value::Bytes(Arc::from([&**x, &**y].concat())))
                }
                (Value::List(x), Value::List(y)) => {
                    let len = x.len() + y.len();
                    self.meter.step(len)?;
                    self.meter.allocate(len * ELEMENT_BYTES)?;
                    Ok(Value::list(x.iter().chain(y.iter()).cloned().collect()))
                }
                _ => number::arithmetic(op, &a, &b),
            },
            Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
                number::arithmetic(op, &a, &b)
            }
        }
    }

    fn copy(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.scan(bytes)?;
        // Twice: the text is put together before it gets its reference count.
        self.meter.allocate(bytes.saturating_mul(2))
    }

    fn contains(&mut self, item: &Value, within: &Value) -> Result<bool, EvalError> {
        match within {
            Value::List(items) => {
                for candidate in items.iter() {
                    if self.meter.equal(item, candidate)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Map(map) => Ok(Key::of(item).is_some_and(|key| map.get(&key).is_some())),
            _ => Err(number::unfit(Operator::In, item, within)),
        }
    }

    fn list(&mut self, items: &[Node]) -> Result<Value, EvalError> {
        self.meter.allocate(items.len() * ELEMENT_BYTES)?;
        let items: Result<Vec<_>, _> = items.iter().map(|item| self.run(item)).collect();
        items.map(Value::list)
    }

    fn map(&mut self, pairs: &[(Node, Node)]) -> Result<Value, EvalError> {
        self.meter.allocate(pairs.len() * ELEMENT_BYTES)?;
        let mut done = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let key = self.run(key)?;
            let key = Key::of(&key).ok_or_else(|| {
                EvalError::Type(format!("a {} cannot be a key of a map", key.type_name()))
            })?;
            done.push((key, self.run(value)?));
        }
        let map = Map::new(done)
            .map_err(|_| EvalError::Type("a map literal repeats a key".to_owned()))?;
        Ok(Value::Map(Arc::new(map)))
    }

    fn call(&mut self, function: Function, args: &[Node]) -> Result<Value, EvalError> {
        match args {
            [only] => {
                let only = self.run(only)?;
                function.call(std::slice::from_ref(&only), &mut self.meter)
            }
            _ => {
                let args: Result<Vec<_>, _> = args.iter().map(|arg| self.run(arg)).collect();
                function.call(&args?, &mut self.meter)
            }
        }
    }

    fn fold(&mut self, fold: &Fold) -> Result<Value, EvalError> {
        match self.run(&fold.range)? {
            Value::List(items) => self.fold_over(fold, items.iter().cloned()),
            Value::Map(map) => self.fold_over(fold, map.iter().map(|(key, _)| key.to_value())),
            other => Err(EvalError::Type(format!(
                "a {} cannot be iterated",
                other.type_name()
            ))),
        }
    }

    fn fold_over(
        &mut self,
        fold: &Fold,
        items: impl Iterator<Item = Value>,
    ) -> Result<Value, EvalError> {
        let (mut failure, mut found, mut kept) = (None, 0_u64, Vec::new());
        for item in items {
            self.locals.push(item);
            let outcome = self.fold_step(fold, &mut kept);
            self.locals.pop();
            match (&fold.kind, outcome) {
                (_, Err(limit @ EvalError::Limit(_))) => return Err(limit),
                (FoldKind::All, Ok(false)) => return Ok(Value::Bool(false)),
                (FoldKind::Exists, Ok(true)) => return Ok(Value::Bool(true)),
                // As with `&&` and `||`, one element can decide although another has no value.
                (FoldKind::All | FoldKind::Exists, Err(error)) => {
                    failure.get_or_insert(error);
                }
                (_, Err(error)) => return Err(error),
                (FoldKind::ExistsOne, Ok(true)) => found += 1,
                (_, Ok(_)) => {}
            }
        }
        match (&fold.kind, failure) {
            (_, Some(error)) => Err(error),
            (FoldKind::All, None) => Ok(Value::Bool(true)),
            (FoldKind::Exists, None) => Ok(Value::Bool(false)),
            (FoldKind::ExistsOne, None) => Ok(Value::Bool(found == 1)),
            (FoldKind::Filter | FoldKind::Map(_), None) => Ok(Value::list(kept)),
        }
    }

    /// Decides one element, and keeps it or its image for `filter` and `map`.
    fn fold_step(&mut self, fold: &Fold, kept: &mut Vec<Value>) -> Result<bool, EvalError> {
        match &fold.kind {
            FoldKind::All => self.truth(&fold.body, "all"),
            FoldKind::Exists => self.truth(&fold.body, "exists"),
            FoldKind::ExistsOne => self.truth(&fold.body, "exists_one"),
            FoldKind::Filter => {
                let keep = self.truth(&fold.body, "filter")?;
                if keep {
                    self.meter.allocate(ELEMENT_BYTES)?;
                    kept.extend(self.locals.last().cloned());
                }
                Ok(keep)
            }
            FoldKind::Map(condition) => {
                if let Some(condition) = condition
                    && !self.truth(condition, "map")?
                {
                    return Ok(false);
                }
                let image = self.run(&fold.body)?;
                self.meter.allocate(ELEMENT_BYTES)?;
                kept.push(image);
                Ok(true)
            }
        }
    }
}
