//! What executors can do, as they registered it (rules r11, r26).

use std::collections::HashMap;

use sqlx::Row as _;
use weir_kernel::TenantId;
use weir_pg::Tx;

const READ: &str = "
-- routing.read_registrations: the current registration of each executor is its highest revision.
SELECT x.executor, r.revision, r.capabilities
  FROM unnest($2::text[]) AS x(executor)
 CROSS JOIN LATERAL (SELECT revision, capabilities
                       FROM weir.executor_registration
                      WHERE tenant_id = $1 AND executor = x.executor
                      ORDER BY revision DESC
                      LIMIT 1) AS r";

/// The current registration of an executor. It is a durable row: it counts also while no worker of
/// that executor is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// Rises with each registration that differs from the one before.
    pub revision: i64,
    /// What is proved: bits [`super::INJECT`] and [`super::INTERRUPT`].
    pub capabilities: i16,
}

/// Returns the current registrations of these executors; one that never registered is absent.
///
/// # Errors
/// The database's.
pub async fn registrations(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    executors: &[&str],
) -> Result<HashMap<String, Registration>, weir_pg::Error> {
    if executors.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query(READ)
        .bind(tenant.0)
        .bind(executors)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| {
            let found = Registration {
                revision: row.try_get(1)?,
                capabilities: row.try_get(2)?,
            };
            Ok((row.try_get(0)?, found))
        })
        .collect()
}
