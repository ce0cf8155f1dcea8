//! Parking: an attempt ends, and its Work waits (rules l04, l10). Waking it is the `wait` module's.
//!
//! # Storage contract between both sides
//! A row of `weir.wait` is (tenant, work, n) with n = 1, 2, 3 … per Work; its name in the contracts is
//! `<work>/<n>`. `attempt` is the parking attempt's number, `trigger_uid` its trigger, `since` the lookback (the
//! later of its claim and what the caller asked), `due_at` database time plus the timeout, or NULL. `state` is
//! 1 open, 2 won, 3 timed out, 4 void; 5 is not used: a wait whose wake is refused stays open, with `refusal`,
//! while its Work is held. A check is due while `asked` is ahead of `checked`: a wait asks when it opens, when
//! its Work is released, and when a Work that it waits for ends.
//!
//! `weir.wait_sub` has a row per condition, `item` from 1:
//! - kind 1, own input: `scope_id` is the Work's;
//! - kind 2, an event: `scope_id` is the subscribed scope, `condition` CEL over `event` (NULL: any), `emitter` the
//!   Work that emitted it (NULL: anybody), `seen_seq` the last position that need not be looked at again. It
//!   starts just before the first event accepted at or after `since`, at the scope's head when there is none,
//!   and is the highest number while the Work is held;
//! - kind 3, the end of a Work: `scope_id` is the waiting Work's, `ended_work` the other.
//!
//! The wake queues, in one commit, the bridge and, when it is the Work's own event, the winner, as inputs with
//! `taken_by` 0: bound to the wake, presented by the claim before the queue and not a part of it. The bridge's
//! `bytes` count its winner's payload, too, which need not be an input of the Work. `ready.bridge_n`
//! is the bridge's number and `ready.trigger_uid` the bridge, until an attempt completes or parks and so takes
//! them ([`end_attempt`](crate::end_attempt)); a held Work has no ready row, so its release finds the bridge by
//! the last wait ([`resume`]).
//!
//! # Interleavings considered
//! - *An event is accepted while an attempt parks.* Positions of a scope are dense and commit in order (rule a03):
//!   what the subscribing statement does not see gets a position after the head that it sees, so `seen_seq` is
//!   before it. Parking takes no scope lock.
//! - *A Work ends while an attempt parks on its end.* Parking locks both Works in one sorted call. The end has
//!   committed before, and the first check sees it; or it waits, and asks in statements after its lock, which see
//!   the subscription.
//! - *A check is under way when a Work ends.* Asking waits for the wait's row and counts up what it then finds, so
//!   a check that began before does not swallow it.
//! - *Two Works end that one waits for, or many.* Rows of `weir.wait` are locked by (work, n), after the event
//!   identities and before the request id's row. Two waiting Works that wait for each other and are cancelled at
//!   once can meet the wrong way round; the database ends one transaction, and it is run again.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::types::Uuid;
use weir_kernel::{BindingId, EventUid, ScopeId, TenantId, WorkId};
use weir_pg::Tx;

use crate::input::consumed_after;
use crate::lock::{lock_ready, lock_works};
use crate::queue::{park_settled, remaining};
use crate::{Error, Locked, Work};

/// What a wait is to be won by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitFor {
    /// Any further input of the Work.
    Own,
    /// An accepted event.
    Event {
        /// Its scope.
        scope: ScopeId,
        /// Expression over it; `None`: any.
        filter: Option<String>,
        /// The Work that emitted it; anybody when `None`.
        emitter: Option<WorkId>,
    },
    /// The end of another Work.
    Ended(WorkId),
}

/// A wait as it opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parked {
    /// Its number within the Work.
    pub n: i32,
    /// The lookback.
    pub since: DateTime<Utc>,
    /// When it times out.
    pub due_at: Option<DateTime<Utc>>,
}

