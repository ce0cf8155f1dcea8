//! What a traced event would stand behind (rule r10).

use std::collections::HashMap;

use sqlx::Row as _;
use uuid::Uuid;
use weir_kernel::{EventUid, ScopeId, WorkId};
use weir_pg::Tx;

use crate::Error;
use crate::generation::{Generation, UNPUBLISHED};
use crate::route::evaluate::{Evaluated, Fate};
use crate::route::view::{Hold, PendingRow};

/// Returns the deferral that holds the event back: an earlier event of its key or Work waits for a running attempt.
/// Once a candidate is published, that one is tried again (rule r22): it holds nothing back.
pub(super) async fn behind(
    tx: &mut Tx<'_>,
    generation: &Generation,
    scope: ScopeId,
    row: &PendingRow,
    owners: &HashMap<String, Option<WorkId>>,
) -> Result<Option<Hold>, Error> {
    if generation.number == UNPUBLISHED {
        return Ok(None);
    }
    let tokens: Vec<String> = row.tokens(owners, None).collect();
    let found = sqlx::query(include_str!("sql/behind.sql"))
        .bind(generation.tenant.0)
        .bind(scope.0)
        .bind(&tokens)
        .bind(generation.number)
        .fetch_optional(tx.conn())
        .await?;
    let Some(found) = found else { return Ok(None) };
    Ok(Some(Hold {
        event: EventUid(found.try_get(0)?),
        work: WorkId(found.try_get::<Uuid, _>(1)?),
        attempt: found.try_get(2)?,
    }))
}

/// Says that the event is not decided now, so that no route was asked.
pub(super) fn holds_back(evaluated: &mut Evaluated, hold: Hold) {
    let reason = format!("behind {}", hold.event);
    evaluated.fates.push(Fate::Deferred(hold, reason));
    evaluated.verdicts.push(Vec::new());
}
