//! Acknowledge: an attempt took injected input.

use weir_kernel::{EventUid, TenantId};
use weir_pg::{Command, Tx};
use weir_work::{Lease, check_lease, lock_one};

use crate::Error;

/// Consumes injected inputs under the attempt's epoch (rule l05). All of them or none.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledge {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// The lease.
    pub(crate) lease: Lease,
    /// Events that the attempt took.
    pub(crate) events: Vec<EventUid>,
}

impl Command for Acknowledge {
    const NAME: &'static str = "lifecycle.acknowledge";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        let locked = lock_one(tx, self.tenant, self.lease.work).await?;
        match check_lease(locked, self.lease) {
            Ok(held) => {
                let taken = weir_work::acknowledge(tx, self.tenant, &held, &self.events).await?;
                match self.events.iter().find(|event| !taken.contains(event)) {
                    Some(event) => Err(Error::IntentNotFound(*event)),
                    None => Ok(()),
                }
            }
            // A repeat after the end: what this attempt took under this epoch stays taken.
            Err(_) if self.took_all(tx).await? => Ok(()),
            Err(_) => Err(weir_work::Error::LeaseLost(self.lease.work).into()),
        }
    }
}

impl Acknowledge {
    async fn took_all(&self, tx: &mut Tx<'_>) -> Result<bool, Error> {
        let uids: Vec<uuid::Uuid> = self.events.iter().map(|event| event.0).collect();
        Ok(sqlx::query_scalar(
            "SELECT count(*) = cardinality($5::uuid[]) FROM unnest($5::uuid[]) AS u (uid) \
             WHERE EXISTS (SELECT FROM weir.intent AS i WHERE i.tenant_id = $1 AND i.work_id = $2 \
                 AND i.epoch = $3 AND i.uid = u.uid AND i.attempt = $4 AND i.state = 3)",
        )
        .bind(self.tenant.0)
        .bind(self.lease.work.0)
        .bind(self.lease.epoch)
        .bind(self.lease.attempt)
        .bind(&uids)
        .fetch_one(tx.conn())
        .await?)
    }
}
