//! `weir.gateway.v1.ControlService`: what operators do with events.
//!
//! The gateway checks who calls and asks the routing service, which owns the decision, the record and
//! the audit. Methods of later versions say so.

mod convert;

use crate::{Call, Error, Gateway};
use std::pin::Pin;
use std::sync::Arc;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use weir_proto::gateway::v1 as proto;
use weir_proto::gateway::v1::control_service_server::ControlService;

/// The service. Runs behind the identity and permission check, which leaves the [`Call`] with the
/// request.
#[derive(Clone)]
pub(crate) struct Control(Arc<Gateway>);

impl Control {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        Self(gateway)
    }

    /// Skips an event for a caller who may.
    pub(crate) async fn skip(
        &self,
        call: &Call,
        request: proto::SkipEventRequest,
    ) -> Result<proto::SkipEventResponse, Status> {
        let request = call.request(convert::skip_request(request));
        let response = self.0.routing().skip_event(request).await?;
        Ok(convert::skip_response(response.into_inner()))
    }

    /// Reroutes an event for a caller who may.
    pub(crate) async fn reroute(
        &self,
        call: &Call,
        request: proto::RerouteEventRequest,
    ) -> Result<proto::RerouteEventResponse, Status> {
        let request = call.request(convert::reroute_request(request));
        let response = self.0.routing().reroute_event(request).await?;
        Ok(convert::reroute_response(response.into_inner()))
    }
}

/// Takes the verified call out of a request.
fn call<T>(request: &Request<T>) -> Result<Call, Status> {
    // Only absent if the service were mounted without its check: then nobody is verified.
    request
        .extensions()
        .get::<Call>()
        .cloned()
        .ok_or_else(|| weir_rpc::status(Error::IdentityMissing(weir_rpc::headers::TENANT)))
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn later<T>(method: &'static str) -> Result<T, Status> {
    Err(weir_rpc::unimplemented(
        method,
        "it comes with a later version",
    ))
}

#[tonic::async_trait]
impl ControlService for Control {
    async fn skip_event(
        &self,
        request: Request<proto::SkipEventRequest>,
    ) -> Result<Response<proto::SkipEventResponse>, Status> {
        let call = call(&request)?;
        Ok(Response::new(self.skip(&call, request.into_inner()).await?))
    }

    async fn reroute_event(
        &self,
        request: Request<proto::RerouteEventRequest>,
    ) -> Result<Response<proto::RerouteEventResponse>, Status> {
        let call = call(&request)?;
        Ok(Response::new(
            self.reroute(&call, request.into_inner()).await?,
        ))
    }

    async fn trace_event(
        &self,
        request: Request<proto::TraceEventRequest>,
    ) -> Result<Response<proto::TraceEventResponse>, Status> {
        let call = call(&request)?;
        let request = call.request(convert::trace_request(request.into_inner()));
        let response = self.0.routing().trace(request).await?;
        Ok(Response::new(convert::trace_response(
            response.into_inner(),
        )))
    }

    async fn get_server_info(
        &self,
        request: Request<proto::GetServerInfoRequest>,
    ) -> Result<Response<proto::GetServerInfoResponse>, Status> {
        call(&request)?;
        Ok(Response::new(proto::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            environment: self.0.environment().to_string(),
            methods: self
                .0
                .access()
                .methods()
                .map(|m| proto::MethodAccess {
                    method: m.path.trim_start_matches('/').to_owned(),
                    access: m.permission.clone(),
                })
                .collect(),
        }))
    }

    async fn trace_candidate(
        &self,
        request: Request<proto::TraceCandidateRequest>,
    ) -> Result<Response<proto::TraceCandidateResponse>, Status> {
        let call = call(&request)?;
        let request = call.request(convert::candidate_request(request.into_inner()));
        let response = self.0.routing().trace_candidate(request).await?;
        Ok(Response::new(convert::candidate_response(
            response.into_inner(),
        )))
    }

    async fn explain_event(
        &self,
        _: Request<proto::ExplainEventRequest>,
    ) -> Result<Response<proto::ExplainEventResponse>, Status> {
        later("ExplainEvent")
    }

    type BulkSkipStream = Answers<proto::BulkSkipResponse>;

    async fn bulk_skip(
        &self,
        _: Request<proto::BulkSkipRequest>,
    ) -> Result<Response<Self::BulkSkipStream>, Status> {
        later("BulkSkip")
    }

    type BulkRerouteStream = Answers<proto::BulkRerouteResponse>;

    async fn bulk_reroute(
        &self,
        _: Request<proto::BulkRerouteRequest>,
    ) -> Result<Response<Self::BulkRerouteStream>, Status> {
        later("BulkReroute")
    }

    type WhatIfStream = Answers<proto::WhatIfResponse>;

    async fn what_if(
        &self,
        _: Request<proto::WhatIfRequest>,
    ) -> Result<Response<Self::WhatIfStream>, Status> {
        later("WhatIf")
    }

    async fn doctor(
        &self,
        _: Request<proto::DoctorRequest>,
    ) -> Result<Response<proto::DoctorResponse>, Status> {
        later("Doctor")
    }

    async fn list_audit(
        &self,
        _: Request<proto::ListAuditRequest>,
    ) -> Result<Response<proto::ListAuditResponse>, Status> {
        later("ListAudit")
    }
}
