//! Parking, waking and looking.

use std::time::Duration;

use tonic::Status;
use weir_proto::causal::v1 as causal;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::lifecycle::v1::wait_condition::Condition;
use weir_proto::types::v1::{Event, Input, RouteRecord, Wait, WorkState};

use crate::routing::script::Say;
use crate::support::{Weir, event};

/// Scope `s` with routes by type, a scripted one last; scope `t` of its own; limits that a test can narrow.
pub(crate) const WAITING: &str = r#"
scopes:
  - name: root
    limits: { depth: 32, derived_per_minute: 128 }
  - name: s
    parent: root
    bindings:
      b: { executor: e }
      other: { executor: e }
    routes:
      - { slot: start, when: 'event.type == "start"', binding: b }
      - { slot: context, when: 'event.type == "context"', binding: b }
      - { slot: other, when: 'event.type == "other"', binding: other }
      - { slot: drop, when: 'event.type == "drop"', policy: drop }
      - { slot: scripted, handler: { rust: scripted }, binding: b }
  - name: t
    parent: root
    bindings: { b: { executor: e } }
    routes:
      - { slot: all, when: 'event.type == "start"', binding: b }
"#;

/// Any further input of the Work.
pub(crate) fn own() -> Condition {
    Condition::OwnInput(lifecycle::OwnInput {})
}

/// An event of a scope.
pub(crate) fn of(scope: &str, filter: &str) -> Condition {
    Condition::Event(lifecycle::EventCondition {
        scope: scope.to_owned(),
        filter: filter.to_owned(),
        emitter: String::new(),
    })
}

/// Parks an attempt.
pub(crate) async fn try_park(
    weir: &Weir,
    work: &lifecycle::ClaimedWork,
    conditions: &[Condition],
    timeout: Option<Duration>,
) -> Result<Wait, Status> {
    let request = lifecycle::ParkRequest {
        lease: work.lease.clone(),
        conditions: conditions
            .iter()
            .map(|c| lifecycle::WaitCondition {
                condition: Some(c.clone()),
            })
            .collect(),
        timeout: timeout.map(|t| prost_types::Duration::try_from(t).expect("in range")),
        since: None,
    };
    let answer = weir.user.executor().park(request).await?.into_inner();
    Ok(answer.wait.expect("always there"))
}

/// Parks an attempt that has its lease.
pub(crate) async fn park(
    weir: &Weir,
    work: &lifecycle::ClaimedWork,
    conditions: &[Condition],
) -> Wait {
    try_park(weir, work, conditions, None)
        .await
        .expect("it has the lease")
}

/// Starts a Work with a key and claims it.
pub(crate) async fn claimed(weir: &Weir, id: &str, key: &str) -> lifecycle::ClaimedWork {
    let record = weir.routed(id, "start", &[key]).await;
    let claimed = weir.claim().await.expect("it is ready");
    assert_eq!(lease(&claimed).work, record.work);
    claimed
}

/// Starts a Work with a key, claims it and parks it.
pub(crate) async fn parked(
    weir: &Weir,
    id: &str,
    key: &str,
    conditions: &[Condition],
) -> (String, Wait) {
    let claimed = claimed(weir, id, key).await;
    let wait = park(weir, &claimed, conditions).await;
    (lease(&claimed).work.clone(), wait)
}

/// Claims at most one Work of scope `s`.
pub(crate) async fn claim(weir: &Weir) -> Option<lifecycle::ClaimedWork> {
    let spec = lifecycle::ClaimSpec {
        binding: "b".to_owned(),
        scope: "s".to_owned(),
        owner: "worker".to_owned(),
        ..Default::default()
    };
    let request = lifecycle::ClaimOnceRequest {
        spec: Some(spec),
        max_works: 1,
        // A routing commit may have its row locked for a moment, and a claim waits for nobody.
        wait: Some(prost_types::Duration {
            seconds: 10,
            nanos: 0,
        }),
    };
    let answer = weir.user.executor().claim_once(request).await;
    answer.expect("claimable").into_inner().works.pop()
}

/// The authority of an attempt.
pub(crate) fn lease(work: &lifecycle::ClaimedWork) -> &weir_proto::types::v1::Lease {
    work.lease.as_ref().expect("always there")
}

/// Holds the row of a Work, so that nobody changes it.
pub(crate) async fn hold_work(weir: &Weir, work: &str) -> weir_testkit::Hold {
    let mut hold = weir.db.hold().await;
    let work: uuid::Uuid = work.parse().expect("a uid");
    sqlx::query("SELECT 1 FROM weir.work WHERE work_id = $1 FOR UPDATE")
        .bind(work)
        .execute(hold.connection())
        .await
        .expect("it is there");
    hold
}

