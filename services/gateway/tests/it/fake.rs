//! A gateway over recording services. Everything passes the real codec and the real router.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use std::sync::{Arc, Mutex};
use tonic::service::Routes;
use tonic::{Request as Call, Status};
use tower::ServiceExt as _;
use weir_gateway::identity::Identity;
use weir_gateway::{Settings, Surface, Upstreams};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::routing::v1::{self as routing};
use weir_rpc::{Secret, Upstream};
use weir_runtime::{CancellationToken, Environment};

pub(crate) const UID: &str = "0199c8a0-0000-7000-8000-000000000001";

/// One request that reached a service.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) service: &'static str,
    pub(crate) method: String,
    pub(crate) headers: HeaderMap,
    pub(crate) publish: Option<routing::PublishRequest>,
    pub(crate) batch: Option<routing::PublishBatchRequest>,
    pub(crate) operate: Option<(String, String, String, String, String)>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(values.next().is_none(), "`{name}` came twice");
        Some(value.to_str().expect("ASCII"))
    }

    pub(crate) fn event(&self) -> &CloudEvent {
        let publish = self.publish.as_ref().expect("a publish");
        publish.event.as_ref().expect("an event")
    }
}

/// What reached the services, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<Seen>>>);

impl Record {
    pub(crate) fn push(&self, seen: Seen) {
        self.0.lock().expect("no panic under the lock").push(seen);
    }

    pub(crate) fn note<T>(&self, method: &str, call: &Call<T>) -> Seen {
        Seen {
            service: "routing",
            method: method.to_owned(),
            headers: call.metadata().clone().into_headers(),
            publish: None,
            batch: None,
            operate: None,
        }
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.0.lock().expect("no panic under the lock").clone()
    }

    pub(crate) fn only(&self) -> Seen {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

/// A refusal as services make it.
pub(crate) fn refusal(code: tonic::Code, reason: &str) -> Status {
    use tonic_types::{ErrorDetails, StatusExt as _};
    let details = ErrorDetails::with_error_info(reason, "weir", []);
    Status::with_error_details(code, "as the service says", details)
}

/// A service that answers every method with the request's own bytes, and records it.
pub(crate) fn echo(service: &'static str, record: Record) -> Upstream {
    let router = axum::Router::new().fallback(move |request: Request| {
        let seen = Seen {
            service,
            method: request.uri().path().to_owned(),
            headers: request.headers().clone(),
            publish: None,
            batch: None,
            operate: None,
        };
        record.push(seen);
        async move {
            let trailers = async {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
                trailers.insert("x-kept", http::HeaderValue::from_static("trailer"));
                Some(Ok(trailers))
            };
            let body = request.into_body().with_trailers(trailers);
            let mut response = Response::new(Body::new(body));
            let headers = response.headers_mut();
            headers.insert(
                "content-type",
                http::HeaderValue::from_static("application/grpc"),
            );
            headers.insert("x-upstream", http::HeaderValue::from_static(service));
            response
        }
    });
    weir_rpc::local(Routes::from(router))
}

/// A service that nobody reaches.
pub(crate) fn unreachable() -> Upstream {
    Upstream::new(tower::service_fn(
        |_: http::Request<tonic::body::Body>| async {
            Err::<http::Response<tonic::body::Body>, _>(tower::BoxError::from("connection refused"))
        },
    ))
}

fn settings(environment: Environment) -> Settings {
    Settings {
        identity: Identity::Development,
        environment,
        token: Some(Secret::new("between-services")),
        max_payload: 1 << 20,
        secrets: Arc::new(|_: &str| None),
        stop: CancellationToken::new(),
    }
}

/// A gateway over recording services.
pub(crate) struct World {
    pub(crate) app: axum::Router,
    pub(crate) record: Record,
    pub(crate) stop: CancellationToken,
}

impl World {
    /// Every service echoes.
    pub(crate) fn echoing() -> Self {
        let record = Record::default();
        let upstreams = Upstreams {
            routing: echo("routing", record.clone()),
            lifecycle: echo("lifecycle", record.clone()),
            causal: echo("causal", record.clone()),
            migration: echo("migration", record.clone()),
        };
        Self::over(upstreams, record)
    }

    /// Routing answers as its contract says; the others cannot be reached.
    pub(crate) fn routing() -> Self {
        let record = Record::default();
        let routes = crate::routing::routes(record.clone());
        Self::over(
            Upstreams {
                routing: weir_rpc::local(routes),
                ..Self::nobody()
            },
            record,
        )
    }

    /// No service can be reached.
    pub(crate) fn nobody() -> Upstreams {
        Upstreams {
            routing: unreachable(),
            lifecycle: unreachable(),
            causal: unreachable(),
            migration: unreachable(),
        }
    }

    pub(crate) fn over(upstreams: Upstreams, record: Record) -> Self {
        let settings = settings(Environment::Development);
        let stop = settings.stop.clone();
        let surface = Surface::new(settings, upstreams).expect("starts");
        Self {
            app: weir_rpc::layered_router(surface.router(), None),
            record,
            stop,
        }
    }

    /// Sends one HTTP request.
    pub(crate) async fn send(&self, request: http::Request<Body>) -> Reply {
        let response = self
            .app
            .clone()
            .oneshot(request)
            .await
            .expect("a router answers");
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.expect("the body ends well");
        let trailers = collected.trailers().cloned().unwrap_or_default();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            trailers,
            body: collected.to_bytes().into(),
        }
    }

    /// A channel to the gateway for generated clients.
    pub(crate) fn channel(&self) -> Upstream {
        weir_rpc::local(Routes::from(self.app.clone()))
    }
}

/// An answer, read to its end.
#[derive(Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |v| v.to_str().expect("ASCII"))
    }

    /// The gRPC status, from headers or trailers.
    pub(crate) fn grpc(&self) -> Status {
        Status::from_header_map(&self.trailers)
            .or_else(|| Status::from_header_map(&self.headers))
            .expect("a gRPC answer has a status")
    }
}

/// The reason of a refusal.
pub(crate) fn reason(status: &Status) -> String {
    use tonic_types::StatusExt as _;
    status
        .get_details_error_info()
        .expect("every refusal has one")
        .reason
}

/// Starting in Production, as the gateway's binary does by default.
#[test]
fn o03_development_identity_does_not_start_in_production() {
    let refused = Surface::new(settings(Environment::Production), World::nobody())
        .err()
        .expect("refused");
    assert_eq!(
        refused.to_string(),
        "identity `development` is only allowed with WEIR_ENVIRONMENT=Development; JWT identity comes \
         with a later version, so this version does not start in Production"
    );
}
