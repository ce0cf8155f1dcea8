//! From verified names to the numbers that lead every key.

use crate::Error;
use sqlx::{PgConnection, Row as _};
use weir_kernel::{ScopeId, TenantId};
use weir_pg::{Db, Tx};

/// Returns a tenant's number and its current generation.
///
/// # Errors
/// TENANT_NOT_FOUND when it has published no configuration.
pub async fn resolve(db: &Db, name: &str) -> Result<(TenantId, i64), Error> {
    let mut conn = db.acquire().await?;
    resolve_on(&mut conn, name).await
}

/// Returns a tenant's number and its current generation, as a connection's transaction sees them.
///
/// # Errors
/// As [`resolve`].
pub async fn resolve_on(conn: &mut PgConnection, name: &str) -> Result<(TenantId, i64), Error> {
    let row = sqlx::query("SELECT tenant_id, generation FROM weir.tenant WHERE name = $1")
        .bind(name)
        .fetch_optional(conn)
        .await?;
    match row {
        Some(row) => Ok((TenantId(row.try_get(0)?), row.try_get(1)?)),
        None => Err(Error::TenantNotFound(name.to_owned())),
    }
}

/// Returns a scope's number, if the tenant's current generation has the scope.
///
/// # Errors
/// SCOPE_NOT_FOUND.
pub async fn scope(tx: &mut Tx<'_>, tenant: TenantId, name: &str) -> Result<ScopeId, Error> {
    let id: Option<i32> = sqlx::query_scalar(
        "SELECT s.scope_id FROM weir.scope s JOIN weir.tenant t ON t.tenant_id = s.tenant_id \
         WHERE s.tenant_id = $1 AND s.name = $2 AND s.generation = t.generation",
    )
    .bind(tenant.0)
    .bind(name)
    .fetch_optional(tx.conn())
    .await?;
    id.map(ScopeId)
        .ok_or_else(|| Error::ScopeNotFound(name.to_owned()))
}

/// Returns the tenant's current generation, inside a transaction that holds the configuration lock.
///
/// # Errors
/// The database's.
pub async fn generation(tx: &mut Tx<'_>, tenant: TenantId) -> Result<i64, Error> {
    Ok(
        sqlx::query_scalar("SELECT generation FROM weir.tenant WHERE tenant_id = $1")
            .bind(tenant.0)
            .fetch_one(tx.conn())
            .await?,
    )
}
