//! The HTTP surface: CloudEvents in, problems and proto JSON out.

use crate::fake::{Record, Reply, UID, World};
use axum::body::Body;
use serde_json::json;
use weir_proto::cloudevents::v1::cloud_event::Data;

fn post(path: &str) -> http::request::Builder {
    http::Request::post(path).header("x-weir-tenant", "demo")
}

fn binary(path: &str) -> http::request::Builder {
    post(path)
        .header("ce-id", "2")
        .header("ce-source", "demo")
        .header("ce-type", "issues.opened")
        .header("ce-specversion", "1.0")
}

async fn send(world: &World, request: http::request::Builder, body: impl Into<Body>) -> Reply {
    world
        .send(request.body(body.into()).expect("a request"))
        .await
}

fn problem(reply: &Reply, status: u16, reason: &str) -> serde_json::Value {
    assert_eq!(reply.header("content-type"), "application/problem+json");
    assert_eq!(
        reply.status,
        status,
        "{:?}",
        String::from_utf8_lossy(&reply.body)
    );
    let problem = reply.json();
    assert_eq!(problem["reason"], reason);
    assert_eq!(problem["status"], status);
    assert_eq!(problem["type"], format!("urn:weir:error:{reason}"));
    assert!(problem["title"].is_string() && problem["detail"].is_string());
    problem
}

#[tokio::test]
async fn a04_binary_mode_publishes_the_body_as_it_is() {
    let world = World::routing();
    let body = b"{ \"a\":1.0,\n\"a\":\"\\ud800\" , \"n\":18446744073709551615 }  ";
    let request = binary("/v1/events?scope=github&key=a%2Cb")
        .header("weir-keys", "issue/1, x%2Cy")
        .header("content-type", "application/json");
    let reply = send(&world, request, &body[..]).await;
    assert_eq!(reply.status, 202);
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(
        reply.json(),
        json!({
            "uid": UID,
            "scope": "github",
            // Beyond what a JSON number keeps in a browser.
            "position": "9007199254740993",
            "acceptedAt": "2026-11-30T09:00:00Z",
            "deduplicated": false,
        })
    );
    let seen = world.record.only();
    assert_eq!(
        seen.publish.as_ref().expect("a publish").keys,
        ["issue/1", "x,y", "a,b"]
    );
    let Some(Data::TextData(text)) = &seen.event().data else {
        panic!("text")
    };
    assert_eq!(text.as_bytes(), body);
    assert_eq!(seen.header("x-weir-actor"), Some("developer"));
    assert_eq!(seen.header("x-weir-permissions"), Some("*"));
    assert_eq!(
        seen.header("x-weir-internal-token"),
        Some("between-services")
    );
    assert_eq!(
        seen.header("x-request-id"),
        Some(reply.header("x-request-id"))
    );
}

