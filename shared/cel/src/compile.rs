//! From source text to `Node`: the `cel` crate parses and expands the macros, the rest is here.
//!
//! Parsing and lowering recurse over what the source nests, so both run on a thread of their own
//! with a stack that holds the worst 1,024 bytes can do (`STACK`: brackets of mixed kinds with
//! operators between them took 16 to 20 MiB in a debug build, before the parser's own cap of 96
//! levels stopped them). What leaves the thread is at most [`MAX_DEPTH`] deep. A panic of the parser
//! ends that thread only and is reported as a compile error.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators,
};
use regex::RegexBuilder;

use super::{
    error::CompileError,
    functions::{self, Function},
    macros::{Macro, shape},
    node::{Fold, FoldKind, Node, Operator},
    value::Value,
};

/// Longest source, in bytes.
pub const MAX_SOURCE: usize = 1_024;
/// Deepest compiled tree. A chain counts with its length: `a.b.c` is three deep, `1 + 1 + 1` too.
pub const MAX_DEPTH: usize = 50;
/// Most comprehensions inside each other.
pub const MAX_COMPREHENSIONS: usize = 2;
/// Largest compiled regular expression, in bytes; the work per byte of text grows with it.
pub const MAX_REGEX: usize = 32 << 10;
/// What matching may cache for one expression and thread, in bytes; a document can have a thousand.
const REGEX_CACHE: usize = 128 << 10;
/// Stack of the compiling thread, in bytes. Only what is touched becomes memory.
const STACK: usize = 64 << 20;

/// Compiles an expression.
pub(super) fn compile(source: &str) -> Result<Node, CompileError> {
    let at_start = |message: String| CompileError {
        message,
        line: 1,
        column: 1,
    };
    if source.len() > MAX_SOURCE {
        return Err(at_start(format!(
            "expression is {} bytes, the limit is {MAX_SOURCE}",
            source.len()
        )));
    }
    if source.trim().is_empty() {
        return Err(at_start("expression is empty".to_owned()));
    }
    if let Some(c) = source
        .chars()
        .find(|c| c.is_control() && !c.is_whitespace())
    {
        return Err(at_start(format!(
            "expression has the control character U+{:04X}",
            c as u32
        )));
    }
    let text = source.to_owned();
    std::thread::Builder::new()
        .name("cel-compile".to_owned())
        .stack_size(STACK)
        .spawn(move || compile_here(&text))
        .map_err(|error| at_start(format!("no thread to compile the expression on: {error}")))?
        .join()
        .unwrap_or_else(|_| Err(at_start("the parser failed on this expression".to_owned())))
}

fn compile_here(source: &str) -> Result<Node, CompileError> {
    let program = cel::Program::compile(source).map_err(|errors| {
        let first = errors.errors.first();
        // Positions of the parser count from (1, 1); those it does not know are (0, 0) or less.
        let one = |n: isize| usize::try_from(n).unwrap_or(1).max(1);
        CompileError {
            message: first.map_or_else(|| "syntax error".to_owned(), |e| plain(&e.msg)),
            line: first.map_or(1, |e| one(e.pos.0)),
            column: first.map_or(1, |e| one(e.pos.1)),
        }
    })?;
    let mut lowering = Lowering {
        source,
        info: program.source_info(),
        locals: Vec::new(),
    };
    lowering.lower(program.expression(), 1)
}

/// The parser's message as one line in our manner, cut to a size that fits a report.
fn plain(message: &str) -> String {
    let line = weir_kernel::limits::one_line(message, 300);
    let message = line
        .trim_start_matches("Syntax error: ")
        .trim_end_matches('.');
    format!("syntax error: {message}")
}

struct Lowering<'a> {
    source: &'a str,
    info: &'a SourceInfo,
    /// Variables of the comprehensions around the current place, outermost first.
    locals: Vec<String>,
}

