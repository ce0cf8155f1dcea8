//! The detached snapshot that groups are evaluated on (rule r01).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;
use weir_kernel::envelope::{Envelope, Payload};
use weir_kernel::{BindingId, EventUid, PendingState, ScopeId, TenantId, WorkId, WorkState};

use crate::Error;
use crate::generation::Generation;
use crate::route::view::{Crashes, EventView, Hold, PendingRow, Running, WorkView};

/// Who owns which keys, and how those Works stand.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Database time of the snapshot.
    pub at: DateTime<Utc>,
    /// Keys that were looked up, with their owners.
    pub owners: HashMap<String, Option<WorkId>>,
    /// Works looked up.
    pub works: HashMap<WorkId, WorkView>,
}

/// Reads the scope's pending rows after `floor`, in order.
pub async fn pending(
    conn: &mut PgConnection,
    tenant: TenantId,
    scope: ScopeId,
    floor: i64,
    generation: i64,
    limit: i64,
) -> Result<Vec<PendingRow>, Error> {
    let rows = sqlx::query(include_str!("sql/select_pending.sql"))
        .bind(tenant.0)
        .bind(scope.0)
        .bind(floor)
        .bind(generation)
        .bind(limit)
        .fetch_all(conn)
        .await?;
    rows.into_iter()
        .map(|row| {
            Ok(PendingRow {
                seq: row.try_get("seq")?,
                uid: EventUid(row.try_get("uid")?),
                accepted_at: row.try_get("accepted_at")?,
                keys: row.try_get("keys")?,
                target: row.try_get::<Option<Uuid>, _>("target_work")?.map(WorkId),
                state: PendingState::from_code(row.try_get("state")?)?,
                due: row.try_get("due")?,
                failures: row.try_get("failures")?,
                first_failed_at: row.try_get("first_failed_at")?,
                bytes: row.try_get("bytes")?,
                crashes: Crashes {
                    count: row.try_get("crashes")?,
                    gave_up: row.try_get("gave_up")?,
                },
                hold: match (
                    row.try_get::<Option<Uuid>, _>("hold_work")?,
                    row.try_get("hold_attempt")?,
                ) {
                    (Some(work), Some(attempt)) => Some(Hold {
                        event: EventUid(row.try_get("uid")?),
                        work: WorkId(work),
                        attempt,
                    }),
                    _ => None,
                },
            })
        })
        .collect()
}

/// Makes a view of a row with `source`, `id`, `type`, `depth`, `attributes`, `keys`, `payload` and `is_text`. `None`: its
/// envelope is not readable.
pub(crate) fn event_view(row: &PgRow, scope: &Arc<str>) -> Result<Option<EventView>, Error> {
    let bytes: Option<Vec<u8>> = row.try_get("payload")?;
    let is_text = row.try_get("is_text")?;
    let attributes: Vec<u8> = row.try_get("attributes")?;
    let decoded = Envelope::decode(
        row.try_get("id")?,
        row.try_get("source")?,
        row.try_get("type")?,
        &attributes,
        bytes.map(|bytes| Payload { bytes, is_text }),
    );
    let Ok(envelope) = decoded else {
        return Ok(None);
    };
    Ok(Some(EventView {
        envelope: Arc::new(envelope),
        scope: Arc::clone(scope),
        keys: row.try_get("keys")?,
        depth: row.try_get("depth")?,
    }))
}

/// Reads the events of pending rows, by position.
pub async fn events(
    conn: &mut PgConnection,
    tenant: TenantId,
    scope: ScopeId,
    scope_name: &Arc<str>,
    rows: &[&PendingRow],
) -> Result<HashMap<i64, EventView>, Error> {
    let found = sqlx::query(include_str!("sql/select_events.sql"))
        .bind(tenant.0)
        .bind(scope.0)
        .bind(rows.iter().map(|r| r.uid.0).collect::<Vec<_>>())
        .bind(rows.iter().map(|r| r.accepted_at).collect::<Vec<_>>())
        .bind(rows.iter().map(|r| r.seq).collect::<Vec<_>>())
        .fetch_all(conn)
        .await?;
    let mut out = HashMap::with_capacity(found.len());
    for row in found {
        // An unreadable one is left out: it fails for itself and not for its scope.
        let Some(view) = event_view(&row, scope_name)? else {
            continue;
        };
        out.insert(row.try_get("seq")?, view);
    }
    Ok(out)
}

