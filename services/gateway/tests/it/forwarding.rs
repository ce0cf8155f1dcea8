//! What passes through, and what does not.

use crate::fake::{Record, Reply, World, reason};
use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use tonic::Code;
use weir_gateway::Upstreams;
use weir_gateway::access::{Access, Owner};

fn call(path: &str) -> http::request::Builder {
    http::Request::post(path)
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

fn message(bytes: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(bytes.len()).expect("small").to_be_bytes());
    framed.extend(bytes);
    framed
}

const PUBLISH: &str = "/weir.routing.v1.EventService/Publish";

async fn refused(world: &World, request: http::request::Builder) -> Reply {
    let reply = world
        .send(request.body(Body::from(message(b""))).expect("a request"))
        .await;
    assert_eq!(world.record.all().len(), 0, "nothing reaches a service");
    reply
}

#[tokio::test]
async fn o04_every_exposed_method_reaches_its_owner_unread() {
    let world = World::echoing();
    let access = Access::from_descriptors(&weir_proto::DESCRIPTORS).expect("contracts serve");
    let mut expected = Vec::new();
    for method in access.methods().filter(|m| m.owner != Owner::Gateway) {
        // Not even a protobuf message: it is never decoded.
        let body = message(b"\xff\xff not read \x00");
        let request = call(&method.path).header("x-weir-tenant", "demo");
        let reply = world
            .send(request.body(Body::from(body.clone())).expect("a request"))
            .await;
        assert_eq!(
            reply.header("x-upstream"),
            method.owner.to_string(),
            "{}",
            method.path
        );
        assert_eq!(reply.body, body);
        assert_eq!(reply.trailers["x-kept"], "trailer");
        assert_eq!(reply.grpc().code(), Code::Ok);
        expected.push((method.owner.to_string(), method.path.clone()));
    }
    let seen: Vec<_> = world
        .record
        .all()
        .into_iter()
        .map(|s| (s.service.to_owned(), s.method))
        .collect();
    assert_eq!(seen, expected);
    assert!(seen.len() > 35, "{}", seen.len());
}

#[tokio::test]
async fn o03_verified_identity_replaces_what_the_caller_said() {
    let world = World::echoing();
    let request = call(PUBLISH)
        .header("x-weir-tenant", "demo")
        .header("x-weir-actor", "me")
        .header("x-weir-permissions", "events.publish, work.read")
        .header("x-weir-internal-token", "forged")
        .header("x-weir-root", "forged")
        .header("authorization", "Bearer forged")
        .header("x-request-id", "r-1")
        .header("traceparent", "00-a-b-01")
        .header("x-mine", "kept");
    let reply = world
        .send(request.body(Body::from(message(b""))).expect("a request"))
        .await;
    assert_eq!(reply.header("x-request-id"), "r-1");
    let seen = world.record.only();
    assert_eq!(seen.header("x-weir-tenant"), Some("demo"));
    assert_eq!(seen.header("x-weir-actor"), Some("me"));
    assert_eq!(
        seen.header("x-weir-permissions"),
        Some("events.publish,work.read")
    );
    assert_eq!(
        seen.header("x-weir-internal-token"),
        Some("between-services")
    );
    assert_eq!(seen.header("x-weir-root"), None);
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("x-request-id"), Some("r-1"));
    assert_eq!(seen.header("traceparent"), Some("00-a-b-01"));
    assert_eq!(seen.header("x-mine"), Some("kept"));
}

#[tokio::test]
async fn o04_identity_comes_before_permission_and_permission_before_existence() {
    let world = World::echoing();
    let nobody = refused(&world, call(PUBLISH).header("x-weir-permissions", "none"))
        .await
        .grpc();
    assert_eq!(
        (nobody.code(), reason(&nobody).as_str()),
        (Code::Unauthenticated, "IDENTITY_MISSING")
    );
    assert!(
        nobody.message().contains("`x-weir-tenant`"),
        "{}",
        nobody.message()
    );
    let request = call(PUBLISH)
        .header("x-weir-tenant", "demo")
        .header("x-weir-permissions", "events.read");
    let denied = refused(&world, request).await.grpc();
    assert_eq!(
        (denied.code(), reason(&denied).as_str()),
        (Code::PermissionDenied, "PERMISSION_DENIED")
    );
    assert!(
        denied.message().contains("`events.publish`"),
        "{}",
        denied.message()
    );
}

#[tokio::test]
async fn o04_internal_and_unknown_methods_are_not_exposed() {
    let world = World::echoing();
    for path in [
        "/weir.routing.v1.RoutingService/SkipEvent",
        "/weir.routing.v1.ConfigService/ResolveSource",
        "/weir.migration.v1.InspectService/Diagnose",
        "/weir.routing.v1.EventService/Nope",
        "/nope.Nope/Nope",
        "/weir.gateway.v1.ControlService/Nope",
    ] {
        let status = refused(&world, call(path).header("x-weir-tenant", "demo"))
            .await
            .grpc();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::Unimplemented, "METHOD_NOT_EXPOSED")
        );
        let method = path.trim_start_matches('/');
        assert_eq!(
            status.message(),
            format!("method `{method}` is not exposed")
        );
    }
}

