//! Where a reader stands: per scope, the last event it has seen (rule r19).
//!
//! A scope's order is its visibility (rule a03), so one position says exactly what was seen of it;
//! between scopes there is no such order, so a reader of a whole tenant keeps one position for each.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use weir_kernel::ScopeId;

use super::Error;
use super::token::{Reader, Writer};

/// The last event seen of a scope. The time is what the payload table is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Its acceptance order.
    pub seq: i64,
    /// Its time of acceptance.
    pub at: DateTime<Utc>,
}

impl Position {
    /// Before the first event.
    pub const START: Self = Self {
        seq: 0,
        at: DateTime::UNIX_EPOCH,
    };
}

/// A position for each scope; a scope that is not in it stands at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vector(BTreeMap<ScopeId, Position>);

impl Vector {
    /// Returns the position in a scope.
    #[must_use]
    pub fn get(&self, scope: ScopeId) -> Position {
        self.0.get(&scope).copied().unwrap_or(Position::START)
    }

    /// Sets the position in a scope.
    pub fn set(&mut self, scope: ScopeId, position: Position) {
        self.0.insert(scope, position);
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.number(self.0.len() as u64);
        for (scope, position) in &self.0 {
            out.number(u64::from(scope.0.cast_unsigned()));
            out.number(position.seq.cast_unsigned());
            out.number(position.at.timestamp_micros().cast_unsigned());
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, Error> {
        let mut vector = Self::default();
        for _ in 0..from.number()? {
            let scope = ScopeId(from.int4()?);
            let seq = from.int8()?;
            let at = DateTime::from_timestamp_micros(from.int8()?).ok_or_else(|| from.refuse())?;
            vector.set(scope, Position { seq, at });
        }
        Ok(vector)
    }
}
