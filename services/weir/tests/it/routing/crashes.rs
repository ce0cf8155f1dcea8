//! Events that take the process down (rule r21), and those that were beside them.

mod lives;

use std::time::Duration;

use uuid::Uuid;
use weir_proto::types::v1::{Disposition, PendingState};

use super::arrange::{SCRIPTED, decided, hanging, numbers, publish, read, stands, untouched};
use super::script::Say;
use crate::support::{Weir, event};

/// Longer than a silent replica counts as live.
const DEAD: Duration = Duration::from_secs(31);

/// Handlers have time, so that a slow machine is no timeout.
fn patient() -> String {
    SCRIPTED.replace(
        "handler: { rust: scripted },",
        "handler: { rust: scripted }, timeout: 60s,",
    )
}

/// Leaves the claim of a replica that was last seen before the one under test started, and is dead after [`DEAD`]:
/// until then nobody knows.
async fn claimed(weir: &Weir, seqs: &[i64], alone: Option<i64>) {
    let (tenant, scope) = numbers(weir, "s").await;
    let owner = Uuid::now_v7();
    sqlx::query(
        "INSERT INTO weir.replica (tenant_id, replica, generation, seen_at) \
         VALUES (0, $1, 0, weir.clock() - interval '20 s')",
    )
    .bind(owner)
    .execute(weir.db.pool())
    .await
    .expect("planted");
    sqlx::query(
        "INSERT INTO weir.route_claim (tenant_id, owner, scope_id, seqs, claimed_at, alone) \
         VALUES ($1, $2, $3, $4, weir.clock(), $5)",
    )
    .bind(tenant.0)
    .bind(owner)
    .bind(scope.0)
    .bind(seqs)
    .bind(alone)
    .execute(weir.db.pool())
    .await
    .expect("planted");
}

/// Sets what is known of an event's crashes and failures.
async fn known(weir: &Weir, uid: &str, crashes: i16, failures: i16, first_failed: &str) {
    sqlx::query(
        "UPDATE weir.pending SET crashes = $2, failures = $3, \
                first_failed_at = weir.clock() - $4::text::interval WHERE uid = $1::uuid",
    )
    .bind(uid)
    .bind(crashes)
    .bind(failures)
    .bind(first_failed)
    .execute(weir.db.pool())
    .await
    .expect("it is pending");
}

async fn crashes(weir: &Weir, uid: &str) -> i16 {
    sqlx::query_scalar("SELECT crashes FROM weir.pending WHERE uid = $1::uuid")
        .bind(uid)
        .fetch_one(weir.db.pool())
        .await
        .expect("it is pending")
}

