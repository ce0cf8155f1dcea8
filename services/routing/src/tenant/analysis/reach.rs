//! Which routes of an effective list an event can reach (rules r02, r03).
//!
//! A route takes nothing when every case of its condition is inside a case of earlier ones: asks of
//! the type what they ask or more, and has all their other conditions among its own. Those that came
//! before have then taken the event, or failed on it, which stops it too. What declines its own
//! Work's events (rule r28) leaves those to later routes, unless they decline them as well.

use std::collections::{BTreeSet, HashMap};

use super::super::model::SelfPolicy;
use super::findings::{Findings, Text, slots};
use super::{Budget, Group, conditions::Case, conditions::Conditions, path};
use crate::cel::{Known, TypePattern};

/// What comes to a route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Some event may.
    Open,
    /// None is taken: the condition never holds.
    Never,
    /// Each fails.
    Fails,
    /// None comes: these earlier routes of the list take them.
    Shadowed(BTreeSet<usize>),
}

/// Says for each route of the list what comes to it; `None` when the steps do not suffice.
pub(super) fn reach(
    group: &Group<'_, '_>,
    conditions: &Conditions<'_>,
    budget: &mut Budget,
) -> Option<Vec<Reach>> {
    let any = [TypePattern::any()];
    let (mut all, mut others) = (Earlier::default(), Earlier::default());
    let mut found = Vec::with_capacity(group.routes().len());
    for (at, placed) in group.routes().iter().enumerate() {
        let taken = conditions.get(group.conditions[at]);
        if taken.known == Some(Known::Never) {
            found.push(Reach::Never);
            continue;
        }
        let avoids = placed.route.self_policy == SelfPolicy::Avoid;
        let earlier: &[&Earlier] = if avoids { &[&all, &others] } else { &[&all] };
        let fails = taken.known == Some(Known::Fails);
        let everything = [Case {
            types: any.to_vec(),
            constrains_type: false,
            rest: Vec::new(),
        }];
        let cases = if fails { &everything[..] } else { &taken.cases };
        let mut by = BTreeSet::new();
        let mut shadowed = true;
        'cases: for case in cases {
            for types in &case.types {
                match covering(earlier, types, &case.rest, budget)? {
                    Some(route) => {
                        by.insert(route);
                    }
                    None => {
                        shadowed = false;
                        break 'cases;
                    }
                }
            }
        }
        if shadowed {
            found.push(Reach::Shadowed(by));
            continue;
        }
        let into = if avoids { &mut others } else { &mut all };
        if fails {
            into.add(&any[0], &[], at);
        }
        for case in &taken.cases {
            for types in &case.types {
                if !budget.spend(1) {
                    return None;
                }
                into.add(types, &case.rest, at);
            }
        }
        found.push(if fails { Reach::Fails } else { Reach::Open });
    }
    Some(found)
}

