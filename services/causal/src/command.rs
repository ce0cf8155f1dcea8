//! The use cases: one struct, one transaction. A refusal is part of the output and commits with its
//! diagnostic; an `Err` rolls back and leaves nothing (rule c05).

mod derive;
mod emit;

pub(crate) use derive::Derive;
pub(crate) use emit::Emit;

use weir_ledger::Outcome;

/// What became of the events of one call.
#[derive(Debug)]
pub(crate) struct Appended {
    /// Name of the scope that was asked.
    pub(crate) scope: String,
    /// One for each event, in order.
    pub(crate) outcomes: Vec<Outcome>,
}
