//! Park: the attempt ends, and its Work waits.

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;
use weir_kernel::{AttemptOutcome, TenantId, WorkId, WorkState};
use weir_pg::{Command, Tx};
use weir_work::{End, Held, Lease, WaitFor, check_lease, lock_parking};

use super::{attempt, repeat};
use crate::condition::Condition;
use crate::{Error, store};

/// Longest time that a wait may be put off: its timeout, and how far ahead its lookback may be.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(366 * 86_400);

/// Ends an attempt and lets its Work wait (rules l04, l10). What the claim presented is consumed, as by Complete;
/// unrouted input does not refuse it, as it can win the wait. Checking the wait is routing's.
#[derive(Debug, Clone)]
pub(crate) struct Park {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// The lease.
    pub(crate) lease: Lease,
    /// Wakes on the first that holds.
    pub(crate) conditions: Vec<Condition>,
    /// Wakes at the latest after.
    pub(crate) timeout: Option<Duration>,
    /// Moves the lookback later.
    pub(crate) since: Option<DateTime<Utc>>,
    /// The request without its lease, as bytes.
    pub(crate) content: Vec<u8>,
}

/// What Park answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parked {
    /// The wait's name.
    pub(crate) wait: String,
    /// When it times out.
    pub(crate) due_at: Option<DateTime<Utc>>,
}

impl Command for Park {
    const NAME: &'static str = "lifecycle.park";
    type Output = Parked;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Parked, Error> {
        let content = attempt::content("park", &[("request", &self.content)]);
        let ended: Vec<WorkId> = self.named(|condition| match condition {
            Condition::Ended(work) => Some(*work),
            Condition::Own | Condition::Event { .. } => None,
        });
        let (locked, found) = lock_parking(tx, self.tenant, self.lease.work, &ended).await?;
        let held = match check_lease(locked, self.lease) {
            Ok(held) => held,
            Err(_) => return self.answered(tx, content).await,
        };
        if let Some(missing) = ended.iter().find(|work| !found.contains(work)) {
            return Err(weir_work::Error::WorkNotFound(*missing).into());
        }
        self.check_since(&held)?;
        let conditions = self.resolve(tx).await?;
        let due_at = self.timeout.map(|timeout| weir_work::due(held.at, timeout));
        let end = End {
            outcome: AttemptOutcome::Parked,
            content: Some(content),
            answer_state: Some(WorkState::Waiting),
            answer_at: due_at,
            result: None,
            error: None,
        };
        let locked = weir_work::end_attempt(tx, self.tenant, held, &end).await?;
        let parked =
            weir_work::park(tx, self.tenant, &locked, &conditions, self.since, due_at).await?;
        Ok(Parked {
            wait: weir_work::wait_name(self.lease.work, parked.n),
            due_at: parked.due_at,
        })
    }
}

impl Park {
    fn named(&self, pick: impl Fn(&Condition) -> Option<WorkId>) -> Vec<WorkId> {
        self.conditions.iter().filter_map(pick).collect()
    }

    /// Answers a repeat with the wait that this very request opened, whatever became of it (rule o08).
    async fn answered(&self, tx: &mut Tx<'_>, content: Uuid) -> Result<Parked, Error> {
        let outcomes = [AttemptOutcome::Parked];
        let ended = repeat::answer(tx, self.tenant, self.lease, content, &outcomes).await?;
        let n = store::find_wait_of(tx, self.tenant, self.lease.work, self.lease.attempt).await?;
        Ok(Parked {
            wait: weir_work::wait_name(self.lease.work, n),
            due_at: ended.at,
        })
    }

    fn check_since(&self, held: &Held) -> Result<(), Error> {
        match self.since {
            Some(since) if since > weir_work::due(held.at, LONGEST_WAIT) => {
                Err(Error::field("since", "is more than 366 days ahead"))
            }
            _ => Ok(()),
        }
    }

    /// Finds the scopes and emitters that the conditions name.
    async fn resolve(&self, tx: &mut Tx<'_>) -> Result<Vec<WaitFor>, Error> {
        let emitters = self.named(|condition| match condition {
            Condition::Event { emitter, .. } => *emitter,
            Condition::Own | Condition::Ended(_) => None,
        });
        store::require_works(tx, self.tenant, &emitters).await?;
        let mut out = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            out.push(match condition {
                Condition::Own => WaitFor::Own,
                Condition::Event {
                    scope,
                    filter,
                    emitter,
                } => WaitFor::Event {
                    scope: weir_ledger::tenant::scope(tx, self.tenant, scope).await?,
                    filter: Some(filter.clone()).filter(|filter| !filter.is_empty()),
                    emitter: *emitter,
                },
                Condition::Ended(work) => WaitFor::Ended(*work),
            });
        }
        Ok(out)
    }
}
