//! Bindings that lead to each other: an attempt of one emits a type that a route hands to another
//! (or to the same). Emitted events are taken to be accepted in the emitter's own scope and to meet
//! its effective routes, first match first (rule r03).
//!
//! A binding without `emits` may emit anything, and is taken to emit nothing: it declares nothing.
//! Rule r28 concerns what the own Work emitted, so `self: avoid` ends a loop of one binding on
//! itself, and no longer one.

mod component;

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::model::{Policy, SelfPolicy};
use super::findings::{Findings, Limit, Text, limits};
use super::{Budget, Group, conditions::Conditions, overlap::Overlaps, reach::Reach};

/// Most steps of a path that a message shows.
const MAX_SHOWN: usize = 8;
/// Steps that an edge costs, since it is kept.
const EDGE: usize = 32;

/// What is emitted and where it leads.
#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    /// Which of the emitter's `emits`.
    glob: usize,
    /// Which route of the list.
    route: usize,
    avoids: bool,
}

/// A binding that routes use.
struct Node<'g> {
    name: &'g str,
    emits: &'g [String],
    edges: Vec<Edge>,
}

/// Warns of cycles, depth and fan-out of a list; `false` when the steps did not suffice.
pub(super) fn check(
    group: &Group<'_, '_>,
    conditions: &Conditions<'_>,
    reach: &[Reach],
    overlaps: &mut Overlaps,
    budget: &mut Budget,
    findings: &mut Findings<'_>,
) -> bool {
    let Some(nodes) = nodes(group, conditions, reach, overlaps, budget) else {
        return false;
    };
    let next: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let mut next: Vec<usize> = node.edges.iter().map(|edge| edge.to).collect();
            next.sort_unstable();
            next.dedup();
            next
        })
        .collect();
    let components = component::components(&next);
    let graph = Graph { group, nodes };
    let mut component_of = vec![0; graph.nodes.len()];
    for (at, component) in components.iter().enumerate() {
        for node in component {
            component_of[*node] = at;
        }
    }
    let cyclic: Vec<bool> = components.iter().map(|c| graph.is_cycle(c)).collect();
    for (at, component) in components.iter().enumerate() {
        if cyclic[at] {
            graph.cycle(component, &component_of, findings);
        }
    }
    // Successors come first, so that what a binding leads to is known before itself.
    let mut chains = Chains::new(graph.nodes.len());
    for (at, component) in components.iter().enumerate() {
        if let ([node], false) = (component.as_slice(), cyclic[at]) {
            chains.add(*node, &graph, |other| !cyclic[component_of[other]]);
        }
    }
    chains.tell(&graph, findings);
    true
}

fn nodes<'g>(
    group: &'g Group<'_, '_>,
    conditions: &Conditions<'_>,
    reach: &[Reach],
    overlaps: &mut Overlaps,
    budget: &mut Budget,
) -> Option<Vec<Node<'g>>> {
    let mut nodes: Vec<Node<'g>> = Vec::new();
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut targets = Vec::with_capacity(reach.len());
    for (placed, reach) in group.routes().iter().zip(reach) {
        let binding = group
            .binding(placed)
            .filter(|_| *reach == Reach::Open && placed.route.policy != Policy::Drop);
        let (Some(binding), Some(name)) = (binding, placed.route.binding.as_deref()) else {
            targets.push(None);
            continue;
        };
        let at = *by_name.entry(name).or_insert_with(|| {
            // What no executor runs emits nothing.
            let runs = binding.executor.is_some();
            nodes.push(Node {
                name,
                emits: if runs { &binding.emits } else { &[] },
                edges: Vec::new(),
            });
            nodes.len() - 1
        });
        targets.push(Some(at));
    }
    for node in &mut nodes {
        let mut seen = HashSet::new();
        for (number, glob) in node.emits.iter().enumerate() {
            let id = overlaps.glob(glob, conditions.len(), budget)?;
            for (at, placed) in group.routes().iter().enumerate() {
                if reach[at] != Reach::Open {
                    continue;
                }
                let condition = group.conditions[at];
                let taken = (condition, conditions.get(condition));
                let overlap = overlaps.of((id, glob), taken, budget)?;
                let avoids = placed.route.self_policy == SelfPolicy::Avoid;
                if let (true, Some(to)) = (overlap.meets, targets[at])
                    && seen.insert((number, to, avoids))
                {
                    if !budget.spend(EDGE) {
                        return None;
                    }
                    node.edges.push(Edge {
                        to,
                        glob: number,
                        route: at,
                        avoids,
                    });
                }
                if overlap.takes_all && !avoids {
                    break;
                }
            }
        }
    }
    Some(nodes)
}

