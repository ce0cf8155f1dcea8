//! What executors call.

use std::sync::Arc;

use futures::stream::BoxStream;
use tonic::{Request, Response, Status, Streaming};
use weir_kernel::WorkState;
use weir_kernel::limits::{self, MAX_IDENTIFIER, MAX_RESULT, MAX_TEXT};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::executor_service_server::ExecutorService;
use weir_rpc::{status, unimplemented};

use super::{Claimer, Context, claiming, convert, decode, park, request_key};
use crate::Error;
use crate::command::{
    Acknowledge, Complete, Fail, Failure, RegisterExecutor, Release, Renew, Renewal,
};

/// What children and timers wait for.
const LATER: &str = "children and timers come with the next version";

/// The executors' service.
#[derive(Debug, Clone)]
pub(crate) struct Executors {
    pub(crate) context: Context,
    pub(crate) claimer: Arc<Claimer>,
}

#[tonic::async_trait]
impl ExecutorService for Executors {
    async fn register_executor(
        &self,
        request: Request<pb::RegisterExecutorRequest>,
    ) -> Result<Response<pb::RegisterExecutorResponse>, Status> {
        let (tenant, actor, mut message) = self.context.caller(request).await?;
        let request_id = std::mem::take(&mut message.request_id);
        let decode = || -> Result<RegisterExecutor, Error> {
            limits::identifier("executor", &message.executor, MAX_IDENTIFIER)?;
            let method = "weir.lifecycle.v1.ExecutorService/RegisterExecutor";
            Ok(RegisterExecutor {
                tenant,
                capabilities: decode::capabilities(&message.capabilities)?,
                request: request_key(tenant, &actor, method, request_id, &message)?,
                executor: message.executor.clone(),
                actor: actor.clone(),
            })
        };
        let command = decode().map_err(status)?;
        let revision = self.context.db.run(&command).await.map_err(status)?;
        Ok(Response::new(pb::RegisterExecutorResponse { revision }))
    }

    type ClaimStream = BoxStream<'static, Result<pb::ClaimResponse, Status>>;

    async fn claim(
        &self,
        request: Request<Streaming<pb::ClaimRequest>>,
    ) -> Result<Response<Self::ClaimStream>, Status> {
        let (tenant, actor, requests) = self.context.caller(request).await?;
        let batches = claiming::serve(Arc::clone(&self.claimer), tenant, &actor, requests).await?;
        Ok(Response::new(batches))
    }

    async fn claim_once(
        &self,
        request: Request<pb::ClaimOnceRequest>,
    ) -> Result<Response<pb::ClaimOnceResponse>, Status> {
        let (tenant, actor, message) = self.context.caller(request).await?;
        let spec = decode::claim_spec(message.spec, &actor).map_err(status)?;
        let wait = decode::wait(message.wait).map_err(status)?;
        let most = match message.max_works {
            0 => 1,
            most @ 1..=1_000 => most,
            most => {
                return Err(status(Error::field(
                    "max_works",
                    format!("is {most}, not 1 to 1000"),
                )));
            }
        };
        let works = self.claimer.once(tenant, &spec, most, wait).await?;
        Ok(Response::new(pb::ClaimOnceResponse { works }))
    }

    async fn renew(
        &self,
        request: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let lease = decode::lease(message.lease).map_err(status)?;
        let extend = decode::lease_duration("extend", message.extend).map_err(status)?;
        let renewal = self
            .context
            .db
            .run(&Renew {
                tenant,
                lease,
                extend,
            })
            .await
            .map_err(status)?;
        Ok(Response::new(match renewal {
            Renewal::Cancelled => pb::RenewResponse {
                cancelled: true,
                ..Default::default()
            },
            Renewal::Extended {
                until,
                injects,
                interrupts,
            } => pb::RenewResponse {
                lease_until: Some(weir_rpc::convert::timestamp(until)),
                injects: injects.into_iter().map(convert::event).collect(),
                interrupts: interrupts.into_iter().map(convert::event).collect(),
                cancelled: false,
            },
        }))
    }