async fn no_claim_is_left(weir: &Weir) {
    weir.db
        .wait_until("no claim is left", async |pool| {
            sqlx::query_scalar("SELECT count(*) = 0 FROM weir.route_claim")
                .fetch_one(pool)
                .await
                .expect("a table")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_what_asks_handlers_is_claimed_before_and_taken_off_by_the_commit() {
    let weir = Weir::with(&patient()).await;
    let script = &weir.handlers.script;
    script.close("hangs");
    let uid = publish(&weir, "hangs", "x", "{}", &["a"]).await;
    hanging(&weir, "hangs").await;
    let seqs: Vec<Vec<i64>> = sqlx::query_scalar("SELECT seqs FROM weir.route_claim")
        .fetch_all(weir.db.pool())
        .await
        .expect("a table");
    assert_eq!(seqs, [vec![1]]);
    // Another of the scope joins it and leaves it again.
    let other = publish(&weir, "other", "x", "{}", &["b"]).await;
    decided(&weir, &other).await;
    let seqs: Vec<Vec<i64>> = sqlx::query_scalar("SELECT seqs FROM weir.route_claim")
        .fetch_all(weir.db.pool())
        .await
        .expect("a table");
    assert_eq!(seqs, [vec![1]]);
    script.open("hangs");
    decided(&weir, &uid).await;
    no_claim_is_left(&weir).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_expressions_claim_nothing() {
    let weir = Weir::with(&patient()).await;
    // Whoever writes a claim fails.
    sqlx::raw_sql(
        "CREATE FUNCTION weir.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a claim'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON weir.route_claim EXECUTE FUNCTION weir.refuse()",
    )
    .execute(weir.db.pool())
    .await
    .expect("made");
    let accepted = weir.try_publish("t", event("1", "start", "{}"), &["k"]);
    let uid = accepted.await.expect("accepted").uid;
    assert_eq!(decided(&weir, &uid).await.disposition(), Disposition::Start);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_events_of_a_dead_replicas_claim_are_kept_off_and_then_decided_alone_one_by_one() {
    let weir = Weir::with(&patient()).await;
    let script = &weir.handlers.script;
    claimed(&weir, &[1, 2, 3], None).await;
    let mut suspects = Vec::new();
    for id in ["one", "two", "three"] {
        script.say(id, [Say::Match]);
        script.close(id);
        suspects.push(publish(&weir, id, "x", "{}", &[id]).await);
    }
    let free = publish(&weir, "free", "x", "{}", &["free"]).await;
    decided(&weir, &free).await;
    for (uid, id) in suspects.iter().zip(["one", "two", "three"]) {
        assert!(untouched(&weir, uid).await, "its owner may live");
        assert_eq!(script.calls(id), []);
    }

    weir.db.advance(DEAD).await;
    let mut left = vec!["one", "two", "three"];
    while !left.is_empty() {
        weir.db
            .wait_until("a suspect is decided", async |_| {
                left.iter().any(|id| script.hanging(id) > 0)
            })
            .await;
        let marked: Vec<Option<i64>> = sqlx::query_scalar("SELECT alone FROM weir.route_claim")
            .fetch_all(weir.db.pool())
            .await
            .expect("a table");
        assert!(
            matches!(marked[..], [Some(1..=3)]),
            "the claim names it: {marked:?}"
        );
        // Expressions go on meanwhile; another event that asks a handler waits for its turn.
        let id = format!("beside {}", left.len());
        let waits = publish(&weir, &id, "x", "{}", &[&id]).await;
        let (there, keys) = (format!("{id} in t"), [id.as_str()]);
        let accepted = weir.try_publish("t", event(&there, "start", "{}"), &keys);
        let goes_on = accepted.await.expect("accepted").uid;
        decided(&weir, &goes_on).await;
        assert!(untouched(&weir, &waits).await);
        assert_eq!(script.calls(&id), []);
        let now: Vec<&str> = left
            .iter()
            .copied()
            .filter(|id| script.hanging(id) > 0)
            .collect();
        assert_eq!(now.len(), 1, "{now:?}");
        left.retain(|id| *id != now[0]);
        script.open(now[0]);
    }
    for uid in &suspects {
        let record = decided(&weir, uid).await;
        assert_eq!(
            (record.disposition(), record.attempts),
            (Disposition::Start, 0),
            "none of them is to blame"
        );
    }
    no_claim_is_left(&weir).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_the_third_crash_alone_is_a_failure_and_a_reroute_forgets_all_of_them() {
    let weir = Weir::with(&patient()).await;
    let script = &weir.handlers.script;
    script.say("poison", [Say::Match]);
    claimed(&weir, &[1, 2], Some(1)).await;
    let uid = publish(&weir, "poison", "x", "{}", &["p"]).await;
    let beside = publish(&weir, "beside", "x", "{}", &["b"]).await;
    known(&weir, &uid, 2, 3, "1 min").await;
    weir.db.advance(DEAD).await;
    stands(&weir, &uid, PendingState::Backoff).await;
    // It dies of it again.
    claimed(&weir, &[1], Some(1)).await;
    let pending = read(&weir, &uid).await.pending.expect("it backs off");
    assert_eq!(pending.failures, 3, "twice is not three times");
    assert_eq!(crashes(&weir, &uid).await, 3);
    decided(&weir, &beside).await;
    weir.db.advance(DEAD).await;
    weir.db
        .wait_until("it is counted", async |_| {
            let pending = read(&weir, &uid).await.pending;
            pending.is_some_and(|p| p.failures == 4)
        })
        .await;
    let pending = read(&weir, &uid).await.pending.expect("it backs off");
    assert_eq!(pending.state(), PendingState::Backoff);
    assert_eq!(
        pending.last_error,
        "handler_crashed: deciding it alone took the process down, time 3"
    );
    assert!(pending.first_failed_at.is_some() && pending.next_try.is_some());
    assert_eq!(script.calls("poison"), []);

    weir.reroute(&uid).await.expect("it is unrouted");
    let record = decided(&weir, &uid).await;
    assert_eq!(
        (record.disposition(), record.attempts),
        (Disposition::Start, 0)
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_crashes_are_given_up_by_count_and_window() {
    let weir = Weir::with(&patient()).await;
    let script = &weir.handlers.script;
    claimed(&weir, &[1], Some(1)).await;
    let uid = publish(&weir, "poison", "x", "{}", &["p"]).await;
    let behind = publish(&weir, "behind", "x", "{}", &["p"]).await;
    // The fifth failure, but a minute after the first.
    known(&weir, &uid, 7, 4, "1 min").await;
    weir.db.advance(DEAD).await;
    stands(&weir, &uid, PendingState::Backoff).await;
    let pending = read(&weir, &uid).await.pending.expect("it backs off");
    assert_eq!(pending.failures, 5);
    assert!(untouched(&weir, &behind).await, "it waits behind");

    // The sixth, and long after the first.
    known(&weir, &uid, 8, 5, "16 min").await;
    claimed(&weir, &[1], Some(1)).await;
    weir.db.advance(DEAD).await;
    let record = decided(&weir, &uid).await;
    assert_eq!(
        (
            record.disposition(),
            record.reason.as_str(),
            record.attempts
        ),
        (Disposition::Failed, "handler_crashed", 6)
    );
    assert_eq!(
        record.error,
        "deciding it alone took the process down 8 times"
    );
    assert_eq!(script.calls("poison"), [], "its handler was not asked");
    decided(&weir, &behind).await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_a_claim_of_a_live_replica_counts_nothing() {
    let weir = Weir::with(&patient()).await;
    claimed(&weir, &[1, 2], Some(1)).await;
    // It beats on.
    sqlx::query("UPDATE weir.replica SET seen_at = weir.clock() + interval '1 h' WHERE handlers = '{}' AND tenant_id = 0")
        .execute(weir.db.pool())
        .await
        .expect("a table");
    let alone = publish(&weir, "alone", "x", "{}", &["a"]).await;
    // Claims of the living exclude nobody, but for what is decided alone.
    let beside = publish(&weir, "beside", "x", "{}", &["b"]).await;
    decided(&weir, &beside).await;
    weir.db.advance(DEAD).await;
    let next = publish(&weir, "next", "x", "{}", &["n"]).await;
    decided(&weir, &next).await;
    assert!(untouched(&weir, &alone).await);
    assert_eq!(crashes(&weir, &alone).await, 0);
    sqlx::query("DELETE FROM weir.route_claim")
        .execute(weir.db.pool())
        .await
        .expect("a table");
    decided(&weir, &alone).await;
    weir.stop().await;
}
