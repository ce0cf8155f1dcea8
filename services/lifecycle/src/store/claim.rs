//! Lanes and claims.

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use weir_kernel::limits::{MAX_CLAIM_BYTES, MAX_CLAIM_INPUTS};
use weir_kernel::{BindingId, TenantId};
use weir_pg::Tx;

use crate::Error;

/// One scope's effective binding of the asked name, in the current generation.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Lane {
    pub(crate) generation: i64,
    pub(crate) binding_id: i32,
    pub(crate) scope: String,
    pub(crate) executor: Option<String>,
    pub(crate) capabilities: i16,
    pub(crate) lease_ms: i64,
    pub(crate) max_attempts: i16,
    pub(crate) settings: String,
    /// Current registration of the executor.
    pub(crate) revision: Option<i64>,
    /// What that registration proves.
    pub(crate) proved: Option<i16>,
}

/// Reads the lanes of a binding's name, in one scope or in all.
pub(crate) async fn read_lanes(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    binding: &str,
    scope: Option<&str>,
) -> Result<Vec<Lane>, Error> {
    Ok(sqlx::query_as(include_str!("read_lanes.sql"))
        .bind(tenant.0)
        .bind(binding)
        .bind(scope)
        .fetch_all(tx.conn())
        .await?)
}

/// Lists which (binding, lane priority) have rows.
pub(crate) async fn list_queued_lanes(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    bindings: &[BindingId],
) -> Result<Vec<(BindingId, i16)>, Error> {
    let ids: Vec<i32> = bindings.iter().map(|binding| binding.0).collect();
    let rows: Vec<(i32, i16)> = sqlx::query_as(include_str!("list_queued_lanes.sql"))
        .bind(tenant.0)
        .bind(&ids)
        .fetch_all(tx.conn())
        .await?;
    Ok(rows
        .into_iter()
        .map(|(binding, priority)| (BindingId(binding), priority))
        .collect())
}

/// How many Works to take from a lane, and what to pin for them.
#[derive(Debug, Clone)]
pub(crate) struct LaneQuota {
    pub(crate) binding: BindingId,
    pub(crate) priority: i16,
    pub(crate) quota: i32,
    pub(crate) max_attempts: i16,
    pub(crate) capabilities: i16,
    pub(crate) lease_ms: i64,
    pub(crate) registration: i64,
    pub(crate) digest: Uuid,
}

/// A Work that a claim took.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct ClaimedRow {
    pub(crate) binding_id: i32,
    pub(crate) work_id: Uuid,
    pub(crate) attempt: i32,
    pub(crate) epoch: i64,
    pub(crate) tries: i16,
    pub(crate) lease_until: DateTime<Utc>,
    pub(crate) lease_ms: i64,
    pub(crate) trigger_uid: Uuid,
    pub(crate) uids: Option<Vec<Uuid>>,
    pub(crate) bytes: i64,
    pub(crate) took_over: bool,
}

/// Claims at most `most` Works of the lanes, in their order: new attempt and epoch, input selected and
/// presented, and the row of an attempt whose lease had run out, in one statement (rules l01, l03, l04).
pub(crate) async fn claim_works(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    owner: &str,
    generation: i64,
    lanes: &[LaneQuota],
    most: i32,
) -> Result<Vec<ClaimedRow>, Error> {
    let of = |f: fn(&LaneQuota) -> i32| lanes.iter().map(f).collect::<Vec<_>>();
    let small = |f: fn(&LaneQuota) -> i16| lanes.iter().map(f).collect::<Vec<_>>();
    let big = |f: fn(&LaneQuota) -> i64| lanes.iter().map(f).collect::<Vec<_>>();
    Ok(sqlx::query_as(include_str!("claim_works.sql"))
        .bind(tenant.0)
        .bind(owner)
        .bind(generation)
        .bind(of(|lane| lane.binding.0))
        .bind(small(|lane| lane.priority))
        .bind(of(|lane| lane.quota))
        .bind(small(|lane| lane.max_attempts))
        .bind(small(|lane| lane.capabilities))
        .bind(big(|lane| lane.lease_ms))
        .bind(big(|lane| lane.registration))
        .bind(lanes.iter().map(|lane| lane.digest).collect::<Vec<Uuid>>())
        .bind(most)
        .bind(i32::try_from(MAX_CLAIM_INPUTS).unwrap_or(i32::MAX))
        .bind(i64::try_from(MAX_CLAIM_BYTES).unwrap_or(i64::MAX))
        .fetch_all(tx.conn())
        .await?)
}
