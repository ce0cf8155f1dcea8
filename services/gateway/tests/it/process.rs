//! The component as the runtime runs it: one port for gRPC, reflection, health and HTTP.

use crate::fake::{Record, World, echo};
use axum::body::Body;
use http_body_util::BodyExt as _;
use std::sync::Arc;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use weir_gateway::{Config, Upstreams, component};
use weir_proto::gateway::v1::control_service_client::ControlServiceClient;
use weir_runtime::{Drained, Environment, Running, ServeOptions};

async fn start(upstreams: Upstreams) -> Running {
    let secrets = Arc::new(|_: &str| None);
    let token = weir_rpc::Secret::default();
    let config = Config::default();
    let gateway = component(
        &config,
        Environment::Development,
        &token,
        upstreams,
        secrets,
    );
    Running::start(vec![gateway.expect("starts")], ServeOptions::local())
        .await
        .expect("free ports")
}

fn channel(running: &Running) -> weir_rpc::Upstream {
    weir_rpc::remote(&format!("http://{}", running.addr())).expect("an address")
}

async fn health(running: &Running, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(channel(running)).check(request).await;
    answer
        .map(|a| a.into_inner().status())
        .map_err(|status| status.code())
}

#[tokio::test]
async fn m04_a_lost_service_is_not_serving_and_the_gateway_stays_ready() {
    let record = Record::default();
    // An echo answers health with its own request, an empty message: the zero, which is not SERVING.
    let upstreams = Upstreams {
        routing: weir_rpc::local(tonic::service::Routes::default()),
        lifecycle: echo("lifecycle", record),
        ..World::nobody()
    };
    let running = start(upstreams).await;
    running.ready().await;
    assert_eq!(health(&running, "").await, Ok(ServingStatus::Serving));
    for (service, expected) in [
        ("weir.gateway.v1.ControlService", ServingStatus::Serving),
        ("weir.routing.v1.EventService", ServingStatus::Serving),
        ("weir.lifecycle.v1.WorkService", ServingStatus::NotServing),
        ("weir.causal.v1.CausalService", ServingStatus::NotServing),
        (
            "weir.migration.v1.MigrationService",
            ServingStatus::NotServing,
        ),
    ] {
        assert_eq!(health(&running, service).await, Ok(expected), "{service}");
    }
    assert_eq!(running.stop().await, Drained::Fully);
}

#[tokio::test]
async fn o01_health_and_reflection_need_no_identity_and_everything_else_does() {
    let running = start(World::nobody()).await;
    running.ready().await;
    // What `grpcurl list` asks first: the methods of reflection are there, without identity.
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let request = http::Request::post(path)
            .header("content-type", "application/grpc")
            .body(tonic::body::Body::empty())
            .expect("a request");
        let reply = tower::ServiceExt::oneshot(channel(&running), request)
            .await
            .expect("answers");
        let trailers = reply
            .into_body()
            .collect()
            .await
            .expect("ends")
            .trailers()
            .cloned();
        assert_eq!(trailers.expect("a stream's end")["grpc-status"], "0");
    }
    let mut control = ControlServiceClient::new(channel(&running));
    let refused = control.get_server_info(weir_proto::gateway::v1::GetServerInfoRequest {});
    assert_eq!(
        refused.await.expect_err("nobody").code(),
        Code::Unauthenticated
    );
    let http = tower::ServiceExt::oneshot(
        channel(&running),
        http::Request::get("/health/ready")
            .body(tonic::body::Body::empty())
            .expect("a request"),
    );
    assert_eq!(http.await.expect("answers").status(), 200);
    let metrics = tower::ServiceExt::oneshot(
        channel(&running),
        http::Request::get("/metrics")
            .body(tonic::body::Body::empty())
            .expect("a request"),
    );
    assert_eq!(
        metrics.await.expect("answers").status(),
        404,
        "metrics are on the health port only"
    );
    assert_eq!(running.stop().await, Drained::Fully);
}

#[tokio::test]
async fn one_port_answers_browsers_and_grpc() {
    let running = start(World::nobody()).await;
    let get = |path: &str| {
        let request = http::Request::get(path.to_owned()).body(tonic::body::Body::empty());
        tower::ServiceExt::oneshot(channel(&running), request.expect("a request"))
    };
    let reply = get("/nowhere").await.expect("answers");
    assert_eq!(reply.status(), 404);
    assert_eq!(reply.headers()["content-type"], "application/problem+json");
    assert!(reply.headers().contains_key("x-request-id"));
    assert_eq!(get("/health/live").await.expect("answers").status(), 200);
    let body = Body::new(get("/nowhere").await.expect("answers").into_body());
    let text = body.collect().await.expect("ends").to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("PATH_NOT_FOUND"));
    assert_eq!(running.stop().await, Drained::Fully);
}
