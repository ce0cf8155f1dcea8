//! What a sound document likely does not mean: routes that no event reaches, bindings that cannot
//! take a route's policy, names that nothing has, and events that lead to each other past what the
//! causal limits allow. Nothing here refuses a document; all of it is a warning.
//!
//! Two kinds of statement are made. *Unreachable* and *constant* are proofs: what is said holds for
//! every event. *Cycles, depth and fan-out* follow what bindings declare in `emits`, so they say
//! what can happen, not what does; a route counts there only when its condition names types that
//! the declared ones meet, or takes everything. One that asks nothing of the type (only of data,
//! or through `matches`, a negation or a handler) could take any event, and to follow all of those
//! would make a cycle of nearly every document.
//!
//! It stays near the size of the effective scopes: scopes with equal lists are looked at once,
//! conditions are taken apart once, and [`STEPS`] bounds what is left.

mod bindings;
mod conditions;
mod findings;
mod graph;
mod names;
mod overlap;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use conditions::Conditions;
use findings::Findings;
use findings::Warnings;
use overlap::Overlaps;

use super::{
    model::{Binding, Document},
    programs::Programs,
    resolve::{Placed, Resolved},
};

/// Most steps of one analysis; about a second of work. What is past it is not looked at, and that
/// is said.
const STEPS: u64 = 20_000_000;

/// What is left of the steps.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    /// Takes steps; `false` when there are no more.
    fn spend(&mut self, steps: usize) -> bool {
        match self.0.checked_sub(steps as u64) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => {
                self.0 = 0;
                false
            }
        }
    }
}

/// Scopes with equal effective routes and, of those, equal bindings.
struct Group<'a, 'd> {
    /// The first of them, which stands for all.
    first: &'a Resolved<'d>,
    /// All of them.
    scopes: Vec<&'a Resolved<'d>>,
    /// The condition of each route.
    conditions: Vec<usize>,
}

impl<'d> Group<'_, 'd> {
    fn routes(&self) -> &[Placed<'d>] {
        &self.first.routes
    }

    /// The binding that a route uses here (rule r02).
    fn binding(&self, placed: &Placed<'d>) -> Option<&'d Binding> {
        let name = placed.route.binding.as_deref()?;
        self.first.bindings.get(name).copied()
    }
}

/// Looks at a document without errors and all it resolves to.
pub(super) fn analyse(
    document: &Document,
    programs: &mut Programs,
    resolved: &[Resolved<'_>],
) -> Warnings {
    bounded(document, programs, resolved, STEPS)
}

fn bounded(
    document: &Document,
    programs: &mut Programs,
    resolved: &[Resolved<'_>],
    steps: u64,
) -> Warnings {
    let mut findings = Findings::new(document);
    names::check(document, programs, &mut findings);
    let mut conditions = Conditions::default();
    let groups = group(resolved, programs, &mut conditions);
    let mut budget = Budget(steps);
    let mut overlaps = Overlaps::default();
    for group in &groups {
        bindings::check(group, &mut findings);
        let Some(reach) = reach::reach(group, &conditions, &mut budget) else {
            findings.incomplete();
            continue;
        };
        reach::tell(group, &conditions, &reach, &mut findings);
        let complete = graph::check(
            group,
            &conditions,
            &reach,
            &mut overlaps,
            &mut budget,
            &mut findings,
        );
        if !complete {
            findings.incomplete();
        }
    }
    findings.finish()
}

fn group<'a, 'd>(
    resolved: &'a [Resolved<'d>],
    programs: &mut Programs,
    conditions: &mut Conditions<'d>,
) -> Vec<Group<'a, 'd>> {
    let mut groups: Vec<Group<'a, 'd>> = Vec::new();
    let mut by_content: HashMap<Vec<usize>, usize> = HashMap::new();
    for scope in resolved {
        let mut content = Vec::with_capacity(scope.routes.len() * 3);
        for placed in &scope.routes {
            let binding = placed
                .route
                .binding
                .as_deref()
                .and_then(|name| scope.bindings.get(name));
            // Where it was written says which one it is; an address is as good, and shorter.
            let binding = binding.map_or(0, |binding| std::ptr::from_ref(*binding).addr());
            content.extend([placed.scope, placed.position, binding]);
        }
        let at = *by_content.entry(content).or_insert_with(|| {
            groups.push(Group {
                first: scope,
                scopes: Vec::new(),
                conditions: scope
                    .routes
                    .iter()
                    .map(|placed| conditions.of(placed, programs))
                    .collect(),
            });
            groups.len() - 1
        });
        groups[at].scopes.push(scope);
    }
    groups
}

/// The path of a route in the document.
fn path(placed: &Placed<'_>) -> String {
    format!("scopes[{}].routes[{}]", placed.scope, placed.position)
}
