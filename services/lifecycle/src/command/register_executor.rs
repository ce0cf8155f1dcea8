//! RegisterExecutor: what an executor can do becomes a durable row.

use weir_kernel::TenantId;
use weir_ledger::request::{self, RequestKey};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};

use crate::Error;

/// Registers an executor's capabilities (rule r11). The same again answers the same revision.
#[derive(Debug, Clone)]
pub(crate) struct RegisterExecutor {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// Verified actor.
    pub(crate) actor: String,
    /// The executor.
    pub(crate) executor: String,
    /// Capabilities: 1 inject, 2 interrupt.
    pub(crate) capabilities: i16,
    /// Makes a repeat safe.
    pub(crate) request: RequestKey,
}

impl Command for RegisterExecutor {
    const NAME: &'static str = "lifecycle.register_executor";
    type Output = i64;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<i64, Error> {
        if let Some(stored) = request::find(tx, &self.request).await?
            && let Ok(bytes) = <[u8; 8]>::try_from(stored.as_slice())
        {
            return Ok(i64::from_be_bytes(bytes));
        }
        // Workers register whenever they start: only a change stops the tenant's claims and publications
        // for a moment.
        let revision = match self.current(tx).await? {
            Some((revision, capabilities)) if capabilities == self.capabilities => revision,
            _ => {
                lock_config(tx, self.tenant, Mode::Exclusive).await?;
                match self.current(tx).await? {
                    Some((revision, capabilities)) if capabilities == self.capabilities => revision,
                    other => {
                        self.insert(tx, other.map_or(0, |(revision, _)| revision) + 1)
                            .await?
                    }
                }
            }
        };
        request::remember(tx, &self.request, &revision.to_be_bytes()).await?;
        Ok(revision)
    }
}

impl RegisterExecutor {
    async fn current(&self, tx: &mut Tx<'_>) -> Result<Option<(i64, i16)>, Error> {
        Ok(sqlx::query_as(
            "SELECT revision, capabilities FROM weir.executor_registration \
             WHERE tenant_id = $1 AND executor = $2 ORDER BY revision DESC LIMIT 1",
        )
        .bind(self.tenant.0)
        .bind(&self.executor)
        .fetch_optional(tx.conn())
        .await?)
    }

    async fn insert(&self, tx: &mut Tx<'_>, revision: i64) -> Result<i64, Error> {
        sqlx::query(
            "INSERT INTO weir.executor_registration \
                 (tenant_id, executor, revision, capabilities, actor, created_at) \
             VALUES ($1, $2, $3, $4, $5, weir.clock())",
        )
        .bind(self.tenant.0)
        .bind(&self.executor)
        .bind(revision)
        .bind(self.capabilities)
        .bind(&self.actor)
        .execute(tx.conn())
        .await?;
        Ok(revision)
    }
}