struct Graph<'g, 'a, 'd> {
    group: &'g Group<'a, 'd>,
    nodes: Vec<Node<'g>>,
}

impl Graph<'_, '_, '_> {
    fn is_cycle(&self, component: &[usize]) -> bool {
        match component {
            [only] => {
                let edges = &self.nodes[*only].edges;
                edges.iter().any(|edge| edge.to == *only && !edge.avoids)
            }
            _ => true,
        }
    }

    /// Warns of a component that goes round, with its shortest way from its first binding.
    fn cycle(&self, component: &[usize], component_of: &[usize], findings: &mut Findings<'_>) {
        let start = component.iter().copied().min().unwrap_or_default();
        let way = if component.len() == 1 {
            let own = |edge: &&Edge| edge.to == start && !edge.avoids;
            self.nodes[start]
                .edges
                .iter()
                .find(own)
                .map(|edge| vec![(start, *edge)])
        } else {
            self.round(start, component_of)
        };
        let Some(way) = way else { return };
        let mut before = format!("events can go round for ever: {}", self.show(&way));
        if component.len() > way.len() {
            let more = component.len() - way.len();
            before.push_str(&format!(", and {more} more bindings take part"));
        }
        let Some((at, edge)) = way.first() else {
            return;
        };
        let mut text = Text::new(self.place(*at, edge.glob, findings), "emit_cycle", before);
        text.after = if component.len() == 1 {
            format!(
                "; `self: avoid` on slot `{}` would decline what its own Work emitted",
                self.slot(edge.route)
            )
        } else if way.iter().any(|(_, edge)| edge.avoids) {
            "; `self: avoid` does not end it, as another Work emitted".to_owned()
        } else {
            String::new()
        };
        text.limits = Some(Limit::Cycle);
        findings.add_in(text, &self.group.scopes);
    }

    /// The shortest way from a binding of a component back to itself.
    fn round(&self, start: usize, component_of: &[usize]) -> Option<Vec<(usize, Edge)>> {
        let mut came: HashMap<usize, (usize, Edge)> = HashMap::new();
        let mut pending = VecDeque::from([start]);
        while let Some(at) = pending.pop_front() {
            for edge in &self.nodes[at].edges {
                if edge.to == start && at != start {
                    let mut way = vec![(at, *edge)];
                    let mut back = at;
                    while back != start {
                        let step = *came.get(&back)?;
                        way.push(step);
                        back = step.0;
                    }
                    way.reverse();
                    return Some(way);
                }
                if component_of[edge.to] == component_of[start]
                    && edge.to != start
                    && !came.contains_key(&edge.to)
                {
                    came.insert(edge.to, (at, *edge));
                    pending.push_back(edge.to);
                }
            }
        }
        None
    }

    fn slot(&self, route: usize) -> &str {
        &self.group.routes()[route].route.slot
    }

    /// A way in words: "`a` -(`x.*`)-> slot `s` -> `b`".
    fn show(&self, way: &[(usize, Edge)]) -> String {
        let mut text = String::new();
        if let Some((first, _)) = way.first() {
            text = format!("`{}`", self.nodes[*first].name);
        }
        for (at, edge) in way.iter().take(MAX_SHOWN) {
            text.push_str(&format!(
                " -(`{}`)-> slot `{}` -> `{}`",
                self.nodes[*at].emits[edge.glob],
                self.slot(edge.route),
                self.nodes[edge.to].name
            ));
        }
        if way.len() > MAX_SHOWN {
            text.push_str(&format!(" and {} steps more", way.len() - MAX_SHOWN));
        }
        text
    }

    /// The path of one of a binding's `emits`.
    fn place(&self, node: usize, glob: usize, findings: &Findings<'_>) -> String {
        let name = self.nodes[node].name;
        let binding = self.group.first.bindings.get(name);
        let scope = findings.document().scopes.iter().position(|scope| {
            let own = scope.bindings.get(name);
            own.zip(binding)
                .is_some_and(|(own, used)| std::ptr::eq(own, *used))
        });
        format!(
            "scopes[{}].bindings.{name}.emits[{glob}]",
            scope.unwrap_or(self.group.first.index)
        )
    }
}