#[tokio::test]
async fn m04_an_unreachable_service_makes_its_methods_unavailable() {
    use tonic_types::StatusExt as _;
    let record = Record::default();
    let upstreams = Upstreams {
        lifecycle: crate::fake::echo("lifecycle", record.clone()),
        ..World::nobody()
    };
    let world = World::over(upstreams, record);
    let request = call(PUBLISH).header("x-weir-tenant", "demo");
    let status = refused(&world, request).await.grpc();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "UPSTREAM_UNAVAILABLE")
    );
    let retry = status
        .get_details_retry_info()
        .and_then(|info| info.retry_delay);
    assert_eq!(retry, Some(weir_gateway::UPSTREAM_RETRY));
    let other = call("/weir.lifecycle.v1.WorkService/GetWork").header("x-weir-tenant", "demo");
    let reply = world
        .send(other.body(Body::from(message(b""))).expect("a request"))
        .await;
    assert_eq!(reply.grpc().code(), Code::Ok);
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_as_unavailable() {
    let broken = axum::Router::new().fallback(|| async {
        let frames = futures::stream::iter([
            Ok(http_body::Frame::data(Bytes::from_static(b"\0\0\0\0\x01x"))),
            Err(std::io::Error::other("reset")),
        ]);
        let mut response = http::Response::new(Body::new(StreamBody::new(frames)));
        let grpc = http::HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", grpc);
        response
    });
    let silent = axum::Router::new().fallback(|| async { "not gRPC at all" });
    let upstreams = Upstreams {
        routing: weir_rpc::local(tonic::service::Routes::from(broken)),
        lifecycle: weir_rpc::local(tonic::service::Routes::from(silent)),
        ..World::nobody()
    };
    let world = World::over(upstreams, Record::default());
    for path in [PUBLISH, "/weir.lifecycle.v1.WorkService/GetWork"] {
        let reply = refused(&world, call(path).header("x-weir-tenant", "demo")).await;
        let status = reply.grpc();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::Unavailable, "UPSTREAM_UNAVAILABLE")
        );
    }
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused_with_limit_and_size() {
    let world = World::echoing();
    let mut announced = message(b"small");
    announced.push(0);
    announced.extend((9_u32 << 20).to_be_bytes());
    let request = call(PUBLISH).header("x-weir-tenant", "demo");
    let status = world
        .send(request.body(Body::from(announced)).expect("a request"))
        .await
        .grpc();
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::InvalidArgument, "MESSAGE_TOO_LARGE")
    );
    assert!(
        status
            .message()
            .contains("9437184 bytes, the limit is 8388608"),
        "{}",
        status.message()
    );
}

#[tokio::test]
async fn both_directions_stream_at_once() {
    let world = World::echoing();
    let (send, receive) =
        tokio::sync::mpsc::channel::<Result<http_body::Frame<Bytes>, std::io::Error>>(1);
    let frames = tokio_stream::wrappers::ReceiverStream::new(receive);
    let request = call("/weir.lifecycle.v1.ExecutorService/Claim").header("x-weir-tenant", "demo");
    let request = request
        .body(Body::new(StreamBody::new(frames)))
        .expect("a request");
    let response = tower::ServiceExt::oneshot(world.app.clone(), request)
        .await
        .expect("an answer");
    let mut body = response.into_body();
    // Each message comes back while the request is still open: nothing waits for an end.
    for number in 0..3_u8 {
        let bytes = Bytes::from(message(&[number]));
        send.send(Ok(http_body::Frame::data(bytes.clone())))
            .await
            .expect("the gateway reads");
        let frame = body.frame().await.expect("open").expect("a frame");
        assert_eq!(frame.into_data().expect("data"), bytes);
    }
    drop(send);
    let last = body.frame().await.expect("trailers").expect("a frame");
    assert_eq!(last.into_trailers().expect("trailers")["grpc-status"], "0");
}

#[tokio::test]
async fn o02_a_drain_ends_streams_and_lets_calls_finish() {
    let world = World::echoing();
    let (send, receive) =
        tokio::sync::mpsc::channel::<Result<http_body::Frame<Bytes>, std::io::Error>>(1);
    let frames = tokio_stream::wrappers::ReceiverStream::new(receive);
    let request = call("/weir.lifecycle.v1.ExecutorService/Claim").header("x-weir-tenant", "demo");
    let request = request
        .body(Body::new(StreamBody::new(frames)))
        .expect("a request");
    let response = tower::ServiceExt::oneshot(world.app.clone(), request)
        .await
        .expect("an answer");
    let mut body = response.into_body();
    world.stop.cancel();
    let last = body.frame().await.expect("trailers").expect("a frame");
    let status =
        tonic::Status::from_header_map(last.trailers_ref().expect("trailers")).expect("a status");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "DRAINING")
    );
    assert!(body.frame().await.is_none());
    assert!(send.is_closed(), "the service's side is let go");
    let unary = call(PUBLISH).header("x-weir-tenant", "demo");
    let reply = world
        .send(unary.body(Body::from(message(b""))).expect("a request"))
        .await;
    assert_eq!(reply.grpc().code(), Code::Ok);
}

#[tokio::test]
async fn grpc_web_works_over_http_1_and_plain_paths_answer_json() {
    let world = World::echoing();
    let request = http::Request::post(PUBLISH)
        .header("content-type", "application/grpc-web+proto")
        .header("x-weir-tenant", "demo")
        .body(Body::from(message(b"web")))
        .expect("a request");
    let reply = world.send(request).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "application/grpc-web+proto")
    );
    assert!(reply.body.starts_with(&message(b"web")));
    assert!(String::from_utf8_lossy(&reply.body).contains("grpc-status:0"));
    assert_eq!(
        world.record.only().header("content-type"),
        Some("application/grpc")
    );

    let request = http::Request::get("/nowhere")
        .body(Body::empty())
        .expect("a request");
    let reply = world.send(request).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (404, "application/problem+json")
    );
    assert_eq!(reply.json()["reason"], "PATH_NOT_FOUND");
}
