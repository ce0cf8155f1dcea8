//! Fail: the attempt ends with a failure.

use std::time::Duration;

use weir_kernel::{AttemptOutcome, TenantId, WorkState};
use weir_pg::{Command, Tx};
use weir_work::{End, Held, Lease};

use super::Ended;
use super::attempt::{self, Found};
use crate::Error;
use crate::backoff;

/// Why a Work is held that failed too often.
pub(crate) const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Trying again may help; not before the given time has passed.
    Retryable(Option<Duration>),
    /// Trying again will not help.
    Permanent,
}

/// Ends an attempt with a failure (rule l07).
#[derive(Debug, Clone)]
pub(crate) struct Fail {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// The lease.
    pub(crate) lease: Lease,
    /// How it failed.
    pub(crate) failure: Failure,
    /// What happened.
    pub(crate) error: String,
}

impl Command for Fail {
    const NAME: &'static str = "lifecycle.fail";
    type Output = Ended;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Ended, Error> {
        let content = self.content();
        let outcomes = [
            AttemptOutcome::FailedRetryable,
            AttemptOutcome::FailedPermanent,
        ];
        let held = match attempt::find(tx, self.tenant, self.lease, content, &outcomes).await? {
            Found::Live(held) => *held,
            Found::Ended(ended) => return Ok(ended),
        };
        let (outcome, ended) = match self.failure {
            Failure::Permanent => (
                AttemptOutcome::FailedPermanent,
                Ended {
                    state: WorkState::Failed,
                    at: None,
                },
            ),
            Failure::Retryable(asked) => (
                AttemptOutcome::FailedRetryable,
                self.next_try(tx, &held, asked).await?,
            ),
        };
        let end = End {
            outcome,
            content: Some(content),
            answer_state: Some(ended.state),
            answer_at: ended.at,
            result: None,
            error: Some(&self.error),
        };
        let tries = held.ready.tries;
        let locked = weir_work::end_attempt(tx, self.tenant, held, &end).await?;
        match ended.state {
            WorkState::Failed => {
                let consumed = locked.work.consumed;
                weir_work::terminate(tx, self.tenant, locked, WorkState::Failed, consumed).await?;
            }
            WorkState::Held => weir_work::hold(tx, self.tenant, locked, ATTEMPTS_EXHAUSTED).await?,
            _ => weir_work::give_back(tx, self.tenant, &locked, tries, ended.at).await?,
        }
        Ok(ended)
    }
}

impl Fail {
    fn content(&self) -> uuid::Uuid {
        let (kind, after) = match self.failure {
            Failure::Retryable(after) => ("retryable", after),
            Failure::Permanent => ("permanent", None),
        };
        let after = after.map_or(0, |after| after.as_micros()).to_be_bytes();
        let fields = [
            ("kind", kind.as_bytes()),
            ("error", self.error.as_bytes()),
            ("after", &after),
        ];
        attempt::content("fail", &fields)
    }

    /// Decides by the settings that the claim pinned: later configuration never alters an attempt.
    async fn next_try(
        &self,
        tx: &mut Tx<'_>,
        held: &Held,
        asked: Option<Duration>,
    ) -> Result<Ended, Error> {
        let most: Option<i16> = sqlx::query_scalar(
            "SELECT max_attempts FROM weir.binding_settings \
             WHERE tenant_id = $1 AND generation = $2 AND binding_id = $3",
        )
        .bind(self.tenant.0)
        .bind(held.ready.generation)
        .bind(held.ready.binding_id.0)
        .fetch_optional(tx.conn())
        .await?;
        if most.is_some_and(|most| held.ready.tries >= most) {
            return Ok(Ended {
                state: WorkState::Held,
                at: None,
            });
        }
        let delay = backoff::delay(
            held.work.work_id,
            held.ready.attempt,
            held.ready.tries,
            asked,
        );
        Ok(Ended {
            state: WorkState::Ready,
            at: Some(held.at + delay),
        })
    }
}
