//! What the edge lets in and what it refuses: bad input, identity, permissions, health, readiness.

use std::time::{Duration, Instant};

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, MethodDescriptor, Value};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use weir_gateway::{Upstreams, access::Access};
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1 as types;
use weir_rpc::{Problem, Secret, Upstream};
use weir_runtime::{DatabaseConfig, Drained, Environment, Running, ServeOptions};
use weir_testkit::TestDb;

use crate::outside::{call, from, get, reason, refusal, rows, send, sign};
use crate::support::{CONFIG, Weir, event};

const ME: [(&str, &str); 2] = [("x-weir-tenant", "demo"), ("x-weir-actor", "me")];

async fn publish_config(
    weir: &Weir,
    document: &str,
) -> Result<routing::PublishConfigResponse, tonic::Status> {
    let request = routing::PublishConfigRequest {
        document: document.to_owned(),
        expected_generation: Some(1),
        request_id: String::new(),
    };
    weir.user
        .config()
        .publish_config(request)
        .await
        .map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_events_are_refused_with_a_clear_error_and_leave_nothing() {
    let weir = Weir::start().await;
    let before = rows(&weir.db).await;
    for (scope, event, code, reason, text) in [
        (
            "nowhere",
            event("1", "t", "{}"),
            Code::NotFound,
            "SCOPE_NOT_FOUND",
            "scope `nowhere` is not in the current",
        ),
        (
            "s",
            event("", "t", "{}"),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "`event.id` is required",
        ),
        (
            "s",
            from("", "1", "t", "{}"),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "`event.source` is required",
        ),
        (
            "s",
            event("a\0b", "t", "{}"),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "`event.id` has the control character NUL at byte 1",
        ),
        (
            "s",
            event("1", "core.work.created", "{}"),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "`event.type` is reserved",
        ),
        (
            "s",
            event("1", "t", &"x".repeat(2 << 20)),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "`event.data` is 2097152 bytes, the limit is 1048576",
        ),
    ] {
        let refused = refusal(weir.try_publish(scope, event, &[]).await);
        assert_eq!((refused.0, refused.1.as_str()), (code, reason), "{text}");
        assert!(refused.2.contains(text), "{}", refused.2);
    }
    // Far past any message that is read.
    let huge = event("1", "t", &"x".repeat(9 << 20));
    let (code, reason, message, _) = refusal(weir.try_publish("s", huge, &[]).await);
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "MESSAGE_TOO_LARGE")
    );
    assert!(message.contains("the limit is 8388608"), "{message}");
    // A tenant that never published a configuration.
    let nobody = weir.client("nobody", "me");
    let request = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("1", "t", "{}")),
        ..Default::default()
    };
    assert_eq!(
        self::reason(nobody.events().publish(request).await),
        "TENANT_NOT_FOUND"
    );
    // The same over HTTP.
    let typed = [
        ("ce-source", "http"),
        ("ce-type", "t"),
        ("ce-specversion", "1.0"),
    ];
    let ok = [("ce-id", "1")];
    let big = "x".repeat((1 << 20) + 1);
    for (path, id, body, status, reason, text) in [
        (
            "/v1/events?scope=nowhere",
            &ok[..],
            "{}",
            404,
            "SCOPE_NOT_FOUND",
            "nowhere",
        ),
        (
            "/v1/events?scope=s",
            &[],
            "{}",
            400,
            "INVALID_ARGUMENT",
            "ce-id",
        ),
        (
            "/v1/events?scope=s",
            &[("ce-id", "a%00b")],
            "{}",
            400,
            "INVALID_REQUEST",
            "NUL",
        ),
        (
            "/v1/events?scope=s",
            &ok,
            &big,
            413,
            "PAYLOAD_TOO_LARGE",
            "1048576",
        ),
        ("/v1/events", &ok, "{}", 400, "INVALID_ARGUMENT", "scope"),
    ] {
        let headers = [&typed[..], id, &ME].concat();
        let reply = send(&weir.url, http::Method::POST, path, &headers, body).await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (status, reason),
            "{}",
            reply.text()
        );
        assert!(reply.text().contains(text), "{}", reply.text());
    }
    // A webhook whose signature does not fit, or whose source has none.
    let wrong = sign("guess", "{}");
    for (path, signature) in [
        ("/v1/hooks/demo/s/derived", sign("weir-development", "{}")),
        ("/v1/hooks/demo/s/nothing", sign("weir-development", "{}")),
        ("/v1/hooks/demo/s/derived", wrong),
    ] {
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", "issues"),
            ("x-hub-signature-256", signature.as_str()),
        ];
        let reply = send(&weir.url, http::Method::POST, path, &headers, "{}").await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (401, "WEBHOOK_REFUSED"),
            "{}",
            reply.text()
        );
    }
    assert_eq!(rows(&weir.db).await, before);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_webhooks_of_a_good_source_are_refused_and_leave_nothing() {
    let hook = CONFIG.replace(
        "      - name: derived\n",
        "      - name: github\n        match: { source: 'webhook/*/github' }\n        webhook: { kind: github, secret: main }\n      - name: derived\n",
    );
    let weir = Weir::with(&hook).await;
    let before = rows(&weir.db).await;
    for signature in [
        sign("guess", "{}"),
        sign("weir-development", "{ }"),
        "sha256=".to_owned(),
        String::new(),
    ] {
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", "issues"),
            ("x-hub-signature-256", signature.as_str()),
        ];
        let reply = send(
            &weir.url,
            http::Method::POST,
            "/v1/hooks/demo/s/github",
            &headers,
            "{}",
        )
        .await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (401, "WEBHOOK_REFUSED"),
            "{}",
            reply.text()
        );
    }
    assert_eq!(rows(&weir.db).await, before);
    // Whoever signs is believed, and nobody's own words: neither tenant nor actor (rule o03).
    let signature = sign("weir-development", "{}");
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", "issues"),
        ("x-hub-signature-256", signature.as_str()),
        ("x-weir-tenant", "other"),
        ("x-weir-actor", "forged"),
        ("x-weir-permissions", "*"),
    ];
    let reply = send(
        &weir.url,
        http::Method::POST,
        "/v1/hooks/demo/s/github",
        &headers,
        "{}",
    )
    .await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    let actor: String = sqlx::query_scalar("SELECT actor FROM weir.event")
        .fetch_one(weir.db.pool())
        .await
        .expect("stored");
    assert_eq!(actor, "webhook/github");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_configurations_are_refused_with_their_place_and_leave_nothing() {
    let weir = Weir::start().await;
    let before = rows(&weir.db).await;
    let terms = format!(
        "scopes:\n  - name: s\n    routes:\n      - {{ slot: a, when: '{}1 == 1', policy: drop }}\n",
        "1 + ".repeat(20_000)
    );
    for (document, path, place) in [
        (
            "scopes:\n  - name: s\n    colour: red\n",
            "scopes[0].colour",
            "line 3, column 5",
        ),
        (
            "scopes:\n  - name: s\n    routes:\n      - { slot: a, when: 'event.type ==', policy: drop }\n",
            "scopes[0].routes[0].when",
            "line 4, column",
        ),
        (
            "scopes:\n  - name: s\n    routes:\n      - { slot: a, when: 'true', policy: shout }\n",
            "scopes[0].routes[0].policy",
            "line 4, column",
        ),
        ("scopes: [\n", "document", "line"),
        (&terms, "scopes[0].routes[0].when", "line 4, column"),
    ] {
        let asked = Instant::now();
        let (code, reason, message, faults) = refusal(publish_config(&weir, document).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "CONFIG_INVALID"),
            "{message}"
        );
        assert!(
            faults[0].starts_with(path) && faults[0].contains(place),
            "{faults:?}"
        );
        assert!(message.len() < 1_000, "{message}");
        assert!(asked.elapsed() < Duration::from_secs(10));
        let request = routing::ValidateConfigRequest {
            document: document.to_owned(),
        };
        let answer = weir
            .user
            .config()
            .validate_config(request)
            .await
            .expect("answered")
            .into_inner();
        assert!(!answer.valid);
    }
    let stale = routing::PublishConfigRequest {
        document: CONFIG.to_owned(),
        expected_generation: Some(0),
        ..Default::default()
    };
    assert_eq!(
        reason(weir.user.config().publish_config(stale).await),
        "GENERATION_CONFLICT"
    );
    let blind = routing::PublishConfigRequest {
        document: CONFIG.to_owned(),
        ..Default::default()
    };
    assert_eq!(
        reason(weir.user.config().publish_config(blind).await),
        "GENERATION_REQUIRED"
    );
    assert_eq!(rows(&weir.db).await, before);
    // The process is as well as before.
    weir.routed("1", "start", &[]).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_enum_values_and_an_expired_lease_are_refused_and_change_nothing() {
    let weir = Weir::start().await;
    weir.register(&[]).await;
    let record = weir.routed("1", "start", &["k/1"]).await;
    let claimed = weir.claim().await.expect("queued");
    let before = rows(&weir.db).await;
    let list = routing::ListEventsRequest {
        disposition: Some(99),
        ..Default::default()
    };
    let (code, reason, _, faults) = refusal(weir.user.events().list_events(list).await);
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_REQUEST")
    );
    assert!(
        faults[0].starts_with("disposition: has the number 99"),
        "{faults:?}"
    );
    let works = lifecycle::ListWorksRequest {
        state: Some(99),
        ..Default::default()
    };
    let (_, reason, _, faults) = refusal(weir.user.work().list_works(works).await);
    assert!(
        reason == "INVALID_REQUEST" && faults[0].starts_with("state"),
        "{faults:?}"
    );
    for kind in [0, 9] {
        let fail = lifecycle::FailRequest {
            lease: claimed.lease.clone(),
            kind,
            ..Default::default()
        };
        let (_, reason, _, faults) = refusal(weir.user.executor().fail(fail).await);
        assert!(
            reason == "INVALID_REQUEST" && faults[0].starts_with("kind"),
            "{faults:?}"
        );
    }
    let register = lifecycle::RegisterExecutorRequest {
        executor: "e".to_owned(),
        capabilities: vec![9],
        ..Default::default()
    };
    assert_eq!(
        self::reason(weir.user.executor().register_executor(register).await),
        "INVALID_REQUEST"
    );

    weir.db.advance(Duration::from_secs(31)).await;
    let (code, reason, _, _) = refusal(weir.complete(&claimed).await);
    assert_eq!((code, reason.as_str()), (Code::Aborted, "LEASE_LOST"));
    let renew = lifecycle::RenewRequest {
        lease: claimed.lease.clone(),
        extend: None,
    };
    assert_eq!(
        self::reason(weir.user.executor().renew(renew).await),
        "LEASE_LOST",
        "renewal revives nothing (rule l02)"
    );
    assert_eq!(rows(&weir.db).await, before);
    assert_eq!(
        weir.work(&record.work).await.state(),
        types::WorkState::Ready
    );
    let again = weir.claim().await.expect("its input is back");
    assert_eq!(again.inputs.len(), 1);
    assert_eq!(self::reason(weir.complete(&claimed).await), "LEASE_LOST");
    assert_eq!(
        weir.complete(&again).await.expect("it holds the lease"),
        types::WorkState::Completed
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o03_who_calls_is_known_and_what_callers_say_of_themselves_is_replaced() {
    let weir = Weir::start().await;
    let path = "/weir.routing.v1.EventService/Publish";
    let request = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("1", "none", "{}")),
        ..Default::default()
    };
    let before = rows(&weir.db).await;
    let (code, reason, message, _) = refusal(call(&weir.url, path, &[], &request).await);
    assert_eq!(
        (code, reason.as_str()),
        (Code::Unauthenticated, "IDENTITY_MISSING")
    );
    assert!(message.contains("x-weir-tenant"), "{message}");
    assert_eq!(
        self::reason(call(&weir.url, path, &[("x-weir-actor", "me")], &request).await),
        "IDENTITY_MISSING"
    );
    assert_eq!(
        self::reason(call(&weir.url, path, &[("x-weir-tenant", "")], &request).await),
        "IDENTITY_INVALID"
    );
    for path in ["/v1/events?scope=s", "/v1/events/x/skip"] {
        let reply = send(&weir.url, http::Method::POST, path, &[("ce-id", "1")], "{}").await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (401, "IDENTITY_MISSING")
        );
    }
    assert_eq!(rows(&weir.db).await, before);
    // Whatever else is sent along changes neither tenant, actor nor permissions.
    let forged = [
        &ME[..],
        &[
            ("x-weir-internal-token", "guess"),
            ("x-weir-anything", "1"),
            ("authorization", "Bearer x"),
        ],
    ]
    .concat();
    call(&weir.url, path, &forged, &request)
        .await
        .expect("accepted");
    let actor: String = sqlx::query_scalar("SELECT actor FROM weir.event")
        .fetch_one(weir.db.pool())
        .await
        .expect("stored");
    assert_eq!(actor, "me");
    let named = routing::PublishRequest {
        event: Some(event("2", "none", "{}")),
        ..request
    };
    call(&weir.url, path, &[("x-weir-tenant", "demo")], &named)
        .await
        .expect("accepted");
    let actor: String = sqlx::query_scalar("SELECT actor FROM weir.event WHERE id = '2'")
        .fetch_one(weir.db.pool())
        .await
        .expect("stored");
    assert_eq!(actor, "developer");
    weir.stop().await;
}

