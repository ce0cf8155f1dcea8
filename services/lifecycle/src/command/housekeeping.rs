//! What the schema needs to go on: days ahead, and no answers of last week.

use weir_kernel::TenantId;
use weir_pg::{Command, Tx};

use crate::Error;

/// How many days of payload partitions stand ready, yesterday included: two weeks in which the task may
/// fail before acceptance does.
const DAYS: i32 = 16;

/// Makes the days' partitions. Answers how many were new.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MakePartitions;

impl Command for MakePartitions {
    const NAME: &'static str = "lifecycle.make_partitions";
    type Output = i32;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<i32, Error> {
        Ok(sqlx::query_scalar(
            "SELECT weir.make_partitions((weir.clock() AT TIME ZONE 'UTC')::date - 1, $1)",
        )
        .bind(DAYS)
        .fetch_one(tx.conn())
        .await?)
    }
}

/// Deletes a tenant's answers that are older than 24 h (rule o08). Answers how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForgetRequests {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// At most this many at once.
    pub(crate) most: i64,
}

impl Command for ForgetRequests {
    const NAME: &'static str = "lifecycle.forget_requests";
    type Output = u64;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<u64, Error> {
        let done = sqlx::query(
            "WITH old AS MATERIALIZED (SELECT r.ctid AS at FROM weir.request AS r \
                 WHERE r.tenant_id = $1 AND r.created_at < weir.clock() - interval '24 hours' \
                 ORDER BY r.created_at LIMIT $2 FOR UPDATE SKIP LOCKED) \
             DELETE FROM weir.request AS r USING old WHERE r.ctid = old.at",
        )
        .bind(self.tenant.0)
        .bind(self.most)
        .execute(tx.conn())
        .await?;
        Ok(done.rows_affected())
    }
}
