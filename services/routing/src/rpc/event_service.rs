//! `weir.routing.v1.EventService`: decode, run, encode.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use weir_kernel::{ScopeId, TenantId};
use weir_pg::Db;
use weir_proto::routing::v1 as wire;
use weir_rpc::{Caller, status};

use super::convert::{self, refused};
use crate::Hints;
use crate::command::EventRef;
use crate::generation::Generations;
use crate::publish::Publisher;
use crate::query::event;
use crate::query::list::{Filter, ListEvents};
use crate::query::watch::{Start, Watch};
use crate::query::{self, Error};

/// The service.
#[derive(Clone)]
pub(crate) struct Events {
    db: Db,
    generations: Generations,
    publisher: Publisher,
    hint: Arc<Notify>,
    shutdown: CancellationToken,
}

impl Events {
    /// Makes the service. Watchers look at once when `hints` say that something was decided;
    /// `shutdown` ends their streams.
    #[must_use]
    pub(crate) fn new(
        db: Db,
        generations: Generations,
        publisher: Publisher,
        hints: &Hints,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            db,
            generations,
            publisher,
            hint: Arc::clone(&hints.routed),
            shutdown,
        }
    }

    async fn tenant(&self, caller: &Caller) -> Result<TenantId, Status> {
        self.generations
            .tenant(&caller.tenant)
            .await
            .map_err(status)
    }

    async fn scope(&self, tenant: TenantId, name: &str) -> Result<Option<ScopeId>, Error> {
        let Some(name) = convert::identifier("scope", name)? else {
            return Ok(None);
        };
        let mut tx = self.db.snapshot().await?;
        query::scope(&mut tx, tenant, name).await.map(Some)
    }
}

#[tonic::async_trait]
impl wire::event_service_server::EventService for Events {
    async fn publish(
        &self,
        request: Request<wire::PublishRequest>,
    ) -> Result<Response<wire::PublishResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        self.publisher
            .publish(&caller, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn publish_batch(
        &self,
        request: Request<wire::PublishBatchRequest>,
    ) -> Result<Response<wire::PublishBatchResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        self.publisher
            .publish_batch(&caller, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn get_event(
        &self,
        request: Request<wire::GetEventRequest>,
    ) -> Result<Response<wire::GetEventResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let wire::GetEventRequest {
            event,
            source,
            id,
            omit_data,
        } = request.into_inner();
        let name = EventRef::parse(&event, &source, &id).map_err(status)?;
        let tenant = self.tenant(&caller).await?;
        let found = event::read(&self.db, tenant, &name, !omit_data)
            .await
            .map_err(refused)?;
        Ok(Response::new(wire::GetEventResponse {
            event: Some(convert::event_to_proto(found)),
        }))
    }

    async fn list_events(
        &self,
        request: Request<wire::ListEventsRequest>,
    ) -> Result<Response<wire::ListEventsResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let request = request.into_inner();
        let filter = filter(&request).map_err(refused)?;
        let page_size = convert::page_size(request.page_size).map_err(refused)?;
        let tenant = self.tenant(&caller).await?;
        let list = ListEvents {
            tenant,
            scope: self.scope(tenant, &request.scope).await.map_err(refused)?,
            filter,
            page_size,
            with_data: request.include_data,
            page_token: request.page_token,
        };
        let page = list.run(&self.db).await.map_err(refused)?;
        Ok(Response::new(wire::ListEventsResponse {
            events: page
                .events
                .into_iter()
                .map(convert::event_to_proto)
                .collect(),
            next_page_token: page.next_page_token,
        }))
    }

    async fn get_route(
        &self,
        request: Request<wire::GetRouteRequest>,
    ) -> Result<Response<wire::GetRouteResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let wire::GetRouteRequest { event, source, id } = request.into_inner();
        let name = EventRef::parse(&event, &source, &id).map_err(status)?;
        let tenant = self.tenant(&caller).await?;
        let found = event::read(&self.db, tenant, &name, false)
            .await
            .map_err(refused)?;
        let (record, pending) = convert::standing(&found);
        Ok(Response::new(wire::GetRouteResponse {
            record,
            pending,
            event: found.uid.to_string(),
        }))
    }

    type WatchEventsStream = BoxStream<'static, Result<wire::WatchEventsResponse, Status>>;

    async fn watch_events(
        &self,
        request: Request<wire::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let caller = Caller::from_request(&request)?;
        let request = request.into_inner();
        let start = match (request.resume_token.as_str(), request.from_start) {
            ("", false) => Start::Now,
            ("", true) => Start::Oldest,
            // A client that reconnects repeats its request and adds the token; the token wins.
            (token, _) => Start::Resume(token),
        };
        let tenant = self.tenant(&caller).await?;
        let scope = self.scope(tenant, &request.scope).await.map_err(refused)?;
        let watch = Watch::start(
            self.db.clone(),
            tenant,
            scope,
            start,
            request.include_data,
            Arc::clone(&self.hint),
            self.shutdown.clone(),
        );
        let watch = watch.await.map_err(refused)?;
        // Ends after the first error, as a stream does.
        let messages = futures::stream::unfold(Some(watch), async |watch| {
            let mut watch = watch?;
            Some(match watch.next().await {
                Ok(message) => {
                    let answer = wire::WatchEventsResponse {
                        event: Some(convert::event_to_proto(message.event)),
                        update: message.update,
                        resume_token: message.resume_token,
                    };
                    (Ok(answer), Some(watch))
                }
                Err(error) => (Err(refused(error)), None),
            })
        });
        Ok(Response::new(messages.boxed()))
    }
}

fn filter(request: &wire::ListEventsRequest) -> Result<Filter, Error> {
    let disposition = match request.disposition {
        Some(number) => Some(convert::disposition("disposition", number)?),
        None => None,
    };
    if request.unrouted && disposition.is_some() {
        return Err(Error::field(
            "unrouted",
            "excludes `disposition`: what is unrouted has none",
        ));
    }
    Ok(Filter {
        kind: convert::identifier("type", &request.r#type)?.map(str::to_owned),
        disposition,
        work: convert::work("work", &request.work)?,
        unrouted: request.unrouted,
    })
}
