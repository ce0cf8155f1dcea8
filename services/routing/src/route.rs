//! Routing: from accepted, undecided events to one decision each (rules r01–r28).
//!
//! # Shape
//! [`worker`] runs per scope: it reads the scope's pending rows in order, joins what must be decided
//! together into groups ([`group`]), evaluates groups side by side with no transaction open
//! ([`evaluate`]), and commits whatever is ready as one set-based transaction ([`commit`]). A group whose
//! handler hangs holds nothing: the others are committed meanwhile (rule r04).
//!
//! # Claims (rules r21, r23)
//! Before a pass asks handlers, it writes which positions it decides into its process's claim on the scope, in one
//! statement that is committed by itself; the commit that decides them takes them off ([`claim`]). Lock order: a
//! commit takes pending rows, Works and their rows, and the claim last, which only this worker writes; who sweeps a
//! dead process's claims takes pending rows in order of (tenant, scope, position), then the claims. A claim locks
//! nobody out, and a scope that only expressions decide has none.
//!
//! # What a commit revalidates, after its locks, in fresh statements (rule r01)
//! generation (under the shared configuration lock) · the pending rows still stand (row locks) · each Work's
//! (revision, epoch) (row locks; claims skip a locked ready row) · who owns each key · no unrouted event that is
//! earlier than a member carries a key that is newly attached (rules r06, r08) · the failures counted of a member that
//! fails (rule r21) · nobody live has the handler that an event fails for (rule r23) · nobody else has won the wait
//! that a member wins (rule l10). A group that fails one of these is left out, its neighbours commit; it is evaluated
//! again. After five losses it is decided under the locks.
//!
//! # Interleavings considered
//! - *Two replicas, one event*: the second waits for the pending row, finds it gone, drops the group.
//! - *A publisher checks a key while a router attaches it*: the router holds the scope's order lock shared (and
//!   exclusively when it appends a bridge, or decides under the locks), so the publisher either committed before (its event is seen by the marker statement, or by the check for
//!   earlier input) or reads the new owner.
//! - *Two routers attach one key*: the insert of the second waits for the first, inserts fewer rows,
//!   starts again, finds the owner changed, and loses the group.
//! - *Configuration published between evaluation and commit*: the number differs under the lock; all
//!   groups of the commit are evaluated again.
//! - *Claim, completion, cancel between snapshot and commit*: epoch or revision differ; the group is
//!   evaluated again.
//! - *A replica dies while it decides*: nothing of it is committed. Others may decide its events at once, and it
//!   when it is back only after its claim was swept, alone ([`claim::sweep`] has the interleavings of that).
//! - *A replica that has a handler starts, or loads the generation, while another fails an event for it*: its row is
//!   there before the commit looks, and the group is lost and left to it; or after, and the event has failed as it
//!   would have a moment before.

pub mod claim;
pub mod commit;
pub mod decide;
pub mod evaluate;
pub mod failure;
pub mod group;
pub mod lookup;
pub mod policy;
pub mod refusals;
pub mod snapshot;
pub mod view;
pub mod worker;