impl Lowering<'_> {
    fn error(&self, id: u64, message: impl Into<String>) -> CompileError {
        let start = self
            .info
            .offset_for(id)
            .map_or(0, |(start, _)| start as usize);
        // Offsets are bytes. That of a call is its parenthesis: the author looks for the name.
        let mut before = self.source.get(..start).unwrap_or_default();
        if matches!(self.source.as_bytes().get(start), Some(b'(' | b'{')) {
            before = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        }
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        CompileError {
            message: message.into(),
            line,
            column,
        }
    }

    fn boxed(&mut self, expr: &IdedExpr, depth: usize) -> Result<Box<Node>, CompileError> {
        self.lower(expr, depth).map(Box::new)
    }

    fn lower(&mut self, expr: &IdedExpr, depth: usize) -> Result<Node, CompileError> {
        if depth > MAX_DEPTH {
            return Err(self.error(
                expr.id,
                format!("expression is nested or chained deeper than {MAX_DEPTH}; `in [..]` or `matches` may shorten it"),
            ));
        }
        match &expr.expr {
            Expr::Literal(literal) => Ok(Node::Const(constant(literal))),
            Expr::Ident(name) => self.name(expr.id, name),
            Expr::Select(select) => {
                let of = self.boxed(&select.operand, depth + 1)?;
                let field = select.field.clone();
                let is_data = matches!(*of, Node::Event) && field == "data";
                Ok(match (select.test, is_data) {
                    (true, true) => Node::HasData,
                    (true, false) => Node::Has { of, field },
                    (false, true) => Node::Data,
                    (false, false) => {
                        let path = format!("{}.{field}", self.path(&of));
                        Node::Select { of, field, path }
                    }
                })
            }
            Expr::Call(call) => self.call(expr.id, call, depth),
            Expr::List(list) => {
                if !list.optional_indices.is_empty() {
                    return Err(self.error(expr.id, "optional elements are not supported"));
                }
                let items: Result<Vec<_>, _> = list
                    .elements
                    .iter()
                    .map(|item| self.lower(item, depth + 1))
                    .collect();
                items.map(Node::List)
            }
            Expr::Map(map) => {
                let mut pairs = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(pair) if !pair.optional => {
                            pairs.push((
                                self.lower(&pair.key, depth + 1)?,
                                self.lower(&pair.value, depth + 1)?,
                            ));
                        }
                        _ => {
                            return Err(self
                                .error(entry.id, "only plain `key: value` entries are supported"));
                        }
                    }
                }
                Ok(Node::Map(pairs))
            }
            Expr::Comprehension(comprehension) => self.comprehension(expr.id, comprehension, depth),
            Expr::Struct(_) => Err(self.error(expr.id, "message literals are not supported")),
            Expr::Unspecified => Err(self.error(expr.id, "expression is incomplete")),
        }
    }

    fn name(&self, id: u64, name: &str) -> Result<Node, CompileError> {
        let name = name.strip_prefix('.').unwrap_or(name);
        // The innermost variable of a name hides the outer ones, and those hide the roots.
        if let Some(at) = self.locals.iter().rposition(|local| local == name) {
            return Ok(Node::Local(at));
        }
        match name {
            "event" => Ok(Node::Event),
            "work" => Ok(Node::Work),
            _ => match functions::TYPES.iter().find(|known| **known == name) {
                Some(known) => Ok(Node::Const(Value::Type(known))),
                None => {
                    let variables: String = self
                        .locals
                        .iter()
                        .map(|local| format!(", `{local}`"))
                        .collect();
                    Err(self.error(
                        id,
                        format!("there is no `{name}`; there are `event`, `work`{variables}"),
                    ))
                }
            },
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr, depth: usize) -> Result<Node, CompileError> {
        let name = call.func_name.as_str();
        if let Some(op) = binary(name)
            && let [a, b] = call.args.as_slice()
        {
            return Ok(Node::Binary(
                op,
                self.boxed(a, depth + 1)?,
                self.boxed(b, depth + 1)?,
            ));
        }
        match (name, call.args.as_slice()) {
            (operators::LOGICAL_AND, [a, b]) => {
                return Ok(Node::And(
                    self.boxed(a, depth + 1)?,
                    self.boxed(b, depth + 1)?,
                ));
            }
            (operators::LOGICAL_OR, [a, b]) => {
                return Ok(Node::Or(
                    self.boxed(a, depth + 1)?,
                    self.boxed(b, depth + 1)?,
                ));
            }
            (operators::LOGICAL_NOT, [a]) => return Ok(Node::Not(self.boxed(a, depth + 1)?)),
            (operators::NEGATE, [a]) => return Ok(Node::Negate(self.boxed(a, depth + 1)?)),
            (operators::CONDITIONAL, [a, b, c]) => {
                let parts = [
                    self.lower(a, depth + 1)?,
                    self.lower(b, depth + 1)?,
                    self.lower(c, depth + 1)?,
                ];
                return Ok(Node::If(Box::new(parts)));
            }
            (operators::INDEX, [of, at]) => return self.index(of, at, depth),
            (operators::OPT_INDEX | operators::OPT_SELECT, _) => {
                return Err(self.error(
                    id,
                    "optional access is not supported; a missing field skips, or use has()",
                ));
            }
            _ => {}
        }
        let method = call.target.is_some();
        let written: Vec<&IdedExpr> = call
            .target
            .iter()
            .map(|target| &**target)
            .chain(&call.args)
            .collect();
        if name == "matches" {
            return self.matches(id, &written, depth);
        }
        // The function before its arguments: of `foo(bar)`, `foo` is what the author looks for.
        let function: Function = functions::find(name, method, written.len())
            .map_err(|message| self.error(id, message))?;
        let args: Result<Vec<_>, _> = written
            .into_iter()
            .map(|arg| self.lower(arg, depth + 1))
            .collect();
        Ok(Node::Call(function, args?))
    }

    fn index(&mut self, of: &IdedExpr, at: &IdedExpr, depth: usize) -> Result<Node, CompileError> {
        let (of, at) = (self.boxed(of, depth + 1)?, self.boxed(at, depth + 1)?);
        if let (Node::Event, Node::Const(Value::String(field))) = (&*of, &*at) {
            return Ok(match &**field {
                "data" => Node::Data,
                field => Node::Select {
                    of,
                    field: field.to_owned(),
                    path: format!("event.{field}"),
                },
            });
        }
        let place = match &*at {
            Node::Const(Value::Int(n)) => n.to_string(),
            Node::Const(Value::Uint(n)) => format!("{n}u"),
            Node::Const(Value::String(s)) => format!("{s:?}"),
            other => self.path(other),
        };
        let path = format!("{}[{place}]", self.path(&of));
        Ok(Node::Index { of, at, path })
    }

    /// `matches` with a literal pattern, compiled here and once. A pattern that the event could
    /// choose would be compiled for each event, by whoever sends it.
    fn matches(
        &mut self,
        id: u64,
        written: &[&IdedExpr],
        depth: usize,
    ) -> Result<Node, CompileError> {
        let [text, pattern] = written else {
            return Err(self.error(id, "`matches` is written `x.matches(\"pattern\")`"));
        };
        let Expr::Literal(LiteralValue::String(literal)) = &pattern.expr else {
            return Err(self.error(
                pattern.id,
                "the pattern of `matches` must be a string literal",
            ));
        };
        let regex = RegexBuilder::new(literal.inner())
            .size_limit(MAX_REGEX)
            .dfa_size_limit(REGEX_CACHE)
            .nest_limit(50)
            .build()
            .map_err(|error| {
                let cause = match error {
                    regex::Error::CompiledTooBig(_) => {
                        format!("is larger than {MAX_REGEX} bytes when compiled")
                    }
                    // The crate draws a picture over several lines; the last one says it.
                    other => other
                        .to_string()
                        .lines()
                        .last()
                        .unwrap_or_default()
                        .trim()
                        .to_owned(),
                };
                self.error(pattern.id, format!("pattern of `matches`: {cause}"))
            })?;
        Ok(Node::Matches(self.boxed(text, depth + 1)?, regex))
    }

    fn comprehension(
        &mut self,
        id: u64,
        fold: &ComprehensionExpr,
        depth: usize,
    ) -> Result<Node, CompileError> {
        if self.locals.len() == MAX_COMPREHENSIONS {
            return Err(self.error(
                id,
                format!("more than {MAX_COMPREHENSIONS} comprehensions are nested"),
            ));
        }
        let unknown = || self.error(id, "this form of comprehension is not supported");
        let (macro_kind, condition, body) = shape(fold).ok_or_else(unknown)?;
        let range = self.lower(&fold.iter_range, depth + 1)?;
        self.locals.push(fold.iter_var.clone());
        let inside = self.inside(macro_kind, condition, body, depth + 1);
        self.locals.pop();
        let (kind, body) = inside?;
        Ok(Node::Fold(Box::new(Fold { kind, range, body })))
    }

    fn inside(
        &mut self,
        kind: Macro,
        condition: Option<&IdedExpr>,
        body: &IdedExpr,
        depth: usize,
    ) -> Result<(FoldKind, Node), CompileError> {
        let kind = match kind {
            Macro::All => FoldKind::All,
            Macro::Exists => FoldKind::Exists,
            Macro::ExistsOne => FoldKind::ExistsOne,
            Macro::Filter => FoldKind::Filter,
            Macro::Map => FoldKind::Map(condition.map(|c| self.lower(c, depth)).transpose()?),
        };
        Ok((kind, self.lower(body, depth)?))
    }

    /// How a path reads in a reason. Nothing of an event can get in here.
    fn path(&self, node: &Node) -> String {
        match node {
            Node::Event => "event".to_owned(),
            Node::Work => "work".to_owned(),
            Node::Data => "event.data".to_owned(),
            Node::Local(at) => self.locals.get(*at).cloned().unwrap_or_default(),
            Node::Select { path, .. } | Node::Index { path, .. } => path.clone(),
            _ => "(..)".to_owned(),
        }
    }
}

fn binary(name: &str) -> Option<Operator> {
    Some(match name {
        operators::ADD => Operator::Add,
        operators::SUBSTRACT => Operator::Subtract,
        operators::MULTIPLY => Operator::Multiply,
        operators::DIVIDE => Operator::Divide,
        operators::MODULO => Operator::Remainder,
        operators::EQUALS => Operator::Equal,
        operators::NOT_EQUALS => Operator::NotEqual,
        operators::LESS => Operator::Less,
        operators::LESS_EQUALS => Operator::LessOrEqual,
        operators::GREATER => Operator::Greater,
        operators::GREATER_EQUALS => Operator::GreaterOrEqual,
        operators::IN => Operator::In,
        _ => return None,
    })
}

fn constant(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(b) => Value::Bool(*b.inner()),
        LiteralValue::Bytes(b) => Value::Bytes(b.inner().into()),
        LiteralValue::Double(x) => Value::Double(*x.inner()),
        LiteralValue::Int(n) => Value::Int(*n.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(s) => Value::text(s.inner()),
        LiteralValue::UInt(n) => Value::Uint(*n.inner()),
    }
}