#[tokio::test]
async fn a01_a_repeat_answers_200() {
    let world = World::routing();
    let body = r#"{"specversion":"1.0","type":"a","id":"again","source":"s","data":{"b" : 1}}"#;
    let request =
        post("/v1/events?scope=root").header("content-type", "application/cloudevents+json");
    let reply = send(&world, request, body).await;
    assert_eq!(
        (reply.status, &reply.json()["deduplicated"]),
        (200, &json!(true))
    );
    let seen = world.record.only();
    assert_eq!(
        seen.event().data,
        Some(Data::TextData(r#"{"b" : 1}"#.to_owned()))
    );
}

#[tokio::test]
async fn batched_mode_publishes_a_batch() {
    let world = World::routing();
    let one = r#"{"specversion":"1.0","type":"a","id":"1","source":"s"}"#;
    let request = post("/v1/events?scope=root&atomic=true&key=k")
        .header("content-type", "application/cloudevents-batch+json");
    let reply = send(&world, request, format!("[{one},{one}]")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["results"].as_array().map(Vec::len), Some(2));
    let batch = world.record.only().batch.expect("a batch");
    assert!(batch.atomic);
    assert_eq!(batch.events[1].keys, ["k"]);
}

#[tokio::test]
async fn refusals_are_problems_and_reach_no_service() {
    let world = World::routing();
    let nobody = http::Request::post("/v1/events?scope=root");
    problem(&send(&world, nobody, "{}").await, 401, "IDENTITY_MISSING");
    let denied = binary("/v1/events?scope=root").header("x-weir-permissions", "work.read");
    problem(&send(&world, denied, "{}").await, 403, "PERMISSION_DENIED");
    let no_id = post("/v1/events?scope=root")
        .header("ce-source", "s")
        .header("ce-type", "t");
    let said = problem(&send(&world, no_id, "{}").await, 400, "INVALID_ARGUMENT");
    let missing: Vec<_> = said["violations"]
        .as_array()
        .expect("some")
        .iter()
        .map(|v| &v["field"])
        .collect();
    assert_eq!(missing, ["ce-id", "ce-specversion"]);
    let no_scope = problem(
        &send(&world, binary("/v1/events"), "{}").await,
        400,
        "INVALID_ARGUMENT",
    );
    assert_eq!(no_scope["violations"][0]["field"], "scope");
    let typo = binary("/v1/events?scope=root&keys=a");
    let said = problem(&send(&world, typo, "{}").await, 400, "INVALID_ARGUMENT");
    assert_eq!(said["violations"][0]["field"], "keys");
    let avro = post("/v1/events?scope=root").header("content-type", "application/cloudevents+avro");
    problem(
        &send(&world, avro, "{}").await,
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    );
    assert!(world.record.all().is_empty());
}

#[tokio::test]
async fn a05_an_oversize_payload_is_refused_with_limit_and_size() {
    let world = World::routing();
    let limit = 1 << 20;
    let large = vec![b'x'; limit + 1];
    let announced = binary("/v1/events?scope=root").header("content-length", large.len());
    let said = problem(
        &send(&world, announced, large.clone()).await,
        413,
        "PAYLOAD_TOO_LARGE",
    );
    assert_eq!(
        said["detail"],
        "the payload is 1048577 bytes, the limit is 1048576 bytes"
    );
    let said = problem(
        &send(&world, binary("/v1/events?scope=root"), large).await,
        413,
        "PAYLOAD_TOO_LARGE",
    );
    assert!(
        said["detail"]
            .as_str()
            .is_some_and(|d| d.contains("the limit is 1048576 bytes"))
    );
    let body = format!(
        r#"{{"specversion":"1.0","type":"a","id":"1","source":"s","data":"{}"}}"#,
        "x".repeat(limit)
    );
    let structured =
        post("/v1/events?scope=root").header("content-type", "application/cloudevents+json");
    let said = problem(
        &send(&world, structured, body).await,
        413,
        "PAYLOAD_TOO_LARGE",
    );
    assert_eq!(
        said["detail"],
        "the payload is 1048578 bytes, the limit is 1048576 bytes"
    );
    assert!(world.record.all().is_empty());
    let fits = send(&world, binary("/v1/events?scope=root"), vec![b'x'; limit]).await;
    assert_eq!(fits.status, 202);
}

#[tokio::test]
async fn a_refusal_of_a_service_keeps_its_reason() {
    let world = World::routing();
    let reply = send(&world, binary("/v1/events?scope=missing"), "{}").await;
    let said = problem(&reply, 404, "SCOPE_NOT_FOUND");
    assert_eq!(said["detail"], "as the service says");
    let route =
        http::Request::get(format!("/v1/events/{UID}/route")).header("x-weir-tenant", "demo");
    problem(
        &send(&world, route, Body::empty()).await,
        404,
        "EVENT_NOT_FOUND",
    );
}

#[tokio::test]
async fn m04_an_unreachable_service_answers_503_and_when_to_try_again() {
    let world = World::over(World::nobody(), Record::default());
    let reply = send(&world, binary("/v1/events?scope=root"), "{}").await;
    let said = problem(&reply, 503, "UPSTREAM_UNAVAILABLE");
    assert_eq!(said["retryAfter"], "1.000s");
    assert_eq!(reply.header("retry-after"), "1");
}

#[tokio::test]
async fn an_event_is_read_by_uid_or_by_source_and_id() {
    let world = World::routing();
    let get = |path: &str| http::Request::get(path.to_owned()).header("x-weir-tenant", "demo");
    let reply = send(
        &world,
        get(&format!("/v1/events/{UID}?omitData=true")),
        Body::empty(),
    )
    .await;
    assert_eq!(
        (reply.status, &reply.json()["position"]),
        (200, &json!("3"))
    );
    let reply = send(&world, get("/v1/events/-?source=a%20b&id=7"), Body::empty()).await;
    assert_eq!(reply.status, 200);
    let seen: Vec<_> = world
        .record
        .all()
        .into_iter()
        .filter_map(|s| s.operate)
        .collect();
    let own = |parts: [&str; 5]| parts.map(str::to_owned).into();
    assert_eq!(
        seen,
        [
            own([UID, "", "", "true", ""]),
            own(["", "a b", "7", "false", ""])
        ]
    );
    let both = get(&format!("/v1/events/{UID}?source=a&id=7"));
    problem(
        &send(&world, both, Body::empty()).await,
        400,
        "INVALID_ARGUMENT",
    );
}

#[tokio::test]
async fn operators_skip_and_reroute_over_http() {
    let world = World::routing();
    let skip = post(&format!("/v1/events/{UID}/skip"));
    let reply = send(&world, skip, r#"{"reason":"bad payload","requestId":"q"}"#).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["controlEvent"], "c");
    assert_eq!(reply.json()["record"]["disposition"], "DISPOSITION_SKIPPED");
    let seen = world.record.only();
    let expected = [UID, "", "", "bad payload", "q"].map(str::to_owned).into();
    assert_eq!(seen.operate, Some(expected));

    let reroute = post(&format!("/v1/events/{UID}/reroute"));
    let reply = send(&world, reroute, r#"{"reason":"handler fixed"}"#).await;
    problem(
        &reply,
        weir_rpc::http_status(tonic::Code::FailedPrecondition).as_u16(),
        "ALREADY_ROUTED",
    );
    for (body, says) in [
        (r#"{"reasons":"x"}"#, "reasons"),
        (r#"{"event":"other","reason":"x"}"#, "the path does that"),
        ("{", "line 1"),
    ] {
        let reply = send(&world, post(&format!("/v1/events/{UID}/skip")), body).await;
        let said = problem(&reply, 400, "INVALID_ARGUMENT");
        assert!(
            said["detail"].as_str().is_some_and(|d| d.contains(says)),
            "{said}"
        );
    }
    assert_eq!(world.record.all().len(), 2);
}

#[tokio::test]
async fn a_known_path_with_another_method_is_405() {
    let world = World::routing();
    let put = http::Request::put("/v1/events").header("x-weir-tenant", "demo");
    problem(
        &send(&world, put, Body::empty()).await,
        405,
        "HTTP_METHOD_NOT_ALLOWED",
    );
}
