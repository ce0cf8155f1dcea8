//! Operator input: rules l14, o08, a01.

use sqlx::types::Uuid;
use weir_proto::lifecycle::v1 as pb;

use crate::world::{World, lease, reason};

fn send(work: Uuid, request_id: &str) -> pb::SendInputRequest {
    pb::SendInputRequest {
        work: work.to_string(),
        r#type: String::new(),
        text_data: r#"{"go":true}"#.to_owned(),
        request_id: request_id.to_owned(),
    }
}

#[tokio::test]
async fn l14_operator_input_names_its_work_and_waits_for_routing() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let event = world
        .works()
        .send_input(send(work, "r1"))
        .await
        .expect("accepted")
        .into_inner()
        .event;
    let row: (String, String, String, Option<i16>, Uuid) = sqlx::query_as(
        "SELECT e.source, e.id, e.type, e.disposition, p.target_work FROM weir.event AS e \
         JOIN weir.pending AS p USING (tenant_id, uid) WHERE e.uid = $1::uuid",
    )
    .bind(event.parse::<Uuid>().expect("a uuid"))
    .fetch_one(world.db.pool())
    .await
    .expect("it is pending");
    let expected = ("core.manual", "me/r1", "manual.input", None, work);
    assert_eq!(
        (row.0.as_str(), row.1.as_str(), row.2.as_str(), row.3, row.4),
        expected
    );
    let held = lease(&world.claim_one().await);
    assert_eq!(
        reason(world.complete(&held).await),
        "UNROUTED_INPUT",
        "it belongs to the work"
    );
    let noted = "SELECT count(*) FROM weir.audit AS a JOIN weir.event AS e USING (tenant_id, uid) \
        WHERE a.action = 'core.manual.send_input' AND a.actor = 'me' AND e.type = a.action AND e.disposition = 6";
    assert_eq!(world.count(noted).await, 1);
}

#[tokio::test]
async fn l14_operator_input_without_a_request_id_is_fresh_each_time() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let first = world.works().send_input(send(work, "")).await;
    let second = world.works().send_input(send(work, "")).await;
    assert_ne!(
        first.expect("accepted").into_inner(),
        second.expect("accepted").into_inner()
    );
    assert_eq!(world.count("SELECT count(*) FROM weir.pending").await, 2);
}

#[tokio::test]
async fn o08_a_repeated_send_answers_the_first_event() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let (mut a, mut b) = (world.works(), world.works());
    let mut hold = world.db.hold().await;
    hold.hold_scope_order(weir_kernel::TenantId(1), weir_kernel::ScopeId(1))
        .await;
    let release = async {
        world.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let (first, second, ()) = tokio::join!(
        a.send_input(send(work, "r1")),
        b.send_input(send(work, "r1")),
        release
    );
    let first = first.expect("accepted").into_inner();
    assert_eq!(first, second.expect("replayed").into_inner());
    let other = |text: &str| pb::SendInputRequest {
        text_data: text.to_owned(),
        ..send(work, "r1")
    };
    assert_eq!(
        reason(world.works().send_input(other("stop")).await),
        "REQUEST_CONFLICT"
    );
    // A day later the request is forgotten; the event's identity is not (rule a01).
    world.run("DELETE FROM weir.request").await;
    let again = world.works().send_input(send(work, "r1")).await;
    assert_eq!(again.expect("replayed").into_inner(), first);
    world.run("DELETE FROM weir.request").await;
    assert_eq!(
        reason(world.works().send_input(other("stop")).await),
        "EVENT_CONFLICT"
    );
    assert_eq!(world.count("SELECT count(*) FROM weir.pending").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM weir.audit").await, 1);
}

#[tokio::test]
async fn l14_operator_input_is_checked() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let refused = async |request| reason(world.works().send_input(request).await);
    let core = pb::SendInputRequest {
        r#type: "core.manual.x".to_owned(),
        ..send(work, "")
    };
    assert_eq!(refused(core).await, "INVALID_REQUEST");
    let long = "x".repeat(254);
    assert_eq!(refused(send(work, &long)).await, "INVALID_REQUEST");
    assert_eq!(refused(send(Uuid::now_v7(), "")).await, "WORK_NOT_FOUND");
    assert_eq!(
        reason(world.foreign().send_input(send(work, "")).await),
        "WORK_NOT_FOUND"
    );
    world.cancel(work).await;
    assert_eq!(refused(send(work, "")).await, "WORK_TERMINAL");
    let pending = "SELECT count(*) FROM weir.pending";
    assert_eq!(world.count(pending).await, 0);
}

#[tokio::test]
async fn a04_text_that_is_no_json_says_so() {
    let world = World::new().await;
    let work = world.queued(1).await;
    let text = pb::SendInputRequest {
        text_data: "go on".to_owned(),
        r#type: "chat.line".to_owned(),
        ..send(work, "t")
    };
    world.works().send_input(text).await.expect("accepted");
    let kept = "SELECT count(*) FROM weir.event AS e JOIN weir.event_body AS b USING (tenant_id, uid) \
        WHERE e.type = 'chat.line' AND b.payload = 'go on' AND convert_from(b.attributes, 'UTF8') LIKE '%text/plain%'";
    assert_eq!(world.count(kept).await, 1);
}
