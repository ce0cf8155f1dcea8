//! A running process: ports, routes, tasks, and the way out.
//!
//! Ports are bound before any work begins, so that a process that cannot serve does nothing. On the
//! way out (rule o02):
//!
//! ```text
//! NOT_SERVING ─ readiness delay ─ stop accepting ─ end streams and tasks ─ wait, up to the grace ─ end
//! ```

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use weir_rpc::{InternalAuth, Secret};

use crate::readiness::Readiness;
use crate::{Component, Snapshot, Task, health};

/// How often a silent connection is asked whether it lives, and how long it may take to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an over-aged connection may take to end its streams before it is closed.
const CONNECTION_GRACE: Duration = Duration::from_secs(60);

/// How a process serves.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The port of the services. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The port of health and metrics; none leaves it out.
    pub health_listen: Option<SocketAddr>,
    /// How long requests, streams and tasks may take to end.
    pub grace: Duration,
    /// How long requests are taken after the process has said that it leaves.
    pub readiness_delay: Duration,
    /// Whether reflection is served.
    pub reflection: bool,
    /// The internal tokens. Empty: components are open, as within one process and in development.
    pub tokens: Vec<Secret>,
    /// How old a connection gets; none: as old as it likes.
    pub max_connection_age: Option<Duration>,
}

impl ServeOptions {
    /// Returns the options for a process on this machine alone: free ports, no token, no delay.
    pub fn local() -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen: free,
            health_listen: Some(free),
            grace: Duration::from_secs(10),
            readiness_delay: Duration::ZERO,
            reflection: true,
            tokens: Vec::new(),
            max_connection_age: None,
        }
    }
}

/// Whether everything ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Within the grace period.
    Fully,
    /// Some requests or tasks were cut off. Nothing is lost: what they held is a lease or an open
    /// transaction.
    Partly,
}

/// A process that serves. [`Running::stop`] ends it; dropped, its tasks go on until the runtime ends.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    health_addr: Option<SocketAddr>,
    options: ServeOptions,
    readiness: watch::Receiver<Snapshot>,
    failure: watch::Receiver<Option<String>>,
    leave: Leave,
    work: JoinHandle<()>,
    health: JoinHandle<()>,
}

/// The stages of the way out.
#[derive(Debug, Clone)]
struct Leave {
    drain: CancellationToken,
    drained: CancellationToken,
    accept: CancellationToken,
    shutdowns: Vec<CancellationToken>,
    end: CancellationToken,
}

impl Running {
    /// Binds the ports, then starts everything.
    ///
    /// # Errors
    ///
    /// A port cannot be bound, or the contracts cannot be reflected.
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime is where tasks are spawned"
    )]
    pub async fn start(components: Vec<Component>, options: ServeOptions) -> anyhow::Result<Self> {
        crate::metrics_handle();
        let (listener, addr) = bind(options.listen).await?;
        let (health_listener, health_addr) = match options.health_listen {
            Some(address) => {
                let (listener, addr) = bind(address).await?;
                (Some(listener), Some(addr))
            }
            None => (None, None),
        };
        let (reporter, health_service) = tonic_health::server::health_reporter();
        let readiness = Readiness::new(&components, reporter);
        readiness.register().await;
        let state = readiness.subscribe();
        let (failed, failure) = watch::channel(None);
        let leave = Leave {
            drain: CancellationToken::new(),
            drained: CancellationToken::new(),
            accept: CancellationToken::new(),
            shutdowns: components.iter().map(Component::shutdown).collect(),
            end: CancellationToken::new(),
        };

        let mut common = Routes::new(health_service);
        if options.reflection {
            common = reflected(common)?;
        }
        let edge = components.iter().any(|component| component.edge);
        let parts = Parts::of(components, &options, common);
        let app = match edge {
            true => parts.app.merge(health::probes(state.clone())),
            false => parts.app,
        };
        // A process without a health port has its pages where it has its probes.
        let pages = match edge && health_listener.is_none() {
            true => parts.health.clone(),
            false => Vec::new(),
        };
        let app = pages.into_iter().fold(app, Router::merge);
        let mut work = JoinSet::new();
        let server = serve(
            listener,
            app,
            options.max_connection_age,
            leave.accept.clone(),
        );
        work.spawn(guarded("server", server, failed.clone()));
        for (task, stop) in parts.tasks {
            let name = task.name();
            work.spawn(guarded(name, task.start(stop), failed.clone()));
        }
        let work = tokio::spawn(async move { while work.join_next().await.is_some() {} });

        let health_router = health::router(state.clone(), parts.health);
        let (drain, drained, end) = (
            leave.drain.clone(),
            leave.drained.clone(),
            leave.end.clone(),
        );
        let polling = async move {
            readiness.poll(drain).await;
            readiness.drain().await;
            drained.cancel();
        };
        let health = tokio::spawn(async move {
            let serving = async {
                let Some(listener) = health_listener else {
                    return end.cancelled().await;
                };
                // Without a graceful end: whoever scrapes keeps the connection open for ever.
                tokio::select! {
                    result = axum::serve(listener, health_router).into_future() => {
                        if let Err(error) = result {
                            failed.send_replace(Some(format!("the health port failed: {error}")));
                        }
                    }
                    () = end.cancelled() => {}
                }
            };
            tokio::join!(polling, serving);
        });
        metrics::gauge!("weir_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        let health_text = health_addr.map(|addr| addr.to_string());
        tracing::info!(%addr, health = health_text, "serving");
        Ok(Self {
            addr,
            health_addr,
            options,
            readiness: state,
            failure,
            leave,
            work,
            health,
        })
    }

    /// Returns the address of the services.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address of health and metrics.
    pub fn health_addr(&self) -> Option<SocketAddr> {
        self.health_addr
    }

    /// Returns the readiness, now and as it changes.
    pub fn readiness(&self) -> watch::Receiver<Snapshot> {
        self.readiness.clone()
    }

    /// Waits until every component is ready. Never returns when one never is.
    pub async fn ready(&self) {
        // The sender lives as long as the process, so an error cannot come before its end.
        let _ = self.readiness.clone().wait_for(|state| state.ready).await;
    }

    /// Waits until a task or a port failed for good, and says which. The process must end then: half
    /// of it is worse than none.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let text = failure
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|text| text.clone());
        match text {
            Some(text) => text,
            None => std::future::pending().await,
        }
    }

    /// Goes the way out to its end.
    pub async fn stop(self) -> Drained {
        let Self {
            options,
            leave,
            mut work,
            health,
            ..
        } = self;
        leave.drain.cancel();
        leave.drained.cancelled().await;
        tokio::time::sleep(options.readiness_delay).await;
        leave.accept.cancel();
        for shutdown in &leave.shutdowns {
            shutdown.cancel();
        }
        let drained = match tokio::time::timeout(options.grace, &mut work).await {
            Ok(_) => Drained::Fully,
            Err(_) => {
                work.abort();
                tracing::warn!(grace = ?options.grace, "cut off what did not end within the grace period");
                Drained::Partly
            }
        };
        leave.end.cancel();
        // A panic there has been logged, and nothing depends on it any more.
        let _ = health.await;
        tracing::info!("stopped");
        drained
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on `{address}`"))?;
    let bound = listener
        .local_addr()
        .context("a bound port has an address")?;
    Ok((listener, bound))
}

