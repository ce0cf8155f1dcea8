//! One endpoint: its connection, and its calls at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Channel;
use tonic::{Response, Status};
use weir_proto::extension::v1::route_handler_client::RouteHandlerClient;

/// Calls of one endpoint at once. Further ones wait for a place, within their deadline.
pub const MAX_CALLS: usize = 64;

/// Largest answer, in bytes: its keys have 16 KiB, the rest is reason, which is cut, or samples.
const MAX_ANSWER: usize = 2 << 20;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a connection with calls under way is asked whether it lives, and how long it may take to say so. An idle
/// one is not asked: servers take that for abuse and close it. The probes find out.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a call fails.
#[derive(Debug)]
pub(super) enum Failed {
    /// No answer before the deadline.
    Late,
    /// No place before the deadline.
    Crowded,
    /// The process is ending.
    Ended,
    /// The handler's answer, or what stands for one that did not come.
    Status(Status),
}

/// An endpoint.
pub(super) struct Endpoint {
    channel: Channel,
    places: Arc<Semaphore>,
}

impl Endpoint {
    /// Makes an endpoint that connects when it is first used, and again whenever its connection is lost.
    pub(super) fn new(at: &str) -> Result<Self, tonic::transport::Error> {
        let channel = tonic::transport::Endpoint::from_shared(at.to_owned())?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEP_ALIVE))
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(false)
            .connect_lazy();
        Ok(Self {
            channel,
            places: Arc::new(Semaphore::new(MAX_CALLS)),
        })
    }

    /// Returns the connection.
    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Makes a call as a task of its own, which ends with the deadline, or with whoever waits for it. `send` gets the
    /// client and the time that is left, which is the call's own deadline.
    #[expect(
        clippy::disallowed_methods,
        reason = "whoever asks waits for it and aborts it at the deadline, and its panic is the call's failure"
    )]
    pub(super) async fn call<A, F>(
        &self,
        timeout: Duration,
        send: impl FnOnce(RouteHandlerClient<Channel>, Duration) -> F,
    ) -> Result<A, Failed>
    where
        A: Send + 'static,
        F: Future<Output = Result<Response<A>, Status>> + Send + 'static,
    {
        let deadline = Instant::now() + timeout;
        let place = timeout_at(deadline, Arc::clone(&self.places).acquire_owned())
            .await
            .map_err(|_| Failed::Crowded)?
            .map_err(|_| Failed::Ended)?;
        let client = RouteHandlerClient::new(self.channel()).max_decoding_message_size(MAX_ANSWER);
        let sent = send(client, deadline.saturating_duration_since(Instant::now()));
        let call = AbortOnDropHandle::new(tokio::spawn(async move {
            let _place = place;
            sent.await
        }));
        match timeout_at(deadline, call).await {
            Err(_) => Err(Failed::Late),
            Ok(Err(_)) => Err(Failed::Ended),
            Ok(Ok(Ok(answer))) => Ok(answer.into_inner()),
            // Whoever notices the deadline first, here or there, may have called it CANCELLED.
            Ok(Ok(Err(_))) if Instant::now() >= deadline => Err(Failed::Late),
            Ok(Ok(Err(status))) => Err(Failed::Status(status)),
        }
    }
}