fn nobody() -> Upstreams {
    let lost = || {
        Upstream::new(tower::service_fn(
            |_: http::Request<tonic::body::Body>| async {
                Err::<http::Response<tonic::body::Body>, _>(tower::BoxError::from(
                    "connection refused",
                ))
            },
        ))
    };
    Upstreams {
        routing: lost(),
        lifecycle: lost(),
        causal: lost(),
        migration: lost(),
    }
}

#[tokio::test]
async fn o03_production_refuses_development_identity_at_startup() {
    let start = |environment| {
        let secrets = std::sync::Arc::new(|_: &str| None);
        weir_gateway::component(
            &weir_gateway::Config::default(),
            environment,
            &Secret::default(),
            nobody(),
            secrets,
        )
    };
    let refused = match start(Environment::Production) {
        Ok(_) => panic!("production starts with development identity"),
        Err(refused) => refused.to_string(),
    };
    assert!(refused.contains("development"), "{refused}");
    assert!(start(Environment::Development).is_ok());
    // Production is what is meant when nothing or something else is said.
    for named in [
        None,
        Some("Production"),
        Some("development"),
        Some("Develop"),
    ] {
        let environment = [("WEIR_INTERNAL_TOKEN", "0123456789abcdef0123456789abcdef")]
            .into_iter()
            .chain(named.map(|n| ("WEIR_ENVIRONMENT", n)))
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        let refused = weir_runtime::load::<weir_gateway::Config>("gateway", environment);
        assert!(refused.is_err(), "{named:?}");
    }
}

