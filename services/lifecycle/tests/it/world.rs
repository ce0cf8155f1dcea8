//! A tenant with a configuration, and queued Works as routing leaves them.

use std::time::Duration;

use sqlx::types::Uuid;
use tonic::Status;
use weir_lifecycle::{Hints, routes};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::executor_service_client::ExecutorServiceClient;
use weir_proto::lifecycle::v1::work_service_client::WorkServiceClient;
use weir_proto::types::v1 as types;
use weir_rpc::{Problem, Upstream};
use weir_runtime::CancellationToken;
use weir_testkit::{TestDb, upstream};

/// Scope and bindings: `triage` (executor `worker`, capabilities claimed, lease 30 s, 3 attempts) is 1,
/// `parking` (no executor) is 2, `night` (executor `sleeper`, never registered) is 3, `urgent` is 4.
const CONFIGURATION: &str = "
    INSERT INTO weir.tenant (name, generation, created_at) VALUES ('demo', 1, weir.clock()), ('other', 1, weir.clock());
    INSERT INTO weir.generation SELECT t, 1, 'x', '', 'me', weir.clock() FROM unnest(ARRAY[1, 2]) AS t;
    INSERT INTO weir.scope VALUES (1, 1, 'root', 1), (1, 2, 'side', 1), (2, 1, 'root', 1);
    INSERT INTO weir.binding VALUES (1, 1, 1, 'triage'), (1, 2, 1, 'parking'), (1, 3, 1, 'night'), (1, 4, 2, 'triage');
    INSERT INTO weir.binding_settings VALUES
        (1, 1, 1, 'worker', 3, '30 s', 3, 0, '{}'), (1, 1, 2, NULL, 0, '30 s', 3, 0, '{}'),
        (1, 1, 3, 'sleeper', 0, '30 s', 3, 0, '{}'), (1, 1, 4, 'worker', 3, '30 s', 3, 0, '{}');
    INSERT INTO weir.executor_registration VALUES (1, 'worker', 1, 1, 'me', weir.clock())";

/// One input as routing queues it: the event, its body, and the input row.
const INPUT: &str = "
    WITH head AS (
        SELECT coalesce(max(seq), 0) + 1 AS seq, weir.clock() AS at FROM weir.event WHERE tenant_id = 1 AND scope_id = 1
    ), event AS (
        INSERT INTO weir.event (tenant_id, uid, source, id, type, content, scope_id, seq, accepted_at, actor,
                                disposition, work_id, binding_id, generation, reason)
        SELECT 1, $1, 'test', $1::text, 'test.input', $1, 1, seq, at, 'me', 2, $2, $4, 1, 'test' FROM head
    ), body AS (
        INSERT INTO weir.event_body (tenant_id, scope_id, accepted_at, seq, uid, attributes, keys, payload, is_text)
        SELECT 1, 1, at, seq, $1, '{\"v\":\"1.0\",\"a\":{}}', '{}', $5, true FROM head
    )
    INSERT INTO weir.input (tenant_id, work_id, n, uid, seq, accepted_at, bytes, binding_id)
    SELECT 1, $2, $3, $1, seq, at, length($5), $4 FROM head";

pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) shutdown: CancellationToken,
    routes: Upstream,
    others: Upstream,
}

impl World {
    pub(crate) async fn new() -> World {
        let db = TestDb::new().await;
        sqlx::raw_sql(CONFIGURATION)
            .execute(db.pool())
            .await
            .expect("the configuration is right");
        let shutdown = CancellationToken::new();
        let routes = routes(db.open("lifecycle"), Hints::default(), shutdown.clone());
        let others = upstream(routes.clone(), "other", "them");
        World {
            routes: upstream(routes, "demo", "me"),
            others,
            db,
            shutdown,
        }
    }

    pub(crate) fn executor(&self) -> ExecutorServiceClient<Upstream> {
        ExecutorServiceClient::new(self.routes.clone())
    }

    pub(crate) fn works(&self) -> WorkServiceClient<Upstream> {
        WorkServiceClient::new(self.routes.clone())
    }

    /// The same service as another tenant's caller.
    pub(crate) fn foreign(&self) -> WorkServiceClient<Upstream> {
        WorkServiceClient::new(self.others.clone())
    }

    pub(crate) fn foreign_executor(&self) -> ExecutorServiceClient<Upstream> {
        ExecutorServiceClient::new(self.others.clone())
    }

    /// A ready Work on `triage` with this many inputs.
    pub(crate) async fn queued(&self, inputs: i64) -> Uuid {
        self.queued_on(1, inputs).await
    }

    pub(crate) async fn queued_on(&self, binding: i32, inputs: i64) -> Uuid {
        let work = Uuid::now_v7();
        for n in 1..=inputs {
            self.put(work, n, binding, b"{}").await;
        }
        let statement = "
            WITH place AS MATERIALIZED (SELECT nextval('weir.ready_pos') AS pos), work AS (
                INSERT INTO weir.work (tenant_id, work_id, scope_id, state, binding_id, created_binding, queue_pos,
                                       last_input, created_at)
                SELECT 1, $1, 1, 1, $2, $2, pos, $3, weir.clock() FROM place
            )
            INSERT INTO weir.ready (tenant_id, binding_id, priority, pos, work_id, epoch, attempt, tries, input_from, input_to)
            SELECT 1, $2, 0, pos, $1, 0, 0, 0, 1, 0 FROM place";
        let insert = sqlx::query(statement).bind(work).bind(binding).bind(inputs);
        insert.execute(self.db.pool()).await.expect("a work");
        work
    }

