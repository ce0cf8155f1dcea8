//! Signed webhooks.

use crate::fake::{Record, Reply, UID, World};
use axum::body::Body;
use hmac::{Hmac, Mac as _};
use serde_json::json;
use weir_proto::cloudevents::v1::cloud_event::Data;

const HOOK: &str = "/v1/hooks/demo/github/github";
const BODY: &str = "{\"action\":\"opened\" ,\"issue\":{\"number\":1.0},\n\"x\":\"\\u0000\"}";

fn sign(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(body.as_bytes());
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

fn delivery(path: &str, signature: Option<String>) -> http::request::Builder {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .header("x-github-event", "issues")
        .header("x-github-delivery", "d-1");
    match signature {
        Some(signature) => request.header("x-hub-signature-256", signature),
        None => request,
    }
}

async fn send(world: &World, request: http::request::Builder, body: &str) -> Reply {
    world
        .send(
            request
                .body(Body::from(body.to_owned()))
                .expect("a request"),
        )
        .await
}

fn published(world: &World) -> Vec<crate::fake::Seen> {
    world
        .record
        .all()
        .into_iter()
        .filter(|s| s.publish.is_some())
        .collect()
}

#[tokio::test]
async fn a07_a_signed_delivery_is_published_byte_for_byte() {
    let world = World::routing();
    let request = delivery(HOOK, Some(sign("weir-development", BODY)))
        // Nobody believes these: the source is the identity.
        .header("x-weir-tenant", "other")
        .header("x-weir-actor", "forged");
    let reply = send(&world, request, BODY).await;
    assert_eq!(
        reply.status,
        202,
        "{:?}",
        String::from_utf8_lossy(&reply.body)
    );
    assert_eq!(reply.json(), json!({ "uid": UID, "deduplicated": false }));
    let seen = published(&world).remove(0);
    assert_eq!(seen.header("x-weir-tenant"), Some("demo"));
    assert_eq!(seen.header("x-weir-actor"), Some("webhook/github"));
    assert_eq!(seen.header("x-weir-permissions"), Some("events.publish"));
    let event = seen.event();
    assert_eq!(
        (event.id.as_str(), event.source.as_str()),
        ("d-1", "webhook/github/github")
    );
    assert_eq!(event.r#type, "issues.opened");
    assert_eq!(event.data, Some(Data::TextData(BODY.to_owned())));
    let publish = seen.publish.as_ref().expect("a publish");
    assert_eq!(publish.scope, "github");
    assert!(publish.keys.is_empty());
}

#[tokio::test]
async fn unknown_sources_and_bad_signatures_answer_alike() {
    let world = World::routing();
    let good = sign("weir-development", BODY);
    let mut replies = Vec::new();
    for (path, signature) in [
        (HOOK, None),
        (HOOK, Some(sign("guess", BODY))),
        (HOOK, Some(sign("weir-development", "{}"))),
        (HOOK, Some("sha256=".to_owned())),
        ("/v1/hooks/nobody/github/github", Some(good.clone())),
        ("/v1/hooks/demo/nowhere/github", Some(good.clone())),
        ("/v1/hooks/demo/github/nothing", Some(good.clone())),
        ("/v1/hooks/demo/github/a%00b", Some(good.clone())),
        ("/v1/hooks/demo/github/%FF", Some(good.clone())),
    ] {
        let request = delivery(path, signature).header("x-request-id", "same");
        replies.push((path, send(&world, request, BODY).await));
    }
    let (_, first) = &replies[0];
    assert_eq!(
        (first.status, first.json()["reason"].as_str()),
        (401, Some("WEBHOOK_REFUSED"))
    );
    for (path, reply) in &replies {
        assert_eq!(reply, first, "{path}");
    }
    assert!(published(&world).is_empty());
}

#[tokio::test]
async fn a_known_source_is_asked_for_once() {
    let world = World::routing();
    for _ in 0..3 {
        let reply = send(
            &world,
            delivery(HOOK, Some(sign("weir-development", BODY))),
            BODY,
        )
        .await;
        assert_eq!(reply.status, 202);
    }
    let asked = world
        .record
        .all()
        .into_iter()
        .filter(|s| s.method == "ResolveSource")
        .count();
    assert_eq!((asked, published(&world).len()), (1, 3));
}

#[tokio::test]
async fn a_delivery_is_looked_at_only_after_its_signature_fits() {
    let world = World::routing();
    let form = "payload=%7B%7D";
    let request = |signature| {
        http::Request::post(HOOK)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("x-hub-signature-256", signature)
    };
    let reply = send(&world, request(sign("guess", form)), form).await;
    assert_eq!(reply.status, 401);
    let reply = send(&world, request(sign("weir-development", form)), form).await;
    assert_eq!(
        (reply.status, reply.json()["reason"].as_str()),
        (415, Some("UNSUPPORTED_MEDIA_TYPE"))
    );
    let reply = send(
        &world,
        http::Request::post(HOOK).header("x-hub-signature-256", sign("weir-development", BODY)),
        BODY,
    )
    .await;
    assert_eq!(
        (
            reply.status,
            reply.json()["violations"][0]["field"].as_str()
        ),
        (400, Some("x-github-event"))
    );
    assert!(published(&world).is_empty());
}

#[tokio::test]
async fn m04_a_sender_is_told_to_send_again() {
    let world = World::over(World::nobody(), Record::default());
    let reply = send(
        &world,
        delivery(HOOK, Some(sign("weir-development", BODY))),
        BODY,
    )
    .await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"));
    assert_eq!(reply.json()["reason"], "UPSTREAM_UNAVAILABLE");
}
