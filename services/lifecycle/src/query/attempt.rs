//! A Work's attempts.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;
use weir_kernel::{TenantId, WorkId};

use super::{Page, read_work};
use crate::Error;

/// An attempt, ended or running.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct AttemptView {
    pub(crate) number: i32,
    pub(crate) epoch: i64,
    pub(crate) owner: String,
    pub(crate) binding: Option<String>,
    pub(crate) generation: i64,
    pub(crate) registration: i64,
    pub(crate) capabilities: i16,
    pub(crate) trigger_uid: Uuid,
    pub(crate) claimed_at: DateTime<Utc>,
    pub(crate) ended_at: Option<DateTime<Utc>>,
    pub(crate) outcome: Option<i16>,
    pub(crate) lease_until: Option<DateTime<Utc>>,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
}

/// Lists a page of a Work's attempts, oldest first.
///
/// # Errors
/// `WORK_NOT_FOUND`.
pub(crate) async fn list_attempts(
    conn: &mut PgConnection,
    tenant: TenantId,
    work: WorkId,
    page: Page<i32>,
) -> Result<(Vec<AttemptView>, String), Error> {
    let mut rows: Vec<AttemptView> = sqlx::query_as(include_str!("list_attempts.sql"))
        .bind(tenant.0)
        .bind(work.0)
        .bind(page.after.unwrap_or(0))
        .bind(page.limit())
        .fetch_all(&mut *conn)
        .await?;
    if rows.is_empty() {
        read_work(conn, tenant, work).await?;
    }
    let token = page.cut(&mut rows, |row| row.number.to_string());
    Ok((rows, token))
}
