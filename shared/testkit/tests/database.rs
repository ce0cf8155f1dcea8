//! The kit itself: what every other test relies on.

#![expect(
    clippy::disallowed_methods,
    reason = "a test spawns what it wants to stop"
)]

use std::time::Duration;

use weir_kernel::{ScopeId, TenantId};
use weir_testkit::TestDb;

#[tokio::test]
async fn every_test_has_a_database_of_its_own_with_the_whole_schema() {
    let (one, two) = tokio::join!(TestDb::new(), TestDb::new());
    assert_ne!(one.url(), two.url());
    assert_eq!(
        weir_pg::schema::readiness(&one.open("a service")).await,
        Ok(())
    );
    assert_eq!(one.schema_dump().await, two.schema_dump().await);
}

#[tokio::test]
async fn the_clock_moves_for_every_session_at_once() {
    let db = TestDb::new().await;
    let service = db.open("a service");
    let read = async || -> chrono::DateTime<chrono::Utc> {
        sqlx::query_scalar("SELECT weir.clock()")
            .fetch_one(service.pool())
            .await
            .expect("the schema has a clock")
    };
    let before = read().await;
    db.advance(Duration::from_millis(3_600_500)).await;
    let after = read().await;
    let moved = (after - before).to_std().expect("time goes on");
    assert!(
        (3_600_500..3_630_000).contains(&moved.as_millis()),
        "{moved:?}"
    );
    assert!(db.now().await >= after);
}

#[tokio::test]
async fn a_hold_stops_others_where_they_can_be_seen() {
    let db = TestDb::new().await;
    let mut hold = db.hold().await;
    let (tenant, scope) = (TenantId(1), ScopeId(1));
    hold.hold_scope_order(tenant, scope).await;
    let mut other = db.hold().await;
    let waiting = tokio::spawn(async move {
        other.hold_scope_order(tenant, scope).await;
        other.release().await;
    });
    db.wait_until_blocked(1).await;
    assert!(!waiting.is_finished());
    hold.release().await;
    waiting.await.expect("the other goes on");
}

#[tokio::test]
async fn sessions_under_test_can_be_ended_and_the_kits_own_stay() {
    let db = TestDb::new().await;
    let service = db.open("a service");
    let mut session = service
        .pool()
        .acquire()
        .await
        .expect("the test server answers");
    let mut hold = db.hold().await;
    assert_eq!(db.terminate_backends().await, 1);
    sqlx::query("SELECT 1")
        .execute(&mut *session)
        .await
        .expect_err("the session is gone");
    sqlx::query("SELECT 1")
        .execute(hold.connection())
        .await
        .expect("the kit's session is not");
    hold.release().await;
}

#[tokio::test]
async fn a_database_is_dropped_with_its_value() {
    let gone = TestDb::empty().await;
    let name = gone
        .url()
        .split(['/', '?'])
        .nth(3)
        .expect("an address has a database")
        .to_owned();
    let here = TestDb::empty().await;
    let found = async || -> bool {
        let query =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
                .bind(&name);
        query
            .fetch_one(here.pool())
            .await
            .expect("the test server answers")
    };
    assert!(found().await);
    drop(gone);
    assert!(!found().await);
}