/// The longest chain and the most events from each binding on, cycles left out: those have a
/// warning of their own, and no end.
struct Chains {
    depth: Vec<u64>,
    events: Vec<u64>,
    next: Vec<Option<Edge>>,
}

impl Chains {
    fn new(nodes: usize) -> Self {
        Self {
            depth: vec![0; nodes],
            events: vec![0; nodes],
            next: vec![None; nodes],
        }
    }

    fn add(&mut self, at: usize, graph: &Graph<'_, '_, '_>, ends: impl Fn(usize) -> bool) {
        let node = &graph.nodes[at];
        let mut most = vec![0_u64; node.emits.len()];
        self.depth[at] = u64::from(!node.emits.is_empty());
        for edge in &node.edges {
            if edge.to == at || !ends(edge.to) {
                continue;
            }
            // Each emitted event goes one way, the worst of those that its type can.
            most[edge.glob] = most[edge.glob].max(self.events[edge.to]);
            if self.depth[edge.to] + 1 > self.depth[at] {
                self.depth[at] = self.depth[edge.to] + 1;
                self.next[at] = Some(*edge);
            }
        }
        self.events[at] = most.iter().fold(0, |sum: u64, more| {
            sum.saturating_add(1).saturating_add(*more)
        });
    }

    /// Warns of the longest chain and the widest binding of a list, each where it is past the
    /// limits of a scope.
    fn tell(&self, graph: &Graph<'_, '_, '_>, findings: &mut Findings<'_>) {
        let greatest = |of: &[u64]| {
            // The first of the greatest.
            let found = of.iter().enumerate().rev().max_by_key(|(_, n)| **n);
            found.map(|(at, n)| (at, *n))
        };
        let scopes = &graph.group.scopes;
        if let Some((at, depth)) = greatest(&self.depth) {
            let past: Vec<_> = scopes
                .iter()
                .copied()
                .filter(|scope| depth > u64::from(limits(scope).0))
                .collect();
            let before = format!("events are derived {depth} deep: {}", self.chain(at, graph));
            let mut text = Text::new(graph.place(at, 0, findings), "emit_depth", before);
            if let Some(edge) = self.next[at] {
                text.path = graph.place(at, edge.glob, findings);
            }
            text.limits = Some(Limit::Depth);
            if !past.is_empty() {
                findings.add_in(text, &past);
            }
        }
        if let Some((at, events)) = greatest(&self.events) {
            let past: Vec<_> = scopes
                .iter()
                .copied()
                .filter(|scope| events > u64::from(limits(scope).1))
                .collect();
            let name = graph.nodes[at].name;
            let before = format!(
                "an attempt of `{name}` can lead to {events} derived events, when each attempt emits one of every declared type,"
            );
            let mut text = Text::new(graph.place(at, 0, findings), "emit_fan_out", before);
            text.limits = Some(Limit::Rate);
            if !past.is_empty() {
                findings.add_in(text, &past);
            }
        }
    }

    fn chain(&self, from: usize, graph: &Graph<'_, '_, '_>) -> String {
        let (mut at, mut way) = (from, Vec::new());
        while let Some(edge) = self.next[at] {
            way.push((at, edge));
            at = edge.to;
        }
        let node = &graph.nodes[at];
        let last = node.emits.first().map(|glob| format!(" -(`{glob}`)"));
        if way.is_empty() {
            return format!("`{}`{}", node.name, last.unwrap_or_default());
        }
        let shown = graph.show(&way);
        if way.len() > MAX_SHOWN {
            return shown;
        }
        format!("{shown}{}", last.unwrap_or_default())
    }
}
