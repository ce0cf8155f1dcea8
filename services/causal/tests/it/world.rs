//! A tenant with a configuration, roots, and attempts that hold a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::Timelike as _;
use tonic::{Code, Status};
use uuid::Uuid;
use weir_causal::{Config, Hints, routes};
use weir_kernel::envelope::Envelope;
use weir_kernel::{EventUid, ScopeId, TenantId};
use weir_ledger::{Cause, NewEvent, Outcome};
use weir_pg::{Command, Db, Tx};
use weir_proto::causal::v1 as pb;
use weir_proto::causal::v1::causal_service_client::CausalServiceClient;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::types::v1 as types;
use weir_rpc::{Problem, Upstream};
use weir_testkit::{TestDb, upstream};

/// Scopes `root` (1), `side` (2) and `side3` to `side16` of `demo`, without limits of their own; `other` has a
/// `root` too.
const CONFIGURATION: &str = "
    INSERT INTO weir.tenant (name, generation, created_at) VALUES ('demo', 1, weir.clock()), ('other', 1, weir.clock());
    INSERT INTO weir.generation SELECT t, 1, 'x', '', 'me', weir.clock() FROM unnest(ARRAY[1, 2]) AS t;
    INSERT INTO weir.scope VALUES (1, 1, 'root', 1), (1, 2, 'side', 1), (2, 1, 'root', 1);
    INSERT INTO weir.scope SELECT 1, n, 'side' || n, 1 FROM generate_series(3, 16) AS n;
    INSERT INTO weir.binding VALUES (1, 1, 1, 'triage')";

/// A Work of scope 1 whose first attempt holds a lease of 30 s and was triggered by $2.
const ATTEMPT: &str = "
    WITH place AS MATERIALIZED (SELECT nextval('weir.ready_pos') AS pos), work AS (
        INSERT INTO weir.work (tenant_id, work_id, scope_id, state, binding_id, created_binding, queue_pos, last_input, created_at)
        SELECT 1, $1, 1, 1, 1, 1, pos, 1, weir.clock() FROM place
    )
    INSERT INTO weir.ready (tenant_id, binding_id, priority, pos, work_id, epoch, attempt, tries, owner, lease_until,
                            claimed_at, generation, trigger_uid, input_from, input_to)
    SELECT 1, 1, 0, pos, $1, 7, 1, 1, 'worker', weir.clock() + interval '30 s', weir.clock(), 1, $2, 1, 1 FROM place";

const LIMITS: &str = "
    WITH g AS (UPDATE weir.tenant SET generation = generation + 1 WHERE tenant_id = 1 RETURNING generation), s AS (
        UPDATE weir.scope SET generation = g.generation FROM g WHERE tenant_id = 1
    )
    INSERT INTO weir.scope_limits SELECT 1, g.generation, scope, $1, $2, NULL FROM g, unnest(ARRAY[1, 2]) AS scope";

/// All that a derived event or a refusal can leave.
const TRACES: &str = "
    SELECT ARRAY[(SELECT count(*) FROM weir.event), (SELECT count(*) FROM weir.event_body),
                 (SELECT count(*) FROM weir.pending), (SELECT count(*) FROM weir.scope_head),
                 (SELECT count(*) FROM weir.causal_root), (SELECT coalesce(sum(spent), 0) FROM weir.causal_bucket),
                 (SELECT coalesce(sum(refused)::int8, 0) FROM weir.causal_refusal)]";

pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) hinted: Arc<AtomicUsize>,
    service: Upstream,
    other: Upstream,
}

/// A leased attempt.
pub(crate) struct Attempt {
    pub(crate) work: Uuid,
    pub(crate) trigger: EventUid,
    pub(crate) lease: types::Lease,
}

impl World {
    /// A world that stands at the start of a minute, so that a test has a whole one.
    pub(crate) async fn new() -> World {
        let db = TestDb::new().await;
        sqlx::raw_sql(CONFIGURATION)
            .execute(db.pool())
            .await
            .expect("the configuration is right");
        let hinted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hinted);
        let hints = Hints::local(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let routes = routes(db.open("causal"), &Config::default(), hints);
        let world = World {
            hinted,
            service: upstream(routes.clone(), "demo", "me"),
            other: upstream(routes, "other", "them"),
            db,
        };
        world.next_minute().await;
        world
    }

    pub(crate) fn causal(&self) -> CausalServiceClient<Upstream> {
        CausalServiceClient::new(self.service.clone())
    }

    pub(crate) fn foreign(&self) -> CausalServiceClient<Upstream> {
        CausalServiceClient::new(self.other.clone())
    }

    /// The service of another process, with connections of its own.
    pub(crate) fn replica(&self, name: &str) -> CausalServiceClient<Upstream> {
        let routes = routes(self.db.open(name), &Config::default(), Hints::default());
        CausalServiceClient::new(upstream(routes, "demo", "me"))
    }

    /// Moves the clock to just after the start of the next minute.
    pub(crate) async fn next_minute(&self) {
        let second = u64::from(self.db.now().await.second());
        self.db.advance(Duration::from_secs(60 - second)).await;
    }

    /// An external event of scope 1 of `demo`.
    pub(crate) async fn root(&self) -> EventUid {
        let root = Root {
            tenant: TenantId(1),
            id: Uuid::now_v7().to_string(),
        };
        self.ledger().run(&root).await.expect("accepted")
    }

    pub(crate) fn ledger(&self) -> Db {
        self.db.open("ledger")
    }

    /// A Work with a leased attempt that an external event triggered.
    pub(crate) async fn attempt(&self) -> Attempt {
        let trigger = self.root().await;
        self.attempt_of(trigger).await
    }