/// Returns when a timeout from `at` is over: never early, in the microseconds that the database keeps.
#[must_use]
pub fn due(at: DateTime<Utc>, timeout: Duration) -> DateTime<Utc> {
    let micros = i64::try_from(timeout.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX);
    at.checked_add_signed(TimeDelta::microseconds(micros))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Locks a Work with its ready row and, in the same sorted call, the Works whose end is waited for: what ends one
/// of them either has committed or sees the wait. Returns the Work, and which of `ended` exist.
///
/// # Errors
/// [`Error::WorkNotFound`] for the Work itself, a ready row that is not where the Work says, and the database's.
pub async fn lock_parking(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: WorkId,
    ended: &[WorkId],
) -> Result<(Locked, Vec<WorkId>), Error> {
    let all: Vec<WorkId> = ended.iter().copied().chain([work]).collect();
    let locked = lock_works(tx, tenant, &all).await?;
    let found = locked.iter().map(|other| other.work_id).collect();
    let own = locked
        .into_iter()
        .find(|locked| locked.work_id == work)
        .ok_or(Error::WorkNotFound(work))?;
    let (mut ready, at) = lock_ready(tx, tenant, std::slice::from_ref(&own)).await?;
    let ready = ready.remove(&work);
    if own.queue_pos.is_some() != ready.is_some() {
        return Err(Error::Inconsistent {
            work,
            what: "its ready row is not at its queue position",
        });
    }
    let own = Locked {
        work: own,
        ready,
        at,
    };
    Ok((own, found))
}

/// Lets a Work wait whose attempt was just ended as parked: consumes what its claim presented (rule l04), opens
/// the wait, and starts its count of attempts anew. `since` moves the lookback later, never earlier. With
/// [`WaitFor::Own`], the Work's events in backoff are due: no route is asked for them any more.
///
/// # Errors
/// The database's, and a Work without an attempt.
pub async fn park(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    conditions: &[WaitFor],
    since: Option<DateTime<Utc>>,
    due_at: Option<DateTime<Utc>>,
) -> Result<Parked, Error> {
    let Some((ready, claimed_at)) = locked
        .ready
        .as_ref()
        .and_then(|ready| Some((ready, ready.claimed_at?)))
    else {
        return Err(Error::Inconsistent {
            work: locked.work.work_id,
            what: "it is parked but was never claimed",
        });
    };
    let consumed = consumed_after(tx, tenant, &locked.work, ready).await?;
    park_settled(tx, tenant, locked, consumed).await?;
    let since = since.map_or(claimed_at, |since| since.max(claimed_at));
    let c = Columns::of(&locked.work, conditions);
    let (n, since, due_at) = sqlx::query_as(include_str!("sql/park.sql"))
        .bind(tenant.0)
        .bind(locked.work.work_id.0)
        .bind(ready.attempt)
        .bind(since)
        .bind(due_at)
        .bind(ready.trigger.map(|uid| uid.0))
        .bind(&c.kinds)
        .bind(&c.scopes)
        .bind(&c.filters)
        .bind(&c.emitters)
        .bind(&c.ended)
        .fetch_one(tx.conn())
        .await?;
    if conditions.contains(&WaitFor::Own) {
        free_backoff(tx, tenant, &locked.work).await?;
    }
    Ok(Parked { n, since, due_at })
}

#[derive(Default)]
struct Columns<'a> {
    kinds: Vec<i16>,
    scopes: Vec<i32>,
    filters: Vec<Option<&'a str>>,
    emitters: Vec<Option<Uuid>>,
    ended: Vec<Option<Uuid>>,
}

