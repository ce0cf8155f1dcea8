//! Accepting events (rules a01–a07): group commit, one committer per scope and process.
//!
//! Concurrent publishes of a scope share a transaction: its committer takes what waits, up to a batch, and answers
//! each caller for itself. Spreading one scope over connections would only queue them on its order lock.
//! An atomic batch has a transaction of its own, since it can be rolled back.

mod command;
mod committer;
mod prepare;

pub use prepare::{Draft, prepare, prepare_traced};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc, oneshot};
use tonic::Status;
use weir_kernel::limits::{MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_PAYLOAD};
use weir_kernel::{ScopeId, TenantId};
use weir_ledger::{NewEvent, Outcome};
use weir_pg::Db;
use weir_proto::routing::v1::{
    PublishBatchRequest, PublishBatchResponse, PublishItem, PublishRequest, PublishResponse,
};
use weir_proto::types::v1::{Acceptance, ItemError, ItemResult};
use weir_rpc::{Caller, status};

use crate::Error;
use crate::generation::{Generation, Generations};
use committer::{Job, commit_loop};

/// How often a publish follows a changed configuration before it says so.
const MAX_GENERATIONS: usize = 5;
/// Jobs that wait for one committer.
const QUEUE: usize = 1_024;

/// The committers that run, by scope.
type Committers = Arc<Mutex<HashMap<(TenantId, ScopeId), mpsc::Sender<Job>>>>;

/// Accepts events. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    db: Db,
    generations: Generations,
    max_payload: usize,
    accepted: Accepted,
    committers: Committers,
    tasks: tokio_util::task::TaskTracker,
}

/// Who is told that events were accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The routing manager.
    pub wake: Arc<Notify>,
    /// Routing workers and watchers.
    pub arrived: Arc<Notify>,
}

impl Accepted {
    /// Tells them.
    pub fn tell(&self) {
        self.wake.notify_one();
        self.arrived.notify_waiters();
    }
}

impl Publisher {
    /// Makes a publisher. `max_payload` is in bytes; `tasks` owns the committers.
    #[must_use]
    pub fn new(
        db: Db,
        generations: Generations,
        max_payload: usize,
        accepted: Accepted,
        tasks: tokio_util::task::TaskTracker,
    ) -> Self {
        let max_payload = max_payload.min(4 * MAX_PAYLOAD);
        Self {
            db,
            generations,
            max_payload,
            accepted,
            committers: Arc::default(),
            tasks,
        }
    }

    /// Returns the largest payload taken, in bytes.
    #[must_use]
    pub const fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Accepts one event; answered after it is durable.
    ///
    /// # Errors
    /// INVALID_REQUEST, SCOPE_NOT_FOUND, TENANT_NOT_FOUND, EVENT_CONFLICT, WORK_NOT_FOUND, KEY_RULE_FAILED, and the
    /// database's. A repeat is always safe (rule a01).
    pub async fn publish(
        &self,
        caller: &Caller,
        request: PublishRequest,
    ) -> Result<PublishResponse, Status> {
        let item = PublishItem {
            event: request.event,
            keys: request.keys,
            targets: request.targets,
        };
        let scope = request.scope;
        let mut answers = self
            .accept(caller, &scope, vec![item], Mode::Single)
            .await?;
        let answer = answers
            .pop()
            .unwrap_or_else(|| Err(status(Error::ShuttingDown)))?;
        Ok(PublishResponse {
            uid: answer.uid.clone(),
            acceptance: Some(answer),
        })
    }

