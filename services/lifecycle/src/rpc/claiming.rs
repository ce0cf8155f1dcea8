//! Claiming with patience: the stream with its credits, and the one call that waits.
//!
//! Polling with jitter is the truth; the hint that Work may be there only shortens the wait. A claim that
//! was committed and could not be delivered is not lost: its lease runs out and the next claim takes over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use rand::Rng as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use weir_kernel::{TenantId, Violation};
use weir_proto::lifecycle::v1 as pb;

use super::{Context, convert, decode};
use crate::command::{Claim, ClaimSpec};
use crate::{Error, Hints};

/// Most Works of one claim: enough to spare round trips, few enough that a batch is soon under way.
const BATCH: i32 = 100;
/// Most credits that may be open at once.
const MOST_CREDITS: i32 = 1_000;
/// How long an idle claimer waits before it looks again, at least and at most. Bounds the latency when a
/// hint is lost; the jitter keeps replicas apart.
const POLL_MS: std::ops::RangeInclusive<u64> = 100..=250;

/// Claims for one process: the turns rotate over all of its claimers.
#[derive(Debug)]
pub(crate) struct Claimer {
    pub(crate) context: Context,
    pub(crate) hints: Hints,
    pub(crate) shutdown: CancellationToken,
    turn: AtomicU64,
}

impl Claimer {
    pub(crate) fn new(context: Context, hints: Hints, shutdown: CancellationToken) -> Self {
        Self {
            context,
            hints,
            shutdown,
            turn: AtomicU64::new(0),
        }
    }

    async fn claim(
        &self,
        tenant: TenantId,
        spec: &ClaimSpec,
        most: i32,
    ) -> Result<Vec<pb::ClaimedWork>, Status> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let command = Claim {
            tenant,
            spec: spec.clone(),
            most: most.min(BATCH),
            turn,
        };
        let works = self
            .context
            .db
            .run(&command)
            .await
            .map_err(weir_rpc::status)?;
        Ok(works
            .into_iter()
            .map(|work| convert::claimed(&spec.binding, work))
            .collect())
    }

    /// Claims once; waits at most `wait` for the first Work.
    pub(crate) async fn once(
        &self,
        tenant: TenantId,
        spec: &ClaimSpec,
        most: i32,
        wait: Duration,
    ) -> Result<Vec<pb::ClaimedWork>, Status> {
        // An answer must still be on time for a caller whose deadline is the wait.
        let until = Instant::now() + wait.mul_f64(0.95);
        loop {
            let hinted = self.hints.ready.notified();
            tokio::pin!(hinted);
            hinted.as_mut().enable();
            let works = self.claim(tenant, spec, most).await?;
            if !works.is_empty() || Instant::now() >= until {
                return Ok(works);
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return Ok(works),
                () = &mut hinted => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + pause())) => {}
            }
        }
    }
}

fn pause() -> Duration {
    Duration::from_millis(rand::rng().random_range(POLL_MS))
}

/// One executor's stream.
struct Session {
    claimer: std::sync::Arc<Claimer>,
    tenant: TenantId,
    spec: ClaimSpec,
    requests: Streaming<pb::ClaimRequest>,
    credits: i32,
    /// False once the executor has closed its side: it gets what its credits are good for, no more.
    open: bool,
}

/// Serves a claim stream: reads the first message, which says what to claim, and answers batches while
/// there are credits. Ends on shutdown, and when a closed side has spent its credits.
pub(crate) async fn serve(
    claimer: std::sync::Arc<Claimer>,
    tenant: TenantId,
    actor: &str,
    mut requests: Streaming<pb::ClaimRequest>,
) -> Result<BoxStream<'static, Result<pb::ClaimResponse, Status>>, Status> {
    let first = requests.message().await?.unwrap_or_default();
    let spec = decode::claim_spec(first.spec, actor).map_err(weir_rpc::status)?;
    let mut session = Session {
        claimer,
        tenant,
        spec,
        requests,
        credits: 0,
        open: true,
    };
    session.add(first.credits)?;
    let batches = stream::try_unfold(session, |mut session| async move {
        Ok(session
            .next()
            .await?
            .map(|works| (pb::ClaimResponse { works }, session)))
    });
    Ok(batches.boxed())
}

impl Session {
    /// Returns the next batch; `None` ends the stream.
    async fn next(&mut self) -> Result<Option<Vec<pb::ClaimedWork>>, Status> {
        let claimer = std::sync::Arc::clone(&self.claimer);
        loop {
            if claimer.shutdown.is_cancelled() || (!self.open && self.credits == 0) {
                return Ok(None);
            }
            let hinted = claimer.hints.ready.notified();
            tokio::pin!(hinted);
            hinted.as_mut().enable();
            if self.credits > 0 {
                let works = claimer.claim(self.tenant, &self.spec, self.credits).await?;
                if !works.is_empty() {
                    self.credits -= i32::try_from(works.len()).unwrap_or(self.credits);
                    return Ok(Some(works));
                }
            }
            let idle = self.credits > 0;
            tokio::select! {
                () = claimer.shutdown.cancelled() => return Ok(None),
                message = self.requests.message(), if self.open => match message? {
                    Some(message) => self.take(message)?,
                    None => self.open = false,
                },
                () = &mut hinted, if idle => {}
                () = tokio::time::sleep(pause()), if idle => {}
            }
        }
    }

    fn take(&mut self, message: pb::ClaimRequest) -> Result<(), Status> {
        if message.spec.is_some() {
            let text = "is for the first message only; open another stream to claim something else";
            return Err(weir_rpc::status(Error::field("spec", text)));
        }
        self.add(message.credits)
    }

    fn add(&mut self, credits: i32) -> Result<(), Status> {
        let total = self.credits.saturating_add(credits);
        if credits < 0 || total > MOST_CREDITS {
            let text = format!("makes {total} open credits, not 0 to {MOST_CREDITS}");
            return Err(weir_rpc::status(Error::from(Violation::new(
                "credits", text,
            ))));
        }
        self.credits = total;
        Ok(())
    }
}
