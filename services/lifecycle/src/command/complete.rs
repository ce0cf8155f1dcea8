//! Complete: the attempt ends well and consumes what its claim presented.

use weir_kernel::{AttemptOutcome, TenantId, WorkState};
use weir_pg::{Command, Tx};
use weir_work::{End, Lease};

use super::Ended;
use super::attempt::{self, Found};
use crate::Error;

/// Ends an attempt well (rules l04, l06).
#[derive(Debug, Clone)]
pub(crate) struct Complete {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// The lease.
    pub(crate) lease: Lease,
    /// Result in words.
    pub(crate) result: String,
}

impl Command for Complete {
    const NAME: &'static str = "lifecycle.complete";
    type Output = Ended;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Ended, Error> {
        let content = attempt::content("complete", &[("result", self.result.as_bytes())]);
        let outcome = AttemptOutcome::Completed;
        let held = match attempt::find(tx, self.tenant, self.lease, content, &[outcome]).await? {
            Found::Live(held) => *held,
            Found::Ended(ended) => return Ok(ended),
        };
        let consumed = weir_work::consumed_after(tx, self.tenant, &held.work, &held.ready).await?;
        let remaining = weir_work::remaining(tx, self.tenant, &held.work, consumed).await?;
        if let Some(event) = remaining.unrouted {
            return Err(Error::UnroutedInput {
                work: self.lease.work,
                event,
            });
        }
        // A deferred event is due once the attempt has ended; it decides then what becomes of the Work.
        let left = remaining.next.is_some() || remaining.deferred;
        let state = if left {
            WorkState::Ready
        } else {
            WorkState::Completed
        };
        let end = End {
            outcome,
            content: Some(content),
            answer_state: Some(state),
            answer_at: None,
            result: Some(&self.result),
            error: None,
        };
        let locked = weir_work::end_attempt(tx, self.tenant, held, &end).await?;
        if left {
            weir_work::requeue(tx, self.tenant, &locked, consumed, remaining.next).await?;
        } else {
            weir_work::terminate(tx, self.tenant, locked, state, consumed).await?;
        }
        Ok(Ended { state, at: None })
    }
}
