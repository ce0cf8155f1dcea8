//! Parks Works, and wakes them as routing does.

use sqlx::Connection as _;
use sqlx::types::Uuid;
use sqlx::types::chrono::{DateTime, Utc};
use tonic::Status;
use weir_kernel::{BindingId, EventUid, TenantId, WorkId};
use weir_pg::Tx;
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::wait_condition::Condition;
use weir_proto::types::v1 as types;
use weir_work::{Queued, Won};

use crate::world::World;

pub(crate) const TENANT: TenantId = TenantId(1);
/// How often the check of the one open wait was asked for.
pub(crate) const ASKED: &str = "SELECT asked FROM weir.wait WHERE state = 1";

/// An accepted event with its body and its scope's head.
const EVENT: &str = "
    WITH head AS (
        SELECT coalesce(max(last_seq), 0) + 1 AS seq, weir.clock() AS at
        FROM weir.scope_head WHERE tenant_id = 1 AND scope_id = $2
    ), moved AS (
        INSERT INTO weir.scope_head SELECT 1, $2, seq, seq, at FROM head
    ), event AS (
        INSERT INTO weir.event (tenant_id, uid, source, id, type, content, scope_id, seq, accepted_at, actor)
        SELECT 1, $1, 'test', $1::text, $3, $1, $2, seq, at, 'me' FROM head
    ), body AS (
        INSERT INTO weir.event_body (tenant_id, scope_id, accepted_at, seq, uid, attributes, keys, payload, is_text)
        SELECT 1, $2, at, seq, $1, '{\"v\":\"1.0\",\"a\":{}}', '{}', $4, true FROM head
    )
    SELECT seq, at FROM head";

pub(crate) fn own() -> pb::WaitCondition {
    condition(Condition::OwnInput(pb::OwnInput {}))
}

pub(crate) fn ended(work: Uuid) -> pb::WaitCondition {
    condition(Condition::EndedWork(work.to_string()))
}

pub(crate) fn event(scope: &str, filter: &str) -> pb::WaitCondition {
    condition(Condition::Event(pb::EventCondition {
        scope: scope.to_owned(),
        filter: filter.to_owned(),
        emitter: String::new(),
    }))
}

pub(crate) fn condition(condition: Condition) -> pb::WaitCondition {
    pb::WaitCondition {
        condition: Some(condition),
    }
}

pub(crate) fn request(lease: &types::Lease, conditions: &[pb::WaitCondition]) -> pb::ParkRequest {
    pb::ParkRequest {
        lease: Some(lease.clone()),
        conditions: conditions.to_vec(),
        timeout: None,
        since: None,
    }
}

pub(crate) fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

impl World {
    pub(crate) async fn park(&self, request: pb::ParkRequest) -> Result<types::Wait, Status> {
        let answer = self.executor().park(request).await?.into_inner();
        Ok(answer.wait.expect("an answer has it"))
    }

    /// Claims the one claimable Work and parks it.
    pub(crate) async fn claim_and_park(&self, conditions: &[pb::WaitCondition]) -> types::Wait {
        let held = crate::world::lease(&self.claim_one().await);
        let request = pb::ParkRequest {
            timeout: seconds(3_600),
            ..request(&held, conditions)
        };
        self.park(request).await.expect("parked")
    }

    pub(crate) async fn accept(&self, scope: i32, payload: &[u8]) -> Queued {
        self.accept_as(scope, "test.event", payload).await
    }

    async fn accept_as(&self, scope: i32, kind: &str, payload: &[u8]) -> Queued {
        let uid = Uuid::now_v7();
        let (seq, accepted_at): (i64, DateTime<Utc>) = sqlx::query_as(EVENT)
            .bind(uid)
            .bind(scope)
            .bind(kind)
            .bind(payload)
            .fetch_one(self.db.pool())
            .await
            .expect("accepted");
        Queued {
            uid: EventUid(uid),
            seq,
            accepted_at,
            bytes: i32::try_from(payload.len()).expect("small"),
            binding: BindingId(1),
        }
    }

    /// Wakes a waiting Work; the bridge's uid.
    pub(crate) async fn wake(&self, work: Uuid, n: i32, won: Won) -> String {
        let bridge = self.accept_as(1, "core.wait.woken", b"{}").await;
        let mut connection = self.db.connect().await;
        let mut tx = Tx::from(connection.begin().await.expect("begins"));
        let locked = weir_work::lock_one(&mut tx, TENANT, WorkId(work))
            .await
            .expect("it is there");
        weir_work::wake(&mut tx, TENANT, &locked, n, won, bridge)
            .await
            .expect("it waits");
        commit(&mut tx).await;
        bridge.uid.to_string()
    }

    /// Ends attempts until the Work is held.
    pub(crate) async fn exhaust(&self) {
        for _ in 0..3 {
            self.claim_one().await;
            self.expire().await;
        }
        weir_lifecycle::hold_exhausted(&self.db.open("sweep"))
            .await
            .expect("swept");
    }

    pub(crate) async fn release_work(&self, work: Uuid) -> types::Work {
        let request = pb::ReleaseWorkRequest {
            work: work.to_string(),
            reason: "fixed".to_owned(),
            request_id: String::new(),
        };
        let answer = self.works().release_work(request).await.expect("released");
        answer.into_inner().work.expect("an answer has it")
    }

    pub(crate) async fn cancel(&self, work: Uuid) {
        let request = pb::CancelWorkRequest {
            work: work.to_string(),
            reason: "enough".to_owned(),
            request_id: String::new(),
        };
        self.works().cancel_work(request).await.expect("cancelled");
    }
}

pub(crate) async fn commit(tx: &mut Tx<'_>) {
    sqlx::query("COMMIT")
        .execute(tx.conn())
        .await
        .expect("commits");
}
