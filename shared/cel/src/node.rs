//! The compiled form of an expression: a small tree in which names are resolved, functions are
//! chosen, regular expressions are compiled and every path has its printed form.

use regex::Regex;

use super::{functions::Function, value::Value};

#[derive(Debug)]
pub(super) enum Node {
    Const(Value),
    /// `event` as a whole.
    Event,
    Work,
    /// `event.data`, apart from the other fields because it may be unreadable.
    Data,
    /// A variable of an enclosing comprehension, by its place on the stack of them.
    Local(usize),
    Select {
        of: Box<Node>,
        field: String,
        path: String,
    },
    Has {
        of: Box<Node>,
        field: String,
    },
    /// `has(event.data)`.
    HasData,
    Index {
        of: Box<Node>,
        at: Box<Node>,
        path: String,
    },
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    If(Box<[Node; 3]>),
    Binary(Operator, Box<Node>, Box<Node>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Call(Function, Vec<Node>),
    /// `matches` with its pattern compiled.
    Matches(Box<Node>, Regex),
    Fold(Box<Fold>),
}

/// A comprehension macro. `body` sees the element as one more local.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) kind: FoldKind,
    pub(super) range: Node,
    pub(super) body: Node,
}

#[derive(Debug)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// `map`, with the condition of its three-argument form.
    Map(Option<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Operator {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }
}
