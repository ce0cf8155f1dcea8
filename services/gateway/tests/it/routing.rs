//! The routing service, as far as the gateway asks it itself: it records, and answers by the request.

use crate::fake::{Record, UID, refusal};
use std::pin::Pin;
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request as Call, Response as Answer, Status};
use weir_proto::routing::v1::config_service_server::{ConfigService, ConfigServiceServer};
use weir_proto::routing::v1::event_service_server::{EventService, EventServiceServer};
use weir_proto::routing::v1::routing_service_server::{RoutingService, RoutingServiceServer};
use weir_proto::routing::v1::{self as routing};
use weir_proto::types::v1 as types;

#[derive(Clone)]
struct Routing(Record);

/// Returns the service's routes.
pub(crate) fn routes(record: Record) -> Routes {
    let service = Routing(record);
    Routes::new(EventServiceServer::new(service.clone()))
        .add_service(ConfigServiceServer::new(service.clone()))
        .add_service(RoutingServiceServer::new(service))
}

type Events = Pin<Box<dyn Stream<Item = Result<routing::WatchEventsResponse, Status>> + Send>>;
type Never<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn other<T>() -> Result<T, Status> {
    Err(Status::unimplemented("not part of this test"))
}

#[tonic::async_trait]
impl EventService for Routing {
    async fn publish(
        &self,
        call: Call<routing::PublishRequest>,
    ) -> Result<Answer<routing::PublishResponse>, Status> {
        let mut seen = self.0.note("Publish", &call);
        let request = call.into_inner();
        let id = request
            .event
            .as_ref()
            .expect("the gateway sends one")
            .id
            .clone();
        let scope = request.scope.clone();
        seen.publish = Some(request);
        self.0.push(seen);
        if scope == "missing" {
            return Err(refusal(tonic::Code::NotFound, "SCOPE_NOT_FOUND"));
        }
        let acceptance = types::Acceptance {
            uid: UID.to_owned(),
            scope,
            position: 9_007_199_254_740_993,
            accepted_at: Some(prost_types::Timestamp {
                seconds: 1_796_029_200,
                nanos: 0,
            }),
            deduplicated: id == "again",
        };
        Ok(Answer::new(routing::PublishResponse {
            uid: UID.to_owned(),
            acceptance: Some(acceptance),
        }))
    }

    async fn publish_batch(
        &self,
        call: Call<routing::PublishBatchRequest>,
    ) -> Result<Answer<routing::PublishBatchResponse>, Status> {
        let mut seen = self.0.note("PublishBatch", &call);
        let request = call.into_inner();
        let results = request
            .events
            .iter()
            .map(|_| types::ItemResult::default())
            .collect();
        seen.batch = Some(request);
        self.0.push(seen);
        Ok(Answer::new(routing::PublishBatchResponse { results }))
    }

    async fn get_event(
        &self,
        call: Call<routing::GetEventRequest>,
    ) -> Result<Answer<routing::GetEventResponse>, Status> {
        let mut seen = self.0.note("GetEvent", &call);
        let r = call.into_inner();
        seen.operate = Some((
            r.event,
            r.source,
            r.id,
            r.omit_data.to_string(),
            String::new(),
        ));
        self.0.push(seen);
        let event = types::Event {
            uid: UID.to_owned(),
            position: 3,
            ..Default::default()
        };
        Ok(Answer::new(routing::GetEventResponse {
            event: Some(event),
        }))
    }

    async fn list_events(
        &self,
        _: Call<routing::ListEventsRequest>,
    ) -> Result<Answer<routing::ListEventsResponse>, Status> {
        other()
    }

    async fn get_route(
        &self,
        call: Call<routing::GetRouteRequest>,
    ) -> Result<Answer<routing::GetRouteResponse>, Status> {
        self.0.push(self.0.note("GetRoute", &call));
        Err(refusal(tonic::Code::NotFound, "EVENT_NOT_FOUND"))
    }

    type WatchEventsStream = Events;

    async fn watch_events(
        &self,
        _: Call<routing::WatchEventsRequest>,
    ) -> Result<Answer<Events>, Status> {
        other()
    }
}

#[tonic::async_trait]
impl ConfigService for Routing {
    async fn resolve_source(
        &self,
        call: Call<routing::ResolveSourceRequest>,
    ) -> Result<Answer<routing::ResolveSourceResponse>, Status> {
        let seen = self.0.note("ResolveSource", &call);
        let tenant = seen.header("x-weir-tenant").map(str::to_owned);
        self.0.push(seen);
        let request = call.into_inner();
        if tenant.as_deref() == Some("demo")
            && request.scope == "github"
            && request.source == "github"
        {
            return Ok(Answer::new(routing::ResolveSourceResponse {
                kind: "github".to_owned(),
                secret: "main".to_owned(),
                generation: 1,
            }));
        }
        Err(refusal(tonic::Code::NotFound, "SOURCE_NOT_FOUND"))
    }

