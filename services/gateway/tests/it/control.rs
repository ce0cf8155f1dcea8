//! `ControlService` through the gateway's port, with its generated client.

use crate::fake::{UID, World, reason};
use tonic::{Code, Request};
use weir_proto::gateway::v1 as proto;
use weir_proto::gateway::v1::control_service_client::ControlServiceClient;

fn as_me<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("x-weir-tenant", "demo".parse().expect("ASCII"));
    metadata.insert("x-weir-actor", "me".parse().expect("ASCII"));
    request
}

#[tokio::test]
async fn skip_reaches_routing_as_the_caller() {
    let world = World::routing();
    let request = proto::SkipEventRequest {
        event: UID.to_owned(),
        reason: "bad payload".to_owned(),
        request_id: "q".to_owned(),
        ..Default::default()
    };
    let mut client = ControlServiceClient::new(world.channel());
    let answer = client
        .skip_event(as_me(request))
        .await
        .expect("skipped")
        .into_inner();
    assert_eq!(answer.control_event, "c");
    assert_eq!(answer.record.expect("a record").generation, 4);
    let seen = world.record.only();
    assert_eq!(seen.method, "SkipEvent");
    let expected = (UID, "", "", "bad payload", "q");
    let (event, source, id, why, request_id) = seen.operate.clone().expect("recorded");
    assert_eq!(
        (
            event.as_str(),
            source.as_str(),
            id.as_str(),
            why.as_str(),
            request_id.as_str()
        ),
        expected
    );
    assert_eq!(seen.header("x-weir-tenant"), Some("demo"));
    assert_eq!(seen.header("x-weir-actor"), Some("me"));
    assert_eq!(
        seen.header("x-weir-internal-token"),
        Some("between-services")
    );
}

#[tokio::test]
async fn a_refusal_of_routing_passes_through() {
    let world = World::routing();
    let mut client = ControlServiceClient::new(world.channel());
    let refused = client
        .reroute_event(as_me(proto::RerouteEventRequest::default()))
        .await;
    let status = refused.expect_err("refused");
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::FailedPrecondition, "ALREADY_ROUTED")
    );
    assert_eq!(status.message(), "as the service says");
}

#[tokio::test]
async fn trace_asks_routing_and_answers_all_it_says() {
    let world = World::routing();
    let mut client = ControlServiceClient::new(world.channel());
    let request = proto::TraceEventRequest {
        scope: "github".to_owned(),
        keys: vec!["issue/1".to_owned()],
        filter: "bots".to_owned(),
        ..Default::default()
    };
    let answer = client
        .trace_event(as_me(request))
        .await
        .expect("traced")
        .into_inner();
    assert_eq!(answer.generation, "4");
    assert_eq!(answer.keys, ["issue/1"]);
    assert_eq!(answer.accepted_as, "bots");
}

#[tokio::test]
async fn r45_a_candidate_reaches_routing_with_its_document_and_the_permission_of_a_trace() {
    let world = World::routing();
    let mut client = ControlServiceClient::new(world.channel());
    let request = proto::TraceCandidateRequest {
        trace: Some(proto::TraceEventRequest {
            keys: vec!["issue/1".to_owned()],
            ..Default::default()
        }),
        document: "scopes: []".to_owned(),
    };
    let answer = client
        .trace_candidate(as_me(request.clone()))
        .await
        .expect("traced")
        .into_inner();
    let trace = answer.trace.expect("always there");
    assert_eq!(trace.generation, "candidate");
    assert_eq!(trace.keys, ["issue/1"]);
    assert_eq!(trace.accepted_as, "scopes: []");
    let seen = world.record.only();
    assert_eq!(seen.method, "TraceCandidate");
    assert_eq!(seen.header("x-weir-actor"), Some("me"));

    let mut request = as_me(request);
    request
        .metadata_mut()
        .insert("x-weir-permissions", "events.read".parse().expect("ASCII"));
    let denied = client.trace_candidate(request).await.expect_err("refused");
    assert_eq!(denied.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn o04_control_methods_are_checked_like_the_others() {
    let world = World::routing();
    let mut client = ControlServiceClient::new(world.channel());
    let nobody = client
        .skip_event(proto::SkipEventRequest::default())
        .await
        .expect_err("refused");
    assert_eq!(nobody.code(), Code::Unauthenticated);
    let mut request = as_me(proto::SkipEventRequest::default());
    request
        .metadata_mut()
        .insert("x-weir-permissions", "events.read".parse().expect("ASCII"));
    let denied = client.skip_event(request).await.expect_err("refused");
    assert_eq!(
        (denied.code(), reason(&denied).as_str()),
        (Code::PermissionDenied, "PERMISSION_DENIED")
    );
    assert!(world.record.all().is_empty());
}

#[tokio::test]
async fn methods_of_later_versions_say_so() {
    let world = World::routing();
    let mut client = ControlServiceClient::new(world.channel());
    let refused = [
        client
            .doctor(as_me(proto::DoctorRequest {}))
            .await
            .expect_err("later"),
        client
            .explain_event(as_me(proto::ExplainEventRequest::default()))
            .await
            .expect_err("later"),
        client
            .bulk_skip(as_me(proto::BulkSkipRequest::default()))
            .await
            .expect_err("later"),
        client
            .what_if(as_me(proto::WhatIfRequest::default()))
            .await
            .expect_err("later"),
        client
            .list_audit(as_me(proto::ListAuditRequest::default()))
            .await
            .expect_err("later"),
    ];
    for status in refused {
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::Unimplemented, "NOT_IMPLEMENTED")
        );
        assert!(
            status.message().ends_with("comes with a later version"),
            "{}",
            status.message()
        );
    }
}

#[tokio::test]
async fn server_info_lists_what_is_exposed() {
    let world = World::routing();
    let mut client = ControlServiceClient::new(world.channel());
    let info = client
        .get_server_info(as_me(proto::GetServerInfoRequest {}))
        .await;
    let info = info.expect("known").into_inner();
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(info.environment, "Development");
    let publish = proto::MethodAccess {
        method: "weir.routing.v1.EventService/Publish".to_owned(),
        access: "events.publish".to_owned(),
    };
    assert!(info.methods.contains(&publish));
    assert!(
        info.methods
            .iter()
            .all(|m| !m.method.contains("RoutingService"))
    );
}
