//! Accepted events, as attempts are given them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use sqlx::types::Uuid;
use weir_kernel::{EventUid, TenantId, WorkId};
use weir_ledger::{Envelope, Payload};

use crate::Error;

/// An accepted event with its envelope and payload.
#[derive(Debug, Clone)]
pub(crate) struct StoredEvent {
    pub(crate) uid: EventUid,
    pub(crate) scope: String,
    pub(crate) seq: i64,
    pub(crate) accepted_at: DateTime<Utc>,
    pub(crate) actor: String,
    pub(crate) copy_of: Option<EventUid>,
    pub(crate) root: EventUid,
    pub(crate) parent: Option<EventUid>,
    pub(crate) depth: i16,
    pub(crate) keys: Vec<String>,
    pub(crate) target_work: Option<WorkId>,
    pub(crate) envelope: Envelope,
}

#[derive(sqlx::FromRow)]
struct EventRow {
    uid: Uuid,
    source: String,
    id: String,
    r#type: String,
    scope: String,
    seq: i64,
    accepted_at: DateTime<Utc>,
    actor: String,
    copy_of: Option<Uuid>,
    root_uid: Option<Uuid>,
    parent_uid: Option<Uuid>,
    depth: i16,
    attributes: Option<Vec<u8>>,
    keys: Vec<String>,
    target_work: Option<Uuid>,
    payload: Option<Vec<u8>>,
    is_text: bool,
}

impl TryFrom<EventRow> for StoredEvent {
    type Error = Error;

    fn try_from(row: EventRow) -> Result<Self, Error> {
        let payload = row.payload.map(|bytes| Payload {
            bytes,
            is_text: row.is_text,
        });
        // Without a body, retention has taken the event: identity is all that is left.
        let attributes = row
            .attributes
            .unwrap_or_else(|| br#"{"v":"1.0","a":{}}"#.to_vec());
        Ok(Self {
            uid: EventUid(row.uid),
            scope: row.scope,
            seq: row.seq,
            accepted_at: row.accepted_at,
            actor: row.actor,
            copy_of: row.copy_of.map(EventUid),
            root: EventUid(row.root_uid.unwrap_or(row.uid)),
            parent: row.parent_uid.map(EventUid),
            depth: row.depth,
            keys: row.keys,
            target_work: row.target_work.map(WorkId),
            envelope: Envelope::decode(row.id, row.source, row.r#type, &attributes, payload)?,
        })
    }
}

/// Reads events by uid, in any order; unknown ones are missing.
pub(crate) async fn read_events(
    conn: &mut PgConnection,
    tenant: TenantId,
    events: &[EventUid],
) -> Result<HashMap<EventUid, StoredEvent>, Error> {
    let uids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let rows: Vec<EventRow> = sqlx::query_as(include_str!("read_events.sql"))
        .bind(tenant.0)
        .bind(&uids)
        .fetch_all(conn)
        .await?;
    rows.into_iter()
        .map(|row| StoredEvent::try_from(row).map(|event| (event.uid, event)))
        .collect()
}

/// Reads the keys of Works, sorted.
pub(crate) async fn read_keys(
    conn: &mut PgConnection,
    tenant: TenantId,
    works: &[WorkId],
) -> Result<HashMap<WorkId, Vec<String>>, Error> {
    let ids: Vec<Uuid> = works.iter().map(|work| work.0).collect();
    let rows: Vec<(Uuid, Vec<String>)> = sqlx::query_as(include_str!("read_keys.sql"))
        .bind(tenant.0)
        .bind(&ids)
        .fetch_all(conn)
        .await?;
    Ok(rows
        .into_iter()
        .map(|(work, keys)| (WorkId(work), keys))
        .collect())
}
