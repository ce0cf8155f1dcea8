//! Probes of remote handlers (rule o07).
//!
//! A probe is a call of `grpc.health.v1.Health/Check`, for the name of the service and, where that is not registered,
//! for the server as a whole. A handler that does not serve health says UNIMPLEMENTED: it was reached, and that is
//! all that is known, so it counts as up. What a handler writes into an error is not repeated: the page is open.

use std::time::Duration;

use chrono::Utc;
use futures::StreamExt as _;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::Remotes;
use crate::handler::health::{Probed, State};

/// How long a probe may take, with connecting.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Probes at once.
const AT_ONCE: usize = 64;
/// The service that handlers implement.
const SERVICE: &str = "weir.extension.v1.RouteHandler";

/// Probes endpoints, each once.
pub(super) async fn all(remotes: &Remotes, endpoints: Vec<String>) {
    let probe = async |at: String| {
        let Ok(endpoint) = remotes.endpoint(&at) else {
            return;
        };
        let probed = one(endpoint.channel()).await;
        let mut health = remotes.health();
        let Some(known) = health.get_mut(&at) else {
            return;
        };
        let before = known.probed.as_ref().map(|p| p.state);
        match probed.state {
            State::Down if before != Some(State::Down) => {
                tracing::warn!(
                    endpoint = at,
                    error = probed.message,
                    "a remote handler is down"
                );
            }
            State::Up if before == Some(State::Down) => {
                tracing::info!(endpoint = at, "a remote handler is up again");
            }
            State::Up | State::Down | State::Unknown => {}
        }
        known.probed = Some(probed);
    };
    futures::stream::iter(endpoints)
        .for_each_concurrent(AT_ONCE, probe)
        .await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the page says when this process asked, also while the database is away"
)]
async fn one(channel: Channel) -> Probed {
    let started = Instant::now();
    let (state, message) = match timeout(TIMEOUT, ask(channel)).await {
        Ok(answer) => read(answer),
        Err(_) => (
            State::Down,
            format!("no answer within {}", humantime::format_duration(TIMEOUT)),
        ),
    };
    Probed {
        state,
        latency: started.elapsed(),
        at: Utc::now(),
        message,
    }
}

async fn ask(channel: Channel) -> Result<ServingStatus, Status> {
    let mut client = HealthClient::new(channel);
    let mut check = async |service: &str| {
        let mut request = Request::new(HealthCheckRequest {
            service: service.to_owned(),
        });
        request.set_timeout(TIMEOUT);
        client
            .check(request)
            .await
            .map(|answer| answer.into_inner().status())
    };
    match check(SERVICE).await {
        Err(status) if status.code() == Code::NotFound => check("").await,
        answer => answer,
    }
}

fn read(answer: Result<ServingStatus, Status>) -> (State, String) {
    match answer {
        Ok(ServingStatus::Serving) => (State::Up, "it says that it serves".to_owned()),
        Ok(ServingStatus::NotServing) => (State::Down, "it says that it does not serve".to_owned()),
        Ok(ServingStatus::Unknown | ServingStatus::ServiceUnknown) => (
            State::Unknown,
            "it does not know whether it serves".to_owned(),
        ),
        Err(status) => match status.code() {
            Code::Unimplemented => (
                State::Up,
                "it answers; it does not serve `grpc.health.v1`".to_owned(),
            ),
            Code::Unavailable => (State::Down, "it cannot be reached".to_owned()),
            code => {
                let code = weir_rpc::code_name(code);
                (State::Down, format!("its health check fails: {code}"))
            }
        },
    }
}
