//! Reads: events with their records, lists, the live stream, configurations.
//!
//! Everything is read by (tenant, …) from one snapshot an answer, so that what an answer says about
//! an event agrees with itself. Names come from the rows and not from the current configuration: a
//! record stays readable when its scope is gone.

pub mod config;
mod error;
pub mod event;
pub mod list;
pub mod position;
mod scan;
#[cfg(test)]
mod tests;
mod token;
pub mod watch;

pub use error::Error;
pub use token::Seal;

use weir_kernel::{ScopeId, TenantId};
use weir_pg::Tx;

/// Returns a scope's number by its name, also of one that the current configuration does not have any
/// more: its events are still there.
///
/// # Errors
/// SCOPE_NOT_FOUND; the database's.
pub async fn scope(tx: &mut Tx<'_>, tenant: TenantId, name: &str) -> Result<ScopeId, Error> {
    let id: Option<i32> =
        sqlx::query_scalar("SELECT scope_id FROM weir.scope WHERE tenant_id = $1 AND name = $2")
            .bind(tenant.0)
            .bind(name)
            .fetch_optional(tx.conn())
            .await?;
    id.map(ScopeId)
        .ok_or_else(|| Error::ScopeNotFound(name.to_owned()))
}
