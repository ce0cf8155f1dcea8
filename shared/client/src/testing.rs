//! A scripted `ExecutorService` on a local port, for tests of executors: it hands out what a test
//! offers, answers what a test says, and tells what it was asked.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};
use weir_proto::lifecycle::v1::executor_service_server::{ExecutorService, ExecutorServiceServer};
use weir_proto::lifecycle::v1::*;
use weir_proto::types::v1::{Event, Lease};

use crate::{Client, Identity};

/// What the service was asked.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "named after the methods and fields of the contract"
)]
pub enum Call {
    Register {
        executor: String,
        capabilities: Vec<i32>,
    },
    Claim {
        binding: String,
        scope: String,
        credits: i32,
    },
    Credits(i32),
    Closed,
    Renew,
    Acknowledge(Vec<String>),
    Complete(String),
    Fail {
        permanent: bool,
        error: String,
    },
    Park(Vec<WaitCondition>),
    Release(String),
}

/// A running service.
pub struct FakeExecutorService {
    address: SocketAddr,
    state: Arc<State>,
    works: UnboundedSender<ClaimedWork>,
    calls: UnboundedReceiver<Call>,
    _server: JoinSet<()>,
}

struct State {
    calls: UnboundedSender<Call>,
    works: tokio::sync::Mutex<UnboundedReceiver<ClaimedWork>>,
    refusals: Mutex<HashMap<&'static str, VecDeque<Status>>>,
    renewals: Mutex<VecDeque<RenewResponse>>,
}

