//! Where a Work goes when its attempt ended, or an operator moved it.
//!
//! ```text
//!             claim                     complete, input left: requeue
//!   [ready + row] ──> [ready + row, leased] ────────────────────────────> [ready + row]
//!                          │   fail(retryable), release, lost lease: give_back, the row stays
//!                          │   complete, only unrouted input left: requeue, no row
//!                          ├──> park ──> [waiting] ──> wake: [ready + row with the bridge]
//!                          ├──> hold ──> [held] ──> release_held: [ready | waiting]
//!                          └──> terminate ──> [completed | failed | cancelled]
//! ```
//! All of them are written by one statement, `settle`, so that the row in `weir.ready` and the columns of
//! `weir.work` cannot part. Each raises the Work's revision.

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use weir_kernel::{AttemptOutcome, BindingId, EventUid, TenantId, WorkId, WorkState};
use weir_pg::Tx;

use crate::attempt::{End, end_locked};
use crate::park::{Bridge, Resume, ask_watchers, reopen_wait};
use crate::{Error, Locked, Work, lock_works};

/// What still is to be done for a Work, read after its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    /// Oldest accepted event of the Work that is unrouted, deferred and conflicting ones excepted (l06).
    pub unrouted: Option<EventUid>,
    /// Binding of the first input after the watermark that was not taken.
    pub next: Option<BindingId>,
    /// Whether a deferred event waits for the attempt's end.
    pub deferred: bool,
}

/// Reads what remains of a Work when everything up to `consumed` is consumed. A statement of its own,
/// after the Work lock: a router that held the Work has committed its input by then (rule l06).
///
/// # Errors
/// The database's.
pub async fn remaining(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: &Work,
    consumed: i64,
) -> Result<Remaining, Error> {
    let (unrouted, next, deferred): (Option<Uuid>, Option<i32>, bool) =
        sqlx::query_as(include_str!("sql/remaining.sql"))
            .bind(tenant.0)
            .bind(work.scope_id.0)
            .bind(work.work_id.0)
            .bind(consumed)
            .fetch_one(tx.conn())
            .await?;
    Ok(Remaining {
        unrouted: unrouted.map(EventUid),
        next: next.map(BindingId),
        deferred,
    })
}

/// Puts a Work back into the queue at a fresh position, its count of attempts anew: after Complete with
/// input left, or when an operator releases it. Without `next` it is `ready` and not claimable.
///
/// # Errors
/// The database's.
pub async fn requeue(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    consumed: i64,
    next: Option<BindingId>,
) -> Result<(), Error> {
    let to = Settle {
        state: WorkState::Ready,
        next,
        bridge: None,
        tries: 0,
        consumed,
        held_reason: None,
    };
    settle(tx, tenant, locked, &to).await
}

