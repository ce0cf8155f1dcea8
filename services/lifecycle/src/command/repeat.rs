//! Repeats of the request that ended an attempt (rule o08): the outcome is stored with the attempt.

use chrono::{DateTime, Utc};
use uuid::Uuid;
use weir_kernel::{AttemptOutcome, TenantId, WorkState};
use weir_pg::Tx;
use weir_work::Lease;

use super::Ended;
use crate::Error;

type Row = (i64, i16, Option<Uuid>, Option<i16>, Option<DateTime<Utc>>);

/// Answers a request whose lease does not hold: the stored answer, when this very request ended the
/// attempt. `outcomes` are those that its method can give.
///
/// # Errors
/// `REQUEST_CONFLICT` when the same method ended the attempt with other content, else `LEASE_LOST`.
pub(super) async fn answer(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    lease: Lease,
    content: Uuid,
    outcomes: &[AttemptOutcome],
) -> Result<Ended, Error> {
    let row: Option<Row> = sqlx::query_as(
        "SELECT epoch, outcome, content, answer_state, answer_at FROM weir.attempt \
         WHERE tenant_id = $1 AND work_id = $2 AND number = $3",
    )
    .bind(tenant.0)
    .bind(lease.work.0)
    .bind(lease.attempt)
    .fetch_optional(tx.conn())
    .await?;
    let lost = || weir_work::Error::LeaseLost(lease.work).into();
    let Some((epoch, outcome, stored, Some(state), at)) = row else {
        return Err(lost());
    };
    if epoch != lease.epoch || !outcomes.contains(&AttemptOutcome::from_code(outcome)?) {
        return Err(lost());
    }
    if stored != Some(content) {
        return Err(Error::AttemptConflict {
            work: lease.work,
            attempt: lease.attempt,
        });
    }
    Ok(Ended {
        state: WorkState::from_code(state)?,
        at,
    })
}