/// Fills the fields of a request that name something with an id, and what else is required with
/// anything that passes.
fn naming(descriptor: &MessageDescriptor, id: &str) -> Option<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    let mut named = false;
    for field in descriptor.fields() {
        let text = |s: &str| Value::String(s.to_owned());
        let value = match (field.name(), field.kind()) {
            ("event" | "work" | "root" | "predecessor" | "parent", Kind::String) => {
                named = true;
                text(id)
            }
            ("lease", Kind::Message(lease)) => {
                named = true;
                let mut lease = DynamicMessage::new(lease);
                lease.set_field_by_name("work", text(id));
                lease.set_field_by_name("attempt", Value::I32(1));
                lease.set_field_by_name("epoch", Value::I64(1));
                Value::Message(lease)
            }
            ("event", Kind::Message(_)) => Value::Message(envelope()),
            ("events", Kind::String) => Value::List(vec![text(id)]),
            ("events", Kind::Message(emission)) => {
                let mut emission = DynamicMessage::new(emission);
                let mut envelope = envelope();
                envelope.clear_field_by_name("source");
                emission.set_field_by_name("event", Value::Message(envelope));
                Value::List(vec![Value::Message(emission)])
            }
            ("conditions", Kind::Message(descriptor)) => {
                let own = descriptor
                    .get_field_by_name("own_input")
                    .expect("in the contracts");
                let Kind::Message(nothing) = own.kind() else {
                    panic!("`own_input` is a message");
                };
                let mut condition = DynamicMessage::new(descriptor);
                condition.set_field(&own, Value::Message(DynamicMessage::new(nothing)));
                Value::List(vec![Value::Message(condition)])
            }
            ("reason" | "type" | "name", Kind::String) => text("test"),
            ("scope", Kind::String) => text("s"),
            ("binding", Kind::String) => text("b"),
            ("kind", Kind::Enum(_)) => Value::EnumNumber(1),
            _ => continue,
        };
        message.set_field(&field, value);
    }
    // A Work can be named by scope and key, too; not both ways at once.
    if descriptor.name() == "GetWorkRequest" {
        message.clear_field_by_name("scope");
    }
    named.then_some(message)
}

