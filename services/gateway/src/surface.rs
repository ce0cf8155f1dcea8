//! The port: everything that is served on it, as one router.

use crate::access::{Access, ContractError, Owner};
use crate::control::Control;
use crate::identity::{Identity, IdentityNotAllowed};
use crate::webhook::{Secrets, Sources};
use crate::{Gateway, Upstreams, forward, health, http};
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum::{Router, middleware};
use std::sync::Arc;
use tonic_web::GrpcWebLayer;
use tower::ServiceExt as _;
use weir_proto::gateway::v1::control_service_server::{ControlServiceServer, SERVICE_NAME};
use weir_rpc::{InvalidUpstream, Secret};
use weir_runtime::{CancellationToken, Environment};

/// What decides how the gateway behaves, beside the contracts.
pub struct Settings {
    /// How callers prove who they are.
    pub identity: Identity,
    /// Where the process runs.
    pub environment: Environment,
    /// Shared token that services expect from the gateway; none where mutual TLS or one process
    /// makes it needless.
    pub token: Option<Secret>,
    /// Largest payload over HTTP, in bytes (rule a05).
    pub max_payload: usize,
    /// Gives webhook secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Ends streams when the process drains (rule o02).
    pub stop: CancellationToken,
}

/// Why the gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The identity kind is not for this environment.
    #[error(transparent)]
    Identity(#[from] IdentityNotAllowed),
    /// The contracts cannot be served.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The token cannot be sent.
    #[error(transparent)]
    Upstream(#[from] InvalidUpstream),
}

/// The gateway's port.
#[derive(Clone)]
pub struct Surface {
    gateway: Arc<Gateway>,
}

impl Surface {
    /// Makes the surface.
    ///
    /// # Errors
    /// The identity kind is not for this environment (rule o03), or the contracts cannot be served.
    pub fn new(settings: Settings, upstreams: Upstreams) -> Result<Self, StartError> {
        settings.identity.allowed_in(settings.environment)?;
        let upstreams = match &settings.token {
            Some(token) => upstreams.try_map(|upstream| weir_rpc::with_token(upstream, token))?,
            None => upstreams,
        };
        let access = Access::from_descriptors(&weir_proto::DESCRIPTORS)?;
        let gateway = Gateway {
            identity: settings.identity,
            environment: settings.environment,
            access,
            upstreams,
            max_payload: settings.max_payload,
            secrets: settings.secrets,
            sources: Sources::default(),
            stop: settings.stop,
        };
        Ok(Self {
            gateway: Arc::new(gateway),
        })
    }

    /// Returns the gRPC side: `ControlService`, and a fallback that forwards.
    fn grpc(&self) -> Router {
        let control = ControlServiceServer::new(Control::new(self.gateway.clone()))
            .max_decoding_message_size(weir_rpc::MAX_DECODED);
        Router::new()
            .route_service(
                &format!("/{SERVICE_NAME}/{{*method}}"),
                control.map_request(|request: Request| request.map(tonic::body::Body::new)),
            )
            .fallback(forward::forward)
            .layer(middleware::from_fn_with_state(
                self.gateway.clone(),
                forward::admit,
            ))
            .with_state(self.gateway.clone())
            .layer(GrpcWebLayer::new())
    }

    /// Returns all that the gateway serves: the HTTP routes, and as their fallback gRPC. Needs the
    /// layers of [`weir_rpc::layered_router`] around it, which the runtime puts.
    pub fn router(&self) -> Router {
        let grpc = self.grpc();
        http::router(self.gateway.clone())
            .fallback(move |request: Request| split(grpc.clone(), request))
    }

    /// Returns whether the services of an owner answer and serve (rule m04).
    pub async fn serves(&self, owner: Owner) -> bool {
        match self.gateway.guard(owner) {
            Some(guard) => health::serves(guard).await,
            None => true,
        }
    }

    /// Returns the names of the services behind each upstream, for health.
    #[must_use]
    pub fn services_of(&self, owner: Owner) -> Vec<String> {
        self.gateway.access().services_of(owner)
    }
}

/// Tells gRPC from the rest. What is not gRPC gets a problem document: gRPC-Web would answer it an empty
/// 400.
async fn split(grpc: Router, request: Request) -> Response {
    let is_grpc = request
        .headers()
        .get(::http::header::CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if !is_grpc {
        return http::not_found(request.uri().path());
    }
    match grpc.oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}
