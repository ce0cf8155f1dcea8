//! Accepting events (rules a01–a07), through the gateway.

use std::time::Duration;

use futures::future::join_all;
use sqlx::AssertSqlSafe;
use tonic::Code;
use weir_client::Client;
use weir_kernel::{ScopeId, TenantId};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::cloud_event_attribute_value::Attr;
use weir_proto::cloudevents::v1::cloud_event::{CloudEventAttributeValue, Data};
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1 as types;

use crate::outside::{bytes, deliver, from, reason, refusal, rows, send};
use crate::support::{CONFIG, Weir, event};

/// The tenant and the scope `s` as the database numbers them.
async fn scope(weir: &Weir, name: &str) -> (TenantId, ScopeId) {
    let (tenant, scope): (i64, i32) =
        sqlx::query_as("SELECT tenant_id, scope_id FROM weir.scope WHERE name = $1")
            .bind(name)
            .fetch_one(weir.db.pool())
            .await
            .expect("it is configured");
    (TenantId(tenant), ScopeId(scope))
}

fn item(event: CloudEvent) -> routing::PublishItem {
    routing::PublishItem {
        event: Some(event),
        ..Default::default()
    }
}

async fn batch(
    client: &Client,
    events: Vec<CloudEvent>,
    atomic: bool,
) -> Result<Vec<types::ItemResult>, tonic::Status> {
    let events = events.into_iter().map(item).collect();
    let request = routing::PublishBatchRequest {
        scope: "s".to_owned(),
        events,
        atomic,
    };
    client
        .events()
        .publish_batch(request)
        .await
        .map(|r| r.into_inner().results)
}

async fn publish_by(
    client: &Client,
    scope: &str,
    event: CloudEvent,
) -> Result<types::Acceptance, tonic::Status> {
    let request = routing::PublishRequest {
        scope: scope.to_owned(),
        event: Some(event),
        ..Default::default()
    };
    let answer = client.events().publish(request).await?.into_inner();
    Ok(answer.acceptance.expect("always there"))
}

async fn read(weir: &Weir, uid: &str) -> types::Event {
    let request = routing::GetEventRequest {
        event: uid.to_owned(),
        ..Default::default()
    };
    weir.user
        .events()
        .get_event(request)
        .await
        .expect("known")
        .into_inner()
        .event
        .expect("always there")
}

async fn positions(client: &Client, scope: &str) -> Vec<i64> {
    let request = routing::ListEventsRequest {
        scope: scope.to_owned(),
        page_size: 1_000,
        ..Default::default()
    };
    let answer = client
        .events()
        .list_events(request)
        .await
        .expect("a list")
        .into_inner();
    answer.events.iter().map(|e| e.position).collect()
}

fn attribute(attr: Attr) -> CloudEventAttributeValue {
    CloudEventAttributeValue { attr: Some(attr) }
}

