//! `weir.routing.v1.RoutingService`: what operators do with events, behind the gateway.

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use tonic::{Request, Response, Status};
use weir_kernel::limits::{MAX_IDENTIFIER, MAX_TEXT, optional_identifier, required_text};
use weir_kernel::{PendingState, TenantId};
use weir_ledger::request::RequestKey;
use weir_proto::routing::v1 as proto;
use weir_proto::routing::v1::routing_service_server::RoutingService;
use weir_rpc::{Caller, status, unimplemented};

use super::convert;
use crate::command::EventRef;
use crate::command::reroute::RerouteEvent;
use crate::command::skip::SkipEvent;
use crate::generation::Generations;
use crate::publish::Publisher;
use crate::query;
use crate::route::evaluate::Context;
use crate::route::snapshot::pending;
use crate::{Error, Hints};

/// How long `RouteEvent` waits for the loop to decide.
const DECIDE: Duration = Duration::from_secs(10);
/// How often it looks without a hint.
const LOOK: Duration = Duration::from_millis(50);
const LATER: &str = "comes with a later version";

/// Serves the routing service.
pub(crate) struct Routing {
    pub(crate) context: Context,
    pub(crate) generations: Generations,
    pub(crate) publisher: Publisher,
    pub(crate) hints: Hints,
}

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Digest of an operator's request, without its id (rule o08).
fn content(event: &EventRef, reason: &str) -> uuid::Uuid {
    let mut digest = weir_kernel::content::ContentDigest::default();
    match event {
        EventRef::Uid(uid) => digest.field("event", uid.0.as_bytes()),
        EventRef::Identity(source, id) => digest
            .field("source", source.as_bytes())
            .field("id", id.as_bytes()),
    };
    digest.field("reason", reason.as_bytes());
    digest.finish()
}

impl Routing {
    async fn operator(
        &self,
        caller: &Caller,
        method: &'static str,
        event: &EventRef,
        reason: &str,
        request_id: String,
    ) -> Result<RequestKey, Error> {
        required_text("reason", reason, MAX_TEXT).map_err(|v| Error::Invalid(vec![v]))?;
        optional_identifier("request_id", &request_id, MAX_IDENTIFIER)
            .map_err(|v| Error::Invalid(vec![v]))?;
        let (tenant, _) = weir_ledger::tenant::resolve(&self.context.db, &caller.tenant).await?;
        Ok(RequestKey {
            tenant,
            actor: caller.actor.clone(),
            method,
            request_id,
            content: content(event, reason),
        })
    }

    async fn skip(
        &self,
        caller: &Caller,
        r: proto::SkipEventRequest,
    ) -> Result<proto::SkipEventResponse, Error> {
        let event = EventRef::parse(&r.event, &r.source, &r.id)?;
        let method = "weir.gateway.v1.ControlService/SkipEvent";
        let request = self
            .operator(caller, method, &event, &r.reason, r.request_id)
            .await?;
        let command = SkipEvent {
            tenant: request.tenant,
            event,
            actor: caller.actor.clone(),
            reason: r.reason,
            request,
        };
        let response = self.context.db.run(&command).await?;
        self.hints.accepted.tell();
        self.hints.routed.notify_waiters();
        Ok(response)
    }

    async fn reroute(
        &self,
        caller: &Caller,
        r: proto::RerouteEventRequest,
    ) -> Result<proto::RerouteEventResponse, Error> {
        let event = EventRef::parse(&r.event, &r.source, &r.id)?;
        let method = "weir.gateway.v1.ControlService/RerouteEvent";
        let request = self
            .operator(caller, method, &event, &r.reason, r.request_id)
            .await?;
        let command = RerouteEvent {
            tenant: request.tenant,
            event,
            actor: caller.actor.clone(),
            reason: r.reason,
            request,
        };
        let response = self.context.db.run(&command).await?;
        self.hints.accepted.tell();
        Ok(response)
    }

