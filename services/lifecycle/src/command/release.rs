//! Release: the Work is given back, and the attempt does not count.

use weir_kernel::{AttemptOutcome, TenantId, WorkState};
use weir_pg::{Command, Tx};
use weir_work::{End, Lease};

use super::Ended;
use super::attempt::{self, Found};
use crate::Error;

/// Gives a Work back uncounted, its presented input with it (rules l04, l07).
#[derive(Debug, Clone)]
pub(crate) struct Release {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// The lease.
    pub(crate) lease: Lease,
}

impl Command for Release {
    const NAME: &'static str = "lifecycle.release";
    type Output = Ended;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Ended, Error> {
        let content = attempt::content("release", &[]);
        let outcome = AttemptOutcome::Released;
        let held = match attempt::find(tx, self.tenant, self.lease, content, &[outcome]).await? {
            Found::Live(held) => *held,
            Found::Ended(ended) => return Ok(ended),
        };
        let ended = Ended {
            state: WorkState::Ready,
            at: None,
        };
        let end = End {
            outcome,
            content: Some(content),
            answer_state: Some(ended.state),
            answer_at: None,
            result: None,
            error: None,
        };
        // It was counted when claimed.
        let tries = held.ready.tries.saturating_sub(1).max(0);
        let locked = weir_work::end_attempt(tx, self.tenant, held, &end).await?;
        weir_work::give_back(tx, self.tenant, &locked, tries, None).await?;
        Ok(ended)
    }
}