    /// Accepts a batch: each event answered for itself, or all or none.
    ///
    /// # Errors
    /// As [`Self::publish`] when nothing at all can be accepted, or the batch is atomic.
    pub async fn publish_batch(
        &self,
        caller: &Caller,
        request: PublishBatchRequest,
    ) -> Result<PublishBatchResponse, Status> {
        let n = request.events.len();
        if n == 0 {
            return Err(status(Error::field(
                "events",
                "is empty; give 1 to 1000 events",
            )));
        }
        if n > MAX_BATCH_EVENTS {
            let text = format!("has {n} events, the limit is {MAX_BATCH_EVENTS}");
            return Err(status(Error::field("events", text)));
        }
        let bytes: usize = request.events.iter().map(prost::Message::encoded_len).sum();
        if bytes > MAX_BATCH_BYTES {
            let text = format!("is {bytes} bytes, the limit of a batch is {MAX_BATCH_BYTES}");
            return Err(status(Error::field("events", text)));
        }
        let mode = if request.atomic {
            Mode::Atomic
        } else {
            Mode::Batch
        };
        let answers = self
            .accept(caller, &request.scope, request.events, mode)
            .await?;
        let results = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(accepted) => ItemResult {
                    accepted: Some(accepted),
                    error: None,
                },
                Err(refused) => ItemResult {
                    accepted: None,
                    error: Some(item_error(&refused)),
                },
            })
            .collect();
        Ok(PublishBatchResponse { results })
    }

    async fn accept(
        &self,
        caller: &Caller,
        scope: &str,
        items: Vec<PublishItem>,
        mode: Mode,
    ) -> Result<Vec<Result<Acceptance, Status>>, Status> {
        for _ in 0..MAX_GENERATIONS {
            let generation = self.generation_with(&caller.tenant, scope).await?;
            let scope_id = generation
                .scope_id(scope)
                .ok_or_else(|| status(weir_ledger::Error::ScopeNotFound(scope.to_owned())))?;
            let drafts = self
                .prepare_all(caller, &generation, scope, items.clone(), mode)
                .await?;
            let events: Vec<NewEvent> = drafts
                .iter()
                .filter_map(|d| d.as_ref().ok().cloned())
                .collect();
            let outcomes = match mode {
                Mode::Atomic => {
                    let command = command::PublishAtomic {
                        generation: &generation,
                        scope: scope_id,
                        events: &events,
                    };
                    match self.db.run(&command).await {
                        Ok(outcomes) => Some(outcomes),
                        Err(Error::GenerationChanged) => None,
                        Err(error) => return Err(status(error)),
                    }
                }
                Mode::Single | Mode::Batch if events.is_empty() => Some(Vec::new()),
                Mode::Single | Mode::Batch => {
                    self.submit(&generation, scope_id, events.clone()).await?
                }
            };
            let Some(outcomes) = outcomes else {
                self.generations
                    .refresh(&caller.tenant)
                    .await
                    .map_err(status)?;
                continue;
            };
            self.accepted.tell();
            let mut decided = events.iter().zip(outcomes);
            return Ok(drafts
                .into_iter()
                .map(|draft| match draft {
                    Err(error) => Err(status(error)),
                    Ok(_) => match decided.next() {
                        Some((event, outcome)) => answer(scope, event, outcome).map_err(status),
                        None => Err(status(Error::ShuttingDown)),
                    },
                })
                .collect());
        }
        Err(status(Error::GenerationChanged))
    }

    /// Returns the generation that has the scope: a scope just published is not refused for a second.
    async fn generation_with(&self, tenant: &str, scope: &str) -> Result<Arc<Generation>, Status> {
        let generation = self.generations.current(tenant).await.map_err(status)?;
        if generation.scope_id(scope).is_some() {
            return Ok(generation);
        }
        self.generations.refresh(tenant).await.map_err(status)
    }

    /// Checks and completes the items on a thread where evaluating key rules blocks nobody.
    async fn prepare_all(
        &self,
        caller: &Caller,
        generation: &Arc<Generation>,
        scope: &str,
        items: Vec<PublishItem>,
        mode: Mode,
    ) -> Result<Vec<Result<NewEvent, Error>>, Status> {
        let (generation, scope) = (Arc::clone(generation), scope.to_owned());
        let (actor, max) = (caller.actor.clone(), self.max_payload);
        let drafts = tokio::task::spawn_blocking(move || {
            let prepared = items.into_iter().map(|item| {
                let draft = Draft {
                    event: item.event,
                    keys: item.keys,
                    targets: item.targets,
                };
                prepare(&generation, &scope, &actor, draft, max)
            });
            prepared.collect::<Vec<_>>()
        })
        .await
        .map_err(|_| {
            status(Error::KeyRule(crate::tenant::KeyError {
                rule: "unknown".to_owned(),
                message: "the evaluation failed".to_owned(),
            }))
        })?;
        if mode == Mode::Batch {
            return Ok(drafts);
        }
        // One event or all of them: the first refusal is the call's.
        let mut good = Vec::with_capacity(drafts.len());
        for (index, draft) in drafts.into_iter().enumerate() {
            match draft {
                Ok(event) => good.push(Ok(event)),
                Err(error) if mode == Mode::Atomic => {
                    return Err(status(Error::Atomic {
                        index,
                        error: Box::new(error),
                    }));
                }
                Err(error) => return Err(status(error)),
            }
        }
        Ok(good)
    }

    /// Hands events to their scope's committer; `None` when the configuration changed meanwhile.
    async fn submit(
        &self,
        generation: &Generation,
        scope: ScopeId,
        events: Vec<NewEvent>,
    ) -> Result<Option<Vec<Outcome>>, Status> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            generation: generation.number,
            events,
            reply,
        };
        let committer = self.committer(generation.tenant, scope);
        if committer.send(job).await.is_err() {
            return Err(status(Error::ShuttingDown));
        }
        answer
            .await
            .unwrap_or_else(|_| Err(status(Error::ShuttingDown)))
    }

    fn committer(&self, tenant: TenantId, scope: ScopeId) -> mpsc::Sender<Job> {
        let mut committers = self
            .committers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sender = committers.get(&(tenant, scope)).filter(|s| !s.is_closed());
        if let Some(sender) = sender {
            return sender.clone();
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        self.tasks
            .spawn(commit_loop(self.db.clone(), tenant, scope, receiver));
        committers.insert((tenant, scope), sender.clone());
        sender
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Single,
    Batch,
    Atomic,
}

fn answer(scope: &str, event: &NewEvent, outcome: Outcome) -> Result<Acceptance, Error> {
    let accepted = |a: weir_ledger::Accepted, deduplicated| Acceptance {
        uid: a.uid.to_string(),
        scope: scope.to_owned(),
        position: a.seq,
        accepted_at: Some(weir_rpc::convert::timestamp(a.accepted_at)),
        deduplicated,
    };
    match outcome {
        Outcome::Accepted(a) => Ok(accepted(a, false)),
        Outcome::Replay(a) => Ok(accepted(a, true)),
        other => Err(refusal(event, other)),
    }
}

/// Says why an event was not accepted.
pub(crate) fn refusal(event: &NewEvent, outcome: Outcome) -> Error {
    match outcome {
        Outcome::Conflict(uid) => Error::EventConflict {
            source_name: event.envelope.source.clone(),
            id: event.envelope.id.clone(),
            uid,
        },
        Outcome::TargetNotFound(work) => Error::TargetNotFound(work),
        Outcome::Refused(_) | Outcome::Accepted(_) | Outcome::Replay(_) => Error::Refused,
    }
}

/// Turns the status of one item into its answer within the batch.
fn item_error(refused: &Status) -> ItemError {
    let problem = weir_rpc::Problem::from(refused);
    ItemError {
        code: weir_rpc::code_name(refused.code()).to_owned(),
        reason: problem.reason.clone(),
        message: problem.message.clone(),
        field: problem
            .violations
            .first()
            .map(|v| v.field.clone())
            .unwrap_or_default(),
        retry_after: problem.retry_after.map(weir_rpc::convert::duration),
    }
}