    async fn validate_config(
        &self,
        _: Call<routing::ValidateConfigRequest>,
    ) -> Result<Answer<routing::ValidateConfigResponse>, Status> {
        other()
    }

    async fn publish_config(
        &self,
        _: Call<routing::PublishConfigRequest>,
    ) -> Result<Answer<routing::PublishConfigResponse>, Status> {
        other()
    }

    async fn get_config(
        &self,
        _: Call<routing::GetConfigRequest>,
    ) -> Result<Answer<routing::GetConfigResponse>, Status> {
        other()
    }

    async fn list_generations(
        &self,
        _: Call<routing::ListGenerationsRequest>,
    ) -> Result<Answer<routing::ListGenerationsResponse>, Status> {
        other()
    }

    async fn get_config_status(
        &self,
        _: Call<routing::GetConfigStatusRequest>,
    ) -> Result<Answer<routing::GetConfigStatusResponse>, Status> {
        other()
    }
}

#[tonic::async_trait]
impl RoutingService for Routing {
    async fn route_event(
        &self,
        _: Call<routing::RouteEventRequest>,
    ) -> Result<Answer<routing::RouteEventResponse>, Status> {
        other()
    }

    async fn skip_event(
        &self,
        call: Call<routing::SkipEventRequest>,
    ) -> Result<Answer<routing::SkipEventResponse>, Status> {
        let mut seen = self.0.note("SkipEvent", &call);
        let r = call.into_inner();
        seen.operate = Some((r.event, r.source, r.id, r.reason, r.request_id));
        self.0.push(seen);
        let record = types::RouteRecord {
            generation: 4,
            disposition: 9,
            ..Default::default()
        };
        Ok(Answer::new(routing::SkipEventResponse {
            record: Some(record),
            control_event: "c".to_owned(),
        }))
    }

    async fn reroute_event(
        &self,
        call: Call<routing::RerouteEventRequest>,
    ) -> Result<Answer<routing::RerouteEventResponse>, Status> {
        let mut seen = self.0.note("RerouteEvent", &call);
        let r = call.into_inner();
        seen.operate = Some((r.event, r.source, r.id, r.reason, r.request_id));
        self.0.push(seen);
        Err(refusal(tonic::Code::FailedPrecondition, "ALREADY_ROUTED"))
    }

    type BulkSkipStream = Never<routing::BulkSkipResponse>;

    async fn bulk_skip(
        &self,
        _: Call<routing::BulkSkipRequest>,
    ) -> Result<Answer<Self::BulkSkipStream>, Status> {
        other()
    }

    type BulkRerouteStream = Never<routing::BulkRerouteResponse>;

    async fn bulk_reroute(
        &self,
        _: Call<routing::BulkRerouteRequest>,
    ) -> Result<Answer<Self::BulkRerouteStream>, Status> {
        other()
    }

    async fn trace(
        &self,
        call: Call<routing::TraceRequest>,
    ) -> Result<Answer<routing::TraceResponse>, Status> {
        self.0.push(self.0.note("Trace", &call));
        let request = call.into_inner();
        Ok(Answer::new(routing::TraceResponse {
            generation: "4".to_owned(),
            keys: request.keys,
            accepted_as: request.filter,
            ..Default::default()
        }))
    }

    async fn trace_candidate(
        &self,
        call: Call<routing::TraceCandidateRequest>,
    ) -> Result<Answer<routing::TraceCandidateResponse>, Status> {
        self.0.push(self.0.note("TraceCandidate", &call));
        let routing::TraceCandidateRequest { trace, document } = call.into_inner();
        let trace = trace.map(|trace| routing::TraceResponse {
            generation: "candidate".to_owned(),
            keys: trace.keys,
            accepted_as: document,
            ..Default::default()
        });
        Ok(Answer::new(routing::TraceCandidateResponse { trace }))
    }

    async fn list_samples(
        &self,
        _: Call<routing::ListSamplesRequest>,
    ) -> Result<Answer<routing::ListSamplesResponse>, Status> {
        other()
    }

    async fn explain(
        &self,
        _: Call<routing::ExplainRequest>,
    ) -> Result<Answer<routing::ExplainResponse>, Status> {
        other()
    }

    type WhatIfStream = Never<routing::WhatIfResponse>;

    async fn what_if(
        &self,
        _: Call<routing::WhatIfRequest>,
    ) -> Result<Answer<Self::WhatIfStream>, Status> {
        other()
    }

    async fn hint(
        &self,
        _: Call<routing::HintRequest>,
    ) -> Result<Answer<routing::HintResponse>, Status> {
        other()
    }
}