    /// Queues one more input, as routing does for a Work that is in the queue.
    pub(crate) async fn more(&self, work: Uuid, binding: i32) -> Uuid {
        let n: i64 = sqlx::query_scalar(
            "UPDATE weir.work SET last_input = last_input + 1, revision = revision + 1 WHERE work_id = $1 RETURNING last_input",
        )
        .bind(work)
        .fetch_one(self.db.pool())
        .await
        .expect("the work is there");
        self.put(work, n, binding, b"{}").await
    }

    pub(crate) async fn put(&self, work: Uuid, n: i64, binding: i32, payload: &[u8]) -> Uuid {
        let uid = Uuid::now_v7();
        let insert = sqlx::query(INPUT)
            .bind(uid)
            .bind(work)
            .bind(n)
            .bind(binding)
            .bind(payload);
        insert.execute(self.db.pool()).await.expect("an input");
        uid
    }

    /// An accepted event of the Work that is not routed, in a pending state; the attempt it waits for.
    pub(crate) async fn unrouted(&self, work: Uuid, state: i16, attempt: Option<i32>) -> Uuid {
        let uid = Uuid::now_v7();
        let statement = "
            WITH p AS (
                INSERT INTO weir.pending (tenant_id, scope_id, seq, uid, accepted_at, keys, state, hold_work, hold_attempt)
                SELECT 1, 1, coalesce(max(seq), 1000) + 1, $1, weir.clock(), '{}', $3,
                       CASE WHEN $4::int4 IS NULL THEN NULL ELSE $2 END, $4 FROM weir.pending
                RETURNING seq
            )
            INSERT INTO weir.pending_key SELECT 1, 1, chr(1) || $2::uuid::text, seq FROM p";
        let insert = sqlx::query(statement)
            .bind(uid)
            .bind(work)
            .bind(state)
            .bind(attempt);
        insert
            .execute(self.db.pool())
            .await
            .expect("a pending event");
        uid
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

    pub(crate) async fn claim(&self) -> Vec<pb::ClaimedWork> {
        self.try_claim(spec("triage")).await.expect("claimable")
    }

    pub(crate) async fn claim_one(&self) -> pb::ClaimedWork {
        let mut works = self.claim().await;
        assert_eq!(works.len(), 1, "one work is claimable");
        works.remove(0)
    }

    /// Claims this many of what is queued.
    pub(crate) async fn claim_one_of(&self, most: i32) {
        let request = pb::ClaimOnceRequest {
            spec: Some(spec("triage")),
            max_works: most,
            wait: None,
        };
        self.executor()
            .claim_once(request)
            .await
            .expect("claimable");
    }

    pub(crate) async fn try_claim(
        &self,
        spec: pb::ClaimSpec,
    ) -> Result<Vec<pb::ClaimedWork>, Status> {
        let request = pb::ClaimOnceRequest {
            spec: Some(spec),
            max_works: 10,
            wait: None,
        };
        Ok(self
            .executor()
            .claim_once(request)
            .await?
            .into_inner()
            .works)
    }

    pub(crate) async fn complete(&self, lease: &types::Lease) -> Result<types::WorkState, Status> {
        self.complete_with(lease, "done").await
    }

    pub(crate) async fn complete_with(
        &self,
        lease: &types::Lease,
        result: &str,
    ) -> Result<types::WorkState, Status> {
        let request = pb::CompleteRequest {
            lease: Some(lease.clone()),
            result: result.to_owned(),
        };
        Ok(self
            .executor()
            .complete(request)
            .await?
            .into_inner()
            .state())
    }

    pub(crate) async fn fail(&self, lease: &types::Lease) -> Result<pb::FailResponse, Status> {
        let request = pb::FailRequest {
            lease: Some(lease.clone()),
            kind: pb::FailureKind::Retryable.into(),
            error: "boom".to_owned(),
            retry_after: None,
        };
        Ok(self.executor().fail(request).await?.into_inner())
    }

    pub(crate) async fn renew(&self, lease: &types::Lease) -> Result<pb::RenewResponse, Status> {
        let request = pb::RenewRequest {
            lease: Some(lease.clone()),
            extend: None,
        };
        Ok(self.executor().renew(request).await?.into_inner())
    }

    pub(crate) async fn get(&self, work: Uuid) -> types::Work {
        let request = pb::GetWorkRequest {
            work: work.to_string(),
            ..Default::default()
        };
        let answer = self
            .works()
            .get_work(request)
            .await
            .expect("the work is there");
        answer.into_inner().work.expect("an answer has it")
    }

    pub(crate) async fn attempts(&self, work: Uuid) -> Vec<types::Attempt> {
        let request = pb::ListAttemptsRequest {
            work: work.to_string(),
            ..Default::default()
        };
        self.works()
            .list_attempts(request)
            .await
            .expect("the work is there")
            .into_inner()
            .attempts
    }

    pub(crate) async fn inputs(&self, work: Uuid) -> Vec<types::Input> {
        let request = pb::ListInputsRequest {
            work: work.to_string(),
            ..Default::default()
        };
        self.works()
            .list_inputs(request)
            .await
            .expect("the work is there")
            .into_inner()
            .inputs
    }

    pub(crate) async fn expire(&self) {
        self.db.advance(Duration::from_secs(31)).await;
    }
}

pub(crate) fn spec(binding: &str) -> pb::ClaimSpec {
    pb::ClaimSpec {
        binding: binding.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn lease(work: &pb::ClaimedWork) -> types::Lease {
    work.lease.clone().expect("a claimed work has a lease")
}

pub(crate) fn uids(work: &pb::ClaimedWork) -> Vec<String> {
    work.inputs.iter().map(|input| input.uid.clone()).collect()
}

/// The reason of a refusal.
pub(crate) fn reason<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
    Problem::from(&result.expect_err("it is refused")).reason
}
