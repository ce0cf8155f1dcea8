//! A Work's inputs.

use sqlx::PgConnection;
use uuid::Uuid;
use weir_kernel::{TenantId, WorkId};

use super::{Page, read_work};
use crate::Error;

/// An input and what became of it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct InputView {
    pub(crate) n: i64,
    pub(crate) uid: Uuid,
    pub(crate) binding: Option<String>,
    /// 1 queued, 2 presented, 3 consumed, 4 abandoned.
    pub(crate) state: i16,
    pub(crate) attempt: Option<i32>,
    pub(crate) intent: Option<i16>,
}

/// Lists a page of a Work's inputs, in queue order.
///
/// # Errors
/// `WORK_NOT_FOUND`.
pub(crate) async fn list_inputs(
    conn: &mut PgConnection,
    tenant: TenantId,
    work: WorkId,
    page: Page<i64>,
) -> Result<(Vec<InputView>, String), Error> {
    let mut rows: Vec<InputView> = sqlx::query_as(include_str!("list_inputs.sql"))
        .bind(tenant.0)
        .bind(work.0)
        .bind(page.after.unwrap_or(0))
        .bind(page.limit())
        .fetch_all(&mut *conn)
        .await?;
    if rows.is_empty() {
        read_work(conn, tenant, work).await?;
    }
    let token = page.cut(&mut rows, |row| row.n.to_string());
    Ok((rows, token))
}
