//! Running Weir: draining, repeats of requests, causal limits end to end.

use std::time::Duration;

use futures::future::join_all;
use tonic::{Code, Status};
use weir_client::Client;
use weir_proto::causal::v1 as causal;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::gateway::v1 as gateway;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1 as types;
use weir_rpc::Problem;
use weir_runtime::Drained;

use crate::outside::{reason, refusal, rows};
use crate::support::{CONFIG, Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn o02_a_publish_in_flight_is_answered_before_the_process_ends() {
    let mut weir = Weir::start().await;
    let running = weir.take_running();
    let readiness = running.readiness();
    let url = format!("{}/health/ready", weir.health);
    let (tenant, scope): (i64, i32) =
        sqlx::query_as("SELECT tenant_id, scope_id FROM weir.scope WHERE name = 's'")
            .fetch_one(weir.db.pool())
            .await
            .expect("configured");
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(weir_kernel::TenantId(tenant), weir_kernel::ScopeId(scope))
        .await;
    let publish = weir.try_publish("s", event("1", "none", "{}"), &[]);
    let drain = async {
        weir.db.wait_until_blocked(1).await;
        let stop = running.stop();
        let release = async {
            // Not ready at once, while what is in flight still is.
            let mut readiness = readiness.clone();
            let state = readiness
                .wait_for(|s| s.draining)
                .await
                .expect("it drains")
                .clone();
            assert!(!state.ready);
            assert_eq!(
                reqwest::get(&url)
                    .await
                    .expect("the health port is open")
                    .status(),
                503
            );
            hold.release().await;
        };
        tokio::join!(stop, release).0
    };
    let (answer, drained) = tokio::join!(publish, drain);
    assert_eq!(drained, Drained::Fully);
    let uid = answer.expect("accepted").uid;
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM weir.event WHERE uid = $1::uuid")
        .bind(uid)
        .fetch_one(weir.db.pool())
        .await
        .expect("events");
    assert_eq!(stored, 1);
    let late = weir
        .try_publish("s", event("2", "none", "{}"), &[])
        .await
        .expect_err("nobody listens");
    assert_eq!(late.code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_nothing_acknowledged_is_lost_when_a_replica_drains_under_load() {
    let weir = Weir::start().await;
    let other = weir.another().await;
    let publish = |n: i32| {
        let client = other.user.clone();
        async move {
            let event = event(&n.to_string(), "start", "{}");
            let request = routing::PublishRequest {
                scope: "s".to_owned(),
                event: Some(event),
                ..Default::default()
            };
            (
                n,
                client
                    .events()
                    .publish(request)
                    .await
                    .map(|r| r.into_inner().uid),
            )
        }
    };
    let first: Vec<_> = join_all((0..20).map(publish)).await;
    assert!(first.iter().all(|(_, answer)| answer.is_ok()));
    let (rest, drained) = tokio::join!(join_all((20..120).map(publish)), other.drain());
    assert_eq!(drained, Drained::Fully);
    for (n, answer) in first.into_iter().chain(rest) {
        match answer {
            Ok(uid) => {
                weir.record(&uid).await;
            }
            Err(status) => {
                // Refused as a whole, by the gateway or by the connection that ended: never a fault of Weir's.
                let problem = Problem::from(&status);
                let lost = matches!(problem.code, Code::Unavailable | Code::Cancelled)
                    || problem.message.contains("http2 error");
                assert!(lost, "{n}: {problem}");
                // What was refused is safe to send again, to whoever is there.
                let id = n.to_string();
                weir.try_publish("s", event(&id, "start", "{}"), &[])
                    .await
                    .expect("accepted");
            }
        }
    }
    assert_eq!(weir.count("event").await, 120);
    weir.stop().await;
}

fn create(id: &str, key: &str) -> lifecycle::CreateWorkRequest {
    lifecycle::CreateWorkRequest {
        scope: "s".to_owned(),
        binding: "b".to_owned(),
        keys: vec![key.to_owned()],
        text_data: "{}".to_owned(),
        reason: "test".to_owned(),
        request_id: id.to_owned(),
    }
}

async fn create_work(
    client: &Client,
    id: &str,
    key: &str,
) -> Result<lifecycle::CreateWorkResponse, Status> {
    client
        .work()
        .create_work(create(id, key))
        .await
        .map(tonic::Response::into_inner)
}

async fn skip(
    client: &Client,
    event: &str,
    why: &str,
    id: &str,
) -> Result<gateway::SkipEventResponse, Status> {
    let request = gateway::SkipEventRequest {
        event: event.to_owned(),
        reason: why.to_owned(),
        request_id: id.to_owned(),
        ..Default::default()
    };
    client
        .control()
        .skip_event(request)
        .await
        .map(tonic::Response::into_inner)
}

async fn reroute(
    client: &Client,
    event: &str,
    why: &str,
    id: &str,
) -> Result<gateway::RerouteEventResponse, Status> {
    let request = gateway::RerouteEventRequest {
        event: event.to_owned(),
        reason: why.to_owned(),
        request_id: id.to_owned(),
        ..Default::default()
    };
    client
        .control()
        .reroute_event(request)
        .await
        .map(tonic::Response::into_inner)
}

async fn cancel(
    client: &Client,
    work: &str,
    id: &str,
) -> Result<lifecycle::CancelWorkResponse, Status> {
    let request = lifecycle::CancelWorkRequest {
        work: work.to_owned(),
        reason: "test".to_owned(),
        request_id: id.to_owned(),
    };
    client
        .work()
        .cancel_work(request)
        .await
        .map(tonic::Response::into_inner)
}

async fn publish_config(
    client: &Client,
    document: &str,
    expected: i64,
    id: &str,
) -> Result<routing::PublishConfigResponse, Status> {
    let request = routing::PublishConfigRequest {
        document: document.to_owned(),
        expected_generation: Some(expected),
        request_id: id.to_owned(),
    };
    client
        .config()
        .publish_config(request)
        .await
        .map(tonic::Response::into_inner)
}

/// Asserts that an id of an earlier request cannot stand for another one.
fn conflicts<T: std::fmt::Debug>(answer: Result<T, Status>, id: &str) {
    let (code, reason, message, _) = refusal(answer);
    assert_eq!(
        (code, reason.as_str()),
        (Code::AlreadyExists, "REQUEST_CONFLICT")
    );
    assert!(message.contains(id), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o08_a_repeated_request_answers_the_first_result() {
    // The slot `panics` is on here, which fails every event at once.
    let failing = CONFIG.replace("binding: b, disabled: true", "binding: b, disabled: false");
    let weir = Weir::with(&failing).await;
    let failed = weir.routed("1", "x", &[]).await;
    assert_eq!(failed.disposition(), types::Disposition::Failed);

    let copied = reroute(&weir.user, &failed.event, "fixed", "r-1")
        .await
        .expect("copied");
    weir.record(&copied.event).await;
    let created = create_work(&weir.user, "r-1", "k/1")
        .await
        .expect("created");
    let published = publish_config(&weir.user, CONFIG, 1, "r-1")
        .await
        .expect("published");
    // Now fails nothing; what hangs is unrouted until it is skipped.
    let hanging = CONFIG.replace(
        "handler: { rust: panics }, binding: b, disabled: true",
        "handler: { rust: fails }, binding: b",
    );
    let second = publish_config(&weir.user, &hanging, 2, "r-2")
        .await
        .expect("published");
    let stuck = weir.publish("2", "x", &[]).await;
    assert_eq!(
        weir.pending(&stuck).await.state(),
        types::PendingState::Backoff
    );
    let skipped = skip(&weir.user, &stuck, "bad", "r-1")
        .await
        .expect("skipped");

    let before = rows(&weir.db).await;
    assert_eq!(
        reroute(&weir.user, &failed.event, "fixed", "r-1")
            .await
            .expect("answered"),
        copied
    );
    assert_eq!(
        create_work(&weir.user, "r-1", "k/1")
            .await
            .expect("answered"),
        created
    );
    assert_eq!(
        publish_config(&weir.user, CONFIG, 1, "r-1")
            .await
            .expect("answered")
            .generation,
        published.generation
    );
    assert_eq!(
        publish_config(&weir.user, &hanging, 2, "r-2")
            .await
            .expect("answered")
            .generation,
        second.generation
    );
    assert_eq!(
        skip(&weir.user, &stuck, "bad", "r-1")
            .await
            .expect("answered"),
        skipped
    );

    conflicts(
        reroute(&weir.user, &failed.event, "other words", "r-1").await,
        "r-1",
    );
    conflicts(reroute(&weir.user, &stuck, "fixed", "r-1").await, "r-1");
    conflicts(create_work(&weir.user, "r-1", "k/2").await, "r-1");
    conflicts(publish_config(&weir.user, CONFIG, 3, "r-1").await, "r-1");
    conflicts(skip(&weir.user, &failed.event, "bad", "r-1").await, "r-1");
    assert_eq!(rows(&weir.db).await, before);

    // Unique per actor: somebody else's id is another one.
    let other = weir.client("demo", "somebody");
    let theirs = create_work(&other, "r-1", "k/3").await.expect("created");
    assert_ne!(
        theirs.work.expect("always there").work,
        created.work.expect("always there").work
    );
    // Without an id nothing is remembered: the effect's own rule answers.
    assert_eq!(
        reason(skip(&weir.user, &stuck, "bad", "").await),
        "ALREADY_ROUTED"
    );
    assert_eq!(
        reason(create_work(&weir.user, "", "k/1").await),
        "KEY_OWNED"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o08_twins_at_once_have_one_effect() {
    let weir = Weir::start().await;
    let other = weir.another().await;
    let (tenant, scope): (i64, i32) =
        sqlx::query_as("SELECT tenant_id, scope_id FROM weir.scope WHERE name = 's'")
            .fetch_one(weir.db.pool())
            .await
            .expect("configured");
    let (tenant, scope) = (weir_kernel::TenantId(tenant), weir_kernel::ScopeId(scope));
    // Both have looked for an earlier answer and found none.
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    let release = async {
        weir.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (one, two, ()) = tokio::join!(
        create_work(&weir.user, "r", "k/1"),
        create_work(&other.user, "r", "k/1"),
        release
    );
    assert_eq!(one.expect("answered"), two.expect("answered"));
    assert_eq!(
        (
            weir.count("work").await,
            weir.count("event").await,
            weir.count("request").await
        ),
        (1, 1, 1)
    );

    // The same with other content: one of them has the effect.
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    let release = async {
        weir.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (one, two, ()) = tokio::join!(
        create_work(&weir.user, "s", "k/2"),
        create_work(&other.user, "s", "k/3"),
        release
    );
    let lost = match (one, two) {
        (Ok(_), lost) | (lost, Ok(_)) => lost,
        (one, two) => panic!("one of them wins: {one:?} {two:?}"),
    };
    conflicts(lost, "s");
    assert_eq!(weir.count("work").await, 2);

    // What an operator does to one event or Work, twice at once.
    let failing = CONFIG.replace(
        "handler: { rust: panics }, binding: b, disabled: true",
        "handler: { rust: fails }, binding: b",
    );
    weir.apply(&failing, 1).await;
    let stuck = weir.publish("stuck", "x", &[]).await;
    weir.pending(&stuck).await;
    let works =
        sqlx::query_scalar("SELECT work_id::text FROM weir.work LIMIT 1").fetch_one(weir.db.pool());
    let work: String = works.await.expect("created above");
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    let release = async {
        weir.db.wait_until_blocked(4).await;
        hold.release().await;
    };
    let (one, two, three, four, ()) = tokio::join!(
        skip(&weir.user, &stuck, "bad", "r"),
        skip(&other.user, &stuck, "bad", "r"),
        cancel(&weir.user, &work, "r"),
        cancel(&other.user, &work, "r"),
        release
    );
    assert_eq!(one.expect("answered"), two.expect("answered"));
    assert_eq!(three.expect("answered"), four.expect("answered"));
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    weir.apply(CONFIG, 2).await;
    let release = async {
        weir.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (one, two, ()) = tokio::join!(
        reroute(&weir.user, &stuck, "fixed", "r"),
        reroute(&other.user, &stuck, "fixed", "r"),
        release
    );
    assert_eq!(one.expect("answered"), two.expect("answered"));

    let mut hold = weir.db.hold().await;
    hold.hold_config(tenant).await;
    let release = async {
        weir.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (one, two, ()) = tokio::join!(
        publish_config(&weir.user, CONFIG, 3, "c"),
        publish_config(&other.user, CONFIG, 3, "c"),
        release
    );
    assert_eq!(
        one.expect("answered").generation,
        two.expect("answered").generation
    );
    assert_eq!(weir.count("generation").await, 4);
    other.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o08_an_answer_is_kept_for_a_day() {
    let weir = Weir::start().await;
    let created = create_work(&weir.user, "r", "k/1").await.expect("created");
    let db = weir.db.open("sweep");
    weir.db.advance(Duration::from_secs(23 * 3_600)).await;
    weir_lifecycle::forget_requests(&db).await.expect("swept");
    assert_eq!(
        create_work(&weir.user, "r", "k/1").await.expect("answered"),
        created
    );
    conflicts(create_work(&weir.user, "r", "k/2").await, "r");
    weir.db.advance(Duration::from_secs(3_600 + 60)).await;
    weir_lifecycle::forget_requests(&db).await.expect("swept");
    assert_eq!(weir.count("request").await, 0);
    create_work(&weir.user, "r", "k/2")
        .await
        .expect("the id is free again");
    assert_eq!(weir.count("work").await, 2);
    weir.stop().await;
}

/// `CONFIG` with narrow causal limits.
fn limited(depth: i32, rate: i32) -> String {
    CONFIG.replace(
        "  - name: root\n",
        &format!("  - name: root\n    limits: {{ depth: {depth}, derived_per_minute: {rate} }}\n"),
    )
}

async fn emit(
    client: &Client,
    from: &lifecycle::ClaimedWork,
    event: CloudEvent,
    keys: &[&str],
) -> Result<types::Acceptance, Status> {
    let emission = causal::Emission {
        event: Some(CloudEvent {
            source: String::new(),
            ..event
        }),
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        targets: None,
    };
    let request = causal::EmitRequest {
        lease: from.lease.clone(),
        events: vec![emission],
        ..Default::default()
    };
    let answer = client.causal().emit(request).await?.into_inner();
    Ok(answer.results[0]
        .accepted
        .clone()
        .expect("one event is accepted or the call refused"))
}

#[tokio::test(flavor = "multi_thread")]
async fn c01_what_an_attempt_emits_is_routed_to_its_work_as_a_child_of_its_trigger() {
    let weir = Weir::start().await;
    weir.register(&[]).await;
    let record = weir.routed("1", "start", &["k/1"]).await;
    let claimed = weir.claim().await.expect("queued");
    assert_eq!(claimed.trigger, record.event);
    let emitted = emit(&weir.user, &claimed, event("e1", "start", "{}"), &["k/1"])
        .await
        .expect("accepted");
    let again = emit(&weir.user, &claimed, event("e1", "start", "{}"), &["k/1"])
        .await
        .expect("answered");
    assert!(again.deduplicated && again.uid == emitted.uid);
    let derived = weir.record(&emitted.uid).await;
    assert_eq!(
        (derived.disposition(), derived.work.as_str()),
        (types::Disposition::Queue, record.work.as_str())
    );
    let request = routing::GetEventRequest {
        event: emitted.uid.clone(),
        ..Default::default()
    };
    let seen = weir
        .user
        .events()
        .get_event(request)
        .await
        .expect("known")
        .into_inner()
        .event
        .expect("always there");
    assert_eq!(
        (seen.parent.as_str(), seen.root.as_str(), seen.depth),
        (record.event.as_str(), record.event.as_str(), 1)
    );
    assert_eq!(
        seen.event.expect("always there").source,
        format!("work/{}", record.work)
    );
    // A forged parent, a reserved type, a foreign identity, and an attempt that has ended.
    let parent = causal::EmitRequest {
        lease: claimed.lease.clone(),
        events: vec![causal::Emission {
            event: Some(CloudEvent {
                source: String::new(),
                ..event("e2", "t", "{}")
            }),
            ..Default::default()
        }],
        parent: emitted.uid.clone(),
        ..Default::default()
    };
    let before = rows(&weir.db).await;
    assert_eq!(
        reason(weir.user.causal().emit(parent).await),
        "PARENT_MISMATCH"
    );
    assert_eq!(
        reason(emit(&weir.user, &claimed, event("e2", "core.x", "{}"), &[]).await),
        "INVALID_REQUEST"
    );
    let foreign = causal::EmitRequest {
        lease: claimed.lease.clone(),
        events: vec![causal::Emission {
            event: Some(event("e2", "t", "{}")),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(
        reason(weir.user.causal().emit(foreign).await),
        "FOREIGN_SOURCE"
    );
    assert_eq!(rows(&weir.db).await, before);
    assert_eq!(
        weir.complete(&claimed).await.expect("it holds the lease"),
        types::WorkState::Ready,
        "the emitted input is left"
    );
    assert_eq!(
        reason(emit(&weir.user, &claimed, event("e3", "t", "{}"), &[]).await),
        "LEASE_LOST"
    );
    let next = weir.claim().await.expect("queued");
    assert_eq!(next.trigger, emitted.uid);
    assert_eq!(
        weir.complete(&next).await.expect("it holds the lease"),
        types::WorkState::Completed
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c05_a_refusal_accepts_nothing_and_leaves_a_diagnostic() {
    let weir = Weir::with(&limited(1, 3)).await;
    weir.register(&[]).await;
    let root = weir.routed("1", "start", &["k/1"]).await.event;
    let claimed = weir.claim().await.expect("queued");
    // The minute has a whole one to go (rule c02).
    let into: f64 = sqlx::query_scalar("SELECT extract(second FROM weir.clock())::float8")
        .fetch_one(weir.db.pool())
        .await
        .expect("a clock");
    weir.db.advance(Duration::from_secs_f64(60.5 - into)).await;
    let renew = lifecycle::RenewRequest {
        lease: claimed.lease.clone(),
        extend: Some(prost_types::Duration {
            seconds: 600,
            nanos: 0,
        }),
    };
    let claimed = match weir.user.executor().renew(renew).await {
        Ok(_) => claimed,
        // The rest of the minute was longer than the lease.
        Err(_) => {
            let claimed = weir.claim().await.expect("it is back");
            let renew = lifecycle::RenewRequest {
                lease: claimed.lease.clone(),
                extend: Some(prost_types::Duration {
                    seconds: 600,
                    nanos: 0,
                }),
            };
            weir.user
                .executor()
                .renew(renew)
                .await
                .expect("it holds the lease");
            claimed
        }
    };
    // Siblings at once, from two replicas, never pass the quota (rule c07).
    let other = weir.another().await;
    let ids: Vec<String> = (0..8).map(|n| format!("e{n}")).collect();
    let emits = ids.iter().enumerate().map(|(n, id)| {
        let client = if n % 2 == 0 { &weir.user } else { &other.user };
        emit(client, &claimed, event(id, "start", "{}"), &["k/1"])
    });
    let answers = join_all(emits).await;
    assert_eq!(
        answers.iter().filter(|a| a.is_ok()).count(),
        3,
        "{answers:?}"
    );
    for refused in answers.iter().filter_map(|a| a.as_ref().err()) {
        let problem = Problem::from(refused);
        assert_eq!(
            (problem.code, problem.reason.as_str()),
            (Code::ResourceExhausted, "RATE_EXCEEDED")
        );
        let wait = problem.retry_after.expect("the next minute is known");
        assert!(
            wait > Duration::ZERO && wait <= Duration::from_secs(60),
            "{wait:?}"
        );
    }
    assert_eq!(weir.count("event").await, 4);
    // A duplicate is recognised first and spends nothing (rule c04).
    let (id, first) = ids
        .iter()
        .zip(&answers)
        .find_map(|(id, a)| a.as_ref().ok().map(|a| (id, a)))
        .expect("three were accepted");
    let again = emit(&weir.user, &claimed, event(id, "start", "{}"), &["k/1"])
        .await
        .expect("answered");
    assert!(again.deduplicated && again.uid == first.uid);
    let request = causal::ListDiagnosticsRequest {
        root: root.clone(),
        ..Default::default()
    };
    let found = weir
        .user
        .causal()
        .list_diagnostics(request)
        .await
        .expect("a list")
        .into_inner()
        .diagnostics;
    assert_eq!(
        found
            .iter()
            .map(|d| (d.code.as_str(), d.refused, d.limit))
            .collect::<Vec<_>>(),
        [("rate", 5, 3)]
    );
    // A new configuration changes nothing of a pinned root (rule c03), the next minute does (rule c06).
    weir.apply(&limited(9, 100), 1).await;
    let refused = emit(&weir.user, &claimed, event("late", "start", "{}"), &["k/1"]).await;
    assert_eq!(reason(refused), "RATE_EXCEEDED");
    weir.db.advance(Duration::from_secs(61)).await;
    emit(&weir.user, &claimed, event("late", "start", "{}"), &["k/1"])
        .await
        .expect("a new minute");
    for answer in answers.iter().flatten() {
        weir.record(&answer.uid).await;
    }
    // Depth: what a child triggers stands too deep.
    assert_eq!(
        weir.complete(&claimed).await.expect("it holds the lease"),
        types::WorkState::Ready
    );
    let child = weir.claim().await.expect("queued");
    let (code, reason, message, _) =
        refusal(emit(&weir.user, &child, event("deep", "start", "{}"), &["k/1"]).await);
    assert_eq!(
        (code, reason.as_str()),
        (Code::FailedPrecondition, "DEPTH_EXCEEDED")
    );
    assert!(
        message.contains("depth 2") && message.contains("limit is 1"),
        "{message}"
    );
    let found = weir
        .user
        .causal()
        .get_root(causal::GetRootRequest {
            event: root.clone(),
        })
        .await
        .expect("known")
        .into_inner();
    assert_eq!(
        (
            found.root.as_str(),
            found.pinned,
            found.max_depth,
            found.per_minute
        ),
        (root.as_str(), true, 1, 3)
    );
    // An operator needs no token (rule c08).
    create_work(&weir.user, "", "k/other")
        .await
        .expect("created");
    other.stop().await;
    weir.stop().await;
}