fn envelope() -> DynamicMessage {
    let descriptor = weir_proto::DESCRIPTORS
        .get_message_by_name("io.cloudevents.v1.CloudEvent")
        .expect("in the contracts");
    let mut envelope = DynamicMessage::new(descriptor);
    for (name, value) in [
        ("id", "x"),
        ("source", "test"),
        ("spec_version", "1.0"),
        ("type", "t"),
    ] {
        envelope.set_field_by_name(name, Value::String(value.to_owned()));
    }
    envelope
}

fn methods() -> Vec<MethodDescriptor> {
    weir_proto::DESCRIPTORS
        .services()
        .flat_map(|s| s.methods().collect::<Vec<_>>())
        .collect()
}

fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_every_method_asks_for_its_permission_and_one_without_is_closed() {
    let weir = Weir::start().await;
    let access = Access::from_descriptors(&weir_proto::DESCRIPTORS).expect("contracts serve");
    let before = rows(&weir.db).await;
    let (mut exposed, mut closed) = (0, 0);
    for method in methods() {
        let path = path(&method);
        let empty = DynamicMessage::new(method.input());
        let Some(known) = access.method(&path) else {
            closed += 1;
            // With every permission there is.
            let refused = refusal(call(&weir.url, &path, &ME, &empty).await);
            assert_eq!(
                (refused.0, refused.1.as_str()),
                (Code::Unimplemented, "METHOD_NOT_EXPOSED"),
                "{path}"
            );
            continue;
        };
        exposed += 1;
        // All permissions but the one it needs.
        let others: Vec<&str> = access
            .methods()
            .map(|m| m.permission.as_str())
            .filter(|p| *p != known.permission)
            .collect();
        let headers = [
            ("x-weir-tenant", "demo"),
            ("x-weir-actor", "me"),
            ("x-weir-permissions", &others.join(",")),
        ];
        let (code, reason, message, _) = refusal(call(&weir.url, &path, &headers, &empty).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::PermissionDenied, "PERMISSION_DENIED"),
            "{path}"
        );
        assert!(message.contains(&known.permission), "{message}");
        // Identity comes before permission.
        let nobody = refusal(call(&weir.url, &path, &[("x-weir-permissions", "*")], &empty).await);
        assert_eq!(nobody.0, Code::Unauthenticated, "{path}");
    }
    assert!(
        exposed > 45 && closed > 10,
        "{exposed} exposed, {closed} closed"
    );
    let headers = [
        ("x-weir-tenant", "demo"),
        ("x-weir-permissions", "events.read"),
    ];
    for path in [
        "/v1/events?scope=s",
        "/v1/events/x/skip",
        "/v1/events/x/reroute",
    ] {
        let reply = send(&weir.url, http::Method::POST, path, &headers, "{}").await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (403, "PERMISSION_DENIED"),
            "{path}"
        );
    }
    assert_eq!(rows(&weir.db).await, before);
    // The one permission is enough.
    let request = routing::ListEventsRequest::default();
    call(
        &weir.url,
        "/weir.routing.v1.EventService/ListEvents",
        &headers,
        &request,
    )
    .await
    .expect("allowed");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_another_tenants_things_are_absent() {
    let weir = Weir::start().await;
    weir.register(&[]).await;
    let record = weir.routed("1", "start", &["k/1"]).await;
    weir.claim().await.expect("queued");
    let unmatched = weir.routed("2", "nothing", &[]).await;
    let publish = routing::PublishConfigRequest {
        document: CONFIG.to_owned(),
        expected_generation: Some(0),
        ..Default::default()
    };
    weir.client("other", "them")
        .config()
        .publish_config(publish)
        .await
        .expect("published");
    let before = rows(&weir.db).await;
    let headers = [("x-weir-tenant", "other"), ("x-weir-actor", "them")];
    let absent = "0199aaaa-0000-7000-8000-000000000001";
    let access = Access::from_descriptors(&weir_proto::DESCRIPTORS).expect("contracts serve");
    let mut asked = Vec::new();
    let simple = |m: &&MethodDescriptor| {
        // A refusal of Derive is a committed outcome (rule c05); it is asked for itself below.
        access.method(&path(m)).is_some() && !m.is_client_streaming() && m.name() != "Derive"
    };
    for method in methods().iter().filter(simple) {
        for foreign in [&record.work, &unmatched.event] {
            let path = path(method);
            let (Some(one), Some(two)) = (
                naming(&method.input(), foreign),
                naming(&method.input(), absent),
            ) else {
                continue;
            };
            let answer = async |message: &DynamicMessage, id: &str| {
                call(&weir.url, &path, &headers, message)
                    .await
                    .map_err(|status| {
                        let problem = Problem::from(&status);
                        (
                            problem.code,
                            problem.reason,
                            problem.message.replace(id, "<id>"),
                        )
                    })
            };
            let (one, two) = (answer(&one, foreign).await, answer(&two, absent).await);
            assert_eq!(one, two, "{path}");
            if let Err((code, _, message)) = &one {
                assert!(
                    matches!(code, Code::NotFound | Code::Unimplemented),
                    "{path} answers {code:?}: {message}"
                );
                asked.push((method.name().to_owned(), *code));
            } else {
                // A list is empty.
                assert!(
                    one.expect("answered").is_empty(),
                    "{path} answers something"
                );
            }
        }
    }
    for name in [
        "GetEvent",
        "GetRoute",
        "SkipEvent",
        "RerouteEvent",
        "GetWork",
        "CancelWork",
        "ReleaseWork",
        "ListInputs",
        "ListAttempts",
        "Renew",
        "Complete",
        "Fail",
        "Release",
        "Acknowledge",
        "Park",
        "SendInput",
        "Emit",
        "GetRoot",
    ] {
        assert!(
            asked.contains(&(name.to_owned(), Code::NotFound)),
            "`{name}` was not asked: {asked:?}"
        );
    }
    for path in [
        format!("/v1/events/{}", record.event),
        format!("/v1/events/{}/route", record.event),
    ] {
        let reply = send(&weir.url, http::Method::GET, &path, &headers, "").await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (404, "EVENT_NOT_FOUND")
        );
    }
    let foreign = weir.client("other", "them");
    let named = routing::GetEventRequest {
        source: "test".to_owned(),
        id: "1".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        reason(foreign.events().get_event(named).await),
        "EVENT_NOT_FOUND"
    );
    let keyed = lifecycle::GetWorkRequest {
        scope: "s".to_owned(),
        key: "k/1".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        refusal(foreign.work().get_work(keyed).await).0,
        Code::NotFound
    );
    let list = foreign
        .events()
        .list_events(routing::ListEventsRequest::default())
        .await
        .expect("a list");
    assert!(list.into_inner().events.is_empty());
    let target = types::Targets {
        work: record.work.clone(),
        attempt: 0,
    };
    let aimed = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("9", "t", "{}")),
        targets: Some(target),
        ..Default::default()
    };
    assert_eq!(
        reason(foreign.events().publish(aimed).await),
        "WORK_NOT_FOUND"
    );
    assert_eq!(rows(&weir.db).await, before);
    let derive = async |parent: &str, id: &str| {
        let request = weir_proto::causal::v1::DeriveRequest {
            parent: parent.to_owned(),
            scope: "s".to_owned(),
            event: Some(event(id, "t", "{}")),
            ..Default::default()
        };
        let refused = refusal(foreign.causal().derive(request).await);
        (refused.0, refused.1, refused.2.replace(parent, "<id>"))
    };
    let one = derive(&record.event, "d1").await;
    assert_eq!(
        (one.1.as_str(), &one),
        ("PARENT_MISSING", &derive(absent, "d2").await)
    );
    weir.stop().await;
}

