//! Remote handlers: gRPC services in any language that configurations name (rule r51).
//!
//! An endpoint, `http://host:port`, has one connection however many routes, tenants and generations name it. It is
//! made when it is first used and again whenever it is lost, and is dropped when no current generation names it any
//! more. A call is a task of its own that ends with its deadline, so a handler that hangs holds nothing but one of
//! [`MAX_CALLS`] places of its endpoint, and that until the deadline only (rule r20).

mod endpoint;
mod message;
mod probe;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tonic::Code;
use weir_kernel::FailureCode;
use weir_kernel::limits::one_line;
use weir_proto::extension::v1 as proto;

use super::health::Health;
use super::samples::{Place, Sample};
use super::{Input, Verdict};
use endpoint::{Endpoint, Failed};

pub use endpoint::MAX_CALLS;

/// Longest text kept of a handler's error, in bytes.
const MAX_ERROR: usize = 500;

/// A failure as routing counts it: the code, and the error in words.
pub(super) type Failing = (FailureCode, String);

/// The endpoints of a process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Remotes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    endpoints: Mutex<HashMap<String, Arc<Endpoint>>>,
    health: Mutex<BTreeMap<String, Health>>,
}

impl std::fmt::Debug for Remotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.endpoints().keys()).finish()
    }
}

impl Remotes {
    /// Asks a handler about an event. The deadline of the call is the route's timeout, also for the handler.
    ///
    /// # Errors
    /// INVALID_ARGUMENT is `handler_invalid`; DEADLINE_EXCEEDED, and no answer in time, `handler_timeout`; all else
    /// `handler_failed`, a handler that cannot be reached too.
    pub(super) async fn decide(
        &self,
        at: &str,
        name: &str,
        input: &Input,
        timeout: Duration,
    ) -> Result<Verdict, Failing> {
        let question = message::question(name, input);
        let endpoint = self.endpoint(at)?;
        let answer = endpoint
            .call(timeout, |mut client, left| async move {
                client.r#match(message::request(question, left)).await
            })
            .await
            .map_err(|failed| failing(failed, timeout))?;
        Ok(if answer.r#match {
            Verdict::Match {
                reason: answer.reason,
                attach: answer.attach,
            }
        } else {
            Verdict::Skip {
                reason: answer.reason,
            }
        })
    }

    /// Asks a handler for its samples. One that does not implement the method has none (rule r46).
    ///
    /// # Errors
    /// As [`Self::decide`]; a sample that is no event is `handler_invalid`.
    pub(super) async fn samples(
        &self,
        at: &str,
        name: &str,
        place: &Place,
        now: DateTime<Utc>,
    ) -> Result<Vec<Sample>, Failing> {
        let timeout = place.route().timeout;
        let question = message::samples_wanted(name, place, now);
        let endpoint = self.endpoint(at)?;
        let answer = endpoint
            .call(timeout, |mut client, left| async move {
                client.list_samples(message::request(question, left)).await
            })
            .await;
        let answer = match answer {
            Err(Failed::Status(status)) if status.code() == Code::Unimplemented => {
                proto::ListSamplesResponse::default()
            }
            answer => answer.map_err(|failed| failing(failed, timeout))?,
        };
        let samples = answer.samples.into_iter().map(message::sample);
        samples
            .collect::<Result<_, _>>()
            .map_err(|error| (FailureCode::HandlerInvalid, error))
    }

    /// Drops the endpoints that nobody names any more, and probes the others once (rule o07). `in_use` has the
    /// handlers' names by endpoint.
    pub async fn probe(&self, in_use: BTreeMap<String, BTreeSet<String>>) {
        self.endpoints().retain(|at, _| in_use.contains_key(at));
        {
            let mut health = self.health();
            health.retain(|at, _| in_use.contains_key(at));
            for (at, names) in &in_use {
                let known = health.entry(at.clone()).or_default();
                known.names.clone_from(names);
            }
        }
        probe::all(self, in_use.into_keys().collect()).await;
    }

    /// Returns the last probes by endpoint.
    #[must_use]
    pub fn probed(&self) -> BTreeMap<String, Health> {
        self.health().clone()
    }

    fn endpoint(&self, at: &str) -> Result<Arc<Endpoint>, Failing> {
        let mut endpoints = self.endpoints();
        if let Some(endpoint) = endpoints.get(at) {
            return Ok(Arc::clone(endpoint));
        }
        let endpoint = Endpoint::new(at)
            .map(Arc::new)
            .map_err(|_| (FailureCode::HandlerFailed, "its address is none".to_owned()))?;
        endpoints.insert(at.to_owned(), Arc::clone(&endpoint));
        Ok(endpoint)
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<String, Arc<Endpoint>>> {
        self.0
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> MutexGuard<'_, BTreeMap<String, Health>> {
        self.0.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failing(failed: Failed, timeout: Duration) -> Failing {
    let late = |why: &str| {
        let within = humantime::format_duration(timeout);
        (
            FailureCode::HandlerTimeout,
            format!("no decision within {within}{why}"),
        )
    };
    match failed {
        Failed::Late => late(""),
        Failed::Crowded => late(&format!(
            ": {MAX_CALLS} calls of its endpoint are under way"
        )),
        Failed::Ended => (FailureCode::HandlerFailed, "the call was ended".to_owned()),
        Failed::Status(status) => {
            let code = match status.code() {
                Code::InvalidArgument => FailureCode::HandlerInvalid,
                Code::DeadlineExceeded => FailureCode::HandlerTimeout,
                _ => FailureCode::HandlerFailed,
            };
            let name = weir_rpc::code_name(status.code());
            let error = match one_line(status.message(), MAX_ERROR) {
                text if text.is_empty() => name.to_owned(),
                text => format!("{name}: {text}"),
            };
            (code, error)
        }
    }
}
