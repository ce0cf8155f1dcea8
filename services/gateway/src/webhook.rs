//! Signed webhooks: `POST /v1/hooks/{tenant}/{scope}/{source}`.
//!
//! A sender proves itself by the source's signature alone. Until it fits, nothing is parsed and nothing
//! is told: an unknown tenant, scope or source and a signature that does not fit answer alike, byte for
//! byte. The answer comes after the event is durable, so a sender that sees anything but 2xx sends
//! again, and the delivery id makes the repeat the same event (rule a01).

mod github;
mod secret;
mod signature;
mod source;

pub use secret::{DEVELOPMENT_SECRET, Secrets};
pub(crate) use source::Sources;

use crate::http::problem::Failure;
use crate::http::{json_answer, read_body};
use crate::{Call, Error, Gateway};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use source::{Source, SourceName};
use std::sync::Arc;
use tokio::time::Instant;
use tonic::{Code, Status};
use weir_kernel::limits::{MAX_IDENTIFIER, identifier};
use weir_proto::routing::v1 as routing;

/// What a sender reads.
#[derive(Debug, Serialize)]
struct Accepted {
    uid: String,
    deduplicated: bool,
}

/// Takes one delivery.
pub(crate) async fn deliver(
    State(gateway): State<Arc<Gateway>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let body = read_body("payload", body, &headers, gateway.max_payload).await?;
    // A path that is not UTF-8 names nothing.
    let Ok(Path((tenant, scope, source))) = path else {
        return Err(Error::WebhookRefused.into());
    };
    let name = SourceName {
        tenant,
        scope,
        source,
    };
    let call = gateway.webhook_call(&name.tenant, format!("webhook/{}", name.source), &headers);
    let found = if is_name(&name) {
        resolve(&gateway, &call, &name).await?
    } else {
        None
    };
    let kind = verify(&gateway, &name, found, &headers, &body).ok_or(Error::WebhookRefused)?;
    let event = match kind {
        Kind::Github => github::event(&name.scope, &name.source, &headers, body)?,
    };
    let request = routing::PublishRequest {
        scope: name.scope,
        event: Some(event),
        // Derived by routing, from the source's rules.
        keys: Vec::new(),
        targets: None,
    };
    let response = gateway
        .events()
        .publish(call.request(request))
        .await?
        .into_inner();
    let deduplicated = response.acceptance.is_some_and(|a| a.deduplicated);
    let answer = Accepted {
        uid: response.uid,
        deduplicated,
    };
    Ok(json_answer(StatusCode::ACCEPTED, &answer))
}

/// Says whether the three parts could name a source; what could not is not asked for.
fn is_name(name: &SourceName) -> bool {
    let source = format!("webhook/{}/{}", name.scope, name.source);
    [&name.tenant, &name.scope, &name.source, &source]
        .into_iter()
        .all(|part| identifier("name", part, MAX_IDENTIFIER).is_ok())
}

/// Asks routing for a source. None where there is no such source.
async fn resolve(
    gateway: &Gateway,
    call: &Call,
    name: &SourceName,
) -> Result<Option<Source>, Status> {
    if let Some(known) = gateway.sources.get(name, Instant::now()) {
        return Ok(Some(known));
    }
    let request = routing::ResolveSourceRequest {
        scope: name.scope.clone(),
        source: name.source.clone(),
    };
    match gateway.config().resolve_source(call.request(request)).await {
        Ok(response) => {
            let routing::ResolveSourceResponse {
                kind,
                secret,
                generation: _,
            } = response.into_inner();
            let source = Source { kind, secret };
            gateway
                .sources
                .put(name.clone(), source.clone(), Instant::now());
            Ok(Some(source))
        }
        Err(status) => match status.code() {
            // Whatever routing finds wrong with a name, the sender learns only that it is refused.
            Code::NotFound
            | Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated => Ok(None),
            _ => Err(status),
        },
    }
}

/// How a source signs.
enum Kind {
    Github,
}

/// Checks the signature over the body as it came. An unknown source goes the same way, with a secret
/// that nobody has, so that it takes about as long.
fn verify(
    gateway: &Gateway,
    name: &SourceName,
    source: Option<Source>,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<Kind> {
    let secret = source
        .as_ref()
        .and_then(|s| secret_of(gateway, &name.tenant, &s.secret));
    let usable = secret.as_ref().is_some_and(|s| !s.is_empty());
    let key = secret
        .filter(|s| !s.is_empty())
        .unwrap_or_else(|| vec![0; 32]);
    let signature = headers
        .get(signature::HEADER)
        .map_or(&b""[..], |v| v.as_bytes());
    let fits = signature::fits(&key, body, signature);
    match source?.kind.as_str() {
        "github" if fits && usable => Some(Kind::Github),
        "github" => None,
        other => {
            tracing::warn!(kind = other, "a webhook source is of an unknown kind");
            None
        }
    }
}

fn secret_of(gateway: &Gateway, tenant: &str, name: &str) -> Option<Vec<u8>> {
    let variable = secret::variable(tenant, name);
    match gateway.secrets.secret(&variable) {
        Some(secret) => Some(secret.expose().as_bytes().to_vec()),
        None if gateway.environment.is_development() => Some(DEVELOPMENT_SECRET.into()),
        None => {
            tracing::warn!(
                variable,
                "a webhook source has no secret, so its deliveries are refused"
            );
            None
        }
    }
}
