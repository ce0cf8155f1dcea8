//! The publishing transactions.

use weir_kernel::{ScopeId, TenantId};
use weir_ledger::{NewEvent, Outcome, append, lock_scope};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};

use crate::Error;
use crate::generation::Generation;
use crate::publish::refusal;

/// Events of several callers, prepared under the generation beside them.
pub(super) struct PublishJobs<'a> {
    pub(super) tenant: TenantId,
    pub(super) scope: ScopeId,
    pub(super) jobs: &'a [(i64, Vec<NewEvent>)],
}

impl Command for PublishJobs<'_> {
    const NAME: &'static str = "routing.publish";
    /// `None` for a job whose generation is not current any more.
    type Output = Vec<Option<Vec<Outcome>>>;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Self::Output, Error> {
        lock_config(tx, self.tenant, Mode::Shared).await?;
        let current = weir_ledger::tenant::generation(tx, self.tenant).await?;
        let lock = lock_scope(tx, self.tenant, self.scope).await?;
        let fresh = self.jobs.iter().filter(|(g, _)| *g == current);
        let events: Vec<NewEvent> = fresh.flat_map(|(_, events)| events).cloned().collect();
        let mut outcomes = append(tx, &lock, &events).await?.into_iter();
        Ok(self
            .jobs
            .iter()
            .map(|(g, events)| {
                (*g == current).then(|| outcomes.by_ref().take(events.len()).collect())
            })
            .collect())
    }
}

/// A batch that is accepted whole or not at all.
pub(super) struct PublishAtomic<'a> {
    pub(super) generation: &'a Generation,
    pub(super) scope: ScopeId,
    pub(super) events: &'a [NewEvent],
}

impl Command for PublishAtomic<'_> {
    const NAME: &'static str = "routing.publish_atomic";
    type Output = Vec<Outcome>;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Vec<Outcome>, Error> {
        let tenant = self.generation.tenant;
        lock_config(tx, tenant, Mode::Shared).await?;
        if weir_ledger::tenant::generation(tx, tenant).await? != self.generation.number {
            return Err(Error::GenerationChanged);
        }
        let lock = lock_scope(tx, tenant, self.scope).await?;
        let outcomes = append(tx, &lock, self.events).await?;
        let refused = |o: &Outcome| !matches!(o, Outcome::Accepted(_) | Outcome::Replay(_));
        if let Some(index) = outcomes.iter().position(refused) {
            // Rolls back what the neighbours wrote.
            let error = Box::new(refusal(&self.events[index], outcomes[index].clone()));
            return Err(Error::Atomic { index, error });
        }
        Ok(outcomes)
    }
}
