//! Traces cannot write: their role and their transactions (rule r40).

use tonic::{Code, Status};
use weir_pg::{Db, Options, Reader};
use weir_proto::routing::v1 as routing;
use weir_proto::routing::v1::event_service_client::EventServiceClient;
use weir_proto::routing::v1::routing_service_client::RoutingServiceClient;
use weir_proto::types::v1::EffectKind;
use weir_routing::handler::Registry;
use weir_routing::{Config, Hints};
use weir_rpc::Upstream;
use weir_testkit::{TestDb, upstream};

use super::arrange::{ALL, SCRIPTED, running};
use crate::outside::{refusal, rows};
use crate::support::{Weir, event};

const ROLE: &str = "weir_reader";

/// A user of the server who may do nothing but become [`ROLE`]. Taken away by [`Nobody::gone`].
struct Nobody(String);

impl Nobody {
    async fn new(db: &TestDb) -> Self {
        let name = format!("weir_test_{}", uuid::Uuid::now_v7().simple());
        for statement in [
            format!("CREATE ROLE {name} LOGIN NOINHERIT PASSWORD '{name}'"),
            format!("GRANT {ROLE} TO {name}"),
        ] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
                .execute(db.pool())
                .await
                .expect("the test's user is a superuser");
        }
        Self(name)
    }

    /// The database as this user.
    fn open(&self, db: &TestDb) -> Db {
        let (_, rest) = db.url().split_once("://").expect("an address");
        let (_, place) = rest.split_once('@').expect("with a user");
        let url = format!("postgres://{}:{}@{place}", self.0, self.0);
        Db::open(&Options::new(url, "weir-test-nobody")).expect("an address")
    }

    async fn gone(self, db: &TestDb) {
        let statement = format!("DROP ROLE {}", self.0);
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(db.pool())
            .await
            .expect("it owns nothing");
    }
}

/// A routing service over a database, without its loop, as a caller of tenant `demo` reaches it.
fn service(db: &Db, read_role: &str) -> Upstream {
    let config = Config {
        read_role: read_role.to_owned(),
        ..Config::default()
    };
    let component =
        weir_routing::component(db.clone(), &config, Registry::default(), Hints::default());
    upstream(component.routes, "demo", "tester")
}

fn asks(kind: &str, data: &str, keys: &[&str]) -> routing::TraceRequest {
    routing::TraceRequest {
        scope: "s".to_owned(),
        event: Some(event("traced", kind, data)),
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        ..Default::default()
    }
}

async fn trace(
    service: &Upstream,
    request: routing::TraceRequest,
) -> Result<routing::TraceResponse, Status> {
    RoutingServiceClient::new(service.clone())
        .trace(request)
        .await
        .map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn r40_a_trace_reads_under_a_role_that_cannot_write() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (work, _claimed) = running(&weir, "w", "k").await;
    let before = rows(&weir.db).await;

    // All that this service's user may do is to become the role. A statement under any other would be refused.
    let nobody = Nobody::new(&weir.db).await;
    let db = nobody.open(&weir.db);
    let service = service(&db, ROLE);
    for (kind, data, keys, expected) in [
        ("start", "{}", &["n"][..], EffectKind::Start),
        ("start", "{}", &["k"], EffectKind::Queue),
        ("inject", "{}", &["k"], EffectKind::Inject),
        ("drop", "{}", &["k"], EffectKind::Drop),
        // Looks up the owner of the key that the route attaches, after the routes were asked.
        ("attach", r#"{"key":"k"}"#, &["n"], EffectKind::Conflict),
        ("attach", r#"{"key":"n"}"#, &["k"], EffectKind::Queue),
    ] {
        let traced = trace(&service, asks(kind, data, keys)).await;
        let traced = traced.expect("the role can read all that a trace reads");
        let effect = traced.effect.clone().expect("always there");
        assert_eq!(effect.kind(), expected, "{kind} {keys:?}");
        if expected == EffectKind::Queue {
            assert_eq!(effect.work, work);
        }
        let usual = weir.trace(kind, data, keys).await;
        assert_eq!(traced.effect, usual.effect);
        assert_eq!(traced.verdicts, usual.verdicts);
    }
    let tried = routing::TraceCandidateRequest {
        trace: Some(asks("start", "{}", &["k"])),
        document: SCRIPTED.to_owned(),
    };
    RoutingServiceClient::new(service.clone())
        .trace_candidate(tried)
        .await
        .expect("the role can read all that a candidate reads");

    // The same service can accept nothing.
    let publish = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("published", "start", "{}")),
        ..Default::default()
    };
    let refused = EventServiceClient::new(service).publish(publish).await;
    assert_eq!(refused.expect_err("no right").code(), Code::Internal);
    assert_eq!(rows(&weir.db).await, before);
    db.close().await;
    nobody.gone(&weir.db).await;
    weir.stop().await;
}

