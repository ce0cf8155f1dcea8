//! The committer of one scope: what waits shares a transaction.

use tokio::sync::{mpsc, oneshot};
use tonic::{Code, Status};
use weir_kernel::limits::{MAX_BATCH_BYTES, MAX_BATCH_EVENTS};
use weir_kernel::{ScopeId, TenantId};
use weir_ledger::{NewEvent, Outcome};
use weir_pg::Db;
use weir_rpc::status;

use crate::publish::command::PublishJobs;

/// What a caller waits for: `None` when the configuration changed.
pub(super) type Reply = Result<Option<Vec<Outcome>>, Status>;

/// Events of one caller.
pub(super) struct Job {
    pub(super) generation: i64,
    pub(super) events: Vec<NewEvent>,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// Runs until every publisher is gone. A commit goes on when its callers have left: they may ask again and get
/// the same answer.
pub(super) async fn commit_loop(
    db: Db,
    tenant: TenantId,
    scope: ScopeId,
    mut jobs: mpsc::Receiver<Job>,
) {
    let mut left_over = None;
    loop {
        let first = match left_over.take() {
            Some(job) => job,
            None => match jobs.recv().await {
                Some(job) => job,
                None => return,
            },
        };
        let (mut events, mut bytes) = size(&first);
        let mut batch = vec![first];
        while let Ok(job) = jobs.try_recv() {
            let (more, more_bytes) = size(&job);
            if events + more > MAX_BATCH_EVENTS || bytes + more_bytes > MAX_BATCH_BYTES {
                left_over = Some(job);
                break;
            }
            (events, bytes) = (events + more, bytes + more_bytes);
            batch.push(job);
        }
        commit(&db, tenant, scope, batch).await;
    }
}

fn size(job: &Job) -> (usize, usize) {
    (
        job.events.len(),
        job.events.iter().map(|e| e.envelope.payload_len()).sum(),
    )
}

async fn commit(db: &Db, tenant: TenantId, scope: ScopeId, batch: Vec<Job>) {
    let mut replies = Vec::with_capacity(batch.len());
    let mut jobs = Vec::with_capacity(batch.len());
    for job in batch {
        replies.push(job.reply);
        jobs.push((job.generation, job.events));
    }
    metrics::histogram!("weir_routing_publish_batch_jobs").record(count(jobs.len()));
    match db
        .run(&PublishJobs {
            tenant,
            scope,
            jobs: &jobs,
        })
        .await
    {
        Ok(outcomes) => {
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                let _ = reply.send(Ok(outcome));
            }
        }
        Err(error) => {
            let refused = status(error);
            if jobs.len() == 1 || refused.code() != Code::Internal {
                for reply in replies {
                    let _ = reply.send(Err(refused.clone()));
                }
                return;
            }
            // One of them may be at fault: each for itself, so that it harms no neighbour.
            for (reply, job) in replies.into_iter().zip(jobs) {
                let one = db
                    .run(&PublishJobs {
                        tenant,
                        scope,
                        jobs: std::slice::from_ref(&job),
                    })
                    .await;
                let answer = one.map(|mut o| o.pop().flatten()).map_err(status);
                let _ = reply.send(answer);
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a batch has at most a thousand jobs"
)]
fn count(n: usize) -> f64 {
    n as f64
}
