//! `weir.routing.v1.ConfigService`: decode, run, encode.

use tonic::{Request, Response, Status};
use weir_pg::Db;
use weir_proto::routing::v1 as wire;
use weir_rpc::convert::timestamp;
use weir_rpc::{Caller, status};

use super::convert::{self, refused};
use crate::command::publish_config::{
    self, Prepared, PublishConfig, prepare, registration_warnings,
};
use crate::generation::Generations;
use crate::query::{self, Error};
use crate::replica::Replica;
use crate::tenant::WebhookKind;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Configs {
    db: Db,
    generations: Generations,
    replica: Replica,
}

impl Configs {
    /// Makes the service. A publication is seen by `generations` before it is answered.
    #[must_use]
    pub(crate) fn new(db: Db, generations: Generations, replica: Replica) -> Self {
        Self {
            db,
            generations,
            replica,
        }
    }

    /// Adds what only the tenant's registrations can say. A document is checked before a tenant
    /// exists, too.
    async fn with_registrations(
        &self,
        tenant: &str,
        prepared: &Prepared,
    ) -> Result<Vec<crate::tenant::Problem>, Error> {
        let tenant = match weir_ledger::tenant::resolve(&self.db, tenant).await {
            Ok((tenant, _)) => Some(tenant),
            Err(weir_ledger::Error::TenantNotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let mut tx = self.db.snapshot().await?;
        let registration = registration_warnings(&mut tx, tenant, &prepared.compiled).await?;
        Ok(prepared
            .warnings
            .iter()
            .cloned()
            .chain(registration)
            .collect())
    }
}

#[tonic::async_trait]
impl wire::config_service_server::ConfigService for Configs {
    async fn resolve_source(
        &self,
        request: Request<wire::ResolveSourceRequest>,
    ) -> Result<Response<wire::ResolveSourceResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let wire::ResolveSourceRequest { scope, source } = request.into_inner();
        let not_found = || refused(Error::SourceNotFound(format!("{scope}/{source}")));
        let generation = match self.generations.current(&caller.tenant).await {
            Ok(generation) => generation,
            // Whoever asks for a webhook is not known yet and learns nothing about tenants.
            Err(crate::generation::Error::Ledger(weir_ledger::Error::TenantNotFound(_))) => {
                return Err(not_found());
            }
            Err(error) => return Err(status(error)),
        };
        let webhook = generation
            .compiled
            .scope(&scope)
            .and_then(|s| s.resolve_source(&source))
            .and_then(|s| s.webhook.as_ref())
            .ok_or_else(not_found)?;
        let kind = match webhook.kind {
            WebhookKind::Github => "github",
        };
        Ok(Response::new(wire::ResolveSourceResponse {
            kind: kind.to_owned(),
            secret: webhook.secret.clone(),
            generation: generation.number,
        }))
    }

    async fn validate_config(
        &self,
        request: Request<wire::ValidateConfigRequest>,
    ) -> Result<Response<wire::ValidateConfigResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let (valid, problems) = match prepare(request.into_inner().document).await {
            Ok(prepared) => (
                true,
                self.with_registrations(&caller.tenant, &prepared)
                    .await
                    .map_err(refused)?,
            ),
            Err(publish_config::Error::Invalid(problems)) => (false, problems),
            Err(error) => return Err(status(error)),
        };
        let problems = problems
            .into_iter()
            .map(convert::problem_to_proto)
            .collect();
        Ok(Response::new(wire::ValidateConfigResponse {
            valid,
            problems,
        }))
    }

    async fn publish_config(
        &self,
        request: Request<wire::PublishConfigRequest>,
    ) -> Result<Response<wire::PublishConfigResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let wire::PublishConfigRequest {
            document,
            expected_generation,
            request_id,
        } = request.into_inner();
        let prepared = prepare(document).await.map_err(status)?;
        let command = PublishConfig::new(
            caller.tenant.clone(),
            caller.actor,
            prepared,
            expected_generation,
            request_id,
        )
        .map_err(status)?;
        let published = self.db.run(&command).await.map_err(status)?;
        // It is committed whatever this says; routing asks by itself within a second.
        if let Err(error) = self.generations.refresh(&caller.tenant).await {
            tracing::debug!(
                error = weir_rpc::chain(&error),
                "the new generation is not loaded yet"
            );
        }
        Ok(Response::new(convert::published_to_proto(published)))
    }

    async fn get_config(
        &self,
        request: Request<wire::GetConfigRequest>,
    ) -> Result<Response<wire::GetConfigResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let generation = request.into_inner().generation;
        if generation < 0 {
            return Err(refused(Error::field(
                "generation",
                "is negative; 0 is the current one",
            )));
        }
        let (tenant, _) = weir_ledger::tenant::resolve(&self.db, &caller.tenant)
            .await
            .map_err(status)?;
        let (publication, document) = query::config::get(&self.db, tenant, generation)
            .await
            .map_err(refused)?;
        let generation = Some(convert::generation_to_proto(publication));
        Ok(Response::new(wire::GetConfigResponse {
            generation,
            document,
        }))
    }

    async fn list_generations(
        &self,
        request: Request<wire::ListGenerationsRequest>,
    ) -> Result<Response<wire::ListGenerationsResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let wire::ListGenerationsRequest {
            page_size,
            page_token,
        } = request.into_inner();
        let page_size = convert::page_size(page_size).map_err(refused)?;
        let (tenant, _) = weir_ledger::tenant::resolve(&self.db, &caller.tenant)
            .await
            .map_err(status)?;
        let (found, next_page_token) =
            query::config::list(&self.db, tenant, page_size, &page_token)
                .await
                .map_err(refused)?;
        let generations = found
            .into_iter()
            .map(convert::generation_to_proto)
            .collect();
        Ok(Response::new(wire::ListGenerationsResponse {
            generations,
            next_page_token,
        }))
    }

    async fn get_config_status(
        &self,
        request: Request<wire::GetConfigStatusRequest>,
    ) -> Result<Response<wire::GetConfigStatusResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let (tenant, generation) = weir_ledger::tenant::resolve(&self.db, &caller.tenant)
            .await
            .map_err(status)?;
        let replicas = self.replica.status(tenant).await.map_err(status)?;
        let replicas = replicas.into_iter().map(|r| wire::ReplicaStatus {
            replica: r.replica.to_string(),
            generation: r.generation,
            seen_at: Some(timestamp(r.seen_at)),
        });
        Ok(Response::new(wire::GetConfigStatusResponse {
            generation,
            replicas: replicas.collect(),
        }))
    }
}
