//! Hints that events were accepted. Losing one costs latency only.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::Notify;
use tonic::Status;
use tonic::body::Body;
use tower::{BoxError, Service};
use weir_proto::routing::v1::HintRequest;
use weir_proto::routing::v1::routing_service_client::RoutingServiceClient;
use weir_rpc::Upstream;
use weir_runtime::Task;

/// How long routing may take to answer a hint: it only wakes its loop. Later hints wait that long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells whoever decides events that some were accepted. Telling never blocks and never fails; hints that
/// come while one is under way are sent together.
#[derive(Clone, Default)]
pub struct Hints {
    to: To,
}

#[derive(Clone, Default)]
enum To {
    #[default]
    Nobody,
    Local(Arc<dyn Fn() + Send + Sync>),
    Remote(Arc<Remote>),
}

struct Remote {
    upstream: Upstream,
    wake: Notify,
    /// Tenants to tell of.
    tenants: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.to {
            To::Nobody => "Hints(nobody)",
            To::Local(_) => "Hints(local)",
            To::Remote(_) => "Hints(remote)",
        })
    }
}

impl Hints {
    /// Calls `tell` after each commit that accepted an event: for a router in the same process. It must
    /// not block.
    #[must_use]
    pub fn local(tell: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            to: To::Local(Arc::new(tell)),
        }
    }

    /// Calls `RoutingService.Hint` of another process. The component has a loop for it.
    #[must_use]
    pub fn remote(upstream: Upstream) -> Self {
        Self {
            to: To::Remote(Arc::new(Remote {
                upstream,
                wake: Notify::new(),
                tenants: Mutex::default(),
            })),
        }
    }

    /// Says that events of a tenant were accepted.
    pub(crate) fn accepted(&self, tenant: &str) {
        match &self.to {
            To::Nobody => {}
            To::Local(tell) => tell(),
            To::Remote(remote) => remote.remember(tenant),
        }
    }

    /// Returns the loop that hints over the network, if that is the way.
    pub(crate) fn task(&self) -> Option<Task> {
        let To::Remote(remote) = &self.to else {
            return None;
        };
        let remote = Arc::clone(remote);
        Some(Task::run("causal.hint_routing", |stop| async move {
            while stop
                .run_until_cancelled(remote.wake.notified())
                .await
                .is_some()
            {
                let sent = stop.run_until_cancelled(remote.send()).await;
                if sent.is_none() {
                    break;
                }
            }
            Ok(())
        }))
    }
}

impl Remote {
    fn remember(&self, tenant: &str) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if !tenants.contains(tenant) {
            tenants.insert(tenant.to_owned());
        }
        drop(tenants);
        self.wake.notify_one();
    }

    async fn send(&self) {
        let mut tenants =
            std::mem::take(&mut *self.tenants.lock().unwrap_or_else(PoisonError::into_inner));
        // Several are told of at once: an empty name is all of them.
        let tenant = match tenants.len() {
            0 => return,
            1 => tenants.pop_first().unwrap_or_default(),
            _ => String::new(),
        };
        let hint = hint(self.upstream.clone(), tenant);
        let outcome = match tokio::time::timeout(PATIENCE, hint).await {
            Ok(Ok(())) => "told",
            Ok(Err(status)) => {
                tracing::debug!(code = ?status.code(), "routing was not told of accepted events");
                "failed"
            }
            Err(_) => {
                tracing::debug!("routing did not answer a hint in time");
                "failed"
            }
        };
        metrics::counter!("weir_causal_hints_total", "outcome" => outcome).increment(1);
    }
}

/// Why a hint did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreachable(BoxError);

/// The way to routing with an error of a type of its own: over a boxed one the compiler cannot see that a
/// client's future may run on any thread.
#[derive(Clone)]
struct Way(Upstream);

impl Service<Request<Body>> for Way {
    type Response = Response<Body>;
    type Error = Unreachable;
    type Future = BoxFuture<'static, Result<Response<Body>, Unreachable>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Unreachable>> {
        self.0.poll_ready(context).map_err(Unreachable)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move { answer.await.map_err(Unreachable) })
    }
}

async fn hint(upstream: Upstream, tenant: String) -> Result<(), Status> {
    let mut client = RoutingServiceClient::new(Way(upstream));
    client.hint(HintRequest { tenant }).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn hints_that_come_together_are_sent_together_and_a_failure_is_nobodys() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let upstream = Upstream::new(tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.uri().path(), "/weir.routing.v1.RoutingService/Hint");
            count.fetch_add(1, Ordering::Relaxed);
            async { Err::<Response<Body>, BoxError>("nobody there".into()) }
        }));
        let hints = Hints::remote(upstream);
        let To::Remote(remote) = &hints.to else {
            panic!("it is remote")
        };
        remote.send().await;
        assert_eq!(calls.load(Ordering::Relaxed), 0, "nothing to tell");
        for tenant in ["demo", "other", "demo"] {
            hints.accepted(tenant);
        }
        remote.wake.notified().await;
        remote.send().await;
        remote.send().await;
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert!(hints.task().is_some() && Hints::default().task().is_none());
    }
}