/// Waits until a Work is in a state.
pub(crate) async fn becomes(weir: &Weir, work: &str, state: WorkState) {
    weir.db
        .wait_until("a work gets on", async |_| {
            weir.work(work).await.state() == state
        })
        .await;
}

/// Waits until all asked checks of waits are done.
pub(crate) async fn checked(weir: &Weir) {
    weir.db
        .wait_until("waits are checked", async |pool| {
            sqlx::query_scalar::<_, bool>(
                "SELECT NOT EXISTS (SELECT FROM weir.wait WHERE state = 1 AND asked > checked) \
                 AND NOT EXISTS (SELECT FROM weir.wait_sub s CROSS JOIN LATERAL (\
                    SELECT max(last_seq) AS head FROM weir.scope_head h \
                    WHERE h.tenant_id = s.tenant_id AND h.scope_id = s.scope_id) h \
                    WHERE s.kind = 2 AND s.seen_seq < h.head)",
            )
            .fetch_one(pool)
            .await
            .expect("readable")
        })
        .await;
}

/// Claims a woken Work; its first input is the bridge.
pub(crate) async fn woken(weir: &Weir, work: &str) -> lifecycle::ClaimedWork {
    becomes(weir, work, WorkState::Ready).await;
    let claimed = claim(weir).await.expect("it was woken");
    assert_eq!(lease(&claimed).work, work);
    assert_eq!(kind(&claimed.inputs[0]), "core.wait.woken");
    assert_eq!(claimed.trigger, claimed.inputs[0].uid);
    claimed
}

/// The type of an event.
pub(crate) fn kind(event: &Event) -> &str {
    &event.event.as_ref().expect("always there").r#type
}

/// The uids of presented events.
pub(crate) fn uids(work: &lifecycle::ClaimedWork) -> Vec<&str> {
    work.inputs.iter().map(|e| e.uid.as_str()).collect()
}

/// What a bridge says.
pub(crate) fn said(bridge: &Event) -> serde_json::Value {
    let event = bridge.event.as_ref().expect("always there");
    let Some(Data::TextData(text)) = &event.data else {
        panic!("a bridge has text");
    };
    serde_json::from_str(text).expect("JSON")
}

/// Publishes an event into a scope and returns its uid.
pub(crate) async fn publish_into(
    weir: &Weir,
    scope: &str,
    id: &str,
    kind: &str,
    keys: &[&str],
) -> String {
    weir.try_publish(scope, event(id, kind, "{}"), keys)
        .await
        .expect("accepted")
        .uid
}

/// Publishes an event into scope `s` that only the scripted route decides, and returns its record.
pub(crate) async fn scripted(weir: &Weir, id: &str, keys: &[&str], say: Say) -> RouteRecord {
    weir.handlers.script.say(id, [say]);
    weir.routed(id, "scripted", keys).await
}

/// Emits an event of an attempt.
pub(crate) async fn emit(
    weir: &Weir,
    from: &lifecycle::ClaimedWork,
    event: CloudEvent,
    keys: &[&str],
    scope: &str,
) -> Result<String, Status> {
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
        scope: scope.to_owned(),
        events: vec![emission],
        ..Default::default()
    };
    let answer = weir.user.causal().emit(request).await?.into_inner();
    let accepted = answer.results[0].accepted.as_ref();
    Ok(accepted
        .expect("accepted or refused as a whole")
        .uid
        .clone())
}

/// Reads a Work's inputs.
pub(crate) async fn inputs(weir: &Weir, work: &str) -> Vec<Input> {
    let request = lifecycle::ListInputsRequest {
        work: work.to_owned(),
        page_size: 1_000,
        ..Default::default()
    };
    let answer = weir.user.work().list_inputs(request).await.expect("known");
    answer.into_inner().inputs
}

/// Releases a held Work.
pub(crate) async fn release(weir: &Weir, work: &str) -> WorkState {
    let request = lifecycle::ReleaseWorkRequest {
        work: work.to_owned(),
        reason: "test".to_owned(),
        ..Default::default()
    };
    let answer = weir.user.work().release_work(request).await.expect("held");
    answer.into_inner().work.expect("always there").state()
}

/// Sends an operator's input.
pub(crate) async fn send_input(
    weir: &Weir,
    work: &str,
    kind: &str,
    request_id: &str,
) -> Result<String, Status> {
    let request = lifecycle::SendInputRequest {
        work: work.to_owned(),
        r#type: kind.to_owned(),
        text_data: r#"{"please":"go on"}"#.to_owned(),
        request_id: request_id.to_owned(),
    };
    let answer = weir.user.work().send_input(request).await?;
    Ok(answer.into_inner().event)
}
