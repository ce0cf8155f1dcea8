//! The runner, the locks and the probe against real PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Barrier;
use weir_kernel::{Classify, ScopeId, TenantId};
use weir_pg::locks::{self, Mode};
use weir_pg::{Command, Db, Error, MAX_ATTEMPTS, Options, Tx, applied_migrations};
use weir_testkit::TestDb;

async fn table(db: &TestDb) {
    sqlx::raw_sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0)",
    )
    .execute(db.pool())
    .await
    .expect("a fresh database takes a table");
}

async fn sum(db: &TestDb) -> i64 {
    sqlx::query_scalar("SELECT sum(n) FROM t")
        .fetch_one(db.pool())
        .await
        .expect("the table is there")
}

/// Adds to both rows, in an order, and meets its twin between the two.
struct Add<'a> {
    order: [i32; 2],
    meet: &'a Barrier,
    runs: AtomicU32,
}

impl Command for Add<'_> {
    const NAME: &'static str = "test.add";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        let first = self.runs.fetch_add(1, Ordering::Relaxed) == 0;
        for (at, id) in self.order.into_iter().enumerate() {
            sqlx::query("UPDATE t SET n = n + 1 WHERE id = $1")
                .bind(id)
                .execute(tx.conn())
                .await?;
            if first && at == 0 {
                self.meet.wait().await;
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_deadlock_is_repeated_and_nothing_is_lost() {
    let db = TestDb::empty().await;
    table(&db).await;
    let meet = Barrier::new(2);
    let add = |order| Add {
        order,
        meet: &meet,
        runs: AtomicU32::new(0),
    };
    let (one, two) = (add([1, 2]), add([2, 1]));
    let service = db.open("test");
    let (first, second) = tokio::join!(service.run(&one), service.run(&two));
    first.expect("repeated");
    second.expect("repeated");
    assert_eq!(sum(&db).await, 4);
    assert_eq!(one.runs.into_inner() + two.runs.into_inner(), 3);
}

/// Wants to look again until its last attempt.
struct Restless {
    runs: AtomicU32,
    content_after: u32,
}

impl Command for Restless {
    const NAME: &'static str = "test.restless";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        sqlx::query("UPDATE t SET n = n + 1")
            .execute(tx.conn())
            .await?;
        let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        if run < self.content_after {
            Err(Error::Again)
        } else {
            Ok(())
        }
    }
}

#[tokio::test]
async fn fresh_eyes_are_bounded() {
    let db = TestDb::empty().await;
    table(&db).await;
    let service = db.open("test");
    let content = Restless {
        runs: AtomicU32::new(0),
        content_after: 3,
    };
    service
        .run(&content)
        .await
        .expect("the third look is enough");
    assert_eq!(sum(&db).await, 2);
    let never = Restless {
        runs: AtomicU32::new(0),
        content_after: u32::MAX,
    };
    let error = service.run(&never).await.expect_err("never content");
    assert_eq!(error.reason(), "CONTENTION");
    assert_eq!(never.runs.into_inner(), MAX_ATTEMPTS);
    assert_eq!(sum(&db).await, 2);
}

/// Ends its own session, at the worst of times if asked: a deferred trigger runs inside COMMIT.
struct Cut {
    during_commit: bool,
    runs: AtomicU32,
}

impl Command for Cut {
    const NAME: &'static str = "test.cut";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.during_commit {
            sqlx::query("INSERT INTO t VALUES (3, 1)")
                .execute(tx.conn())
                .await?;
        } else {
            sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())")
                .execute(tx.conn())
                .await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn o06_a_connection_lost_during_commit_is_unknown_and_not_repeated() {
    let db = TestDb::empty().await;
    table(&db).await;
    sqlx::raw_sql(
        "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS \
           'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'; \
         CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED \
           FOR EACH ROW EXECUTE FUNCTION cut()",
    )
    .execute(db.pool())
    .await
    .expect("a trigger");
    let service = db.open("test");
    for (during_commit, reason) in [(true, "COMMIT_UNKNOWN"), (false, "DATABASE_UNAVAILABLE")] {
        let cut = Cut {
            during_commit,
            runs: AtomicU32::new(0),
        };
        let error = service.run(&cut).await.expect_err("the session is gone");
        assert_eq!(error.reason(), reason, "{error:?}");
        assert_eq!(cut.runs.into_inner(), 1);
    }
    assert_eq!(sum(&db).await, 0);
}

#[tokio::test]
async fn sessions_that_the_server_ended_are_passed_over() {
    let db = TestDb::empty().await;
    table(&db).await;
    let service = db.open("test");
    let held = [
        service.acquire().await,
        service.acquire().await,
        service.acquire().await,
    ];
    assert!(held.iter().all(Result::is_ok));
    drop(held);
    db.terminate_backends().await;
    let content = Restless {
        runs: AtomicU32::new(0),
        content_after: 1,
    };
    service
        .run(&content)
        .await
        .expect("a fresh connection is made");
}

struct Violate;

impl Command for Violate {
    const NAME: &'static str = "test.violate";
    type Output = ();
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        sqlx::query("INSERT INTO t VALUES (1, 1)")
            .execute(tx.conn())
            .await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_violated_constraint_has_a_name() {
    let db = TestDb::empty().await;
    table(&db).await;
    let error = db
        .open("test")
        .run(&Violate)
        .await
        .expect_err("the row is there");
    assert_eq!(error.constraint_name(), Some("t_pkey"));
    assert_eq!(error.reason(), "INTERNAL");
}

#[tokio::test]
async fn m04_the_probe_says_what_is_wrong() {
    let db = TestDb::empty().await;
    let service = db.open("test");
    service.probe().await.expect("reachable and writable");
    assert_eq!(
        applied_migrations(&service).await.expect("can be asked"),
        None
    );
    let database: String = sqlx::query_scalar("SELECT current_database()")
        .fetch_one(db.pool())
        .await
        .expect("a name");
    let read_only = format!("ALTER DATABASE \"{database}\" SET default_transaction_read_only = on");
    sqlx::raw_sql(sqlx::AssertSqlSafe(read_only))
        .execute(db.pool())
        .await
        .expect("our database");
    db.terminate_backends().await;
    assert!(matches!(service.probe().await, Err(Error::ReadOnly)));

    let absent = Db::open(&Options::new("postgres://127.0.0.1:1/x", "test")).expect("an address");
    assert_eq!(
        absent.probe().await.expect_err("nobody there").reason(),
        "DATABASE_UNAVAILABLE"
    );

    let db = TestDb::new().await;
    let applied = applied_migrations(&db.open("test"))
        .await
        .expect("can be asked")
        .expect("migrated");
    assert!(applied.is_sorted() && applied.first() == Some(&1));
}

#[tokio::test]
async fn a_snapshot_stays_the_same_and_refuses_writes() {
    let db = TestDb::empty().await;
    table(&db).await;
    let service = db.open("test");
    let mut snapshot = service.snapshot().await.expect("the server is there");
    for _ in 0..2 {
        let n: i64 = sqlx::query_scalar("SELECT sum(n) FROM t")
            .fetch_one(snapshot.conn())
            .await
            .expect("a sum");
        assert_eq!(n, 0);
        sqlx::query("UPDATE t SET n = n + 1")
            .execute(db.pool())
            .await
            .expect("not hindered");
    }
    let refused = sqlx::query("UPDATE t SET n = 1")
        .execute(snapshot.conn())
        .await;
    assert_eq!(
        Error::from(refused.expect_err("read only")).reason(),
        "DATABASE_UNAVAILABLE"
    );
}

#[tokio::test]
async fn scope_locks_exclude_by_mode_and_end_with_their_transaction() {
    let db = TestDb::empty().await;
    let (tenant, a, b) = (TenantId(1), ScopeId(1), ScopeId(2));
    let free = async |key: i64, shared: bool| -> bool {
        let function = if shared {
            "pg_try_advisory_xact_lock_shared"
        } else {
            "pg_try_advisory_xact_lock"
        };
        let statement = format!("SELECT {function}({key})");
        sqlx::query_scalar(sqlx::AssertSqlSafe(statement))
            .fetch_one(db.pool())
            .await
            .expect("a lock")
    };
    let service = db.open("test");
    let transaction = service
        .pool()
        .begin_with("BEGIN")
        .await
        .expect("the server is there");
    let mut tx = Tx::from(transaction);
    let wanted = [(a, Mode::Shared), (b, Mode::Exclusive), (a, Mode::Shared)];
    locks::lock_scope_order(&mut tx, tenant, &wanted)
        .await
        .expect("free");
    locks::lock_config(&mut tx, tenant, Mode::Shared)
        .await
        .expect("free");
    locks::lock_scope_order(&mut tx, tenant, &[])
        .await
        .expect("nothing to do");
    assert!(free(locks::scope_key(tenant, a), true).await);
    assert!(!free(locks::scope_key(tenant, a), false).await);
    assert!(!free(locks::scope_key(tenant, b), true).await);
    assert!(!free(locks::config_key(tenant), false).await);
    drop(tx);
    db.wait_until("the rollback frees the locks", async |pool| {
        let held: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted",
        )
        .fetch_one(pool)
        .await
        .expect("a count");
        held == 0
    })
    .await;
}
