//! The ledger: accepted events, their order, and their causal accounting.
//!
//! [`append`] is the **only** INSERT of an accepted event. Order, identity, ancestry and the causal charge
//! are part of that write, so no caller can forget them (rules a01–a03, c01–c05).
//!
//! # Order
//! A scope's acceptance order is a dense number taken under the scope's order lock, which is held to
//! commit: order is visibility. The caller takes the lock first with [`lock_scope`] and shows it as a
//! [`ScopeLock`]; there is no other way in.
//!
//! # Lock order inside one append
//! scope order lock → causal root rows (sorted) → causal bucket rows (sorted by root) → identities (sorted by
//! source, id). The project's whole list stands in `weir_pg::locks`.
//!
//! # Interleavings considered
//! - *Two publishers, one scope*: the second waits for the lock, then reads the head in a new statement and
//!   sees the first one's numbers and identities.
//! - *Two scopes, one identity*: both read "absent". The INSERT of the second waits for the first one's
//!   commit, inserts fewer rows than it sent, and the transaction starts again: now it answers the replay.
//! - *Siblings of one root on two replicas*: the bucket row serialises them until commit, so the
//!   quota is exact (rule c07).
//! - *First derived acceptance of a root, twice at once*: `INSERT … ON CONFLICT DO NOTHING` into the root
//!   table waits for the other; the loser reads the winner's limits (rule c03).

mod append;
mod charge;
mod control;
mod error;
pub mod request;
pub mod tenant;
mod uid;

pub use append::{
    Accepted, Cause, NewEvent, Outcome, Refusal, Routed, ScopeLock, append, lock_scope,
};
pub use charge::foresee;
pub use control::{Control, append_control};
pub use error::Error;
pub use uid::UidSource;
pub use weir_kernel::envelope::{Attribute, Envelope, Payload};

/// The key under which an unrouted event is registered for a Work that it names or whose key it carries.
/// No identifier of a caller has a control character, so it collides with none.
#[must_use]
pub fn work_marker(work: weir_kernel::WorkId) -> String {
    format!("\u{1}{work}")
}
