//! Inheritance (rule r02): from the scopes as written to what holds in each of them.

use std::collections::{BTreeMap, HashSet};

use super::{
    check::index,
    model::{
        Binding, Brake, DEFAULT_DEPTH, DEFAULT_DERIVED_PER_MINUTE, Limits, Route, Scope, Source,
    },
};

/// A scope with all it inherits; borrowed from the document.
#[derive(Clone, Debug)]
pub(super) struct Resolved<'a> {
    /// Its place in the document.
    pub(super) index: usize,
    /// Routes in order, disabled ones left out.
    pub(super) routes: Vec<Placed<'a>>,
    /// Slots that its ancestors have, switched off or not.
    pub(super) inherited_slots: HashSet<&'a str>,
    pub(super) bindings: BTreeMap<&'a str, &'a Binding>,
    pub(super) sources: Vec<(usize, &'a Source)>,
    pub(super) limits: Limits,
    pub(super) brake: Option<Brake>,
    /// Every slot in order, disabled ones included, so that a child can switch one on again in
    /// its position.
    slots: Vec<Placed<'a>>,
}

/// A route and where it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'a> {
    pub(super) scope: usize,
    pub(super) position: usize,
    pub(super) route: &'a Route,
}

impl Resolved<'_> {
    pub(super) fn size(&self) -> usize {
        self.slots.len() + self.bindings.len() + self.sources.len()
    }
}

/// Resolves the scopes of a sound tree: parents before children, children in document order.
pub(super) fn resolve(scopes: &[Scope]) -> Vec<Resolved<'_>> {
    let by_name = index(scopes);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); scopes.len()];
    let mut pending = Vec::new();
    for (at, scope) in scopes.iter().enumerate() {
        match scope
            .parent
            .as_deref()
            .and_then(|parent| by_name.get(parent))
        {
            Some(parent) => children[*parent].push(at),
            None => pending.push((at, None)),
        }
    }
    let mut done: Vec<Resolved<'_>> = Vec::with_capacity(scopes.len());
    let mut total = 0;
    while let Some((at, parent)) = pending.pop() {
        let resolved = one(at, &scopes[at], parent.map(|parent: usize| &done[parent]));
        total += resolved.size();
        let place = done.len();
        done.push(resolved);
        // Past the limit the check refuses anyway; do not spend memory to learn by how much.
        if total > 2 * super::check::MAX_EFFECTIVE {
            return done;
        }
        // Reversed, as the stack hands the last one out first.
        pending.extend(children[at].iter().rev().map(|child| (*child, Some(place))));
    }
    done
}

fn one<'a>(at: usize, scope: &'a Scope, parent: Option<&Resolved<'a>>) -> Resolved<'a> {
    let defaults = Limits {
        depth: Some(DEFAULT_DEPTH),
        derived_per_minute: Some(DEFAULT_DERIVED_PER_MINUTE),
    };
    let above = parent.map_or(defaults, |parent| parent.limits);
    let mut resolved = Resolved {
        index: at,
        routes: Vec::new(),
        inherited_slots: parent
            .iter()
            .flat_map(|p| &p.slots)
            .map(|placed| placed.route.slot.as_str())
            .collect(),
        bindings: parent.map(|p| p.bindings.clone()).unwrap_or_default(),
        sources: parent.map(|p| p.sources.clone()).unwrap_or_default(),
        limits: Limits {
            depth: scope.limits.depth.or(above.depth),
            derived_per_minute: scope.limits.derived_per_minute.or(above.derived_per_minute),
        },
        brake: scope.brake.or_else(|| parent.and_then(|p| p.brake)),
        slots: parent.map(|p| p.slots.clone()).unwrap_or_default(),
    };
    resolved.bindings.extend(
        scope
            .bindings
            .iter()
            .map(|(name, binding)| (name.as_str(), binding)),
    );
    let sources = scope.sources.iter().map(|source| (at, source));
    overlay(&mut resolved.sources, sources, |(_, source)| &source.name);
    let routes = scope
        .routes
        .iter()
        .enumerate()
        .map(|(position, route)| Placed {
            scope: at,
            position,
            route,
        });
    overlay(&mut resolved.slots, routes, |placed| &placed.route.slot);
    resolved.routes = resolved
        .slots
        .iter()
        .filter(|placed| !placed.route.disabled)
        .copied()
        .collect();
    resolved
}

/// Puts own items over inherited ones: one of the same name takes the other's position, new ones
/// follow.
fn overlay<'a, T: Copy + 'a>(
    items: &mut Vec<T>,
    own: impl Iterator<Item = T>,
    name: impl Fn(&T) -> &'a str,
) {
    let inherited: BTreeMap<&str, usize> = items
        .iter()
        .enumerate()
        .map(|(at, item)| (name(item), at))
        .collect();
    for item in own {
        match inherited.get(name(&item)) {
            Some(at) => items[*at] = item,
            None => items.push(item),
        }
    }
}