fn covering(
    earlier: &[&Earlier],
    types: &TypePattern,
    rest: &[u32],
    budget: &mut Budget,
) -> Option<Option<usize>> {
    let mut found: Option<usize> = None;
    for earlier in earlier {
        let route = earlier.covering(types, rest, budget)?;
        found = match (found, route) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Some(found)
}

/// What earlier routes of a list take.
#[derive(Default)]
struct Earlier {
    /// Without a further condition.
    bare: Types,
    /// With further conditions, by the first of them.
    conditional: HashMap<u32, Vec<(Vec<u32>, Types)>>,
}

impl Earlier {
    fn add(&mut self, types: &TypePattern, rest: &[u32], route: usize) {
        let Some(first) = rest.first() else {
            self.bare.add(types, route);
            return;
        };
        let groups = self.conditional.entry(*first).or_default();
        match groups.iter_mut().find(|(r, _)| r == rest) {
            Some((_, index)) => index.add(types, route),
            None => {
                let mut index = Types::default();
                index.add(types, route);
                groups.push((rest.to_vec(), index));
            }
        }
    }

    fn covering(
        &self,
        types: &TypePattern,
        rest: &[u32],
        budget: &mut Budget,
    ) -> Option<Option<usize>> {
        let mut found = self.bare.covering(types, budget)?;
        for atom in rest {
            for (needed, index) in self.conditional.get(atom).into_iter().flatten() {
                if !budget.spend(needed.len()) {
                    return None;
                }
                if needed.iter().all(|n| rest.binary_search(n).is_ok())
                    && let Some(route) = index.covering(types, budget)?
                {
                    found = Some(found.map_or(route, |f: usize| f.min(route)));
                }
            }
        }
        Some(found)
    }
}

/// Sets of types, each with the first route that takes it.
#[derive(Default)]
struct Types {
    any: Option<usize>,
    exact: HashMap<String, usize>,
    starts: HashMap<String, usize>,
    /// Lengths of `starts`, so that only those are tried.
    lengths: BTreeSet<usize>,
    others: Vec<(TypePattern, usize)>,
}

impl Types {
    fn add(&mut self, types: &TypePattern, route: usize) {
        match types {
            _ if types.is_any() => {
                self.any.get_or_insert(route);
            }
            TypePattern::Is(text) => {
                self.exact.entry(text.clone()).or_insert(route);
            }
            TypePattern::Like {
                starts,
                ends,
                contains,
            } if ends.is_empty() && contains.is_empty() => {
                self.lengths.insert(starts.len());
                self.starts.entry(starts.clone()).or_insert(route);
            }
            other => self.others.push((other.clone(), route)),
        }
    }

    /// The first route found that takes all of these types; `None` outside when the steps do not
    /// suffice.
    fn covering(&self, types: &TypePattern, budget: &mut Budget) -> Option<Option<usize>> {
        let start = match types {
            TypePattern::Is(text) => text,
            TypePattern::Like { starts, .. } => starts,
        };
        if !budget.spend(1 + self.lengths.len() + self.others.len()) {
            return None;
        }
        let exact = match types {
            TypePattern::Is(text) => self.exact.get(text).copied(),
            TypePattern::Like { .. } => None,
        };
        let by_start = self
            .lengths
            .range(..=start.len())
            .filter_map(|length| start.get(..*length))
            .filter_map(|start| self.starts.get(start).copied());
        let others = self
            .others
            .iter()
            .filter(|(set, _)| set.covers(types))
            .map(|(_, route)| *route);
        let found = self.any.into_iter().chain(exact).chain(by_start);
        Some(found.chain(others).min())
    }
}

/// Warns of routes that no event gets past or into.
pub(super) fn tell(
    group: &Group<'_, '_>,
    conditions: &Conditions<'_>,
    reach: &[Reach],
    findings: &mut Findings<'_>,
) {
    for (at, (placed, reach)) in group.routes().iter().zip(reach).enumerate() {
        let slot = &placed.route.slot;
        let text = match reach {
            Reach::Open => continue,
            Reach::Never => {
                let why = if conditions.get(group.conditions[at]).reserved {
                    "asks for types `core.*`, which routes are never asked about"
                } else {
                    "never holds"
                };
                let before = format!("slot `{slot}` takes no event: its condition {why},");
                Text::new(format!("{}.when", path(placed)), "condition_false", before)
            }
            Reach::Fails => {
                let before = format!(
                    "slot `{slot}` fails every event that comes to it with `handler_invalid`: its condition is no bool,"
                );
                Text::new(
                    format!("{}.when", path(placed)),
                    "condition_invalid",
                    before,
                )
            }
            Reach::Shadowed(by) => {
                let everything = by.len() == 1
                    && by.iter().all(|at| {
                        let known = conditions.get(group.conditions[*at]).known;
                        matches!(known, Some(Known::Always | Known::Fails))
                    });
                let names = slots(by.iter().map(|at| group.routes()[*at].route.slot.as_str()));
                let before = if everything {
                    format!("slot `{slot}` is never reached: {names} before it takes every event")
                } else {
                    // It may be asked all the same, and then declines or fails.
                    let verb = if by.len() == 1 { "takes" } else { "take" };
                    format!(
                        "slot `{slot}` never matches: {names} before it {verb} all that it could take"
                    )
                };
                Text::new(
                    format!("{}.slot", path(placed)),
                    "route_unreachable",
                    before,
                )
            }
        };
        findings.add_in(text, &group.scopes);
    }
}
