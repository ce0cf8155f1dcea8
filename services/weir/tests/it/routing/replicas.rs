//! Several replicas: who runs what (GetConfigStatus), and who has which handler (rule r23).

use std::time::Duration;

use uuid::Uuid;
use weir_proto::routing::v1::{GetConfigStatusRequest, GetConfigStatusResponse};
use weir_proto::types::v1::Disposition;

use super::arrange::{SCRIPTED, decided, hanging, publish, read, untouched};
use super::script::Say;
use crate::support::{Weir, event};

/// Longer than a silent replica counts as live.
const DEAD: Duration = Duration::from_secs(31);

/// Scope `s`: `scripted` is asked first, then a handler that no replica of the tests has.
const GHOST: &str = r#"
scopes:
  - name: s
    bindings: { b: { executor: e } }
    routes:
      - { slot: scripted, handler: { rust: scripted }, binding: b, timeout: 60s }
      - { slot: ghost, handler: { rust: ghost }, binding: b }
"#;

async fn status(weir: &Weir) -> GetConfigStatusResponse {
    let answer = weir
        .user
        .config()
        .get_config_status(GetConfigStatusRequest {})
        .await;
    answer.expect("the tenant is there").into_inner()
}

async fn run(weir: &Weir, generation: i64, replicas: usize) -> GetConfigStatusResponse {
    weir.db
        .wait_until("all replicas run it", async |_| {
            let found = status(weir).await;
            found.generation == generation
                && found.replicas.len() == replicas
                && found.replicas.iter().all(|r| r.generation == generation)
        })
        .await;
    status(weir).await
}

