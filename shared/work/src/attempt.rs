//! The end of an attempt: its one row of history, and what its end sets free.

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use weir_kernel::{AttemptOutcome, ScopeId, TenantId, WorkId, WorkState};
use weir_pg::Tx;

use crate::{Error, Held, Locked, ReadyRow, Work};

/// How an attempt ends, and the answer that a repeat of the ending request is given (rule o08).
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// How.
    pub outcome: AttemptOutcome,
    /// Digest of the ending request; `None`: no request ended it.
    pub content: Option<Uuid>,
    /// State that the request was answered.
    pub answer_state: Option<WorkState>,
    /// Time that the request was answered: when the Work is tried next.
    pub answer_at: Option<DateTime<Utc>>,
    /// Result of a completion.
    pub result: Option<&'a str>,
    /// Error of a failure.
    pub error: Option<&'a str>,
}

impl End<'_> {
    /// An end that no request asked for.
    #[must_use]
    pub const fn unasked(outcome: AttemptOutcome) -> Self {
        Self {
            outcome,
            content: None,
            answer_state: None,
            answer_at: None,
            result: None,
            error: None,
        }
    }
}

/// Writes the attempt's row, voids its open intents (rule r09), and makes the Work's deferred events due
/// (rule r10). An attempt that completes or parks has consumed the bridge that it was given, and its winner
/// (rule l04). The Work stays where it is: requeue, park, hold or terminate it next, in the same transaction.
///
/// # Errors
/// The database's.
pub async fn end_attempt(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    held: Held,
    end: &End<'_>,
) -> Result<Locked, Error> {
    end_locked(tx, tenant, held.into(), end).await
}

/// The same for an attempt whose lease may have run out. A Work without a started attempt is given back
/// as it is.
pub(crate) async fn end_locked(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    mut locked: Locked,
    end: &End<'_>,
) -> Result<Locked, Error> {
    let at = locked.at;
    let Some(ready) = locked.ready.as_mut().filter(|ready| ready.is_claimed()) else {
        return Ok(locked);
    };
    insert_attempt(tx, tenant, &locked.work, ready, at, end).await?;
    // No row says so any more: what follows must not end it twice.
    ready.owner.clear();
    Ok(locked)
}

async fn insert_attempt(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: &Work,
    ready: &ReadyRow,
    at: DateTime<Utc>,
    end: &End<'_>,
) -> Result<(), Error> {
    sqlx::query(include_str!("sql/end_attempt.sql"))
        .bind(tenant.0)
        .bind(ready.work_id.0)
        .bind(ready.attempt)
        .bind(ready.epoch)
        .bind(&ready.owner)
        .bind(ready.binding_id.0)
        .bind(ready.generation)
        .bind(ready.registration)
        .bind(ready.capabilities)
        .bind(ready.digest)
        .bind(ready.trigger.map_or(Uuid::nil(), |uid| uid.0))
        .bind(ready.claimed_at.unwrap_or(at))
        .bind(at)
        .bind(end.outcome.code())
        .bind(ready.input_from)
        .bind(ready.input_to)
        .bind(end.content)
        .bind(end.answer_state.map(WorkState::code))
        .bind(end.answer_at)
        .bind(end.result)
        .bind(end.error)
        .bind(work.scope_id.0)
        .bind(ready.bridge_n)
        .bind(work.consumed)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Makes the deferred events of Works due again: other attempts took over (rule r10). `scopes` are those of
/// `works`, one by one.
///
/// Pending rows come before Work rows in the lock order, and this runs under Work locks: so a row that a
/// routing pass has locked is left to that pass. It decides or defers under the Work's lock and compares
/// revision and epoch there, so it cannot defer the event to the attempt that ended here.
///
/// # Errors
/// The database's.
pub async fn free_deferred(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scopes: &[ScopeId],
    works: &[WorkId],
) -> Result<u64, Error> {
    let scopes: Vec<i32> = scopes.iter().map(|scope| scope.0).collect();
    let works: Vec<Uuid> = works.iter().map(|work| work.0).collect();
    let done = sqlx::query(include_str!("sql/free_deferred.sql"))
        .bind(tenant.0)
        .bind(&scopes)
        .bind(&works)
        .execute(tx.conn())
        .await?;
    Ok(done.rows_affected())
}
