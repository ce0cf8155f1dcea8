//! Finding and locking the event that an operator names.

use chrono::{DateTime, Utc};
use sqlx::Row as _;
use uuid::Uuid;
use weir_kernel::limits::{MAX_IDENTIFIER, identifier};
use weir_kernel::{Disposition, EventUid, ScopeId, TenantId, WorkId};
use weir_pg::Tx;

use crate::Error;

/// The two handles of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRef {
    /// The uid that Weir gave.
    Uid(EventUid),
    /// The producer's source and id.
    Identity(String, String),
}

impl EventRef {
    /// Reads the fields `event`, `source` and `id` of a request: the first alone, or the other two.
    ///
    /// # Errors
    /// INVALID_REQUEST naming the field.
    pub fn parse(event: &str, source: &str, id: &str) -> Result<Self, Error> {
        match (event.is_empty(), source.is_empty() && id.is_empty()) {
            (false, true) => Ok(Self::Uid(event.parse().map_err(
                |e: weir_kernel::ParseIdError| Error::field("event", e.to_string()),
            )?)),
            (true, false) => {
                identifier("source", source, MAX_IDENTIFIER)
                    .map_err(|v| Error::Invalid(vec![v]))?;
                identifier("id", id, MAX_IDENTIFIER).map_err(|v| Error::Invalid(vec![v]))?;
                Ok(Self::Identity(source.to_owned(), id.to_owned()))
            }
            (true, true) => Err(Error::field(
                "event",
                "is required; or give `source` and `id`",
            )),
            (false, false) => Err(Error::field("event", "excludes `source` and `id`")),
        }
    }

    fn display(&self) -> String {
        match self {
            Self::Uid(uid) => uid.to_string(),
            Self::Identity(source, id) => format!("{source} {id}"),
        }
    }
}

/// The permanent row of an event.
#[derive(Debug, Clone)]
pub(crate) struct EventRow {
    pub(crate) uid: EventUid,
    pub(crate) source: String,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) scope: ScopeId,
    pub(crate) seq: i64,
    pub(crate) accepted_at: DateTime<Utc>,
    pub(crate) copy_of: Option<EventUid>,
    pub(crate) root: Option<EventUid>,
    pub(crate) parent: Option<EventUid>,
    pub(crate) depth: i16,
    pub(crate) disposition: Option<Disposition>,
}

const COLUMNS: &str = "uid, source, id, type, scope_id, seq, accepted_at, copy_of, root_uid, parent_uid, depth, disposition";

/// Finds an event of the tenant.
pub(crate) async fn find_event(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    event: &EventRef,
) -> Result<EventRow, Error> {
    let found = match event {
        EventRef::Uid(uid) => {
            let sql = format!("SELECT {COLUMNS} FROM weir.event WHERE tenant_id = $1 AND uid = $2");
            sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(tenant.0)
                .bind(uid.0)
                .fetch_optional(tx.conn())
                .await?
        }
        EventRef::Identity(source, id) => {
            let sql = format!(
                "SELECT {COLUMNS} FROM weir.event WHERE tenant_id = $1 AND source = $2 AND id = $3"
            );
            sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(tenant.0)
                .bind(source)
                .bind(id)
                .fetch_optional(tx.conn())
                .await?
        }
    };
    let row = found.ok_or_else(|| Error::EventNotFound(event.display()))?;
    let uid = |name: &str| -> Result<Option<EventUid>, sqlx::Error> {
        Ok(row.try_get::<Option<Uuid>, _>(name)?.map(EventUid))
    };
    Ok(EventRow {
        uid: EventUid(row.try_get("uid")?),
        source: row.try_get("source")?,
        id: row.try_get("id")?,
        kind: row.try_get("type")?,
        scope: ScopeId(row.try_get("scope_id")?),
        seq: row.try_get("seq")?,
        accepted_at: row.try_get("accepted_at")?,
        copy_of: uid("copy_of")?,
        root: uid("root_uid")?,
        parent: uid("parent_uid")?,
        depth: row.try_get("depth")?,
        disposition: row
            .try_get::<Option<i16>, _>("disposition")?
            .map(Disposition::from_code)
            .transpose()?,
    })
}

/// Locks the pending row of an event and returns its keys and named Work; `None` when it is decided.
pub(crate) async fn lock_pending(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    event: &EventRow,
) -> Result<Option<(Vec<String>, Option<WorkId>)>, Error> {
    let row = sqlx::query(
        "SELECT keys, target_work FROM weir.pending \
         WHERE tenant_id = $1 AND scope_id = $2 AND seq = $3 FOR UPDATE",
    )
    .bind(tenant.0)
    .bind(event.scope.0)
    .bind(event.seq)
    .fetch_optional(tx.conn())
    .await?;
    row.map(|row| {
        Ok((
            row.try_get(0)?,
            row.try_get::<Option<Uuid>, _>(1)?.map(WorkId),
        ))
    })
    .transpose()
}

/// Frees what stands behind a deferred event that an operator takes away or tries now (rule r10).
pub(crate) async fn free_behind(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    event: &EventRow,
) -> Result<(), Error> {
    sqlx::query(include_str!("sql/free_behind.sql"))
        .bind(tenant.0)
        .bind(event.scope.0)
        .bind(format!("behind {}", event.uid))
        .execute(tx.conn())
        .await?;
    Ok(())
}