fn with(mut event: CloudEvent, name: &str, attr: Attr) -> CloudEvent {
    event.attributes.insert(name.to_owned(), attribute(attr));
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn a01_the_same_content_answers_the_first_acceptance_and_other_content_conflicts() {
    let weir = Weir::start().await;
    let first = weir
        .try_publish("s", event("1", "none", "{}"), &["a", "b"])
        .await
        .expect("accepted");
    let first = first.acceptance.expect("always there");
    assert!(!first.deduplicated);
    weir.record(&first.uid).await;
    let before = rows(&weir.db).await;

    // Key order, key repeats and trace context are no content.
    let traced = with(
        event("1", "none", "{}"),
        "traceparent",
        Attr::CeString("00-1".to_owned()),
    );
    for (event, keys) in [
        (event("1", "none", "{}"), ["b", "a"].as_slice()),
        (traced, &["a", "a", "b"]),
    ] {
        let again = weir
            .try_publish("s", event, keys)
            .await
            .expect("answered")
            .acceptance
            .expect("always there");
        assert!(again.deduplicated);
        assert_eq!(
            (&again.uid, again.position, again.accepted_at),
            (&first.uid, first.position, first.accepted_at)
        );
    }
    // Another actor is no other content, either.
    let other_actor = weir.client("demo", "somebody");
    let request = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("1", "none", "{}")),
        keys: vec!["a".to_owned(), "b".to_owned()],
        targets: None,
    };
    let again = other_actor
        .events()
        .publish(request)
        .await
        .expect("answered")
        .into_inner();
    assert_eq!(again.uid, first.uid);

    let plain = || event("1", "none", "{}");
    let others: Vec<(&str, &str, CloudEvent, &[&str])> = vec![
        ("scope", "t", plain(), &["a", "b"]),
        ("type", "s", event("1", "other", "{}"), &["a", "b"]),
        ("data", "s", event("1", "none", "{ }"), &["a", "b"]),
        (
            "no data",
            "s",
            CloudEvent {
                data: None,
                ..plain()
            },
            &["a", "b"],
        ),
        ("keys", "s", plain(), &["a"]),
        (
            "subject",
            "s",
            with(plain(), "subject", Attr::CeString("x".to_owned())),
            &["a", "b"],
        ),
        (
            "content type",
            "s",
            with(
                plain(),
                "datacontenttype",
                Attr::CeString("text/plain".to_owned()),
            ),
            &["a", "b"],
        ),
        (
            "extension",
            "s",
            with(plain(), "color", Attr::CeInteger(1)),
            &["a", "b"],
        ),
    ];
    for (what, scope, event, keys) in others {
        let (code, reason, message, _) = refusal(weir.try_publish(scope, event, keys).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::AlreadyExists, "EVENT_CONFLICT"),
            "{what}"
        );
        assert!(message.contains(&first.uid), "{message}");
    }
    assert_eq!(
        rows(&weir.db).await,
        before,
        "replays and conflicts store nothing"
    );

    // It holds per tenant: another tenant's identity is its own.
    let foreign = weir.client("other", "them");
    let request = routing::PublishConfigRequest {
        document: CONFIG.to_owned(),
        expected_generation: Some(0),
        request_id: String::new(),
    };
    foreign
        .config()
        .publish_config(request)
        .await
        .expect("published");
    let theirs = publish_by(&foreign, "s", event("1", "none", "{ }"))
        .await
        .expect("accepted");
    assert_ne!(theirs.uid, first.uid);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a01_two_scopes_that_publish_one_identity_at_once_accept_it_once() {
    let weir = Weir::start().await;
    let (tenant, s) = scope(&weir, "s").await;
    let (_, t) = scope(&weir, "t").await;
    for round in 0..5 {
        // Both stand at their own scope's lock and have seen nothing of each other.
        let mut hold = weir.db.hold().await;
        hold.hold_scope_order(tenant, s)
            .await
            .hold_scope_order(tenant, t)
            .await;
        let id = round.to_string();
        let one = publish_by(&weir.user, "s", event(&id, "none", "{}"));
        let two = publish_by(&weir.user, "t", event(&id, "none", "{}"));
        let release = async {
            weir.db.wait_until_blocked(2).await;
            hold.release().await;
        };
        let (one, two, ()) = tokio::join!(one, two, release);
        let (won, lost) = match (one, two) {
            (Ok(won), lost) => (won, lost),
            (lost, Ok(won)) => (won, lost),
            (one, two) => panic!("one is accepted: {one:?} {two:?}"),
        };
        let (_, reason, message, _) = refusal(lost);
        assert_eq!(reason, "EVENT_CONFLICT");
        assert!(message.contains(&won.uid));
    }
    assert_eq!(weir.count("event").await, 5);
    for name in ["s", "t"] {
        let seen = positions(&weir.user, name).await;
        assert_eq!(
            seen,
            (1..).take(seen.len()).collect::<Vec<i64>>(),
            "no gaps in `{name}`"
        );
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a02_a_batch_is_atomic_or_answered_per_event() {
    let weir = Weir::start().await;
    weir.publish("taken", "none", &[]).await;
    let before = rows(&weir.db).await;
    let mixed = || {
        vec![
            event("1", "none", "{}"),
            event("", "none", "{}"),
            event("taken", "none", "[]"),
            event("2", "none", "{}"),
            // Twins: the same content answers the first, other content conflicts with it.
            event("2", "none", "{}"),
            event("2", "none", "{ }"),
        ]
    };
    // All or none: a fault of form, and one that only the database knows.
    let (code, reason, message, faults) = refusal(batch(&weir.user, mixed(), true).await);
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_REQUEST")
    );
    assert!(
        message.starts_with("item 1 of the atomic batch"),
        "{message}"
    );
    assert_eq!(faults, ["event.id: is required"]);
    let conflict = vec![event("1", "none", "{}"), event("taken", "none", "[]")];
    let (_, reason, message, _) = refusal(batch(&weir.user, conflict, true).await);
    assert_eq!(reason, "EVENT_CONFLICT");
    assert!(
        message.starts_with("item 1 of the atomic batch"),
        "{message}"
    );
    let twins = vec![event("1", "none", "{}"), event("1", "none", "{ }")];
    assert_eq!(
        refusal(batch(&weir.user, twins, true).await).1,
        "EVENT_CONFLICT"
    );
    assert_eq!(
        rows(&weir.db).await["event"],
        before["event"],
        "nothing of an atomic batch is stored"
    );

    let results = batch(&weir.user, mixed(), false)
        .await
        .expect("answered per event");
    let reasons: Vec<&str> = results
        .iter()
        .map(|r| r.error.as_ref().map_or("", |e| e.reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            "",
            "INVALID_REQUEST",
            "EVENT_CONFLICT",
            "",
            "",
            "EVENT_CONFLICT"
        ]
    );
    let accepted = |i: usize| results[i].accepted.clone().expect("accepted");
    assert_eq!(
        results[1].error.as_ref().expect("refused").field,
        "event.id"
    );
    assert_eq!(
        (accepted(4).uid, accepted(4).position),
        (accepted(3).uid, accepted(3).position)
    );
    assert_eq!(
        (accepted(3).deduplicated, accepted(4).deduplicated),
        (false, true)
    );
    assert_eq!(
        positions(&weir.user, "s").await,
        [1, 2, 3],
        "refusals take no position"
    );

    // An atomic batch of replays and new ones is accepted as one.
    let results = batch(
        &weir.user,
        vec![event("1", "none", "{}"), event("3", "none", "{}")],
        true,
    )
    .await;
    let results = results.expect("accepted");
    assert!(results[0].accepted.as_ref().expect("accepted").deduplicated);
    assert_eq!(results[1].accepted.as_ref().expect("accepted").position, 4);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a03_positions_are_dense_and_in_commit_order_behind_an_open_transaction() {
    let weir = Weir::start().await;
    let other = weir.another().await;
    let (tenant, s) = scope(&weir, "s").await;
    weir.publish("0", "none", &[]).await;

    // One that appends position 2 and is not committed yet.
    let append = format!(
        "WITH at AS MATERIALIZED (SELECT weir.clock() AS at), head AS ( \
             INSERT INTO weir.scope_head SELECT {t}, {s}, 2, 2, at FROM at), body AS ( \
             INSERT INTO weir.event_body (tenant_id, scope_id, accepted_at, seq, uid, attributes, keys, is_text) \
             SELECT {t}, {s}, at, 2, '00000000-0000-7000-8000-000000000002', '{{\"v\":\"1.0\",\"a\":{{}}}}', '{{}}', true FROM at) \
         INSERT INTO weir.event (tenant_id, uid, source, id, type, content, scope_id, seq, accepted_at, actor, disposition, \
                                 generation, reason) \
         SELECT {t}, '00000000-0000-7000-8000-000000000002', 'held', '1', 'none', \
                '00000000-0000-0000-0000-000000000000', {s}, 2, at, 'me', 6, 1, 'control' FROM at",
        t = tenant.0,
        s = s.0
    );
    for commits in [false, true] {
        let mut hold = weir.db.hold().await;
        hold.hold_scope_order(tenant, s)
            .await
            .run(AssertSqlSafe(append.clone()))
            .await;
        let id = |n: &str| format!("{commits}/{n}");
        let one = publish_by(&weir.user, "s", event(&id("one"), "none", "{}"));
        let two = publish_by(&other.user, "s", event(&id("two"), "none", "{}"));
        let seen = positions(&weir.user, "s").await;
        let release = async {
            weir.db.wait_until_blocked(2).await;
            // Readers are not held up, and see nothing of what is under way.
            assert_eq!(positions(&other.user, "s").await, seen);
            if commits {
                hold.commit().await
            } else {
                hold.release().await
            }
        };
        let (one, two, ()) = tokio::join!(one, two, release);
        let (one, two) = (one.expect("accepted"), two.expect("accepted"));
        let mut got = [one.position, two.position];
        got.sort_unstable();
        if commits {
            assert_eq!(got, [3, 4], "behind the one that committed first");
        } else {
            assert_eq!(got, [2, 3], "what was rolled back left no gap");
            // Make room again for the second round.
            for table in ["pending", "event", "event_body"] {
                let sql = format!("DELETE FROM weir.{table} WHERE seq > 1");
                sqlx::query(AssertSqlSafe(sql))
                    .execute(weir.db.pool())
                    .await
                    .expect("removed");
            }
            sqlx::query("DELETE FROM weir.scope_head WHERE first_seq > 1")
                .execute(weir.db.pool())
                .await
                .expect("removed");
        }
    }
    assert_eq!(positions(&weir.user, "s").await, [1, 2, 3, 4]);
    other.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a03_a_reader_never_sees_a_position_before_the_one_in_front_of_it() {
    let weir = Weir::start().await;
    let other = weir.another().await;
    let burst = |client: Client, name: &'static str| async move {
        let publish =
            |n: i32| publish_by(&client, "s", event(&format!("{name}/{n}"), "none", "{}"));
        join_all((0..60).map(publish))
            .await
            .into_iter()
            .map(|a| a.expect("accepted").position)
            .collect::<Vec<_>>()
    };
    let reader = async {
        let mut reads = 0;
        loop {
            let seen = positions(&weir.user, "s").await;
            assert_eq!(seen, (1..).take(seen.len()).collect::<Vec<i64>>());
            reads += 1;
            if seen.len() == 120 {
                return reads;
            }
        }
    };
    let (mut one, two, reads) = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::join!(
            burst(weir.user.clone(), "one"),
            burst(other.user.clone(), "two"),
            reader
        )
    })
    .await
    .expect("all are accepted");
    assert!(reads > 1);
    one.extend(two);
    one.sort_unstable();
    assert_eq!(one, (1..=120).collect::<Vec<i64>>());
    let falling: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT accepted_at < lag(accepted_at) OVER (ORDER BY seq) AS falls FROM weir.event) AS e WHERE falls",
    )
    .fetch_one(weir.db.pool())
    .await
    .expect("events");
    assert_eq!(falling, 0, "`accepted_at` does not decrease within a scope");
    other.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a03_the_clock_may_step_back_and_accepted_at_does_not() {
    let weir = Weir::start().await;
    weir.db.advance(Duration::from_secs(100)).await;
    let first = publish_by(&weir.user, "s", event("1", "none", "{}"))
        .await
        .expect("accepted");
    sqlx::query("UPDATE weir.test_clock SET offset_by = '0 s'")
        .execute(weir.db.pool())
        .await
        .expect("a clock");
    let second = publish_by(&weir.user, "s", event("2", "none", "{}"))
        .await
        .expect("accepted");
    let at = |a: &types::Acceptance| {
        a.accepted_at
            .map(|t| (t.seconds, t.nanos))
            .expect("always there")
    };
    assert!(
        at(&second) >= at(&first),
        "{:?} {:?}",
        at(&first),
        at(&second)
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_publishes_of_a_scope_share_transactions() {
    let weir = Weir::start().await;
    let (tenant, s) = scope(&weir, "s").await;
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, s).await;
    let publishes = join_all(
        (0..64)
            .map(|n: i32| publish_by(&weir.user, "s", event(&n.to_string(), "none", "{}")))
            .collect::<Vec<_>>(),
    );
    let release = async {
        // The first of them stands at the lock; the others gather behind it.
        weir.db.wait_until_blocked(1).await;
        hold.release().await;
    };
    let (accepted, ()) = tokio::join!(publishes, release);
    let mut got: Vec<i64> = accepted
        .into_iter()
        .map(|a| a.expect("accepted").position)
        .collect();
    got.sort_unstable();
    assert_eq!(got, (1..=64).collect::<Vec<i64>>());
    let commits = weir.count("scope_head").await;
    assert!(commits < 64, "64 events took {commits} commits");
    weir.stop().await;
}

/// JSON that a parser would not give back as it is.
const AWKWARD: &str = "{ \"big\":9223372036854775807,\"bigger\":18446744073709551615 ,\"n\":1.0, \"n\":2,\r\n\"lone\":\"\\ud800\",\"nul\":\"\\u0000\" }";

#[tokio::test(flavor = "multi_thread")]
async fn a04_bytes_come_back_as_they_were_given() {
    let weir = Weir::start().await;
    let raw: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let text = weir
        .try_publish("s", event("text", "start", AWKWARD), &["k/1"])
        .await
        .expect("accepted")
        .uid;
    let binary = weir
        .try_publish("s", bytes("binary", "start", raw.clone()), &["k/1"])
        .await
        .expect("accepted")
        .uid;
    let empty = weir
        .try_publish(
            "s",
            CloudEvent {
                data: None,
                ..event("none", "start", "")
            },
            &["k/1"],
        )
        .await;
    let empty = empty.expect("accepted").uid;
    let data = async |uid: &str| read(&weir, uid).await.event.expect("always there").data;
    assert_eq!(data(&text).await, Some(Data::TextData(AWKWARD.to_owned())));
    assert_eq!(data(&binary).await, Some(Data::BinaryData(raw.clone())));
    assert_eq!(data(&empty).await, None);

    // The same over the HTTP binding, both ways.
    let identity = [("x-weir-tenant", "demo"), ("x-weir-actor", "me")];
    for (id, content_type, body) in [
        ("h1", "application/json", AWKWARD.as_bytes()),
        ("h2", "application/octet-stream", &raw),
    ] {
        let mut headers = vec![
            ("ce-id", id),
            ("ce-source", "http"),
            ("ce-type", "start"),
            ("ce-specversion", "1.0"),
            ("content-type", content_type),
        ];
        headers.extend(identity);
        let reply = send(
            &weir.url,
            http::Method::POST,
            "/v1/events?scope=s&key=k/1",
            &headers,
            body,
        )
        .await;
        assert_eq!(reply.status, 202, "{}", reply.text());
        let uid = reply.json()["uid"].as_str().expect("a uid").to_owned();
        let stored = match data(&uid).await {
            Some(Data::TextData(text)) => text.into_bytes(),
            Some(Data::BinaryData(bytes)) => bytes,
            other => panic!("no payload: {other:?}"),
        };
        assert_eq!(stored, body, "{id}");
        let reply = send(
            &weir.url,
            http::Method::GET,
            &format!("/v1/events/{uid}"),
            &identity,
            "",
        )
        .await;
        let answered = &reply.json()["event"];
        let answered = match (
            answered["textData"].as_str(),
            answered["binaryData"].as_str(),
        ) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(encoded)) => {
                base64::Engine::decode(&base64::prelude::BASE64_STANDARD, encoded).expect("base64")
            }
            _ => panic!("one of the two: {}", reply.text()),
        };
        assert_eq!(answered, body, "{id}");
    }

    // And to the executor that runs it.
    weir.record(&text).await;
    weir.record(&binary).await;
    weir.register(&[]).await;
    let mut inputs = weir.claim().await.expect("queued").inputs.into_iter();
    assert_eq!(
        inputs.next().and_then(|e| e.event).and_then(|e| e.data),
        Some(Data::TextData(AWKWARD.to_owned()))
    );
    assert_eq!(
        inputs.next().and_then(|e| e.event).and_then(|e| e.data),
        Some(Data::BinaryData(raw))
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a05_every_limit_names_field_limit_and_size() {
    let weir = Weir::start().await;
    let before = rows(&weir.db).await;
    let long = "x".repeat(256);
    let key = "k".repeat(513);
    let one = [key.as_str()];
    let many: Vec<String> = (0..33).map(|n| format!("k/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let big = "x".repeat((1 << 20) + 1);
    let cases: Vec<(CloudEvent, &[&str], &str)> = vec![
        (
            event(&long, "t", "{}"),
            &[],
            "event.id: is 256 bytes, the limit is 255",
        ),
        (
            from(&long, "1", "t", "{}"),
            &[],
            "event.source: is 256 bytes, the limit is 255",
        ),
        (
            event("1", &long, "{}"),
            &[],
            "event.type: is 256 bytes, the limit is 255",
        ),
        (
            event("1", "t", "{}"),
            &one,
            "keys[0]: is 513 bytes, the limit is 512",
        ),
        (
            event("1", "t", "{}"),
            &many,
            "keys: has 33 keys, the limit is 32",
        ),
        (
            event("1", "t", &big),
            &[],
            "event.data: is 1048577 bytes, the limit is 1048576",
        ),
    ];
    for (event, keys, expected) in cases {
        let (code, reason, message, faults) = refusal(weir.try_publish("s", event, keys).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "INVALID_REQUEST"),
            "{expected}"
        );
        assert_eq!(faults, [expected]);
        assert!(
            message.contains(expected.split(' ').next_back().expect("a limit")),
            "{message}"
        );
    }
    let events = (0..1_001)
        .map(|n: i32| event(&n.to_string(), "none", ""))
        .collect();
    let (_, reason, _, faults) = refusal(batch(&weir.user, events, false).await);
    assert_eq!(
        (reason.as_str(), faults.as_slice()),
        (
            "INVALID_REQUEST",
            ["events: has 1001 events, the limit is 1000".to_owned()].as_slice()
        )
    );
    let heavy = "x".repeat(1 << 20);
    let events = (0..5)
        .map(|n: i32| event(&n.to_string(), "none", &heavy))
        .collect();
    let (_, reason, _, faults) = refusal(batch(&weir.user, events, false).await);
    assert_eq!(reason, "INVALID_REQUEST");
    assert!(
        faults[0].starts_with("events: is 52")
            && faults[0].ends_with("the limit of a batch is 4194304"),
        "{faults:?}"
    );
    assert_eq!(reason_of_empty(&weir).await, "INVALID_REQUEST");
    assert_eq!(rows(&weir.db).await, before);

    // What is at the limit passes.
    let id = "é".repeat(127);
    let key = "k".repeat(512);
    let keys: Vec<String> = (0..31).map(|n| format!("k/{n}")).collect();
    let keys: Vec<&str> = keys
        .iter()
        .map(String::as_str)
        .chain([key.as_str()])
        .collect();
    weir.try_publish(
        "s",
        event(&id, &"t".repeat(255), &"x".repeat(1 << 20)),
        &keys,
    )
    .await
    .expect("accepted");
    let events = (0..1_000)
        .map(|n: i32| event(&n.to_string(), "none", ""))
        .collect();
    assert_eq!(
        batch(&weir.user, events, true)
            .await
            .expect("accepted")
            .len(),
        1_000
    );
    weir.stop().await;
}

async fn reason_of_empty(weir: &Weir) -> String {
    reason(batch(&weir.user, Vec::new(), false).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a06_what_belongs_to_weir_cannot_be_set_from_outside() {
    let weir = Weir::start().await;
    let before = rows(&weir.db).await;
    for (event, field) in [
        (event("1", "core.work.created", "{}"), "event.type"),
        (event("1", "core", "{}"), "event.type"),
        (from("core.manual", "1", "t", "{}"), "event.source"),
        (from("work/0199", "1", "t", "{}"), "event.source"),
        (event("reroute/1", "t", "{}"), "event.id"),
    ] {
        let (code, reason, _, faults) = refusal(weir.try_publish("s", event.clone(), &[]).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "INVALID_REQUEST")
        );
        assert!(
            faults.len() == 1 && faults[0].starts_with(field) && faults[0].contains("is reserved"),
            "{faults:?}"
        );
        // A trace refuses what acceptance would (rule r40), and so does the HTTP binding.
        let headers = [
            ("ce-id", event.id.as_str()),
            ("ce-source", event.source.as_str()),
            ("ce-type", event.r#type.as_str()),
            ("ce-specversion", "1.0"),
            ("x-weir-tenant", "demo"),
        ];
        let reply = send(
            &weir.url,
            http::Method::POST,
            "/v1/events?scope=s",
            &headers,
            "{}",
        )
        .await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (400, "INVALID_REQUEST")
        );
    }
    assert_eq!(rows(&weir.db).await, before);
    // Attributes that look like a causal place are nothing but attributes.
    let mut claims = event("1", "none", "{}");
    for name in ["root", "parent", "depth", "parentid"] {
        claims = with(
            claims,
            name,
            Attr::CeString("00000000-0000-7000-8000-000000000001".to_owned()),
        );
    }
    let uid = weir
        .try_publish("s", claims, &[])
        .await
        .expect("accepted")
        .uid;
    let event = read(&weir, &uid).await;
    assert_eq!(
        (event.root.as_str(), event.parent.as_str(), event.depth),
        (uid.as_str(), "", 0)
    );
    assert!(
        event
            .event
            .expect("always there")
            .attributes
            .contains_key("parent")
    );
    weir.stop().await;
}

/// Key rules: one inherited, one that a child overrides, one that fails, and one for a webhook.
const RULES: &str = r#"
scopes:
  - name: root
    bindings:
      b: { executor: e }
    sources:
      - name: numbered
        match: { source: 'derive/*', type: 'issue.*' }
        keys:
          - { when: 'has(event.data.n)', key: '"n/" + string(event.data.n)' }
          - { key: '"title/" + event.data.title' }
      - name: strict
        match: { source: 'strict/*' }
        keys:
          - { key: '"x/" + event.data.x' }
      - name: github
        match: { source: 'webhook/*/github' }
        webhook: { kind: github, secret: main }
        keys:
          - { when: 'has(event.data.issue)', key: '"issue/" + string(event.data.issue.number)' }
    routes:
      - { slot: all, when: 'true', binding: b }
  - name: s
    parent: root
  - name: child
    parent: root
    sources:
      - name: numbered
        match: { source: 'derive/*' }
        keys:
          - { key: '"child/" + string(event.data.n)' }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a07_keys_are_the_producers_and_those_of_the_scopes_rules() {
    let weir = Weir::with(RULES).await;
    let keys = async |scope: &str, event: CloudEvent, given: &[&str]| {
        let uid = weir
            .try_publish(scope, event, given)
            .await
            .expect("accepted")
            .uid;
        read(&weir, &uid).await.keys
    };
    let data = r#"{"n":7,"title":"é"}"#;
    assert_eq!(
        keys(
            "s",
            from("derive/a", "1", "issue.opened", data),
            &["z", "a"]
        )
        .await,
        ["a", "n/7", "title/é", "z"]
    );
    // A missing field yields no key, and the others stand.
    assert_eq!(
        keys(
            "s",
            from("derive/a", "2", "issue.opened", r#"{"title":"t"}"#),
            &[]
        )
        .await,
        ["title/t"]
    );
    assert_eq!(
        keys(
            "s",
            from("derive/a", "3", "issue.opened", r#"{"n":8}"#),
            &[]
        )
        .await,
        ["n/8"]
    );
    assert_eq!(
        keys(
            "s",
            from("derive/a", "4", "issue.opened", "not json"),
            &["k"]
        )
        .await,
        ["k"]
    );
    // The globs are for source and type.
    assert!(
        keys("s", from("derive/a", "5", "other", data), &[])
            .await
            .is_empty()
    );
    assert!(
        keys("s", from("derived", "6", "issue.opened", data), &[])
            .await
            .is_empty()
    );
    // A child overrides a rule by its name, for itself alone.
    assert_eq!(
        keys("child", from("derive/a", "7", "other", data), &[]).await,
        ["child/7"]
    );

    let before = rows(&weir.db).await;
    let (code, reason, message, _) = refusal(
        weir.try_publish("s", from("strict/a", "8", "t", r#"{"x":1}"#), &[])
            .await,
    );
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "KEY_RULE_FAILED")
    );
    assert!(message.contains("strict"), "{message}");
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(512));
    let (_, _, message, faults) = refusal(
        weir.try_publish("s", from("strict/a", "9", "t", &long), &[])
            .await,
    );
    assert!(message.contains("512") && !faults.is_empty(), "{message}");
    assert_eq!(rows(&weir.db).await, before);

    // Derived keys are no content: the same event is the same under other rules (rule a01).
    weir.apply(&RULES.replace("\"n/\"", "\"number/\""), 1).await;
    let again = weir
        .try_publish(
            "s",
            from("derive/a", "1", "issue.opened", data),
            &["a", "z"],
        )
        .await
        .expect("answered");
    assert!(again.acceptance.expect("always there").deduplicated);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a07_a_webhook_is_known_by_its_delivery_or_its_body() {
    let weir = Weir::with(RULES).await;
    let body = r#"{"action":"opened","issue":{"number":5}}"#;
    let reply = deliver(&weir, "s", "github", &[("x-github-delivery", "d-1")], body).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    let event = read(&weir, reply.json()["uid"].as_str().expect("a uid")).await;
    let envelope = event.event.expect("always there");
    assert_eq!(
        (envelope.source.as_str(), envelope.id.as_str()),
        ("webhook/s/github", "d-1")
    );
    assert_eq!(
        (envelope.r#type.as_str(), event.actor.as_str()),
        ("issues.opened", "webhook/github")
    );
    assert_eq!(event.keys, ["issue/5"]);
    assert_eq!(envelope.data, Some(Data::TextData(body.to_owned())));
    let again = deliver(&weir, "s", "github", &[("x-github-delivery", "d-1")], body)
        .await
        .json();
    assert_eq!(
        (again["uid"].as_str(), again["deduplicated"].as_bool()),
        (Some(event.uid.as_str()), Some(true))
    );
    let other = deliver(&weir, "s", "github", &[("x-github-delivery", "d-1")], "{}").await;
    assert_eq!(
        (other.status, other.reason().as_str()),
        (409, "EVENT_CONFLICT")
    );
    // Without a delivery id the body names itself.
    let first = deliver(&weir, "s", "github", &[], body).await.json()["uid"].clone();
    let uid = first.as_str().expect("a uid");
    let id = read(&weir, uid).await.event.expect("always there").id;
    assert_eq!(
        id,
        hex::encode(<sha2::Sha256 as sha2::Digest>::digest(body))
    );
    assert_eq!(
        deliver(&weir, "s", "github", &[], body).await.json()["uid"],
        first
    );
    weir.stop().await;
}
