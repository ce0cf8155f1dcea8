//! What operators' commands look up.

use std::collections::BTreeSet;

use uuid::Uuid;
use weir_kernel::{BindingId, ScopeId, TenantId, WorkId, WorkState};
use weir_pg::Tx;

use crate::Error;

/// A scope's effective binding of one name, in the current generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BindingInScope {
    pub(crate) binding: BindingId,
    pub(crate) priority: i16,
    pub(crate) generation: i64,
}

/// Finds a scope's binding. Under the configuration lock.
pub(crate) async fn find_binding(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scope: ScopeId,
    name: &str,
) -> Result<Option<BindingInScope>, Error> {
    let row: Option<(i32, i16, i64)> = sqlx::query_as(
        "SELECT b.binding_id, x.priority, t.generation FROM weir.tenant AS t \
         JOIN weir.binding AS b ON b.tenant_id = t.tenant_id AND b.name = $3 AND b.scope_id = $2 \
         JOIN weir.binding_settings AS x ON x.tenant_id = t.tenant_id \
             AND x.generation = t.generation AND x.binding_id = b.binding_id \
         WHERE t.tenant_id = $1",
    )
    .bind(tenant.0)
    .bind(scope.0)
    .bind(name)
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|(binding, priority, generation)| BindingInScope {
        binding: BindingId(binding),
        priority,
        generation,
    }))
}

/// Finds one of the keys that a Work owns already.
pub(crate) async fn find_owned_key(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scope: ScopeId,
    keys: &BTreeSet<String>,
) -> Result<Option<(String, WorkId)>, Error> {
    if keys.is_empty() {
        return Ok(None);
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let row: Option<(String, Uuid)> = sqlx::query_as(
        "SELECT u.key, k.work_id FROM unnest($3::text[]) AS u (key) \
         CROSS JOIN LATERAL (SELECT x.work_id FROM weir.work_key AS x \
             WHERE x.tenant_id = $1 AND x.scope_id = $2 AND x.key = u.key LIMIT 1) AS k LIMIT 1",
    )
    .bind(tenant.0)
    .bind(scope.0)
    .bind(&keys)
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|(key, work)| (key, WorkId(work))))
}

/// Reads the scope of a Work, which never changes (rule r08).
pub(crate) async fn read_scope_of(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: WorkId,
) -> Result<ScopeId, Error> {
    let scope: Option<i32> =
        sqlx::query_scalar("SELECT scope_id FROM weir.work WHERE tenant_id = $1 AND work_id = $2")
            .bind(tenant.0)
            .bind(work.0)
            .fetch_optional(tx.conn())
            .await?;
    scope
        .map(ScopeId)
        .ok_or_else(|| weir_work::Error::WorkNotFound(work).into())
}

/// Reads the name of a Work's scope, and where the Work stands.
pub(crate) async fn read_place(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: WorkId,
) -> Result<(String, WorkState), Error> {
    let row: Option<(String, i16)> = sqlx::query_as(
        "SELECT s.name, w.state FROM weir.work AS w \
         JOIN weir.scope AS s ON s.tenant_id = w.tenant_id AND s.scope_id = w.scope_id \
         WHERE w.tenant_id = $1 AND w.work_id = $2",
    )
    .bind(tenant.0)
    .bind(work.0)
    .fetch_optional(tx.conn())
    .await?;
    let (name, state) = row.ok_or(weir_work::Error::WorkNotFound(work))?;
    Ok((name, WorkState::from_code(state)?))
}

/// Checks that these Works are the tenant's. Works are never deleted.
pub(crate) async fn require_works(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[WorkId],
) -> Result<(), Error> {
    if works.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = works.iter().map(|work| work.0).collect();
    let missing: Option<Uuid> = sqlx::query_scalar(
        "SELECT u.work_id FROM unnest($2::uuid[]) AS u (work_id) \
         WHERE NOT EXISTS (SELECT FROM weir.work AS w \
             WHERE w.tenant_id = $1 AND w.work_id = u.work_id OFFSET 0) LIMIT 1",
    )
    .bind(tenant.0)
    .bind(&ids)
    .fetch_optional(tx.conn())
    .await?;
    match missing {
        Some(work) => Err(weir_work::Error::WorkNotFound(WorkId(work)).into()),
        None => Ok(()),
    }
}

/// Finds the number of the wait that an attempt opened by parking. At most one wait an attempt, so its number is
/// not above the attempt's.
pub(crate) async fn find_wait_of(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    work: WorkId,
    attempt: i32,
) -> Result<i32, Error> {
    let n: Option<i32> = sqlx::query_scalar(
        "SELECT n FROM weir.wait WHERE tenant_id = $1 AND work_id = $2 AND n <= $3 AND attempt = $3 \
         ORDER BY n DESC LIMIT 1",
    )
    .bind(tenant.0)
    .bind(work.0)
    .bind(attempt)
    .fetch_optional(tx.conn())
    .await?;
    n.ok_or_else(|| {
        let what = "its attempt parked without a wait";
        weir_work::Error::Inconsistent { work, what }.into()
    })
}