impl Snapshot {
    /// Reads owners of `keys`, and the Works that own them or are named in `works`.
    pub async fn load(
        conn: &mut PgConnection,
        generation: &Generation,
        scope: ScopeId,
        keys: &BTreeSet<&str>,
        works: &BTreeSet<WorkId>,
    ) -> Result<Self, Error> {
        let mut snapshot = Self {
            at: sqlx::query_scalar("SELECT weir.clock()")
                .fetch_one(&mut *conn)
                .await?,
            ..Self::default()
        };
        snapshot
            .look_up(conn, generation, scope, keys, works)
            .await?;
        Ok(snapshot)
    }

    /// Adds what is not known yet.
    pub async fn look_up(
        &mut self,
        conn: &mut PgConnection,
        generation: &Generation,
        scope: ScopeId,
        keys: &BTreeSet<&str>,
        works: &BTreeSet<WorkId>,
    ) -> Result<(), Error> {
        let wanted: Vec<&str> = keys
            .iter()
            .copied()
            .filter(|k| !self.owners.contains_key(*k))
            .collect();
        if !wanted.is_empty() {
            self.owners
                .extend(owners(conn, generation.tenant, scope, &wanted).await?);
        }
        let named = works.iter().copied();
        let owning = self.owners.values().flatten().copied();
        let ids: HashSet<WorkId> = named
            .chain(owning)
            .filter(|w| !self.works.contains_key(w))
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = ids.into_iter().map(|w| w.0).collect();
        let rows = sqlx::query(include_str!("sql/select_works.sql"))
            .bind(generation.tenant.0)
            .bind(&ids)
            .bind(scope.0)
            .fetch_all(conn)
            .await?;
        for row in rows {
            let id = WorkId(row.try_get("work_id")?);
            let live: bool = row.try_get("live")?;
            let epoch = row.try_get("epoch")?;
            let attempts = row.try_get("attempts")?;
            let binding = BindingId(row.try_get("binding_id")?);
            let running = if live {
                let capabilities = row.try_get("capabilities")?;
                Some(Running {
                    attempt: attempts,
                    epoch,
                    binding,
                    capabilities,
                })
            } else {
                None
            };
            let queued: Option<i32> = row.try_get("queued_binding")?;
            let stored = WorkState::from_code(row.try_get("state")?)?;
            let view = WorkView {
                id,
                state: if live { WorkState::Running } else { stored },
                revision: row.try_get("revision")?,
                epoch,
                attempts,
                running,
                binding: generation
                    .binding_name(binding)
                    .map(|(_, name)| name.to_owned()),
                own_binding: BindingId(row.try_get("own_binding")?),
                queued_binding: queued.map(BindingId),
                keys: row.try_get("keys")?,
                held_reason: row.try_get("held_reason")?,
                created_at: row.try_get("created_at")?,
                is_new: false,
            };
            self.works.insert(id, view);
        }
        Ok(())
    }
}

/// Reads who owns keys of a scope; every key asked for is in the answer.
pub async fn owners(
    conn: &mut PgConnection,
    tenant: TenantId,
    scope: ScopeId,
    keys: &[&str],
) -> Result<HashMap<String, Option<WorkId>>, Error> {
    let rows = sqlx::query(include_str!("sql/select_owners.sql"))
        .bind(tenant.0)
        .bind(scope.0)
        .bind(keys)
        .fetch_all(conn)
        .await?;
    let mut out: HashMap<String, Option<WorkId>> =
        keys.iter().map(|k| ((*k).to_owned(), None)).collect();
    for row in rows {
        out.insert(row.try_get(0)?, Some(WorkId(row.try_get(1)?)));
    }
    Ok(out)
}