    async fn acknowledge(
        &self,
        request: Request<pb::AcknowledgeRequest>,
    ) -> Result<Response<pb::AcknowledgeResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let lease = decode::lease(message.lease).map_err(status)?;
        let events = decode::events("events", &message.events).map_err(status)?;
        self.context
            .db
            .run(&Acknowledge {
                tenant,
                lease,
                events,
            })
            .await
            .map_err(status)?;
        Ok(Response::new(pb::AcknowledgeResponse {
            events: message.events,
        }))
    }

    async fn complete(
        &self,
        request: Request<pb::CompleteRequest>,
    ) -> Result<Response<pb::CompleteResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let lease = decode::lease(message.lease).map_err(status)?;
        let result = message.result;
        limits::text("result", &result, MAX_RESULT)
            .map_err(Error::from)
            .map_err(status)?;
        let ended = self
            .context
            .db
            .run(&Complete {
                tenant,
                lease,
                result,
            })
            .await
            .map_err(status)?;
        if ended.state == WorkState::Ready {
            self.claimer.hints.work_ready();
        }
        Ok(Response::new(pb::CompleteResponse {
            state: convert::state(ended.state).into(),
        }))
    }

    async fn fail(
        &self,
        request: Request<pb::FailRequest>,
    ) -> Result<Response<pb::FailResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let decode = || -> Result<Fail, Error> {
            limits::text("error", &message.error, MAX_TEXT)?;
            let after = decode::retry_after(message.retry_after)?;
            let failure = match pb::FailureKind::try_from(message.kind) {
                Ok(pb::FailureKind::Retryable) => Failure::Retryable(after),
                Ok(pb::FailureKind::Permanent) if after.is_some() => {
                    return Err(Error::field(
                        "retry_after",
                        "is for retryable failures only",
                    ));
                }
                Ok(pb::FailureKind::Permanent) => Failure::Permanent,
                Ok(pb::FailureKind::Unspecified) | Err(_) => {
                    return Err(Error::field("kind", "is required: retryable or permanent"));
                }
            };
            let lease = decode::lease(message.lease.clone())?;
            Ok(Fail {
                tenant,
                lease,
                failure,
                error: message.error.clone(),
            })
        };
        let command = decode().map_err(status)?;
        let ended = self.context.db.run(&command).await.map_err(status)?;
        Ok(Response::new(pb::FailResponse {
            state: convert::state(ended.state).into(),
            next_try: ended.at.map(weir_rpc::convert::timestamp),
        }))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let lease = decode::lease(message.lease).map_err(status)?;
        let ended = self
            .context
            .db
            .run(&Release { tenant, lease })
            .await
            .map_err(status)?;
        // Another worker of this process may take it at once.
        self.claimer.hints.work_ready();
        Ok(Response::new(pb::ReleaseResponse {
            state: convert::state(ended.state).into(),
        }))
    }

    async fn park(
        &self,
        request: Request<pb::ParkRequest>,
    ) -> Result<Response<pb::ParkResponse>, Status> {
        let (tenant, _, message) = self.context.caller(request).await?;
        let command = park::decode(tenant, message).map_err(status)?;
        let parked = self.context.db.run(&command).await.map_err(status)?;
        Ok(Response::new(park::encode(&command, parked)))
    }

    async fn create_child(
        &self,
        _: Request<pb::CreateChildRequest>,
    ) -> Result<Response<pb::CreateChildResponse>, Status> {
        Err(unimplemented("CreateChild", LATER))
    }

    async fn set_timer(
        &self,
        _: Request<pb::SetTimerRequest>,
    ) -> Result<Response<pb::SetTimerResponse>, Status> {
        Err(unimplemented("SetTimer", LATER))
    }

    async fn cancel_timer(
        &self,
        _: Request<pb::CancelTimerRequest>,
    ) -> Result<Response<pb::CancelTimerResponse>, Status> {
        Err(unimplemented("CancelTimer", LATER))
    }
}
