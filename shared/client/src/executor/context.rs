//! What a running handler can ask and hear.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use weir_proto::lifecycle::v1::{AcknowledgeRequest, ClaimedWork};
use weir_proto::types::v1::{Event, Lease};

use super::may_pass;
use crate::{Backoff, Client, Problem};

/// The running attempt, as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    lease: Lease,
    ended: CancellationToken,
    injects: Mutex<mpsc::UnboundedReceiver<Event>>,
    interrupts: Mutex<mpsc::UnboundedReceiver<Event>>,
}

impl Context {
    /// Makes the context of an attempt, and what its renewals speak through.
    pub(super) fn new(client: Client, lease: Lease, work: &ClaimedWork) -> (Self, Signals) {
        let (inject, injects) = mpsc::unbounded_channel();
        let (interrupt, interrupts) = mpsc::unbounded_channel();
        let ended = CancellationToken::new();
        let signals = Signals {
            inject,
            interrupt,
            ended: ended.clone(),
            // What the claim presented is the handler's already.
            seen: work.inputs.iter().map(|event| event.uid.clone()).collect(),
        };
        let inner = Inner {
            client,
            lease,
            ended,
            injects: Mutex::new(injects),
            interrupts: Mutex::new(interrupts),
        };
        (
            Self {
                inner: Arc::new(inner),
            },
            signals,
        )
    }

    /// The authority of this attempt, for calls of your own (`Emit`, `CreateChild`, …).
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.inner.lease
    }

    /// The client that the worker uses.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Returns the next injected event, each once. Waits for ever when none comes.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn next_inject(&self) -> Event {
        receive(&self.inner.injects).await
    }

    /// Returns the next event that asks to stop what the handler does, each once. Waits for ever
    /// when none comes.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn next_interrupt(&self) -> Event {
        receive(&self.inner.interrupts).await
    }

    /// A token that is cancelled when the attempt ends, in whatever way. The handler itself is
    /// dropped then; this is for what it started elsewhere.
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.inner.ended.clone()
    }

    /// Consumes injected events (rule l05) and returns their uids. Tried again, with growing
    /// delays, while Weir cannot be reached: a repeat answers the same.
    ///
    /// # Errors
    /// `LEASE_LOST`, and what else Weir refuses.
    pub async fn acknowledge(&self, events: Vec<String>) -> Result<Vec<String>, Problem> {
        let request = AcknowledgeRequest {
            lease: Some(self.inner.lease.clone()),
            events,
        };
        let mut backoff = Backoff::default();
        loop {
            match self
                .inner
                .client
                .executor()
                .acknowledge(request.clone())
                .await
            {
                Ok(answer) => return Ok(answer.into_inner().events),
                Err(status) => {
                    let problem = Problem::from(status);
                    if !may_pass(&problem) {
                        return Err(problem);
                    }
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
    }
}

async fn receive(queue: &Mutex<mpsc::UnboundedReceiver<Event>>) -> Event {
    match queue.lock().await.recv().await {
        Some(event) => event,
        None => std::future::pending().await,
    }
}

/// What renewals tell a handler.
pub(super) struct Signals {
    inject: mpsc::UnboundedSender<Event>,
    interrupt: mpsc::UnboundedSender<Event>,
    ended: CancellationToken,
    seen: HashSet<String>,
}

impl Signals {
    /// Passes on what a renewal answered. A renewal repeats everything unacknowledged; the handler
    /// hears of each event once.
    pub(super) fn tell(&mut self, injects: Vec<Event>, interrupts: Vec<Event>) {
        for (events, to) in [(injects, &self.inject), (interrupts, &self.interrupt)] {
            for event in events {
                if self.seen.insert(event.uid.clone()) {
                    // The handler may be done already, and its context gone.
                    let _ = to.send(event);
                }
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}
