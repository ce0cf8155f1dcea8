//! Repeats of mutating requests (rule o08): the same request id with the same content answers the first
//! result. The row is the last lock a command takes; a twin that waits for it starts again and replays.

use crate::Error;
use sqlx::Row as _;
use uuid::Uuid;
use weir_kernel::TenantId;
use weir_pg::Tx;

/// Identity of a mutating request. An empty `request_id` means that the caller gave none.
#[derive(Debug, Clone)]
pub struct RequestKey {
    /// Tenant.
    pub tenant: TenantId,
    /// Verified actor.
    pub actor: String,
    /// Method, as `package.Service/Method`.
    pub method: &'static str,
    /// The caller's request id, or empty.
    pub request_id: String,
    /// Digest of the request without its id.
    pub content: Uuid,
}

/// Returns the stored answer of an earlier request with this id.
///
/// # Errors
/// REQUEST_CONFLICT when it was used with other content.
pub async fn find(tx: &mut Tx<'_>, key: &RequestKey) -> Result<Option<Vec<u8>>, Error> {
    if key.request_id.is_empty() {
        return Ok(None);
    }
    let row = sqlx::query(
        "SELECT content, response FROM weir.request \
         WHERE tenant_id = $1 AND actor = $2 AND method = $3 AND request_id = $4",
    )
    .bind(key.tenant.0)
    .bind(&key.actor)
    .bind(key.method)
    .bind(&key.request_id)
    .fetch_optional(tx.conn())
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.try_get::<Uuid, _>(0)? != key.content {
        return Err(Error::RequestConflict(key.request_id.clone()));
    }
    Ok(Some(row.try_get(1)?))
}

/// Stores the answer of a request, in the transaction of its effect.
///
/// # Errors
/// `weir_pg::Error::Again` when a twin committed first: the command starts over and replays its answer.
pub async fn remember(tx: &mut Tx<'_>, key: &RequestKey, response: &[u8]) -> Result<(), Error> {
    if key.request_id.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "INSERT INTO weir.request (tenant_id, actor, method, request_id, content, response, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, weir.clock()) ON CONFLICT DO NOTHING",
    )
    .bind(key.tenant.0)
    .bind(&key.actor)
    .bind(key.method)
    .bind(&key.request_id)
    .bind(key.content)
    .bind(response)
    .execute(tx.conn())
    .await?;
    if done.rows_affected() == 0 {
        Err(weir_pg::Error::Again.into())
    } else {
        Ok(())
    }
}