#[tokio::test]
async fn r40_the_transactions_of_a_trace_are_read_only_on_one_snapshot_under_the_role() {
    let db = TestDb::new().await;
    let service = db.open("test");
    for (role, user) in [(ROLE, ROLE), ("", "")] {
        let reader = Reader::new(service.clone(), role);
        let mut tx = reader.begin().await.expect("begun");
        let (who, read_only, isolation): (String, String, String) = sqlx::query_as(
            "SELECT current_user::text, current_setting('transaction_read_only'), \
             current_setting('transaction_isolation')",
        )
        .fetch_one(tx.conn())
        .await
        .expect("read");
        assert_eq!(who == ROLE, user == ROLE, "{who}");
        assert_eq!(
            (read_only.as_str(), isolation.as_str()),
            ("on", "repeatable read")
        );
        let clock = "SELECT weir.clock() FROM weir.tenant RIGHT JOIN (VALUES (1)) v ON true";
        sqlx::query(clock)
            .fetch_one(tx.conn())
            .await
            .expect("it reads the clock and the tables");
        let written = sqlx::query(
            "INSERT INTO weir.tenant (name, generation, created_at) VALUES ('x', 1, now())",
        )
        .execute(tx.conn())
        .await
        .expect_err("it writes nothing");
        let written = written.into_database_error().expect("the server says so");
        assert_eq!(written.code().as_deref(), Some("25006"));
    }
    // The role ends with the transaction: the pool's next user is not it.
    let who: String = sqlx::query_scalar("SELECT current_user::text")
        .fetch_one(&mut *service.acquire().await.expect("a connection"))
        .await
        .expect("read");
    assert_ne!(who, ROLE);
}

#[tokio::test]
async fn r40_the_role_reads_every_table_and_has_no_right_to_write_any() {
    let db = TestDb::new().await;
    // A day that housekeeping makes later, and a table of a later migration.
    sqlx::raw_sql("SELECT weir.make_partitions('2031-01-01', 1); CREATE TABLE weir.later (n int4)")
        .execute(db.pool())
        .await
        .expect("made");
    let rights: Vec<(String, bool, bool)> = sqlx::query_as(
        "SELECT c.relname::text, has_table_privilege($1, c.oid, 'SELECT'), \
                has_table_privilege($1, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') \
           FROM pg_catalog.pg_class c \
          WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')",
    )
    .bind(ROLE)
    .fetch_all(db.pool())
    .await
    .expect("the catalogue can be read");
    assert!(rights.len() > 50, "{}", rights.len());
    assert!(rights.iter().any(|(name, ..)| name == "later"));
    for (name, reads, writes) in rights {
        assert!(reads && !writes, "{name}: reads {reads}, writes {writes}");
    }
    let sequences: Option<bool> = sqlx::query_scalar(
        "SELECT bool_or(has_sequence_privilege($1, c.oid, 'USAGE, UPDATE')) FROM pg_catalog.pg_class c \
          WHERE c.relnamespace = 'weir'::regnamespace AND c.relkind = 'S'",
    )
    .bind(ROLE)
    .fetch_one(db.pool())
    .await
    .expect("the catalogue can be read");
    assert_eq!(sequences, Some(false));
    let attributes: (bool, bool, bool, bool) = sqlx::query_as(
        "SELECT rolcanlogin, rolsuper, rolcreaterole, has_schema_privilege($1, 'weir', 'CREATE') \
           FROM pg_catalog.pg_roles WHERE rolname = $1",
    )
    .bind(ROLE)
    .fetch_one(db.pool())
    .await
    .expect("the role is there");
    assert_eq!(attributes, (false, false, false, false));
    // READ ONLY apart: the role itself is refused.
    let mut session = db.connect().await;
    sqlx::raw_sql("SET ROLE weir_reader")
        .execute(&mut session)
        .await
        .expect("the test's user may");
    let refused = sqlx::raw_sql("DELETE FROM weir.pending")
        .execute(&mut session)
        .await
        .expect_err("no right");
    let refused = refused.into_database_error().expect("the server says so");
    assert_eq!(refused.code().as_deref(), Some("42501"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r40_without_the_role_a_trace_is_refused_and_says_which_setting_names_it() {
    let weir = Weir::with(SCRIPTED).await;
    let options = Options {
        max_connections: 1,
        ..Options::new(weir.db.url(), "weir-test")
    };
    let db = Db::open(&options).expect("an address");
    let missing = service(&db, "weir_no_such_role");
    for _ in 0..2 {
        let (code, reason, message, _) =
            refusal(trace(&missing, asks("start", "{}", &["n"])).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::FailedPrecondition, "READ_ROLE_UNUSABLE")
        );
        assert!(
            message.contains("READ_ROLE") && message.contains("weir_no_such_role"),
            "{message}"
        );
    }
    // The one connection is as good as before, and the setting can do without.
    let without = trace(&service(&db, ""), asks("start", "{}", &["n"])).await;
    let effect = without.expect("READ ONLY alone").effect;
    assert_eq!(effect.expect("always there").kind(), EffectKind::Start);
    db.close().await;
    weir.stop().await;
}
