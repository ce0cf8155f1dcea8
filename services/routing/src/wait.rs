//! Waits, as routing sees them (rules l10, l11, r17, r42–r44): who wins one, and waking its Work.
//!
//! # Who wins
//! [`check`] finds the candidate with the least (accepted_at, uid) among those it can see: an own input that is
//! not consumed, whenever accepted; an event of a subscribed scope that was accepted since the lookback; the end
//! of a Work, at its time. The timeout wins only if it was due before all of them. It is one function: routing
//! asks it for the event it decides, the loop for what happens elsewhere, a trace for what would be.
//!
//! # Who wakes
//! - *The Work's own, unrouted event* wakes by being routed: `wake`, no route is asked, in the routing commit
//!   ([`crate::route::commit`]). The loop leaves such a winner to it.
//! - *Everything else* (an input that was queued when the attempt parked, an event of a subscription, an end, a
//!   timeout) is woken by the loop ([`task`]): each wake is a commit of its own ([`wake`]), and the event is routed
//!   by its own routes as usual (rule r44).
//!
//! An own event that comes when another candidate had won first waits for that wake, uncounted, and is then
//! decided on the ready Work (rule r43). When the causal limits refuse the bridge, the Work is held with the
//! reason (rule l11), the wait stays open, and own events are queued as context (rule r17).
//!
//! # Nothing slips through
//! The positions of a scope are dense and commit in order (rule a03), so a subscription that remembers the
//! position up to which it has seen cannot miss an event, whoever commits when; it needs no lock of the scope
//! that it watches. Counters `asked` and `checked` on the wait do the same for what is no event: they are raised
//! in the commit that ends a Work, opens a wait or releases a Work.
//!
//! # Lock order and interleavings
//! A wake takes: configuration (shared) → the order lock of the Work's scope, exclusively, since it appends the
//! bridge → the Work → its ready row. It looks once more under the Work's lock, at what has been committed since
//! the check: so the winner is the least of those visible to the check that decides.
//! - *Two replicas wake one Work*: the second waits for the lock and finds the wait closed.
//! - *Own event against the loop*: both take the scope's order lock exclusively. Whoever is second finds the wait
//!   closed (the loop), or another revision of the Work (routing: the group is evaluated again).
//! - *Cancel, park, release between check and wake*: the wait is not open, or is another one; nothing is done.
//! - *An event of another scope commits between check and wake*: seen by the second look.
//! - *Completion of the Work that is waited for*: it raises `asked` under its lock; parking took that lock, so
//!   the end is either before the parking, and seen by the first check, or finds the subscription.

pub mod check;
pub mod task;
pub mod wake;
