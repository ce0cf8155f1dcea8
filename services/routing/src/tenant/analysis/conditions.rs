//! The conditions of routes, taken apart once each.

use std::collections::HashMap;

use super::super::{
    model::{Handler, NamedHandler},
    programs::Programs,
    resolve::Placed,
};
use crate::cel::{Condition, Known, TypePattern};

/// Types that routes are never asked about (rule r27).
const RESERVED: &str = "core.";

/// A condition.
#[derive(Debug)]
pub(super) struct Taken {
    /// What it is for every event, if that can be told.
    pub(super) known: Option<Known>,
    /// Whether it holds for nothing because routes are never asked about such types (rule r27).
    pub(super) reserved: bool,
    /// Its cases.
    pub(super) cases: Vec<Case>,
}

/// One way to fulfil a condition.
#[derive(Debug)]
pub(super) struct Case {
    /// Types that can.
    pub(super) types: Vec<TypePattern>,
    /// Whether that leaves any type out.
    pub(super) constrains_type: bool,
    /// What else is asked, by number; sorted.
    pub(super) rest: Vec<u32>,
}

/// Who decides, as far as two are the same.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key<'d> {
    Cel(&'d str),
    Remote(&'d str, &'d str),
    Rust(&'d str),
    None,
}

/// All conditions of a document.
#[derive(Debug, Default)]
pub(super) struct Conditions<'d> {
    all: Vec<Taken>,
    by_key: HashMap<Key<'d>, usize>,
    by_place: HashMap<(usize, usize), usize>,
    atoms: HashMap<String, u32>,
}

impl<'d> Conditions<'d> {
    /// The number of a route's condition.
    pub(super) fn of(&mut self, placed: &Placed<'d>, programs: &mut Programs) -> usize {
        let place = (placed.scope, placed.position);
        if let Some(at) = self.by_place.get(&place) {
            return *at;
        }
        let key = match &placed.route.handler {
            Some(Handler::Cel(when)) => Key::Cel(when),
            Some(Handler::Named(NamedHandler::Remote { remote, name })) => {
                Key::Remote(remote, name)
            }
            Some(Handler::Named(NamedHandler::Rust { rust })) => Key::Rust(rust),
            None => Key::None,
        };
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => {
                let taken = self.take(&key, programs);
                self.all.push(taken);
                self.by_key.insert(key, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.by_place.insert(place, at);
        at
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, at: usize) -> &Taken {
        &self.all[at]
    }

    fn take(&mut self, key: &Key<'d>, programs: &mut Programs) -> Taken {
        let condition = match key {
            Key::Cel(when) => match programs.get(when) {
                Ok(program) => program.condition(),
                // The check has refused it.
                Err(_) => unknown(String::new()),
            },
            // A handler is deterministic: what one has declined, it declines again.
            Key::Remote(remote, name) => unknown(format!("remote {name} {remote}")),
            Key::Rust(name) => unknown(format!("rust {name}")),
            Key::None => unknown(String::new()),
        };
        let mut taken = Taken {
            known: condition.known,
            reserved: false,
            cases: Vec::new(),
        };
        for case in condition.cases {
            let constrains_type = case.constrains_type();
            let types: Vec<TypePattern> = case.types.into_iter().filter(is_asked).collect();
            if types.is_empty() {
                taken.reserved = true;
                continue;
            }
            let mut rest: Vec<u32> = case.rest.into_iter().map(|atom| self.atom(atom)).collect();
            rest.sort_unstable();
            taken.cases.push(Case {
                types,
                constrains_type,
                rest,
            });
        }
        if taken.cases.is_empty() && taken.reserved {
            taken.known = Some(Known::Never);
        } else {
            taken.reserved = false;
        }
        taken
    }

    fn atom(&mut self, form: String) -> u32 {
        // A document has fewer bytes than this can count.
        let next = u32::try_from(self.atoms.len()).unwrap_or(u32::MAX);
        *self.atoms.entry(form).or_insert(next)
    }
}

fn is_asked(types: &TypePattern) -> bool {
    match types {
        TypePattern::Is(text) => !text.starts_with(RESERVED),
        TypePattern::Like { starts, .. } => !starts.starts_with(RESERVED),
    }
}

fn unknown(form: String) -> Condition {
    Condition {
        known: None,
        cases: vec![crate::cel::Case {
            types: vec![TypePattern::any()],
            rest: vec![form],
        }],
    }
}
