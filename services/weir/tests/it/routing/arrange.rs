//! Arranging events, Works and configurations for routing tests.

use tonic::Status;
use weir_kernel::{ScopeId, TenantId};
use weir_proto::lifecycle::v1::{self as lifecycle, Capability, FailureKind};
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Event, PendingState, RouteRecord, Work, WorkState};

use crate::support::{Weir, event};

/// All capabilities.
pub(crate) const ALL: [Capability; 2] = [Capability::Inject, Capability::Interrupt];

/// Scope `s`, where an event's type says what its route does and `scripted` decides about the rest.
pub(crate) const SCRIPTED: &str = r#"
scopes:
  - name: root
  - name: s
    parent: root
    bindings:
      b: { executor: e, capabilities: [inject, interrupt], max_attempts: 9 }
      other: { executor: e }
    routes:
      - { slot: start, when: 'event.type == "start"', binding: b }
      - { slot: drop, when: 'event.type == "drop"', policy: drop }
      - { slot: other, when: 'event.type == "other"', binding: other }
      - { slot: attach, when: 'event.type == "attach"', binding: b, attach: ['event.data.key'] }
      - { slot: inject, when: 'event.type == "inject"', binding: b, policy: inject }
      - { slot: interrupt, when: 'event.type == "interrupt"', binding: b, policy: interrupt }
      - { slot: scripted, handler: { rust: scripted }, binding: b, policy: inject, attach: ['event.data.key'] }
  - name: t
    parent: root
    bindings: { b: { executor: e } }
    routes:
      - { slot: all, when: 'event.type == "start"', binding: b }
"#;

/// [`SCRIPTED`] with a deadline that no call meets that a test holds at a gate, however slow the machine is.
pub(crate) fn patient() -> String {
    SCRIPTED.replace(
        "handler: { rust: scripted },",
        "handler: { rust: scripted }, timeout: 60s,",
    )
}

/// Publishes an event with data into scope `s` and returns its uid.
pub(crate) async fn publish(
    weir: &Weir,
    id: &str,
    kind: &str,
    data: &str,
    keys: &[&str],
) -> String {
    weir.try_publish("s", event(id, kind, data), keys)
        .await
        .expect("accepted")
        .uid
}

/// Publishes into `s` what shall be decided in one pass, in order, and returns the uids.
pub(crate) async fn publish_together(
    weir: &Weir,
    items: &[(&str, &str, &str, &[&str])],
) -> Vec<String> {
    let item = |(id, kind, data, keys): &(&str, &str, &str, &[&str])| routing::PublishItem {
        event: Some(event(id, kind, data)),
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        targets: None,
    };
    let request = routing::PublishBatchRequest {
        scope: "s".to_owned(),
        events: items.iter().map(item).collect(),
        atomic: true,
    };
    let answer = weir
        .user
        .events()
        .publish_batch(request)
        .await
        .expect("accepted")
        .into_inner();
    answer
        .results
        .into_iter()
        .map(|r| r.accepted.expect("all or none").uid)
        .collect()
}

/// Starts a Work with a key, claims it, and returns both.
pub(crate) async fn running(weir: &Weir, id: &str, key: &str) -> (String, lifecycle::ClaimedWork) {
    let record = weir.routed(id, "start", &[key]).await;
    (record.work, weir.claim().await.expect("it is ready"))
}

/// Reads an event with its record or its pending state.
pub(crate) async fn read(weir: &Weir, uid: &str) -> Event {
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

/// Waits until an event is decided, without asking for it.
pub(crate) async fn decided(weir: &Weir, uid: &str) -> RouteRecord {
    weir.db
        .wait_until("an event is decided", async |_| {
            read(weir, uid).await.route.is_some()
        })
        .await;
    read(weir, uid).await.route.expect("just seen")
}

/// Waits until an event stands aside in a state.
pub(crate) async fn stands(weir: &Weir, uid: &str, state: PendingState) {
    let there = async |_: &_| {
        read(weir, uid)
            .await
            .pending
            .is_some_and(|p| p.state() == state)
    };
    weir.db.wait_until("an event stands aside", there).await;
}

/// Waits until a call of the script about an event hangs.
pub(crate) async fn hanging(weir: &Weir, id: &str) {
    weir.db
        .wait_until("the handler hangs", async |_| {
            weir.handlers.script.hanging(id) > 0
        })
        .await;
}

/// Waits until that many calls of the script about an event hang: one a replica.
pub(crate) async fn hanging_in(weir: &Weir, replicas: usize, id: &str) {
    weir.db
        .wait_until("each replica evaluates it", async |_| {
            weir.handlers.script.hanging(id) == replicas
        })
        .await;
}

/// Says that an event is undecided and nobody decided anything about it.
pub(crate) async fn untouched(weir: &Weir, uid: &str) -> bool {
    read(weir, uid)
        .await
        .pending
        .is_some_and(|p| p.state() == PendingState::Due && p.failures == 0)
}

/// Fails an attempt.
pub(crate) async fn fail(
    weir: &Weir,
    work: &lifecycle::ClaimedWork,
    kind: FailureKind,
) -> WorkState {
    let request = lifecycle::FailRequest {
        lease: work.lease.clone(),
        kind: kind.into(),
        error: "test".to_owned(),
        retry_after: None,
    };
    weir.user
        .executor()
        .fail(request)
        .await
        .expect("it has the lease")
        .into_inner()
        .state()
}

/// Creates a Work as an operator does.
pub(crate) async fn create(weir: &Weir, binding: &str, keys: &[&str]) -> Result<Work, Status> {
    let request = lifecycle::CreateWorkRequest {
        scope: "s".to_owned(),
        binding: binding.to_owned(),
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        text_data: "{}".to_owned(),
        reason: "test".to_owned(),
        request_id: String::new(),
    };
    let answer = weir.user.work().create_work(request).await?;
    Ok(answer.into_inner().work.expect("always there"))
}

/// Asks for what the running attempt is offered, and returns the events of its injects and its interrupts.
pub(crate) async fn renew(
    weir: &Weir,
    claimed: &lifecycle::ClaimedWork,
) -> (Vec<String>, Vec<String>) {
    let request = lifecycle::RenewRequest {
        lease: claimed.lease.clone(),
        extend: None,
    };
    let answer = weir
        .user
        .executor()
        .renew(request)
        .await
        .expect("it has the lease")
        .into_inner();
    let uids = |events: Vec<Event>| events.into_iter().map(|e| e.uid).collect();
    (uids(answer.injects), uids(answer.interrupts))
}

/// Cancels a Work as an operator does.
pub(crate) async fn cancel(weir: &Weir, work: &str) {
    let request = lifecycle::CancelWorkRequest {
        work: work.to_owned(),
        reason: "test".to_owned(),
        request_id: String::new(),
    };
    weir.user
        .work()
        .cancel_work(request)
        .await
        .expect("it is alive");
}

/// Returns the tenant and a scope as the database numbers them.
pub(crate) async fn numbers(weir: &Weir, scope: &str) -> (TenantId, ScopeId) {
    let (tenant, scope): (i64, i32) =
        sqlx::query_as("SELECT tenant_id, scope_id FROM weir.scope WHERE name = $1")
            .bind(scope)
            .fetch_one(weir.db.pool())
            .await
            .expect("it is configured");
    (TenantId(tenant), ScopeId(scope))
}
