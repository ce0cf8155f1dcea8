//! Lists of Works, newest first.

use sqlx::PgConnection;
use uuid::Uuid;
use weir_kernel::{TenantId, WorkState};

use super::{Page, WorkView, read_works};
use crate::Error;

/// Which Works to list.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkFilter {
    pub(crate) scope: Option<String>,
    pub(crate) state: Option<WorkState>,
    pub(crate) binding: Option<String>,
}

/// Lists a page of Works; ids are time-ordered.
pub(crate) async fn list_works(
    conn: &mut PgConnection,
    tenant: TenantId,
    filter: &WorkFilter,
    page: Page<Uuid>,
) -> Result<(Vec<WorkView>, String), Error> {
    let mut ids: Vec<Uuid> = sqlx::query_scalar(include_str!("list_works.sql"))
        .bind(tenant.0)
        .bind(filter.scope.as_deref())
        .bind(filter.state.map(WorkState::code))
        .bind(filter.binding.as_deref())
        .bind(page.after)
        .bind(page.limit())
        .fetch_all(&mut *conn)
        .await?;
    let token = page.cut(&mut ids, ToString::to_string);
    Ok((read_works(conn, tenant, &ids).await?, token))
}