impl FakeExecutorService {
    /// Starts a service on a free port.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start() -> Self {
        let (calls, seen) = mpsc::unbounded_channel();
        let (works, offered) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            calls,
            works: tokio::sync::Mutex::new(offered),
            refusals: Mutex::default(),
            renewals: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let service = ExecutorServiceServer::new(Service(Arc::clone(&state)));
        let mut server = JoinSet::new();
        server.spawn(async move {
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .expect("the service runs until it is dropped");
        });
        Self {
            address,
            state,
            works,
            calls: seen,
            _server: server,
        }
    }

    /// A client of it.
    ///
    /// # Panics
    /// Never: the address is a plain one.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::connect(&self.url(), Identity::development("demo", "test"))
            .expect("a plain address")
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Offers a Work to whoever claims with a credit.
    pub fn offer(&self, work: ClaimedWork) {
        // The receiver lives as long as the state.
        let _ = self.works.send(work);
    }

    /// Answers the next calls of a method (`complete`) with a refusal, once each.
    pub fn refuse(&self, method: &'static str, status: Status) {
        locked(&self.state.refusals)
            .entry(method)
            .or_default()
            .push_back(status);
    }

    /// Answers the next renewal.
    pub fn renew_with(&self, answer: RenewResponse) {
        locked(&self.state.renewals).push_back(answer);
    }

    /// Returns the next call that `wanted` holds for, passing over others.
    ///
    /// # Panics
    /// When the service is gone.
    pub async fn call(&mut self, wanted: impl Fn(&Call) -> bool) -> Call {
        loop {
            let call = self
                .calls
                .recv()
                .await
                .expect("the service runs as long as this");
            if wanted(&call) {
                return call;
            }
        }
    }

    /// Returns the calls that were not looked at.
    pub fn rest(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

/// A claimed Work with a lease of a length in milliseconds and an input for each uid.
#[must_use]
pub fn work(name: &str, lease_ms: u64, inputs: &[&str]) -> ClaimedWork {
    let length = std::time::Duration::from_millis(lease_ms);
    ClaimedWork {
        lease: Some(Lease {
            work: name.to_owned(),
            attempt: 1,
            epoch: 7,
        }),
        scope: "github".to_owned(),
        binding: "triage".to_owned(),
        lease_duration: prost_types::Duration::try_from(length).ok(),
        inputs: inputs.iter().map(|uid| event(uid)).collect(),
        ..ClaimedWork::default()
    }
}

/// An event with a uid.
#[must_use]
pub fn event(uid: &str) -> Event {
    Event {
        uid: uid.to_owned(),
        ..Event::default()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Service(Arc<State>);

impl Service {
    /// Tells of a call, and answers what was scripted for its method.
    fn heard(&self, method: &'static str, call: Call) -> Result<(), Status> {
        let _ = self.0.calls.send(call);
        match locked(&self.0.refusals)
            .get_mut(method)
            .and_then(VecDeque::pop_front)
        {
            Some(status) => Err(status),
            None => Ok(()),
        }
    }
}

type Works = Pin<Box<dyn Stream<Item = Result<ClaimResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ExecutorService for Service {
    async fn register_executor(
        &self,
        request: Request<RegisterExecutorRequest>,
    ) -> Result<Response<RegisterExecutorResponse>, Status> {
        let RegisterExecutorRequest {
            executor,
            capabilities,
            ..
        } = request.into_inner();
        self.heard(
            "register_executor",
            Call::Register {
                executor,
                capabilities,
            },
        )?;
        Ok(Response::new(RegisterExecutorResponse { revision: 1 }))
    }

    type ClaimStream = Works;

    async fn claim(
        &self,
        request: Request<Streaming<ClaimRequest>>,
    ) -> Result<Response<Works>, Status> {
        let mut inbound = request.into_inner();
        let first = inbound.message().await?.unwrap_or_default();
        let spec = first.spec.unwrap_or_default();
        self.heard(
            "claim",
            Call::Claim {
                binding: spec.binding,
                scope: spec.scope,
                credits: first.credits,
            },
        )?;
        let state = Arc::clone(&self.0);
        let stream = futures::stream::unfold(
            (inbound, first.credits, state),
            |(mut inbound, mut credits, state)| async move {
                loop {
                    let mut works = state.works.lock().await;
                    tokio::select! {
                        message = inbound.message() => match message {
                            Ok(Some(more)) => {
                                credits += more.credits;
                                let _ = state.calls.send(Call::Credits(more.credits));
                            }
                            _ => {
                                let _ = state.calls.send(Call::Closed);
                                return None;
                            }
                        },
                        Some(work) = works.recv(), if credits > 0 => {
                            drop(works);
                            let batch = Ok(ClaimResponse { works: vec![work] });
                            return Some((batch, (inbound, credits - 1, state)));
                        }
                    }
                }
            },
        );
        Ok(Response::new(Box::pin(stream)))
    }

    async fn claim_once(
        &self,
        _: Request<ClaimOnceRequest>,
    ) -> Result<Response<ClaimOnceResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        self.heard("renew", Call::Renew)?;
        Ok(Response::new(
            locked(&self.0.renewals).pop_front().unwrap_or_default(),
        ))
    }

    async fn acknowledge(
        &self,
        request: Request<AcknowledgeRequest>,
    ) -> Result<Response<AcknowledgeResponse>, Status> {
        let events = request.into_inner().events;
        self.heard("acknowledge", Call::Acknowledge(events.clone()))?;
        Ok(Response::new(AcknowledgeResponse { events }))
    }

    async fn complete(
        &self,
        request: Request<CompleteRequest>,
    ) -> Result<Response<CompleteResponse>, Status> {
        self.heard("complete", Call::Complete(request.into_inner().result))?;
        Ok(Response::new(CompleteResponse::default()))
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        let request = request.into_inner();
        let permanent = request.kind() == FailureKind::Permanent;
        self.heard(
            "fail",
            Call::Fail {
                permanent,
                error: request.error,
            },
        )?;
        Ok(Response::new(FailResponse::default()))
    }

    async fn park(&self, request: Request<ParkRequest>) -> Result<Response<ParkResponse>, Status> {
        self.heard("park", Call::Park(request.into_inner().conditions))?;
        Ok(Response::new(ParkResponse::default()))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let work = request.into_inner().lease.unwrap_or_default().work;
        self.heard("release", Call::Release(work))?;
        Ok(Response::new(ReleaseResponse::default()))
    }

    async fn create_child(
        &self,
        _: Request<CreateChildRequest>,
    ) -> Result<Response<CreateChildResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn set_timer(
        &self,
        _: Request<SetTimerRequest>,
    ) -> Result<Response<SetTimerResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn cancel_timer(
        &self,
        _: Request<CancelTimerRequest>,
    ) -> Result<Response<CancelTimerResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}