async fn health(channel: Upstream, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(channel).check(request).await;
    answer
        .map(|a| a.into_inner().status())
        .map_err(|status| status.code())
}

/// Waits until the health of a name is this, as a watcher is told.
async fn becomes(channel: Upstream, service: &str, wanted: ServingStatus) {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let mut updates = HealthClient::new(channel)
        .watch(request)
        .await
        .expect("known")
        .into_inner();
    let wait = async {
        while updates
            .message()
            .await
            .expect("it goes on")
            .expect("it goes on")
            .status()
            != wanted
        {}
    };
    tokio::time::timeout(Duration::from_secs(30), wait)
        .await
        .unwrap_or_else(|_| panic!("`{service}` never becomes {wanted:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_health_and_metrics_ask_for_no_identity_and_tell_of_no_tenant() {
    let weir = Weir::bare().await;
    let tenant = weir.client("tenant-zebra", "actor-zebra");
    let publish = routing::PublishConfigRequest {
        document: CONFIG.replace("name: s\n", "name: scope-zebra\n"),
        expected_generation: Some(0),
        ..Default::default()
    };
    tenant
        .config()
        .publish_config(publish)
        .await
        .expect("published");
    let request = routing::PublishRequest {
        scope: "scope-zebra".to_owned(),
        event: Some(from(
            "source-zebra",
            "id-zebra",
            "type-zebra",
            "\"payload-zebra\"",
        )),
        keys: vec!["key-zebra".to_owned()],
        ..Default::default()
    };
    let uid = tenant
        .events()
        .publish(request)
        .await
        .expect("accepted")
        .into_inner()
        .uid;
    for service in [
        "",
        "weir.gateway.v1.ControlService",
        "weir.routing.v1.EventService",
        "weir.routing.v1.ConfigService",
        "weir.lifecycle.v1.WorkService",
        "weir.lifecycle.v1.ExecutorService",
        "weir.causal.v1.CausalService",
        "weir.migration.v1.MigrationService",
    ] {
        let channel = weir_rpc::remote(&weir.url).expect("an address");
        assert_eq!(
            health(channel, service).await,
            Ok(ServingStatus::Serving),
            "`{service}`"
        );
    }
    let channel = weir_rpc::remote(&weir.url).expect("an address");
    assert_eq!(health(channel, "weir.nothing").await, Err(Code::NotFound));
    for base in [&weir.url, &weir.health] {
        assert_eq!(get(base, "/health/live").await.status, 200);
        let ready = get(base, "/health/ready").await;
        assert_eq!(
            (ready.status, ready.json()["ready"].as_bool()),
            (200, Some(true))
        );
        assert!(!ready.text().contains("zebra"));
    }
    let metrics = get(&weir.health, "/metrics").await;
    assert_eq!(metrics.status, 200);
    let text = metrics.text();
    assert!(
        text.contains("weir_rpc_requests_total") && text.contains("method=\"Publish\""),
        "{text}"
    );
    assert!(
        !text.contains("zebra") && !text.contains(&uid),
        "metrics tell of a tenant"
    );
    assert_eq!(
        get(&weir.url, "/metrics").await.status,
        404,
        "metrics are on the health port only"
    );
    weir.stop().await;
}

async fn lifecycle_on(url: &str) -> Running {
    let database = DatabaseConfig {
        url: Secret::new(url),
        acquire_timeout: Duration::from_millis(500),
        ..DatabaseConfig::default()
    };
    let db = database.open("weir-test").expect("a URL");
    let config = weir_lifecycle::Config {
        database,
        ..Default::default()
    };
    let lifecycle = weir_lifecycle::component(db, &config, weir_lifecycle::Hints::default());
    Running::start(vec![lifecycle], ServeOptions::local())
        .await
        .expect("free ports")
}

/// Waits until readiness was asked, and returns what it says.
async fn said(running: &Running, wanted: impl Fn(&str) -> bool) -> String {
    let mut readiness = running.readiness();
    let text = |s: &weir_runtime::Snapshot| s.components[0].reasons.join("; ");
    let state = readiness.wait_for(|s| wanted(&text(s)));
    let state = tokio::time::timeout(Duration::from_secs(30), state).await;
    match state {
        Ok(state) => text(&state.expect("the process runs")),
        Err(_) => panic!(
            "readiness says {:?}",
            running.readiness().borrow().components[0].reasons
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m04_a_service_is_ready_once_no_known_migration_is_pending() {
    let db = TestDb::empty().await;
    let running = lifecycle_on(db.url()).await;
    let health = format!("http://{}", running.health_addr().expect("asked for"));
    let reasons = said(&running, |r| r.contains("pending")).await;
    assert!(reasons.contains("run `weir migrate up`"), "{reasons}");
    let ready = get(&health, "/health/ready").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("pending"), "{}", ready.text());
    assert_eq!(
        get(&health, "/health/live").await.status,
        200,
        "liveness never asks the database"
    );
    let channel = || weir_rpc::remote(&format!("http://{}", running.addr())).expect("an address");
    assert_eq!(
        self::health(channel(), "weir.lifecycle.v1.WorkService").await,
        Ok(ServingStatus::NotServing)
    );

    let tables: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('weir')",
    )
    .fetch_one(db.pool())
    .await
    .expect("a catalogue");
    assert_eq!(tables, 0, "a service never migrates by itself");
    let runner =
        weir_migration::Runner::new(db.url(), &weir_migration::MIGRATOR, "test").expect("a URL");
    runner
        .up(
            None,
            Duration::from_secs(30),
            &mut |_: weir_migration::Progress| {},
        )
        .await
        .expect("migrates");
    becomes(
        channel(),
        "weir.lifecycle.v1.WorkService",
        ServingStatus::Serving,
    )
    .await;
    assert_eq!(
        running.readiness().borrow().components[0].reasons,
        Vec::<String>::new()
    );
    // One that is gone again makes it leave; one that only a newer build knows does not.
    sqlx::query("INSERT INTO public.weir_migration SELECT 99999999, 'newer', now(), true, checksum, 0 FROM public.weir_migration LIMIT 1")
        .execute(db.pool())
        .await
        .expect("a row");
    sqlx::query("DELETE FROM public.weir_migration WHERE version = (SELECT max(version) FROM public.weir_migration WHERE version < 99999999)")
        .execute(db.pool())
        .await
        .expect("a row");
    said(&running, |r| r.contains("pending")).await;
    assert_eq!(running.stop().await, Drained::Fully);
}

#[tokio::test(flavor = "multi_thread")]
async fn m04_a_service_without_its_database_is_alive_and_not_ready() {
    let db = TestDb::new().await;
    let nowhere = db
        .url()
        .rsplit_once('/')
        .map(|(server, _)| format!("{server}/weir_nothing_is_here"))
        .expect("a path");
    let nowhere = match db.url().split_once('?') {
        Some((_, query)) => format!("{nowhere}?{query}"),
        None => nowhere,
    };
    let running = lifecycle_on(&nowhere).await;
    let reasons = said(&running, |r| !r.is_empty() && r != "starting").await;
    assert!(reasons.contains("database"), "{reasons}");
    let health = format!("http://{}", running.health_addr().expect("asked for"));
    assert_eq!(get(&health, "/health/live").await.status, 200);
    assert_eq!(get(&health, "/health/ready").await.status, 503);
    assert_eq!(running.stop().await, Drained::Fully);
}

#[tokio::test(flavor = "multi_thread")]
async fn m04_the_gateway_stays_ready_while_a_service_is_away() {
    let db = TestDb::new().await;
    let lifecycle = lifecycle_on(db.url()).await;
    lifecycle.ready().await;
    let upstreams = Upstreams {
        lifecycle: weir_rpc::remote(&format!("http://{}", lifecycle.addr())).expect("an address"),
        ..nobody()
    };
    let secrets = std::sync::Arc::new(|_: &str| None);
    let gateway = weir_gateway::component(
        &weir_gateway::Config::default(),
        Environment::Development,
        &Secret::default(),
        upstreams,
        secrets,
    );
    let gateway = Running::start(
        vec![gateway.expect("development may")],
        ServeOptions::local(),
    )
    .await
    .expect("free ports");
    gateway.ready().await;
    let url = format!("http://{}", gateway.addr());
    let channel = || weir_rpc::remote(&url).expect("an address");
    let works = "weir.lifecycle.v1.WorkService";
    becomes(channel(), works, ServingStatus::Serving).await;
    let list = lifecycle::ListWorksRequest::default();
    let path = "/weir.lifecycle.v1.WorkService/ListWorks";
    assert_eq!(
        reason(call(&url, path, &ME, &list).await),
        "TENANT_NOT_FOUND",
        "it is reached"
    );

    assert_eq!(lifecycle.stop().await, Drained::Fully);
    becomes(channel(), works, ServingStatus::NotServing).await;
    let refused = call(&url, path, &ME, &list).await.expect_err("it is away");
    let problem = Problem::from(&refused);
    assert_eq!(
        (problem.code, problem.reason.as_str()),
        (Code::Unavailable, "UPSTREAM_UNAVAILABLE")
    );
    assert!(problem.retry_after.is_some());
    assert_eq!(health(channel(), "").await, Ok(ServingStatus::Serving));
    assert_eq!(
        health(channel(), "weir.gateway.v1.ControlService").await,
        Ok(ServingStatus::Serving)
    );
    assert_eq!(get(&url, "/health/ready").await.status, 200);
    call(
        &url,
        "/weir.gateway.v1.ControlService/GetServerInfo",
        &ME,
        &weir_proto::gateway::v1::GetServerInfoRequest {},
    )
    .await
    .expect("its own methods work");
    assert_eq!(gateway.stop().await, Drained::Fully);
}