    pub(crate) async fn attempt_of(&self, trigger: EventUid) -> Attempt {
        let work = Uuid::now_v7();
        let insert = sqlx::query(ATTEMPT).bind(work).bind(trigger.0);
        insert.execute(self.db.pool()).await.expect("an attempt");
        let lease = types::Lease {
            work: work.to_string(),
            attempt: 1,
            epoch: 7,
        };
        Attempt {
            work,
            trigger,
            lease,
        }
    }

    /// Publishes a generation with these limits in both scopes.
    pub(crate) async fn limits(&self, depth: i16, rate: i32) {
        let publish = sqlx::query(LIMITS).bind(depth).bind(rate);
        publish.execute(self.db.pool()).await.expect("published");
    }

    pub(crate) async fn run(&self, statement: &'static str) {
        sqlx::raw_sql(statement)
            .execute(self.db.pool())
            .await
            .expect("the statement is right");
    }

    pub(crate) async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement)
            .fetch_one(self.db.pool())
            .await
            .expect("the statement is right")
    }

    /// Counts all that a derived event or a refusal can leave: events, bodies, pending, commits, pinned
    /// roots, tokens, refusals.
    pub(crate) async fn traces(&self) -> Vec<i64> {
        sqlx::query_scalar(TRACES)
            .fetch_one(self.db.pool())
            .await
            .expect("the statement is right")
    }

    /// Emits one event.
    pub(crate) async fn emit(&self, from: &Attempt, id: &str) -> Result<types::Acceptance, Status> {
        self.emit_with(request(&from.lease, [event(id)])).await
    }

    pub(crate) async fn emit_with(
        &self,
        request: pb::EmitRequest,
    ) -> Result<types::Acceptance, Status> {
        let answer = self.causal().emit(request).await?.into_inner();
        assert_eq!(answer.results.len(), 1);
        Ok(answer.results[0]
            .accepted
            .clone()
            .expect("one event is accepted or the call refused"))
    }

    pub(crate) async fn derive(
        &self,
        parent: impl ToString,
        id: &str,
    ) -> Result<types::Acceptance, Status> {
        let request = derivation(parent, event(id));
        let answer = self.causal().derive(request).await?.into_inner();
        Ok(answer.acceptance.expect("an answer has it"))
    }

    pub(crate) async fn get_root(&self, event: impl ToString) -> pb::GetRootResponse {
        let request = pb::GetRootRequest {
            event: event.to_string(),
        };
        self.causal()
            .get_root(request)
            .await
            .expect("the event is there")
            .into_inner()
    }

    pub(crate) async fn diagnostics(&self) -> Vec<pb::Diagnostic> {
        let request = pb::ListDiagnosticsRequest::default();
        self.causal()
            .list_diagnostics(request)
            .await
            .expect("a list")
            .into_inner()
            .diagnostics
    }

    /// Parent, root and depth as stored.
    pub(crate) async fn place(&self, uid: &str) -> (Option<Uuid>, Option<Uuid>, i16) {
        let uid: Uuid = uid.parse().expect("a uid");
        sqlx::query_as(
            "SELECT parent_uid, root_uid, depth FROM weir.event WHERE tenant_id = 1 AND uid = $1",
        )
        .bind(uid)
        .fetch_one(self.db.pool())
        .await
        .expect("it was accepted")
    }
}

struct Root {
    tenant: TenantId,
    id: String,
}

impl Command for Root {
    const NAME: &'static str = "test.accept_root";
    type Output = EventUid;
    type Error = weir_ledger::Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<EventUid, weir_ledger::Error> {
        let lock = weir_ledger::lock_scope(tx, self.tenant, ScopeId(1)).await?;
        let envelope = Envelope::json(self.id.clone(), "test", "test.root", "{}".to_owned());
        let event = NewEvent {
            content: envelope.content("root", &[], (None, 0)),
            envelope,
            keys: Vec::new(),
            target_work: None,
            actor: "me".to_owned(),
            cause: Cause::Root,
            routed: None,
        };
        match weir_ledger::append(tx, &lock, &[event]).await?.as_slice() {
            [Outcome::Accepted(accepted)] => Ok(accepted.uid),
            other => panic!("a new root is accepted: {other:?}"),
        }
    }
}

pub(crate) fn event(id: &str) -> CloudEvent {
    CloudEvent {
        id: id.to_owned(),
        r#type: "triage.done".to_owned(),
        data: Some(Data::TextData("{\"secret\":1}".to_owned())),
        ..Default::default()
    }
}

pub(crate) fn request(
    lease: &types::Lease,
    events: impl IntoIterator<Item = CloudEvent>,
) -> pb::EmitRequest {
    let emission = |event| pb::Emission {
        event: Some(event),
        ..Default::default()
    };
    pb::EmitRequest {
        lease: Some(lease.clone()),
        events: events.into_iter().map(emission).collect(),
        ..Default::default()
    }
}

pub(crate) fn derivation(parent: impl ToString, mut event: CloudEvent) -> pb::DeriveRequest {
    if event.source.is_empty() {
        event.source = "core-like".to_owned();
    }
    pb::DeriveRequest {
        parent: parent.to_string(),
        scope: "root".to_owned(),
        event: Some(event),
        ..Default::default()
    }
}

/// A refusal, read back.
pub(crate) fn problem<T: std::fmt::Debug>(result: Result<T, Status>) -> Problem {
    Problem::from(&result.expect_err("it is refused"))
}

/// Code, reason and the first field at fault.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String, String) {
    let problem = problem(result);
    let field = problem
        .violations
        .first()
        .map(|v| v.field.clone())
        .unwrap_or_default();
    (problem.code, problem.reason, field)
}

/// The same for what the tests expect.
pub(crate) fn expected(code: Code, reason: &str, field: &str) -> (Code, String, String) {
    (code, reason.to_owned(), field.to_owned())
}