    /// Waits until the loop decided the event, counted a failure of it or set it aside (rule r16). What it was held
    /// for may be over: then it is decided now, and the old failure is no answer.
    async fn route(
        &self,
        caller: &Caller,
        r: proto::RouteEventRequest,
    ) -> Result<proto::RouteEventResponse, Error> {
        let event = EventRef::parse(&r.event, &r.source, &r.id)?;
        let deadline = tokio::time::Instant::now() + DECIDE;
        loop {
            let woken = self.hints.routed.notified();
            self.hints.accepted.tell();
            let (tenant, generation) =
                weir_ledger::tenant::resolve(&self.context.db, &caller.tenant).await?;
            let found = query::event::read(&self.context.db, tenant, &event, false).await?;
            let settled = !found.is_pending() || self.set_aside(tenant, generation, &found).await?;
            if settled || tokio::time::Instant::now() >= deadline {
                // Read after the look at it: it may have been decided in between.
                let found = query::event::read(&self.context.db, tenant, &event, false).await?;
                let (record, pending) = convert::standing(&found);
                return Ok(proto::RouteEventResponse { record, pending });
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn samples(
        &self,
        caller: &Caller,
        scope: &str,
    ) -> Result<proto::ListSamplesResponse, Error> {
        let generation = self.generations.current(&caller.tenant).await?;
        let mut conn = self.context.db.acquire().await?;
        let now = sqlx::query_scalar("SELECT weir.clock()")
            .fetch_one(&mut *conn)
            .await?;
        drop(conn);
        let (registry, max) = (&self.context.registry, self.publisher.max_payload());
        let samples = crate::handler::samples::list(registry, &generation, scope, now, max).await?;
        let samples = samples.into_iter().map(|(route, sample)| proto::Sample {
            route,
            name: sample.name,
            event: Some(weir_rpc::convert::envelope_to_proto(sample.event)),
            keys: sample.keys,
        });
        Ok(proto::ListSamplesResponse {
            samples: samples.collect(),
        })
    }

    /// Says that an undecided event is not to be decided before something else happens.
    async fn set_aside(
        &self,
        tenant: TenantId,
        generation: i64,
        event: &query::event::EventRecord,
    ) -> Result<bool, Error> {
        let mut conn = self.context.db.acquire().await?;
        let rows = pending(
            &mut conn,
            tenant,
            event.scope_id,
            event.seq - 1,
            generation,
            1,
        )
        .await?;
        // Its row is gone when it was decided meanwhile.
        Ok(rows
            .first()
            .is_some_and(|row| row.seq == event.seq && !row.due && row.state != PendingState::Due))
    }
}

#[tonic::async_trait]
impl RoutingService for Routing {
    type BulkSkipStream = Streamed<proto::BulkSkipResponse>;
    type BulkRerouteStream = Streamed<proto::BulkRerouteResponse>;
    type WhatIfStream = Streamed<proto::WhatIfResponse>;

    async fn route_event(
        &self,
        request: Request<proto::RouteEventRequest>,
    ) -> Result<Response<proto::RouteEventResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        self.route(&caller, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn skip_event(
        &self,
        request: Request<proto::SkipEventRequest>,
    ) -> Result<Response<proto::SkipEventResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        self.skip(&caller, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn reroute_event(
        &self,
        request: Request<proto::RerouteEventRequest>,
    ) -> Result<Response<proto::RerouteEventResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        self.reroute(&caller, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn trace(
        &self,
        request: Request<proto::TraceRequest>,
    ) -> Result<Response<proto::TraceResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let max = self.publisher.max_payload();
        crate::trace::trace(
            &self.context,
            &self.generations,
            &caller,
            request.into_inner(),
            max,
        )
        .await
        .map(Response::new)
        .map_err(status)
    }

    async fn bulk_skip(
        &self,
        _: Request<proto::BulkSkipRequest>,
    ) -> Result<Response<Self::BulkSkipStream>, Status> {
        Err(unimplemented(
            "weir.routing.v1.RoutingService/BulkSkip",
            LATER,
        ))
    }

    async fn bulk_reroute(
        &self,
        _: Request<proto::BulkRerouteRequest>,
    ) -> Result<Response<Self::BulkRerouteStream>, Status> {
        Err(unimplemented(
            "weir.routing.v1.RoutingService/BulkReroute",
            LATER,
        ))
    }

    async fn trace_candidate(
        &self,
        request: Request<proto::TraceCandidateRequest>,
    ) -> Result<Response<proto::TraceCandidateResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let max = self.publisher.max_payload();
        crate::trace::trace_candidate(&self.context, &caller, request.into_inner(), max)
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn list_samples(
        &self,
        request: Request<proto::ListSamplesRequest>,
    ) -> Result<Response<proto::ListSamplesResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        self.samples(&caller, &request.into_inner().scope)
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn explain(
        &self,
        _: Request<proto::ExplainRequest>,
    ) -> Result<Response<proto::ExplainResponse>, Status> {
        Err(unimplemented(
            "weir.routing.v1.RoutingService/Explain",
            LATER,
        ))
    }

    async fn what_if(
        &self,
        _: Request<proto::WhatIfRequest>,
    ) -> Result<Response<Self::WhatIfStream>, Status> {
        Err(unimplemented(
            "weir.routing.v1.RoutingService/WhatIf",
            LATER,
        ))
    }

    async fn hint(
        &self,
        _: Request<proto::HintRequest>,
    ) -> Result<Response<proto::HintResponse>, Status> {
        self.hints.accepted.tell();
        Ok(Response::new(proto::HintResponse {}))
    }
}
