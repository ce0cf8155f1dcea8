//! One claim stream: credits out, Works in.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use weir_proto::lifecycle::v1::{
    ClaimRequest, ClaimResponse, RegisterExecutorRequest, ReleaseRequest,
};

use super::Handler;
use super::worker::{Run, STEADY};
use crate::{Client, Problem};

/// How long the registration may take before it is tried again.
const REGISTER: Duration = Duration::from_secs(10);
/// How long to read on after the last credit, for Works that were claimed at that moment.
const CLOSE: Duration = Duration::from_secs(3);

/// Why a stream ended.
pub(super) enum Ended {
    /// Nothing more is to be claimed.
    Done,
    /// It broke, or Weir ended it: it is opened again unless the problem is final.
    Lost {
        problem: Option<Problem>,
        progressed: bool,
    },
}

/// Registers the executor and claims over one stream until that ends.
pub(super) async fn serve<H: Handler>(run: &mut Run<H>, stop: &CancellationToken) -> Ended {
    let opened = Instant::now();
    let idle_exit = run.settings.idle_exit;
    let idle = |since: Instant| async move {
        match idle_exit {
            Some(after) => sleep_until(since + after).await,
            None => std::future::pending().await,
        }
    };
    let lost = |status: Status, progressed| Ended::Lost {
        problem: Some(Problem::from(status)),
        progressed,
    };

    let revision = tokio::select! {
        () = stop.cancelled() => return Ended::Done,
        revision = register(run) => match revision {
            Ok(revision) => revision,
            Err(status) => return lost(status, false),
        },
    };
    while let Some(report) = run.attempts.try_join_next() {
        run.ended(report);
    }
    let (credits, receiver) = mpsc::channel(16);
    let mut asked = run.free(0);
    let first = ClaimRequest {
        spec: Some(run.settings.spec(revision)),
        credits: wire(asked),
    };
    if credits.send(first).await.is_err() {
        return Ended::Lost {
            problem: None,
            progressed: false,
        };
    }
    let mut client = run.client.executor();
    let mut works = tokio::select! {
        () = stop.cancelled() => return Ended::Done,
        () = idle(opened), if run.attempts.is_empty() => return Ended::Done,
        stream = client.claim(ReceiverStream::new(receiver)) => match stream {
            Ok(stream) => stream.into_inner(),
            Err(status) => return lost(status, false),
        },
    };
    let mut active = Instant::now();
    let mut progressed = false;
    loop {
        if run.is_done() {
            break;
        }
        tokio::select! {
            // The end first: a place that becomes free in the same moment is not granted again.
            biased;
            () = stop.cancelled() => break,
            () = idle(active), if run.attempts.is_empty() => break,
            Some(report) = run.attempts.join_next() => {
                run.ended(report);
                active = Instant::now();
                let more = run.free(asked);
                if more > 0 {
                    // A closed channel is a stream that ended; the next message says so.
                    if credits.send(ClaimRequest { spec: None, credits: wire(more) }).await.is_ok() {
                        asked += more;
                    }
                }
            }
            batch = works.message() => match batch {
                Ok(Some(batch)) => {
                    active = Instant::now();
                    progressed = true;
                    asked = asked.saturating_sub(batch.works.len());
                    for work in batch.works {
                        run.begin(work);
                    }
                }
                Ok(None) => return Ended::Lost { problem: None, progressed: progressed || opened.elapsed() >= STEADY },
                Err(status) => return lost(status, progressed || opened.elapsed() >= STEADY),
            },
        }
    }
    drop(credits);
    if asked > 0 {
        give_back(&run.client, works).await;
    }
    Ended::Done
}

async fn register<H: Handler>(run: &Run<H>) -> Result<i64, Status> {
    let request = RegisterExecutorRequest {
        executor: run.settings.executor.clone(),
        capabilities: run
            .settings
            .capabilities
            .iter()
            .map(|c| i32::from(*c))
            .collect(),
        request_id: String::new(),
    };
    let mut executor = run.client.executor();
    timeout(REGISTER, executor.register_executor(request))
        .await
        .unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(
                "no answer to the registration in time",
            ))
        })
        .map(|answer| answer.into_inner().revision)
}

/// Reads what was claimed while the stream was being closed, and gives it back at once: without
/// this it would stand still until its lease ends.
async fn give_back(client: &Client, mut works: Streaming<ClaimResponse>) {
    let rest = async {
        while let Ok(Some(batch)) = works.message().await {
            for lease in batch.works.into_iter().filter_map(|work| work.lease) {
                let work = lease.work.clone();
                if let Err(status) = client
                    .executor()
                    .release(ReleaseRequest { lease: Some(lease) })
                    .await
                {
                    tracing::warn!(work.id = %work, error = %status.message(), "late claim was not given back");
                }
            }
        }
    };
    if timeout(CLOSE, rest).await.is_err() {
        tracing::debug!("claim stream was not closed in time");
    }
}

/// Credits for the wire, which takes up to 1,000 at a time; [`Settings`] has no more places.
///
/// [`Settings`]: super::Settings
fn wire(credits: usize) -> i32 {
    i32::try_from(credits).unwrap_or(1_000)
}
