//! Works whose attempts are spent wait for an operator, also when no attempt lived to say so.

use weir_kernel::{TenantId, WorkId};
use weir_pg::{Command, Tx};

use super::fail::ATTEMPTS_EXHAUSTED;
use crate::Error;

/// Holds Works that no claim takes any more: tries at the binding's `max_attempts` and no live lease
/// (rule l07). An attempt that ran out ends as lost. Answers how many candidates there were.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldExhausted {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// At most this many at once.
    pub(crate) most: i32,
}

impl Command for HoldExhausted {
    const NAME: &'static str = "lifecycle.hold_exhausted";
    type Output = usize;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<usize, Error> {
        let found: Vec<(uuid::Uuid, i64)> =
            sqlx::query_as(include_str!("../store/find_exhausted.sql"))
                .bind(self.tenant.0)
                .bind(self.most)
                .fetch_all(tx.conn())
                .await?;
        let ids: Vec<WorkId> = found.iter().map(|(work, _)| WorkId(*work)).collect();
        for locked in weir_work::lock(tx, self.tenant, &ids).await? {
            let Some(ready) = &locked.ready else { continue };
            let seen = found
                .iter()
                .find(|(work, _)| *work == locked.work.work_id.0);
            // The epoch tells whether somebody claimed it since it was found.
            let same = seen.is_some_and(|(_, epoch)| *epoch == ready.epoch);
            if same && !ready.is_leased(locked.at) {
                weir_work::hold(tx, self.tenant, locked, ATTEMPTS_EXHAUSTED).await?;
            }
        }
        Ok(found.len())
    }
}
