//! Inputs of one Work: queued at its end, or taken out of order.
//!
//! The set-based form, for many Works of one routing commit, is the effects module's.

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use weir_kernel::{BindingId, EventUid, TenantId, WorkState};
use weir_pg::Tx;

use crate::{Error, Held, Locked, ReadyRow, Work};

/// An accepted event that becomes input.
#[derive(Debug, Clone, Copy)]
pub struct Queued {
    /// The event.
    pub uid: EventUid,
    /// Its position in the scope.
    pub seq: i64,
    /// When it was accepted.
    pub accepted_at: DateTime<Utc>,
    /// Size of its payload, in bytes.
    pub bytes: i32,
    /// Binding that the input runs on.
    pub binding: BindingId,
}

/// Queues an event as the last input of a locked Work and raises its revision. A `ready` Work without a
/// ready row becomes claimable. Returns the queue number.
///
/// # Errors
/// The database's.
pub async fn queue_input(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    input: Queued,
) -> Result<i64, Error> {
    let claimable = locked.work.state == WorkState::Ready && locked.ready.is_none();
    let n: i64 = sqlx::query_scalar(include_str!("sql/queue_input.sql"))
        .bind(tenant.0)
        .bind(locked.work.work_id.0)
        .bind(input.uid.0)
        .bind(input.seq)
        .bind(input.accepted_at)
        .bind(input.bytes)
        .bind(input.binding.0)
        .bind(claimable)
        .bind(locked.work.lane_priority())
        .fetch_one(tx.conn())
        .await?;
    Ok(n)
}

/// Returns up to where the inputs of a Work are consumed once its attempt consumes what its claim presented: inputs
/// that were taken out of order, and those bound to its wake, are passed over, so that what is over is not read again.
///
/// # Errors
/// The database's.
pub async fn consumed_after(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: &Work,
    ready: &ReadyRow,
) -> Result<i64, Error> {
    let presented = work.consumed.max(ready.input_to);
    Ok(sqlx::query_scalar(include_str!("sql/consumed_after.sql"))
        .bind(tenant.0)
        .bind(work.work_id.0)
        .bind(presented)
        .bind(work.last_input)
        .fetch_one(tx.conn())
        .await?)
}

/// Consumes injected inputs of a running attempt (rule l05): marks their intents acknowledged and the
/// inputs taken by this attempt. A repeat changes nothing. Returns those of `events` that are consumed so;
/// one that was never offered to this attempt is missing.
///
/// # Errors
/// The database's.
pub async fn acknowledge(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    held: &Held,
    events: &[EventUid],
) -> Result<Vec<EventUid>, Error> {
    let uids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let taken: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/acknowledge.sql"))
        .bind(tenant.0)
        .bind(held.work.work_id.0)
        .bind(held.ready.epoch)
        .bind(held.ready.attempt)
        .bind(held.ready.input_to)
        .bind(&uids)
        .fetch_all(tx.conn())
        .await?;
    Ok(taken.into_iter().map(EventUid).collect())
}