fn reflected(routes: Routes) -> anyhow::Result<Routes> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(weir_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes
        .add_service(builder().build_v1()?)
        .add_service(builder().build_v1alpha()?))
}

/// What the components are made of, by where it goes.
struct Parts {
    app: Router,
    tasks: Vec<(Task, CancellationToken)>,
    health: Vec<Router>,
}

impl Parts {
    fn of(components: Vec<Component>, options: &ServeOptions, common: Routes) -> Self {
        let auth = (!options.tokens.is_empty()).then(|| InternalAuth::new(options.tokens.clone()));
        let mut grpc = common.into_axum_router();
        let (mut https, mut tasks, mut health) = (Vec::new(), Vec::new(), Vec::new());
        for component in components {
            let stop = component.shutdown();
            let auth = auth.clone().filter(|_| !component.edge);
            let routes = weir_rpc::layered(component.routes, auth).into_axum_router();
            // Every gRPC router brings its own fallback, and two of them would panic.
            grpc = grpc.merge(routes.reset_fallback());
            https.extend(
                component
                    .http
                    .map(|http| weir_rpc::layered_router(http, None)),
            );
            health.extend(component.health_http);
            tasks.extend(component.tasks.into_iter().map(|task| (task, stop.clone())));
        }
        let mut https = https.into_iter();
        let app = match https.next() {
            Some(first) => https.fold(first.merge(grpc.reset_fallback()), |app, http| {
                app.merge(http.reset_fallback())
            }),
            None => grpc,
        };
        Self { app, tasks, health }
    }
}

async fn serve(
    listener: TcpListener,
    app: Router,
    max_connection_age: Option<Duration>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut server = Server::builder()
        .accept_http1(true)
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT));
    if let Some(age) = max_connection_age {
        server = server
            .max_connection_age(age)
            .max_connection_age_grace(CONNECTION_GRACE);
    }
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    server
        .add_routes(Routes::from(app))
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await
        .context("the port failed")
}

/// Runs a part of the process. Its failure and its panic are the process's.
async fn guarded(
    name: &'static str,
    part: impl Future<Output = anyhow::Result<()>> + Send,
    failed: watch::Sender<Option<String>>,
) {
    let text = match AssertUnwindSafe(part).catch_unwind().await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => format!("`{name}` failed: {error:#}"),
        Err(panic) => {
            let what = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            format!("`{name}` panicked: {what}")
        }
    };
    tracing::error!(
        task = name,
        error = text,
        "a part of the process failed, the process ends"
    );
    failed.send_replace(Some(text));
}

#[cfg(test)]
mod tests;
