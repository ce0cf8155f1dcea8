//! The Work aggregate: what must change in one commit, whoever commits.
//!
//! Functions over `&mut Tx`. They keep three things:
//!
//! - `weir.ready` has a row for a Work if and only if the Work is `ready` and has queued input that nobody
//!   took, or the bridge of a wake. That row is the lease: while it exists it, and not `weir.work`, is the
//!   truth for epoch, attempt, tries and owner.
//! - Work rows are locked before ready rows, sorted by id ([`lock`]); a claim locks ready rows only, and
//!   only with SKIP LOCKED, so it waits for nobody.
//! - An attempt writes under its lease only ([`require_lease`], [`share_lease`]), by the database's clock.
//!
//! Infinite timestamps never leave SQL: the driver cannot hold them.

mod attempt;
pub mod effects;
mod error;
mod input;
mod lease;
mod lock;
mod park;
mod queue;
mod row;
mod wait;

pub use attempt::{End, end_attempt, free_deferred};
pub use error::Error;
pub use input::{Queued, acknowledge, consumed_after, queue_input};
pub use lease::{Held, Lease, SharedLease, check_lease, require_lease, share_lease};
pub use lock::{clock, lock, lock_one, lock_ready, lock_works};
pub use park::{Bridge, Parked, Resume, WaitFor, due, lock_parking, park, resume};
pub use queue::{
    Remaining, complete_if_drained, give_back, hold, release_held, remaining, requeue, terminate,
};
pub use row::{Locked, ReadyRow, Work};
pub use wait::{
    Condition, OpenWait, Won, hold_refused, open_wait, refused_reason, wait_name, wake,
};
