//! Rows to records.

use std::collections::HashMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;
use weir_kernel::envelope::{Envelope, Payload, SPEC_VERSION};
use weir_kernel::{
    Disposition, EventUid, FailureCode, PendingState, Policy, RouteId, ScopeId, TenantId, WorkId,
};
use weir_pg::Tx;

use super::{Also, EventRecord, Pending, RouteRecord, Standing};
use crate::query::Error;
use crate::route::refusals;

/// Reads events by uid, in the order they are named; those that do not exist are left out. Payloads
/// come from the archive where retention has moved them there, and are absent where it has dropped
/// them.
///
/// # Errors
/// The database's; a stored row outside of the written rules.
pub async fn read_all(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    uids: &[EventUid],
    with_data: bool,
) -> Result<Vec<EventRecord>, Error> {
    if uids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(include_str!("../sql/read_events.sql"))
        .bind(tenant.0)
        .bind(uids.iter().map(|uid| uid.0).collect::<Vec<Uuid>>())
        .bind(with_data)
        .fetch_all(tx.conn())
        .await?;
    let mut declined = HashMap::new();
    for row in &rows {
        if let Some(packed) = row.try_get::<Option<Vec<u8>>, _>("packed")? {
            declined.insert(row.try_get::<Uuid, _>("uid")?, refusals::unpack(&packed)?);
        }
    }
    let slots = slots(
        tx,
        tenant,
        declined.values().flatten().map(|(route, _)| *route),
    )
    .await?;
    rows.iter()
        .map(|row| {
            let declined = declined.remove(&row.try_get("uid")?).unwrap_or_default();
            let named = declined.into_iter().map(|(route, reason)| {
                let slot = slots
                    .get(&route)
                    .cloned()
                    .unwrap_or_else(|| format!("#{route}"));
                (slot, reason)
            });
            event(row, named.collect())
        })
        .collect()
}

async fn slots(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    routes: impl Iterator<Item = RouteId>,
) -> Result<HashMap<RouteId, String>, Error> {
    let mut ids: Vec<i32> = routes.map(|route| route.0).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(include_str!("../sql/read_slots.sql"))
        .bind(tenant.0)
        .bind(&ids)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| Ok((RouteId(row.try_get(0)?), row.try_get(1)?)))
        .collect()
}

fn event(row: &PgRow, refusals: Vec<(String, String)>) -> Result<EventRecord, Error> {
    let uid = EventUid(row.try_get("uid")?);
    let standing = match row.try_get::<Option<i16>, _>("disposition")? {
        Some(code) => Standing::Routed(record(row, Disposition::from_code(code)?, refusals)?),
        None => Standing::Pending(pending(row)?),
    };
    let mut keys: Vec<String> = row.try_get::<Option<_>, _>("keys")?.unwrap_or_default();
    keys.sort_unstable();
    Ok(EventRecord {
        uid,
        scope_id: ScopeId(row.try_get("scope_id")?),
        scope: row.try_get("scope")?,
        seq: row.try_get("seq")?,
        accepted_at: row.try_get("accepted_at")?,
        envelope: envelope(row)?,
        keys,
        target_work: work(row, "target_work")?,
        root: row
            .try_get::<Option<_>, _>("root_uid")?
            .map_or(uid, EventUid),
        parent: row.try_get::<Option<_>, _>("parent_uid")?.map(EventUid),
        depth: row.try_get("depth")?,
        copy_of: row.try_get::<Option<_>, _>("copy_of")?.map(EventUid),
        actor: row.try_get("actor")?,
        standing,
    })
}

fn envelope(row: &PgRow) -> Result<Envelope, Error> {
    let (id, source, kind) = (
        row.try_get("id")?,
        row.try_get("source")?,
        row.try_get("type")?,
    );
    let Some(attributes) = row.try_get::<Option<Vec<u8>>, _>("attributes")? else {
        let spec_version = SPEC_VERSION.to_owned();
        return Ok(Envelope {
            id,
            source,
            kind,
            spec_version,
            attributes: Default::default(),
            payload: None,
        });
    };
    let payload = match row.try_get::<Option<Vec<u8>>, _>("payload")? {
        Some(bytes) => Some(Payload {
            bytes,
            is_text: row.try_get("is_text")?,
        }),
        None => None,
    };
    Ok(Envelope::decode(id, source, kind, &attributes, payload)?)
}

fn record(
    row: &PgRow,
    disposition: Disposition,
    refusals: Vec<(String, String)>,
) -> Result<RouteRecord, Error> {
    Ok(RouteRecord {
        disposition,
        work: work(row, "work_id")?,
        route: row.try_get("slot")?,
        binding: row.try_get("binding")?,
        generation: row
            .try_get::<Option<_>, _>("generation")?
            .unwrap_or_default(),
        policy: row
            .try_get::<Option<i16>, _>("policy")?
            .map(Policy::from_code)
            .transpose()?,
        reason: text(row, "reason")?,
        refusals,
        refusals_truncated: row.try_get::<Option<_>, _>("truncated")?.unwrap_or(false),
        error: text(row, "error")?,
        attempts: row.try_get::<Option<_>, _>("attempts")?.unwrap_or_default(),
        also: also(row)?,
    })
}

fn also(row: &PgRow) -> Result<Vec<Also>, Error> {
    let scopes: Option<Vec<String>> = row.try_get("won_scopes")?;
    let works: Option<Vec<Uuid>> = row.try_get("won_works")?;
    let waits: Option<Vec<i32>> = row.try_get("won_waits")?;
    let works = works.into_iter().flatten().zip(waits.into_iter().flatten());
    Ok(scopes
        .into_iter()
        .flatten()
        .zip(works)
        .map(|(scope, (work, wait))| Also {
            scope,
            work: WorkId(work),
            wait,
        })
        .collect())
}

fn pending(row: &PgRow) -> Result<Pending, Error> {
    let state = PendingState::from_code(row.try_get::<Option<_>, _>("state")?.unwrap_or_default())?;
    let mut works: Vec<WorkId> = row
        .try_get::<Option<Vec<Uuid>>, _>("conflict_works")?
        .unwrap_or_default()
        .into_iter()
        .map(WorkId)
        .collect();
    works.extend(work(row, "hold_work")?);
    let last_failure = match row.try_get::<Option<i16>, _>("last_code")? {
        Some(code) => Some((FailureCode::from_code(code)?, text(row, "last_error")?)),
        None => None,
    };
    Ok(Pending {
        state,
        reason: text(row, "hold_reason")?,
        failures: row.try_get::<Option<_>, _>("failures")?.unwrap_or_default(),
        last_failure,
        next_try: row.try_get("next_try")?,
        works,
        first_failed_at: row.try_get("first_failed_at")?,
    })
}

fn work(row: &PgRow, column: &str) -> Result<Option<WorkId>, Error> {
    Ok(row.try_get::<Option<_>, _>(column)?.map(WorkId))
}

fn text(row: &PgRow, column: &str) -> Result<String, Error> {
    Ok(row.try_get::<Option<_>, _>(column)?.unwrap_or_default())
}
