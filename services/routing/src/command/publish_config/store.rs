//! The statements of a publication. They decide nothing.

use chrono::{DateTime, Utc};
use weir_kernel::TenantId;
use weir_pg::Tx;

use super::numbers::Numbered;
use super::{Error, Prepared};
use crate::generation::BindingSettings;

pub(super) async fn find_tenant(tx: &mut Tx<'_>, name: &str) -> Result<Option<TenantId>, Error> {
    let id: Option<i64> = sqlx::query_scalar("SELECT tenant_id FROM weir.tenant WHERE name = $1")
        .bind(name)
        .fetch_optional(tx.conn())
        .await?;
    Ok(id.map(TenantId))
}

/// Makes the tenant's row. Whoever makes the same one at the same time waits here for this
/// transaction's end.
pub(super) async fn create_tenant(tx: &mut Tx<'_>, name: &str) -> Result<TenantId, Error> {
    let made: Option<i64> = sqlx::query_scalar(
        "INSERT INTO weir.tenant (name, created_at) VALUES ($1, weir.clock()) \
         ON CONFLICT ON CONSTRAINT tenant_name_key DO NOTHING RETURNING tenant_id",
    )
    .bind(name)
    .fetch_optional(tx.conn())
    .await?;
    match made {
        Some(id) => Ok(TenantId(id)),
        // Another first publication has committed meanwhile; a new statement sees its row.
        None => find_tenant(tx, name)
            .await?
            .ok_or_else(|| weir_pg::Error::Again.into()),
    }
}

pub(super) async fn insert_generation(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
    prepared: &Prepared,
    actor: &str,
) -> Result<DateTime<Utc>, Error> {
    let at = sqlx::query_scalar(
        "INSERT INTO weir.generation (tenant_id, generation, digest, document, actor, created_at) \
         VALUES ($1, $2, $3, $4, $5, weir.clock()) RETURNING created_at",
    )
    .bind(tenant.0)
    .bind(generation)
    .bind(prepared.digest.as_slice())
    .bind(&prepared.text)
    .bind(actor)
    .fetch_one(tx.conn())
    .await?;
    Ok(at)
}

pub(super) async fn insert_limits(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
    scopes: &[Numbered<'_>],
) -> Result<(), Error> {
    // The check of a document bounds every number below to what its column takes.
    let limits = || scopes.iter().map(|s| s.scope.limits);
    let brakes = scopes.iter().map(|s| {
        s.scope
            .brake
            .map(|b| b.after_refusals_per_minute.cast_signed())
    });
    sqlx::query(include_str!("sql/insert_limits.sql"))
        .bind(tenant.0)
        .bind(generation)
        .bind(scopes.iter().map(|s| s.id.0).collect::<Vec<i32>>())
        .bind(
            limits()
                .map(|l| l.depth.cast_signed())
                .collect::<Vec<i16>>(),
        )
        .bind(
            limits()
                .map(|l| l.derived_per_minute.cast_signed())
                .collect::<Vec<i32>>(),
        )
        .bind(brakes.collect::<Vec<Option<i32>>>())
        .execute(tx.conn())
        .await?;
    Ok(())
}

pub(super) async fn insert_settings(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
    scopes: &[Numbered<'_>],
) -> Result<(), Error> {
    let bindings: Vec<_> = scopes.iter().flat_map(|s| &s.bindings).collect();
    let settings: Vec<BindingSettings> = bindings
        .iter()
        .map(|(_, b)| BindingSettings::of(b))
        .collect();
    let whole = bindings.iter().map(|(_, b)| serde_json::to_string(b));
    let whole: Vec<String> = whole.collect::<Result<_, _>>()?;
    let micros = settings
        .iter()
        .map(|s| i64::try_from(s.lease.as_micros()).unwrap_or(i64::MAX));
    sqlx::query(include_str!("sql/insert_settings.sql"))
        .bind(tenant.0)
        .bind(generation)
        .bind(bindings.iter().map(|(id, _)| id.0).collect::<Vec<i32>>())
        .bind(
            settings
                .iter()
                .map(|s| s.executor.as_deref())
                .collect::<Vec<Option<&str>>>(),
        )
        .bind(
            settings
                .iter()
                .map(|s| s.capabilities)
                .collect::<Vec<i16>>(),
        )
        .bind(micros.collect::<Vec<i64>>())
        .bind(
            settings
                .iter()
                .map(|s| s.max_attempts)
                .collect::<Vec<i16>>(),
        )
        .bind(settings.iter().map(|s| s.priority).collect::<Vec<i16>>())
        .bind(&whole)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Makes the generation the current one. It is the next under the configuration lock; if the row
/// says otherwise, somebody wrote without it.
pub(super) async fn advance(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
) -> Result<(), Error> {
    let done = sqlx::query(
        "UPDATE weir.tenant SET generation = $2 WHERE tenant_id = $1 AND generation = $2 - 1",
    )
    .bind(tenant.0)
    .bind(generation)
    .execute(tx.conn())
    .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(weir_pg::Error::Again.into())
    }
}
