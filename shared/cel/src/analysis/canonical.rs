//! One text for all spellings of an expression that say the same: order of `&&`, `||`, `==` and
//! `in [..]`, `a > b` for `b < a`, `x["f"]` for `x.f`, names of variables, blanks.

use crate::{
    Value,
    node::{FoldKind, Node, Operator},
};

/// Writes the canonical form.
pub(super) fn canonical(node: &Node) -> String {
    match node {
        Node::Const(value) => constant(value),
        Node::Event => "event".to_owned(),
        Node::Work => "work".to_owned(),
        Node::Data => "event.data".to_owned(),
        Node::HasData => "(has event data)".to_owned(),
        Node::Local(at) => format!("(local {at})"),
        Node::Select { of, field, .. } => format!("(. {} {field:?})", canonical(of)),
        Node::Has { of, field } => format!("(has {} {field:?})", canonical(of)),
        Node::Index { of, at, .. } => match &**at {
            Node::Const(Value::String(field)) => format!("(. {} {field:?})", canonical(of)),
            at => format!("([] {} {})", canonical(of), canonical(at)),
        },
        Node::And(..) => junction("&&", node, |node| match node {
            Node::And(a, b) => Some((a, b)),
            _ => None,
        }),
        Node::Or(..) => junction("||", node, |node| match node {
            Node::Or(a, b) => Some((a, b)),
            _ => None,
        }),
        Node::Not(of) => match &**of {
            Node::Not(inner) => canonical(inner),
            of => opposite(&canonical(of)),
        },
        Node::Negate(of) => format!("(neg {})", canonical(of)),
        Node::If(parts) => format!("(? {})", all(parts.iter())),
        Node::Binary(operator, a, b) => binary(*operator, a, b),
        Node::List(items) => format!("[{}]", all(items)),
        Node::Map(pairs) => {
            let mut pairs: Vec<String> = pairs
                .iter()
                .map(|(key, value)| format!("{} {}", canonical(key), canonical(value)))
                .collect();
            pairs.sort_unstable();
            format!("{{{}}}", pairs.join(","))
        }
        Node::Call(function, arguments) => format!("({function:?} {})", all(arguments)),
        Node::Matches(of, regex) => format!("(matches {} {:?})", canonical(of), regex.as_str()),
        Node::Fold(fold) => {
            let kind = match &fold.kind {
                FoldKind::All => "all".to_owned(),
                FoldKind::Exists => "exists".to_owned(),
                FoldKind::ExistsOne => "exists_one".to_owned(),
                FoldKind::Filter => "filter".to_owned(),
                FoldKind::Map(None) => "map".to_owned(),
                FoldKind::Map(Some(condition)) => format!("map if {}", canonical(condition)),
            };
            format!(
                "({kind} {} {})",
                canonical(&fold.range),
                canonical(&fold.body)
            )
        }
    }
}

/// The canonical form of what holds when this one does not.
pub(super) fn opposite(form: &str) -> String {
    if let Some(rest) = form.strip_prefix("(== ") {
        format!("(!= {rest}")
    } else if let Some(rest) = form.strip_prefix("(!= ") {
        format!("(== {rest}")
    } else if let Some(inner) = form.strip_prefix("(! ").and_then(|f| f.strip_suffix(')')) {
        inner.to_owned()
    } else {
        format!("(! {form})")
    }
}

fn all<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> String {
    let all: Vec<String> = nodes.into_iter().map(canonical).collect();
    all.join(" ")
}

fn junction<'n>(
    symbol: &str,
    node: &'n Node,
    sides: impl Fn(&'n Node) -> Option<(&'n Node, &'n Node)>,
) -> String {
    let (mut parts, mut pending) = (Vec::new(), vec![node]);
    while let Some(node) = pending.pop() {
        match sides(node) {
            Some((a, b)) => pending.extend([a, b]),
            None => parts.push(canonical(node)),
        }
    }
    parts.sort_unstable();
    parts.dedup();
    if let [only] = parts.as_slice() {
        return only.clone();
    }
    format!("({symbol} {})", parts.join(" "))
}

fn binary(operator: Operator, a: &Node, b: &Node) -> String {
    let (mut left, mut right) = (canonical(a), canonical(b));
    let operator = match operator {
        Operator::Equal | Operator::NotEqual => {
            if right < left {
                std::mem::swap(&mut left, &mut right);
            }
            operator
        }
        Operator::Greater => {
            std::mem::swap(&mut left, &mut right);
            Operator::Less
        }
        Operator::GreaterOrEqual => {
            std::mem::swap(&mut left, &mut right);
            Operator::LessOrEqual
        }
        Operator::In => {
            if let Node::List(items) = b {
                let mut items: Vec<String> = items.iter().map(canonical).collect();
                items.sort_unstable();
                items.dedup();
                right = format!("[{}]", items.join(" "));
            }
            operator
        }
        other => other,
    };
    format!("({} {left} {right})", operator.symbol())
}

fn constant(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    }
}
