//! Reading published configurations.

use chrono::{DateTime, Utc};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use weir_kernel::TenantId;
use weir_pg::Db;

use super::token::Writer;
use super::{Error, Seal};

/// A publication, without its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Its number.
    pub generation: i64,
    /// SHA-256 of the canonical document.
    pub digest: Vec<u8>,
    /// Who published it.
    pub actor: String,
    /// Database time.
    pub created_at: DateTime<Utc>,
}

fn publication(row: &PgRow) -> Result<Publication, sqlx::Error> {
    Ok(Publication {
        generation: row.try_get(0)?,
        digest: row.try_get(1)?,
        actor: row.try_get(2)?,
        created_at: row.try_get(3)?,
    })
}

/// Returns a generation and its document as published; the current one for 0.
///
/// # Errors
/// GENERATION_NOT_FOUND; the database's.
pub async fn get(
    db: &Db,
    tenant: TenantId,
    generation: i64,
) -> Result<(Publication, String), Error> {
    let mut conn = db.acquire().await?;
    let row = sqlx::query(
        "SELECT g.generation, g.digest, g.actor, g.created_at, g.document FROM weir.tenant t \
         JOIN weir.generation g ON g.tenant_id = t.tenant_id \
          AND g.generation = CASE WHEN $2 = 0 THEN t.generation ELSE $2 END WHERE t.tenant_id = $1",
    )
    .bind(tenant.0)
    .bind(generation)
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(Error::GenerationNotFound(generation))?;
    Ok((publication(&row)?, row.try_get(4)?))
}

/// Returns generations, newest first, and the token of the next page, empty at the end.
///
/// # Errors
/// PAGE_TOKEN_INVALID; the database's.
pub async fn list(
    db: &Db,
    tenant: TenantId,
    page_size: usize,
    page_token: &str,
) -> Result<(Vec<Publication>, String), Error> {
    let seal = Seal::new("list_generations", "page_token", tenant, &[]);
    let below = match page_token {
        "" => i64::MAX,
        token => seal.open(token, |body| body.int8())?,
    };
    let mut conn = db.acquire().await?;
    let rows = sqlx::query(
        "SELECT generation, digest, actor, created_at FROM weir.generation \
         WHERE tenant_id = $1 AND generation < $2 ORDER BY generation DESC LIMIT $3",
    )
    .bind(tenant.0)
    .bind(below)
    .bind(i64::try_from(page_size).unwrap_or(i64::MAX))
    .fetch_all(&mut *conn)
    .await?;
    let found: Vec<Publication> = rows.iter().map(publication).collect::<Result<_, _>>()?;
    // Numbers have no gaps, so the last page is the one that ends with the first generation.
    let next = match found.last() {
        Some(last) if found.len() == page_size && last.generation > 1 => {
            let mut body = Writer::default();
            body.number(last.generation.cast_unsigned());
            seal.close(&body)
        }
        _ => String::new(),
    };
    Ok((found, next))
}
