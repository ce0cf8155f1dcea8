//! Keeps a lease, and knows when it is gone.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Code;
use weir_proto::lifecycle::v1::RenewRequest;
use weir_proto::types::v1::Lease;

use super::context::Signals;
use super::settings::wire_duration;
use crate::{Backoff, Client, Problem};

/// Longest time between renewals where something may come for a running attempt: how late it hears
/// of an interrupt.
const LISTEN_EVERY: Duration = Duration::from_secs(3);

/// Why an attempt has no authority any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    LeaseLost,
    Cancelled,
}

/// The renewals of one attempt.
pub(super) struct Renewal {
    client: Client,
    lease: Lease,
    extend: Option<Duration>,
    /// How long each renewal gives.
    length: Duration,
    every: Duration,
    due: Instant,
    /// By this clock the lease is gone then. A renewal counts from when it was sent, so network
    /// time errs on the side of giving up early.
    until: Instant,
    signals: Signals,
    backoff: Backoff,
}

impl Renewal {
    pub(super) fn new(
        client: Client,
        lease: Lease,
        length: Duration,
        extend: Option<Duration>,
        listens: bool,
        signals: Signals,
    ) -> Self {
        let now = Instant::now();
        // A third: one renewal may fail and the next still comes before the end.
        let third = length / 3;
        let every = if listens {
            third.min(LISTEN_EVERY)
        } else {
            third
        };
        let backoff = Backoff::new(Duration::from_millis(50).min(every), every);
        Self {
            client,
            lease,
            extend,
            length,
            every,
            due: now + every,
            until: now + length,
            signals,
            backoff,
        }
    }

    /// When the lease is gone by this clock.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Renews until the lease is gone.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time: a renewal too many is harmless.
    pub(super) async fn run(&mut self) -> Gone {
        loop {
            sleep_until(self.due).await;
            if let Some(gone) = self.renew().await {
                return gone;
            }
        }
    }

    async fn renew(&mut self) -> Option<Gone> {
        let sent = Instant::now();
        if sent >= self.until {
            return Some(Gone::LeaseLost);
        }
        let request = RenewRequest {
            lease: Some(self.lease.clone()),
            extend: self.extend.map(wire_duration),
        };
        let mut executor = self.client.executor();
        match timeout_at(self.until, executor.renew(request)).await {
            Err(_) => Some(Gone::LeaseLost),
            Ok(Ok(answer)) => {
                let answer = answer.into_inner();
                if answer.cancelled {
                    return Some(Gone::Cancelled);
                }
                self.until = sent + self.length;
                self.due = sent + self.every;
                self.backoff.reset();
                self.signals.tell(answer.injects, answer.interrupts);
                None
            }
            Ok(Err(status)) => {
                let problem = Problem::from(status);
                if problem.reason == "LEASE_LOST" || problem.code == Code::NotFound {
                    return Some(Gone::LeaseLost);
                }
                tracing::warn!(work.id = %self.lease.work, error = %problem.message, "lease was not renewed, trying again");
                self.due = Instant::now() + self.backoff.next_delay();
                None
            }
        }
    }
}