/// Lets the others believe in a replica with handlers, which loaded a generation of tenant `demo`, if any.
async fn believe(weir: &Weir, handlers: &[&str], generation: Option<i64>) -> Uuid {
    let id = Uuid::now_v7();
    sqlx::query(
        "INSERT INTO weir.replica (tenant_id, replica, generation, handlers, seen_at) \
         SELECT 0, $1, 0::int8, $2::text[], weir.clock() \
         UNION ALL SELECT tenant_id, $1, $3::int8, '{}', weir.clock() FROM weir.tenant WHERE $3 IS NOT NULL",
    )
    .bind(id)
    .bind(handlers)
    .bind(generation)
    .execute(weir.db.pool())
    .await
    .expect("planted");
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_names_each_live_replica_and_what_it_runs() {
    let weir = Weir::with(SCRIPTED).await;
    run(&weir, 1, 1).await;
    let second = weir.another().await;
    let found = run(&weir, 1, 2).await;
    assert!(found.replicas.is_sorted_by_key(|r| r.replica.clone()));
    assert!(found.replicas.iter().all(|r| r.seen_at.is_some()));

    // Both take a new generation up, without an event.
    assert_eq!(weir.apply(&format!("{SCRIPTED}# 2\n"), 1).await, 2);
    let found = run(&weir, 2, 2).await;

    // The second tells the same of both.
    let request = GetConfigStatusRequest {};
    let told = second.user.config().get_config_status(request).await;
    let told = told.expect("the tenant is there").into_inner();
    let ids = |found: &GetConfigStatusResponse| -> Vec<String> {
        found.replicas.iter().map(|r| r.replica.clone()).collect()
    };
    assert_eq!(ids(&told), ids(&found));

    // One that ends by itself is gone at once; one that is silent for long enough, too; and one dead for long leaves
    // no row.
    let silent = believe(&weir, &[], Some(2)).await.to_string();
    assert!(ids(&run(&weir, 2, 3).await).contains(&silent));
    second.stop().await;
    let found = status(&weir).await;
    assert_eq!(found.replicas.len(), 2);
    weir.db.advance(DEAD).await;
    assert!(!ids(&run(&weir, 2, 1).await).contains(&silent));
    weir.db.advance(Duration::from_secs(2 * 3_600)).await;
    weir.db
        .wait_until("it is forgotten", async |pool| {
            sqlx::query_scalar("SELECT count(*) = 0 FROM weir.replica WHERE replica = $1::uuid")
                .bind(&silent)
                .fetch_one(pool)
                .await
                .expect("a table")
        })
        .await;
    // Its own rows are there again.
    run(&weir, 2, 1).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_a_replica_without_the_handler_leaves_the_event_to_one_that_has_it() {
    // A slow machine is no timeout.
    let config = SCRIPTED.replace(
        "handler: { rust: scripted },",
        "handler: { rust: scripted }, timeout: 60s,",
    );
    let weir = Weir::with_only(&config, &[]).await;
    let second = weir.another_with(&["scripted"]).await;
    run(&weir, 1, 2).await;
    let script = &weir.handlers.script;
    script.say("1", [Say::Match]);
    script.close("1");
    let uid = publish(&weir, "1", "x", "{}", &["k"]).await;
    let behind = publish(&weir, "2", "start", "{}", &["k"]).await;
    hanging(&weir, "1").await;
    // The first one goes on with all else, and meets it again and again.
    for n in 0..10 {
        let id = format!("other {n}");
        let other = publish(&weir, &id, "start", "{}", &[&id]).await;
        decided(&weir, &other).await;
    }
    assert!(untouched(&weir, &uid).await, "it is not counted");
    assert!(untouched(&weir, &behind).await, "and keeps its place");
    assert_eq!(
        weir.trace("x", "{}", &[])
            .await
            .effect
            .expect("always there")
            .reason,
        "left to a live replica that has the handler"
    );
    script.open("1");
    let record = decided(&weir, &uid).await;
    assert_eq!(
        (record.disposition(), record.attempts),
        (Disposition::Start, 0)
    );
    assert_eq!(decided(&weir, &behind).await.work, record.work);

    // Nobody has it any more.
    second.stop().await;
    let uid = publish(&weir, "3", "x", "{}", &["l"]).await;
    let record = decided(&weir, &uid).await;
    assert_eq!(
        (record.disposition(), record.reason.as_str()),
        (Disposition::Failed, "handler_missing")
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_an_event_is_left_to_live_replicas_of_its_generation_only() {
    let weir = Weir::with(GHOST).await;
    run(&weir, 1, 1).await;
    // One that has not loaded the tenant yet will.
    let young = believe(&weir, &["ghost"], None).await;
    let uid = publish(&weir, "1", "x", "{}", &["1"]).await;
    let after = async |id: &str| {
        weir.handlers.script.say(id, [Say::Match]);
        let other = publish(&weir, id, "x", "{}", &[id]).await;
        decided(&weir, &other).await;
    };
    after("a").await;
    assert!(untouched(&weir, &uid).await);
    // It dies.
    weir.db.advance(DEAD).await;
    assert_eq!(decided(&weir, &uid).await.reason, "handler_missing");

    // One that stays on an old generation is waited for as long as it may still follow.
    weir.apply(&format!("{GHOST}# 2\n"), 1).await;
    let old = believe(&weir, &["ghost"], Some(1)).await;
    sqlx::query(
        "UPDATE weir.replica SET seen_at = weir.clock() + interval '1 h' WHERE replica = $1",
    )
    .bind(old)
    .execute(weir.db.pool())
    .await
    .expect("a table");
    let uid = publish(&weir, "2", "x", "{}", &["2"]).await;
    after("b").await;
    assert!(untouched(&weir, &uid).await);
    weir.db.advance(DEAD).await;
    assert_eq!(decided(&weir, &uid).await.reason, "handler_missing");
    assert_ne!(young, old);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_a_handler_that_appears_before_the_commit_keeps_the_event_from_failing() {
    let weir = Weir::with(GHOST).await;
    run(&weir, 1, 1).await;
    let script = &weir.handlers.script;
    script.close("1");
    let uid = publish(&weir, "1", "x", "{}", &["k"]).await;
    hanging(&weir, "1").await;
    let mut hold = weir.db.hold().await;
    hold.run("SELECT 1 FROM weir.pending FOR UPDATE").await;
    script.open("1");
    // Nobody has the handler when it is asked for; now the commit waits.
    weir.db.wait_until_blocked(1).await;
    let ghost = believe(&weir, &["ghost"], Some(1)).await;
    hold.release().await;
    weir.db
        .wait_until("it is decided anew", async |_| script.calls("1").len() > 1)
        .await;
    script.say("2", [Say::Match]);
    let other = weir.try_publish("s", event("2", "x", "{}"), &["l"]).await;
    decided(&weir, &other.expect("accepted").uid).await;
    assert!(untouched(&weir, &uid).await);
    sqlx::query("DELETE FROM weir.replica WHERE replica = $1")
        .bind(ghost)
        .execute(weir.db.pool())
        .await
        .expect("a table");
    assert_eq!(decided(&weir, &uid).await.reason, "handler_missing");
    assert!(read(&weir, &uid).await.pending.is_none());
    weir.stop().await;
}
