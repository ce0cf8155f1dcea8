//! A root's limits and spend.

use sqlx::PgConnection;
use uuid::Uuid;
use weir_kernel::{EventUid, TenantId};

use crate::Error;

/// A root as it stands now.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct RootView {
    pub(crate) root: Uuid,
    /// Its limits are pinned (rule c03).
    pub(crate) pinned: bool,
    pub(crate) max_depth: i16,
    pub(crate) per_minute: i32,
    /// In the database's current minute.
    pub(crate) spent: i32,
    pub(crate) braked: bool,
}

/// Reads the root of an event's tree. One statement: limits and spend are of one moment.
///
/// # Errors
/// `EVENT_NOT_FOUND`.
pub(crate) async fn read_root(
    conn: &mut PgConnection,
    tenant: TenantId,
    event: EventUid,
) -> Result<RootView, Error> {
    sqlx::query_as(include_str!("sql/read_root.sql"))
        .bind(tenant.0)
        .bind(event.0)
        .fetch_optional(conn)
        .await?
        .ok_or(Error::EventNotFound(event))
}