/// Gives a claimed Work back where it stood in the queue, its presented input with it (rule l04), not to
/// be claimed before `not_before`. The caller has ended the attempt.
///
/// # Errors
/// The database's, and a Work that is not in the queue.
pub async fn give_back(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    tries: i16,
    not_before: Option<DateTime<Utc>>,
) -> Result<(), Error> {
    let ready = locked.ready.as_ref().ok_or(Error::Inconsistent {
        work: locked.work.work_id,
        what: "it is given back but not in the queue",
    })?;
    sqlx::query(include_str!("sql/give_back.sql"))
        .bind(tenant.0)
        .bind(locked.work.work_id.0)
        .bind(ready.binding_id.0)
        .bind(ready.priority)
        .bind(ready.pos)
        .bind(tries)
        .bind(not_before)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Holds a Work for an operator. A started attempt ends as lost.
///
/// # Errors
/// The database's.
pub async fn hold(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: Locked,
    reason: &str,
) -> Result<(), Error> {
    let lost = End::unasked(AttemptOutcome::LeaseLost);
    let locked = end_locked(tx, tenant, locked, &lost).await?;
    let to = Settle {
        state: WorkState::Held,
        next: None,
        bridge: None,
        tries: locked.tries(),
        consumed: locked.work.consumed,
        held_reason: Some(reason),
    };
    settle(tx, tenant, &locked, &to).await
}

/// Lets a held Work go on with what [`resume`](crate::resume) found (rule l14): `waiting` for its open wait, else
/// `ready`, and in the queue when there is a bridge or an input. Its count of attempts starts anew. An open wait
/// asks for a check.
///
/// # Errors
/// The database's.
pub async fn release_held(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    mut locked: Locked,
    resume: Resume,
) -> Result<Locked, Error> {
    let (state, next, bridge) = match resume {
        Resume::Wait => (WorkState::Waiting, None, None),
        Resume::Bridge(bridge) => (WorkState::Ready, Some(bridge.binding), Some(bridge)),
        Resume::Input(binding) => (WorkState::Ready, Some(binding), None),
        Resume::Nothing => (WorkState::Ready, None, None),
    };
    let to = Settle {
        state,
        next,
        bridge,
        tries: 0,
        consumed: locked.work.consumed,
        held_reason: None,
    };
    settle(tx, tenant, &locked, &to).await?;
    if state == WorkState::Waiting {
        reopen_wait(tx, tenant, &locked.work).await?;
    }
    locked.work.state = state;
    locked.work.held_reason = None;
    locked.work.tries = 0;
    Ok(locked)
}

/// Lets a Work wait: no ready row, its count of attempts anew. The park module opens the wait.
pub(crate) async fn park_settled(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    consumed: i64,
) -> Result<(), Error> {
    let to = Settle {
        state: WorkState::Waiting,
        next: None,
        bridge: None,
        tries: 0,
        consumed,
        held_reason: None,
    };
    settle(tx, tenant, locked, &to).await
}

/// Ends a Work for ever (rule l08): its ready row, timers, waits and intents go with it, in this commit;
/// inputs after `consumed` that nobody took are abandoned from now on. A started attempt ends with it.
///
/// # Errors
/// The database's.
pub async fn terminate(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: Locked,
    state: WorkState,
    consumed: i64,
) -> Result<(), Error> {
    let live = locked.state() == WorkState::Running;
    let outcome = if live {
        AttemptOutcome::Cancelled
    } else {
        AttemptOutcome::LeaseLost
    };
    let locked = end_locked(tx, tenant, locked, &End::unasked(outcome)).await?;
    let to = Settle {
        state,
        next: None,
        bridge: None,
        tries: locked.tries(),
        consumed,
        held_reason: None,
    };
    settle(tx, tenant, &locked, &to).await
}

/// Completes those of the Works that have nothing left: `ready`, not in the queue, no queued and no
/// unrouted input (rule l06). Locks them. Called by whoever routed the last unrouted input elsewhere, in
/// the same transaction and after those writes. Returns the completed ones.
///
/// # Errors
/// The database's.
pub async fn complete_if_drained(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[WorkId],
) -> Result<Vec<WorkId>, Error> {
    if works.is_empty() {
        return Ok(Vec::new());
    }
    let candidates: Vec<Uuid> = lock_works(tx, tenant, works)
        .await?
        .into_iter()
        .filter(|work| work.state == WorkState::Ready && work.queue_pos.is_none())
        .map(|work| work.work_id.0)
        .collect();
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let drained: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/complete_drained.sql"))
        .bind(tenant.0)
        .bind(&candidates)
        .fetch_all(tx.conn())
        .await?;
    let drained: Vec<WorkId> = drained.into_iter().map(WorkId).collect();
    if !drained.is_empty() {
        clean_up(tx, tenant, &drained).await?;
    }
    Ok(drained)
}

/// Removes what ended Works own: timers, waits with their subscriptions, open intents (rule l12). All of
/// these change under the Work lock only. Whoever waits for an end is to be checked.
async fn clean_up(tx: &mut Tx<'_>, tenant: TenantId, works: &[WorkId]) -> Result<(), Error> {
    let works: Vec<Uuid> = works.iter().map(|work| work.0).collect();
    let (waits, watched): (i64, bool) = sqlx::query_as(include_str!("sql/clean_up.sql"))
        .bind(tenant.0)
        .bind(&works)
        .fetch_one(tx.conn())
        .await?;
    ended(tx, tenant, &works, waits, watched).await
}

/// What follows from the end of Works: their subscriptions go, if there was a wait, and who waits for the end asks
/// for a check (rule l10). The usual Work has neither, and costs nothing here.
async fn ended(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[Uuid],
    open_waits: i64,
    watched: bool,
) -> Result<(), Error> {
    if open_waits > 0 {
        sqlx::query("DELETE FROM weir.wait_sub WHERE tenant_id = $1 AND work_id = ANY ($2)")
            .bind(tenant.0)
            .bind(works)
            .execute(tx.conn())
            .await?;
    }
    if watched {
        ask_watchers(tx, tenant, works).await?;
    }
    Ok(())
}

struct Settle<'a> {
    state: WorkState,
    next: Option<BindingId>,
    /// The bridge that its ready row goes on with.
    bridge: Option<Bridge>,
    tries: i16,
    consumed: i64,
    held_reason: Option<&'a str>,
}

async fn settle(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    to: &Settle<'_>,
) -> Result<(), Error> {
    let old = locked.ready.as_ref();
    let (waits, watched): (i64, bool) = sqlx::query_as(include_str!("sql/settle.sql"))
        .bind(tenant.0)
        .bind(locked.work.work_id.0)
        .bind(old.map(|ready| ready.binding_id.0))
        .bind(locked.work.lane_priority())
        .bind(old.map(|ready| ready.pos))
        .bind(to.next.map(|binding| binding.0))
        .bind(to.state.code())
        .bind(locked.epoch())
        .bind(locked.attempts())
        .bind(to.tries)
        .bind(to.consumed)
        .bind(to.held_reason)
        .bind(to.state.is_terminal().then_some(locked.at))
        .bind(to.bridge.map(|bridge| bridge.n))
        .bind(to.bridge.map(|bridge| bridge.uid.0))
        .fetch_one(tx.conn())
        .await?;
    ended(tx, tenant, &[locked.work.work_id.0], waits, watched).await
}
