//! A remote handler that a test tells, by event id, what to say, and that it can stop and start again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService as _;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use weir_proto::extension::v1 as extension;
use weir_proto::extension::v1::route_handler_server::{RouteHandler, RouteHandlerServer};

/// What the handler says of an event.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// It takes it, for this reason, and attaches these keys.
    Match(String, Vec<String>),
    /// It declines, for this reason.
    Skip(String),
    /// It fails.
    Status(Code, String),
    /// It does not answer before it is freed; then it takes it.
    Hang,
}

/// One call of `Match`.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// What it was asked.
    pub(crate) request: extension::MatchRequest,
    /// The deadline it was told, as gRPC writes it.
    pub(crate) timeout: Option<String>,
}

/// The handler, and its server while it runs.
pub(crate) struct Remote {
    told: Arc<Told>,
    addr: SocketAddr,
    serving: Option<(CancellationToken, JoinHandle<()>)>,
}

struct Told {
    state: Mutex<State>,
    freed: watch::Sender<bool>,
    hanging: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    says: HashMap<String, Say>,
    calls: Vec<Call>,
    samples: Option<Result<Vec<extension::HandlerSample>, Status>>,
    sample_calls: Vec<extension::ListSamplesRequest>,
}

impl Remote {
    /// Starts it on a free port, without `grpc.health.v1`.
    pub(crate) async fn start() -> Self {
        Self::serve(None).await
    }

    /// Starts it with `grpc.health.v1`.
    pub(crate) async fn with_health() -> (Self, HealthReporter) {
        let (reporter, _) = tonic_health::server::health_reporter();
        (Self::serve(Some(&reporter)).await, reporter)
    }

    async fn serve(reporter: Option<&HealthReporter>) -> Self {
        let told = Told {
            state: Mutex::default(),
            freed: watch::Sender::new(false),
            hanging: watch::Sender::new(0),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        let mut remote = Self {
            told: Arc::new(told),
            addr,
            serving: None,
        };
        remote.listen(listener, reporter);
        remote
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test is the other side of the conversation"
    )]
    fn listen(&mut self, listener: TcpListener, reporter: Option<&HealthReporter>) {
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let handler = RouteHandlerServer::new(Served(Arc::clone(&self.told)));
        let health = reporter.map(|reporter| {
            let service =
                tonic_health::server::HealthService::from_health_reporter(reporter.clone());
            tonic_health::pb::health_server::HealthServer::new(service)
        });
        let server = tokio::spawn(async move {
            Server::builder()
                .add_service(handler)
                .add_optional_service(health)
                .serve_with_incoming_shutdown(TcpIncoming::from(listener), stopped)
                .await
                .expect("it serves until it is stopped");
        });
        self.serving = Some((stop, server));
    }

    /// Returns its address, as a configuration names it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Ends its server with all connections. Calls that hang are freed.
    pub(crate) async fn stop(&mut self) {
        self.told.freed.send_replace(true);
        if let Some((stop, server)) = self.serving.take() {
            stop.cancel();
            server.await.expect("it ends");
        }
    }

    /// Starts its server again, on the same port.
    pub(crate) async fn restart(&mut self) {
        self.told.freed.send_replace(false);
        let listener = TcpListener::bind(self.addr).await.expect("nobody took it");
        self.listen(listener, None);
    }

    /// Says this of an event from now on. Of others it says nothing: they are declined.
    pub(crate) fn say(&self, id: &str, say: Say) {
        self.told.state().says.insert(id.to_owned(), say);
    }

    /// Offers these samples, or fails to.
    pub(crate) fn offer(&self, samples: Result<Vec<extension::HandlerSample>, Status>) {
        self.told.state().samples = Some(samples);
    }

    /// Lets hung calls end, and all to come.
    pub(crate) fn free(&self) {
        self.told.freed.send_replace(true);
    }

    /// Waits until this many calls hang, at its side of the connection.
    pub(crate) async fn hanging(&self, calls: usize) {
        let mut hanging = self.told.hanging.subscribe();
        hanging
            .wait_for(|n| *n == calls)
            .await
            .expect("the sender is not dropped");
    }

    /// Returns the calls about an event.
    pub(crate) fn calls(&self, id: &str) -> Vec<Call> {
        let about = |c: &&Call| c.request.event.as_ref().is_some_and(|e| e.id == id);
        self.told
            .state()
            .calls
            .iter()
            .filter(about)
            .cloned()
            .collect()
    }

    /// Returns the calls for samples.
    pub(crate) fn sample_calls(&self) -> Vec<extension::ListSamplesRequest> {
        self.told.state().sample_calls.clone()
    }
}

/// Sets what `grpc.health.v1` says of the handler.
pub(crate) async fn report(reporter: &HealthReporter, status: ServingStatus) {
    let name = RouteHandlerServer::<Served>::NAME;
    reporter.set_service_status(name, status).await;
}

impl Told {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

struct Served(Arc<Told>);

/// Counts a call that hangs for as long as its future is there: a call that was given up drops it.
struct Hanging<'a>(&'a Told);

impl<'a> Hanging<'a> {
    fn new(told: &'a Told) -> Self {
        told.hanging.send_modify(|n| *n += 1);
        Self(told)
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.hanging.send_modify(|n| *n -= 1);
    }
}

#[tonic::async_trait]
impl RouteHandler for Served {
    async fn r#match(
        &self,
        request: Request<extension::MatchRequest>,
    ) -> Result<Response<extension::MatchResponse>, Status> {
        let timeout = request.metadata().get("grpc-timeout");
        let timeout = timeout.and_then(|t| t.to_str().ok()).map(str::to_owned);
        let request = request.into_inner();
        let id = request.event.as_ref().map(|e| e.id.clone());
        let say = {
            let mut state = self.0.state();
            state.calls.push(Call { request, timeout });
            id.and_then(|id| state.says.get(&id).cloned())
        };
        let matched = |reason, attach| {
            Ok(Response::new(extension::MatchResponse {
                r#match: true,
                reason,
                attach,
            }))
        };
        let skipped = |reason| {
            Ok(Response::new(extension::MatchResponse {
                reason,
                ..Default::default()
            }))
        };
        match say {
            Some(Say::Match(reason, attach)) => matched(reason, attach),
            Some(Say::Skip(reason)) => skipped(reason),
            Some(Say::Status(code, message)) => Err(Status::new(code, message)),
            Some(Say::Hang) => {
                let _hanging = Hanging::new(&self.0);
                let mut freed = self.0.freed.subscribe();
                freed.wait_for(|freed| *freed).await.expect("it is kept");
                matched("late".to_owned(), Vec::new())
            }
            None => skipped("not told".to_owned()),
        }
    }

    async fn list_samples(
        &self,
        request: Request<extension::ListSamplesRequest>,
    ) -> Result<Response<extension::ListSamplesResponse>, Status> {
        let mut state = self.0.state();
        state.sample_calls.push(request.into_inner());
        match &state.samples {
            Some(Ok(samples)) => Ok(Response::new(extension::ListSamplesResponse {
                samples: samples.clone(),
            })),
            Some(Err(status)) => Err(Status::new(status.code(), status.message())),
            None => Err(Status::unimplemented("no samples here")),
        }
    }
}
