//! Claims, runs what it claimed, reconnects, drains.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use weir_proto::lifecycle::v1::ClaimedWork;

use super::connection::{self, Ended};
use super::{Ending, Handler, Report, Settings, attempt};
use crate::{Backoff, Client, Problem};

/// Why a worker ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Weir refuses what this worker is, and waiting does not change that.
    #[error("worker for binding `{binding}` was refused: {}", problem.message)]
    Refused {
        /// The binding.
        binding: String,
        /// What Weir said.
        problem: Problem,
    },
}

/// What a worker did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Works claimed.
    pub claimed: u64,
    /// Attempts completed.
    pub completed: u64,
    /// Attempts that failed, for good or not.
    pub failed: u64,
    /// Attempts that parked their Work.
    pub parked: u64,
    /// Attempts given back.
    pub released: u64,
    /// Attempts that ended in any other way.
    pub lost: u64,
}

/// An executor: claims Work of one binding and runs a handler on it.
pub struct Worker {
    client: Client,
    settings: Arc<Settings>,
}

impl Worker {
    /// Makes a worker. Nothing is called yet.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Self {
        Self {
            client,
            settings: Arc::new(settings),
        }
    }

    /// Claims and runs Work until `stop` is cancelled or a limit of the settings is reached. Then
    /// it claims no more, lets running attempts end for up to `grace`, and gives back the rest.
    ///
    /// While Weir cannot be reached it tries again, for ever; running attempts go on as long as
    /// their leases do.
    ///
    /// # Errors
    /// [`Error::Refused`] when Weir refuses the registration or the claim for a reason that trying
    /// again does not change. Running attempts were drained.
    ///
    /// # Cancel safety
    /// Dropping it drops the running handlers and reports nothing: their leases run out. Cancel
    /// `stop` instead.
    pub async fn run<H: Handler>(
        &self,
        handler: H,
        stop: CancellationToken,
    ) -> Result<Summary, Error> {
        let mut run = Run {
            client: self.client.clone(),
            settings: Arc::clone(&self.settings),
            handler: Arc::new(handler),
            give_up: CancellationToken::new(),
            attempts: JoinSet::new(),
            summary: Summary::default(),
        };
        let mut backoff = Backoff::default();
        let refused = loop {
            match connection::serve(&mut run, &stop).await {
                Ended::Done => break None,
                Ended::Lost {
                    problem,
                    progressed,
                } => {
                    if progressed {
                        backoff.reset();
                    }
                    if let Some(problem) = problem {
                        if is_final(&problem) {
                            break Some(problem);
                        }
                        tracing::warn!(binding = %self.settings.binding, error = %problem.message, "claiming was interrupted, trying again");
                    }
                }
            }
            tokio::select! {
                () = sleep(backoff.next_delay()) => {}
                () = stop.cancelled() => break None,
            }
        };
        let summary = run.drain().await;
        match refused {
            None => Ok(summary),
            Some(problem) => Err(Error::Refused {
                binding: self.settings.binding.clone(),
                problem,
            }),
        }
    }
}

/// Whether trying again cannot help. A changed binding is claimed again, with a new registration.
fn is_final(problem: &Problem) -> bool {
    matches!(
        problem.code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented
    )
}

/// A worker that runs.
pub(super) struct Run<H> {
    pub(super) client: Client,
    pub(super) settings: Arc<Settings>,
    handler: Arc<H>,
    give_up: CancellationToken,
    pub(super) attempts: JoinSet<Report>,
    summary: Summary,
}

impl<H: Handler> Run<H> {
    /// How many Works may still be claimed, those that run and those that are asked for left out.
    pub(super) fn free(&self, asked: usize) -> usize {
        let places = self
            .settings
            .places()
            .saturating_sub(self.attempts.len() + asked);
        match self.left() {
            None => places,
            Some(left) => places.min(
                usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .saturating_sub(asked),
            ),
        }
    }

    /// Whether everything that was to be claimed was, and ended.
    pub(super) fn is_done(&self) -> bool {
        self.left() == Some(0) && self.attempts.is_empty()
    }

    fn left(&self) -> Option<u64> {
        self.settings
            .max_works
            .map(|max| max.saturating_sub(self.summary.claimed))
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, work: ClaimedWork) {
        self.summary.claimed += 1;
        self.attempts.spawn(attempt::run(
            self.client.clone(),
            Arc::clone(&self.handler),
            Arc::clone(&self.settings),
            work,
            self.give_up.clone(),
        ));
    }

    /// Counts an ended attempt and tells the observer.
    pub(super) fn ended(&mut self, report: Result<Report, tokio::task::JoinError>) {
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                // The handler's panics are caught inside; this is ours, or the runtime's end.
                tracing::error!(%error, "an attempt's task died");
                self.summary.lost += 1;
                return;
            }
        };
        match report.ending {
            Ending::Completed => self.summary.completed += 1,
            Ending::FailedRetryable | Ending::FailedPermanent => self.summary.failed += 1,
            Ending::Parked => self.summary.parked += 1,
            Ending::Released => self.summary.released += 1,
            Ending::LeaseLost | Ending::Cancelled | Ending::Refused | Ending::Unknown => {
                self.summary.lost += 1;
            }
        }
        if let Some(observer) = &self.settings.observer {
            observer(&report);
        }
    }

    /// Lets running attempts end, gives back what does not in time.
    async fn drain(mut self) -> Summary {
        let over = sleep(self.settings.grace);
        tokio::pin!(over);
        let mut is_over = false;
        while !self.attempts.is_empty() {
            tokio::select! {
                Some(report) = self.attempts.join_next() => self.ended(report),
                () = &mut over, if !is_over => {
                    is_over = true;
                    self.give_up.cancel();
                }
            }
        }
        self.summary
    }
}

/// A stream that delivered nothing for this long still counts as a good one.
pub(super) const STEADY: Duration = Duration::from_secs(10);
