//! Which types a binding declares to emit, against which a condition takes.

use std::collections::HashMap;

use super::super::glob;
use super::{Budget, conditions::Taken};
use crate::cel::{Known, TypePattern};

/// Cells of a comparison that cost a step.
const CELLS: usize = 16;

/// What a condition does with the types of a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    /// It takes some of them, as far as types go.
    pub(super) meets: bool,
    /// It takes all of them, whatever else the events are.
    pub(super) takes_all: bool,
}

/// Comparisons already made: for each glob a row with a place for every condition.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    globs: HashMap<String, usize>,
    rows: Vec<Vec<Option<Overlap>>>,
}

impl Overlaps {
    /// The number of a glob; `None` when the steps do not suffice.
    pub(super) fn glob(
        &mut self,
        glob: &str,
        conditions: usize,
        budget: &mut Budget,
    ) -> Option<usize> {
        if let Some(number) = self.globs.get(glob) {
            return Some(*number);
        }
        // The row is kept, so that its size is paid for.
        if !budget.spend(1 + conditions / 4) {
            return None;
        }
        self.rows.push(vec![None; conditions]);
        self.globs.insert(glob.to_owned(), self.rows.len() - 1);
        Some(self.rows.len() - 1)
    }

    /// Compares; `None` when the steps do not suffice.
    pub(super) fn of(
        &mut self,
        (number, glob): (usize, &str),
        (condition, taken): (usize, &Taken),
        budget: &mut Budget,
    ) -> Option<Overlap> {
        if !budget.spend(1) {
            return None;
        }
        let known = &mut self.rows[number][condition];
        if known.is_none() {
            *known = Some(compare(glob, taken, budget)?);
        }
        *known
    }
}

fn compare(glob: &str, taken: &Taken, budget: &mut Budget) -> Option<Overlap> {
    let always = taken.known == Some(Known::Always);
    let mut overlap = Overlap {
        meets: always,
        takes_all: always,
    };
    for case in taken.cases.iter().filter(|case| case.constrains_type) {
        for types in &case.types {
            if !budget.spend(1 + glob.len() / CELLS) {
                return None;
            }
            overlap.takes_all |= case.rest.is_empty() && inside(glob, types);
            overlap.meets = overlap.meets || meets(glob, types, budget)?;
        }
    }
    Some(overlap)
}

fn is_literal(glob: &str) -> bool {
    !glob.contains(['*', '?'])
}

/// Whether every type of the glob is in the set. `false` also where it is not seen.
pub(super) fn inside(glob: &str, types: &TypePattern) -> bool {
    if is_literal(glob) {
        return types.fits(glob);
    }
    let runs: Vec<&str> = glob.split(['*', '?']).collect();
    match types {
        TypePattern::Is(_) => false,
        TypePattern::Like {
            starts,
            ends,
            contains,
        } => {
            runs.first()
                .is_some_and(|run| run.starts_with(starts.as_str()))
                && runs.last().is_some_and(|run| run.ends_with(ends.as_str()))
                && contains
                    .iter()
                    .all(|part| runs.iter().any(|run| run.contains(part.as_str())))
        }
    }
}

/// Whether a type of the glob is in the set. Sound: `true` only when there is one.
pub(super) fn meets(glob: &str, types: &TypePattern, budget: &mut Budget) -> Option<bool> {
    match types {
        TypePattern::Is(text) => Some(glob::matches(glob, text)),
        types if is_literal(glob) => Some(types.fits(glob)),
        TypePattern::Like {
            starts,
            ends,
            contains,
        } => {
            let mut other: Vec<Token> = starts.chars().map(Token::Is).collect();
            other.push(Token::Run);
            for part in contains {
                // What the start or the end has already need not come once more.
                if !starts.contains(part.as_str()) && !ends.contains(part.as_str()) {
                    other.extend(part.chars().map(Token::Is));
                    other.push(Token::Run);
                }
            }
            other.extend(ends.chars().map(Token::Is));
            let own: Vec<Token> = glob
                .chars()
                .map(|c| match c {
                    '*' => Token::Run,
                    '?' => Token::One,
                    c => Token::Is(c),
                })
                .collect();
            if !budget.spend(own.len() * other.len() / CELLS) {
                return None;
            }
            Some(intersect(&own, &other))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Is(char),
    One,
    Run,
}

/// Whether a text fits both patterns. `a × b` steps: row by row from the end, whether the two
/// remainders have a text in common.
fn intersect(a: &[Token], b: &[Token]) -> bool {
    let mut below = vec![false; b.len() + 1];
    for i in (0..=a.len()).rev() {
        let mut row = vec![false; b.len() + 1];
        for j in (0..=b.len()).rev() {
            row[j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                // A run ends here, or takes one more of the other.
                (Some(Token::Run), other) => below[j] || (other.is_some() && row[j + 1]),
                (other, Some(Token::Run)) => row[j + 1] || (other.is_some() && below[j]),
                (Some(x), Some(y)) => {
                    (x == y || *x == Token::One || *y == Token::One) && below[j + 1]
                }
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
        below = row;
    }
    below[0]
}
