//! An attempt emits events (rules c01, l02).

use sqlx::Row as _;
use weir_kernel::{EventUid, TenantId, WorkId};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_work::{Lease, share_lease};

use super::Appended;
use crate::Error;
use crate::draft::Draft;

/// Appends what a leased attempt emits, each event answered for itself.
///
/// The parent is the attempt's trigger, whatever the caller believes. The scope is any of the tenant's
/// current configuration.
pub(crate) struct Emit<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) actor: &'a str,
    pub(crate) lease: Lease,
    /// Scope that accepts; the Work's when none.
    pub(crate) scope: Option<&'a str>,
    /// Parent as the caller believes it.
    pub(crate) parent: Option<EventUid>,
    /// Checked; the lease is proved also when none is left.
    pub(crate) drafts: &'a [&'a Draft],
}

impl Command for Emit<'_> {
    const NAME: &'static str = "causal.emit";
    type Output = Appended;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Appended, Error> {
        lock_config(tx, self.tenant, Mode::Shared).await?;
        // The Work comes first: of another tenant's Work nothing else is said (rule o04).
        let own = scope_of(tx, self.tenant, self.lease.work).await?;
        let scope = self.scope.map_or(own, str::to_owned);
        let id = weir_ledger::tenant::scope(tx, self.tenant, &scope).await?;
        let lock = weir_ledger::lock_scope(tx, self.tenant, id).await?;
        let held = share_lease(tx, self.tenant, self.lease).await?;
        let trigger = held.ready.trigger.ok_or(weir_work::Error::Inconsistent {
            work: self.lease.work,
            what: "a leased attempt has no trigger",
        })?;
        if self.parent.is_some_and(|believed| believed != trigger) {
            return Err(Error::ParentMismatch { trigger });
        }
        let below = |draft: &&Draft| draft.below(trigger, &scope, self.actor);
        let events: Vec<_> = self.drafts.iter().map(below).collect();
        let outcomes = weir_ledger::append(tx, &lock, &events).await?;
        Ok(Appended { scope, outcomes })
    }
}

/// Returns the name of the Work's scope, which never changes (rule r08).
async fn scope_of(tx: &mut Tx<'_>, tenant: TenantId, work: WorkId) -> Result<String, Error> {
    let row = sqlx::query(include_str!("sql/scope_of_work.sql"))
        .bind(tenant.0)
        .bind(work.0)
        .fetch_optional(tx.conn())
        .await?
        .ok_or(weir_work::Error::WorkNotFound(work))?;
    Ok(row.try_get(0)?)
}
