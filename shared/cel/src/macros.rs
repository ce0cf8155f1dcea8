//! Recognising the standard macros in what the parser expanded them to, so that each can be
//! evaluated as what it is: a general fold would copy its list at every step.

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, operators};

/// A comprehension macro of the standard.
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// Recognises what the standard macros expand to: the macro, `map`'s condition, and what is asked
/// of each element.
pub(super) fn shape(fold: &ComprehensionExpr) -> Option<(Macro, Option<&IdedExpr>, &IdedExpr)> {
    let Expr::Call(step) = &fold.loop_step.expr else {
        return None;
    };
    if fold.iter_var2.is_some() {
        return None;
    }
    match (
        step.func_name.as_str(),
        step.args.as_slice(),
        &fold.accu_init.expr,
    ) {
        (operators::LOGICAL_AND, [_, body], _) => Some((Macro::All, None, body)),
        (operators::LOGICAL_OR, [_, body], _) => Some((Macro::Exists, None, body)),
        (operators::CONDITIONAL, [body, _, _], Expr::Literal(_)) => {
            Some((Macro::ExistsOne, None, body))
        }
        (operators::ADD, [_, item], Expr::List(_)) => Some((Macro::Map, None, single(item)?)),
        (operators::CONDITIONAL, [condition, then, _], Expr::List(_)) => {
            let Expr::Call(append) = &then.expr else {
                return None;
            };
            let item = single(append.args.get(1)?)?;
            // `filter(x, p)` and `map(x, p, x)` expand to the same, and mean the same.
            Some(match &item.expr {
                Expr::Ident(name) if *name == fold.iter_var => (Macro::Filter, None, condition),
                _ => (Macro::Map, Some(condition), item),
            })
        }
        _ => None,
    }
}

/// The element of a list of one.
fn single(list: &IdedExpr) -> Option<&IdedExpr> {
    match &list.expr {
        Expr::List(list) => match list.elements.as_slice() {
            [item] => Some(item),
            _ => None,
        },
        _ => None,
    }
}
