//! The words of Weir: identifiers, closed vocabularies, limits and error kinds.
//!
//! Level 0 of the house: no I/O, no async, no SQL, no wire types. Everything above speaks in these
//! types, so that a work id can never be passed where an event uid belongs, and an unknown number in
//! a column or on the wire can never become a default.

pub mod content;
pub mod envelope;
mod error;
mod id;
pub mod limits;
mod vocabulary;

pub use error::{Classify, ErrorKind, Violation};
pub use id::{BindingId, EventUid, ParseIdError, RouteId, ScopeId, TenantId, WorkId};
pub use vocabulary::{
    AttemptOutcome, Disposition, FailureCode, IntentKind, PendingState, Policy, RefusalCode,
    UnknownCode, WorkState,
};
