//! A trusted caller chooses the parent (rule c01).

use weir_kernel::{EventUid, TenantId};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};

use super::Appended;
use crate::Error;
use crate::draft::Draft;

/// Appends one event below a parent that the caller chose, under the same limits as an emission.
pub(crate) struct Derive<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) actor: &'a str,
    pub(crate) scope: &'a str,
    pub(crate) parent: EventUid,
    pub(crate) draft: &'a Draft,
}

impl Command for Derive<'_> {
    const NAME: &'static str = "causal.derive";
    type Output = Appended;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Appended, Error> {
        lock_config(tx, self.tenant, Mode::Shared).await?;
        let id = weir_ledger::tenant::scope(tx, self.tenant, self.scope).await?;
        let lock = weir_ledger::lock_scope(tx, self.tenant, id).await?;
        let event = self.draft.below(self.parent, self.scope, self.actor);
        let outcomes = weir_ledger::append(tx, &lock, &[event]).await?;
        Ok(Appended {
            scope: self.scope.to_owned(),
            outcomes,
        })
    }
}