impl<'a> Columns<'a> {
    fn of(work: &Work, conditions: &'a [WaitFor]) -> Self {
        let mut c = Self::default();
        for condition in conditions {
            let (kind, scope, filter, emitter, ended) = match condition {
                WaitFor::Own => (1, work.scope_id, None, None, None),
                WaitFor::Event {
                    scope,
                    filter,
                    emitter,
                } => (2, *scope, filter.as_deref(), *emitter, None),
                WaitFor::Ended(other) => (3, work.scope_id, None, None, Some(*other)),
            };
            c.kinds.push(kind);
            c.scopes.push(scope.0);
            c.filters.push(filter);
            c.emitters.push(emitter.map(|work| work.0));
            c.ended.push(ended.map(|work| work.0));
        }
        c
    }
}

/// Makes the Work's events in backoff due and keeps their failures. As with
/// [`free_deferred`](crate::free_deferred), a row that a routing pass has locked is left to that pass.
async fn free_backoff(tx: &mut Tx<'_>, tenant: TenantId, work: &Work) -> Result<(), Error> {
    sqlx::query(include_str!("sql/free_backoff.sql"))
        .bind(tenant.0)
        .bind(work.scope_id.0)
        .bind(work.work_id.0)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// The bridge of a wake that no attempt consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bridge {
    /// Its number in the Work's queue.
    pub n: i64,
    /// The event.
    pub uid: EventUid,
    /// Binding that it runs on.
    pub binding: BindingId,
}

/// What a held Work goes on with (rule l14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Its open wait.
    Wait,
    /// The bridge that woke it, with its winner, and the queue behind.
    Bridge(Bridge),
    /// The first input of its queue, on this binding.
    Input(BindingId),
    /// Nothing: it needs an input.
    Nothing,
}

/// Finds what a locked, held Work goes on with.
///
/// # Errors
/// The database's.
pub async fn resume(tx: &mut Tx<'_>, tenant: TenantId, work: &Work) -> Result<Resume, Error> {
    let waits: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM weir.wait WHERE tenant_id = $1 AND work_id = $2 AND state = 1)",
    )
    .bind(tenant.0)
    .bind(work.work_id.0)
    .fetch_one(tx.conn())
    .await?;
    if waits {
        return Ok(Resume::Wait);
    }
    let bridge: Option<(i64, Uuid, i32)> = sqlx::query_as(include_str!("sql/open_bridge.sql"))
        .bind(tenant.0)
        .bind(work.work_id.0)
        .bind(work.consumed)
        .fetch_optional(tx.conn())
        .await?;
    if let Some((n, uid, binding)) = bridge {
        let (uid, binding) = (EventUid(uid), BindingId(binding));
        return Ok(Resume::Bridge(Bridge { n, uid, binding }));
    }
    let next = remaining(tx, tenant, work, work.consumed).await?.next;
    Ok(next.map_or(Resume::Nothing, Resume::Input))
}

/// Lets the open wait of a released Work be looked at again, from its lookback on.
///
/// # Errors
/// The database's.
pub(crate) async fn reopen_wait(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: &Work,
) -> Result<(), Error> {
    let own: bool = sqlx::query_scalar(include_str!("sql/reopen_wait.sql"))
        .bind(tenant.0)
        .bind(work.work_id.0)
        .fetch_one(tx.conn())
        .await?;
    if own {
        free_backoff(tx, tenant, work).await?;
    }
    Ok(())
}

/// Asks for a check of every open wait for the end of these Works, whose rows this transaction has locked and
/// ended.
///
/// # Errors
/// The database's.
pub(crate) async fn ask_watchers(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[Uuid],
) -> Result<(), Error> {
    let waits: Vec<(Uuid, i32)> = sqlx::query_as(include_str!("sql/lock_watchers.sql"))
        .bind(tenant.0)
        .bind(works)
        .fetch_all(tx.conn())
        .await?;
    let (works, ns): (Vec<Uuid>, Vec<i32>) = waits.into_iter().unzip();
    if !works.is_empty() {
        sqlx::query(include_str!("sql/ask_watchers.sql"))
            .bind(tenant.0)
            .bind(&works)
            .bind(&ns)
            .execute(tx.conn())
            .await?;
    }
    Ok(())
}
