//! Claim: new attempts of queued Works, with their input, in one transaction.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;
use weir_kernel::content::ContentDigest;
use weir_kernel::{BindingId, EventUid, ScopeId, TenantId, WorkId};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_work::Lease;

use crate::Error;
use crate::store::{self, ClaimedRow, Lane, LaneQuota, StoredEvent};

/// Every so many claims the lanes are walked from the lowest priority up, so that a lane of high priority
/// that never runs dry cannot starve the others.
const LOW_FIRST: u64 = 8;

/// Payload bytes of the first walk up to which a second one is made.
const SECOND_WALK_BYTES: i64 = 1 << 20;

/// What to claim.
#[derive(Debug, Clone)]
pub(crate) struct ClaimSpec {
    /// Name of the binding.
    pub(crate) binding: String,
    /// One scope; all that have the binding when `None`.
    pub(crate) scope: Option<String>,
    /// Who claims; never empty.
    pub(crate) owner: String,
    /// Registration that the caller relies on; the current one when `None`.
    pub(crate) registration: Option<i64>,
    /// Lease duration; the binding's when `None`.
    pub(crate) lease: Option<Duration>,
}

/// Claims Works of a binding (rules l01, l04). Waits for nobody but a publication of the tenant.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// What to claim.
    pub(crate) spec: ClaimSpec,
    /// At most this many Works.
    pub(crate) most: i32,
    /// Number of the claim: rotates the lanes.
    pub(crate) turn: u64,
}

/// A claimed Work.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) lease: Lease,
    pub(crate) scope: String,
    pub(crate) lease_until: DateTime<Utc>,
    pub(crate) lease_duration: Duration,
    pub(crate) inputs: Vec<StoredEvent>,
    pub(crate) trigger: EventUid,
    pub(crate) generation: i64,
    pub(crate) keys: Vec<String>,
    pub(crate) tries: i16,
}

impl Command for Claim {
    const NAME: &'static str = "lifecycle.claim";
    type Output = Vec<Claimed>;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Vec<Claimed>, Error> {
        // Held to the commit: what is pinned is what is current when the claim becomes visible (l01).
        lock_config(tx, self.tenant, Mode::Shared).await?;
        let lanes = self.lanes(tx).await?;
        let ids: Vec<BindingId> = lanes
            .iter()
            .map(|lane| BindingId(lane.binding_id))
            .collect();
        let queued = store::list_queued_lanes(tx, self.tenant, &ids).await?;
        if queued.is_empty() {
            return Ok(Vec::new());
        }
        let lanes: HashMap<i32, Lane> = lanes
            .into_iter()
            .map(|lane| (lane.binding_id, lane))
            .collect();
        let rows = self.take(tx, &lanes, queued).await?;
        self.present(tx, &lanes, rows).await
    }
}

impl Claim {
    /// Reads the lanes that can be claimed from.
    async fn lanes(&self, tx: &mut Tx<'_>) -> Result<Vec<Lane>, Error> {
        let spec = &self.spec;
        if let Some(scope) = &spec.scope {
            let _: ScopeId = weir_ledger::tenant::scope(tx, self.tenant, scope).await?;
        }
        let lanes =
            store::read_lanes(tx, self.tenant, &spec.binding, spec.scope.as_deref()).await?;
        let mut refused = Error::BindingNotFound(spec.binding.clone());
        let mut open = Vec::with_capacity(lanes.len());
        for lane in lanes {
            match (&lane.executor, lane.revision, spec.registration) {
                (None, ..) => refused = Error::BindingQueueOnly(spec.binding.clone()),
                (Some(executor), None, _) => {
                    refused = Error::ExecutorNotRegistered {
                        binding: spec.binding.clone(),
                        executor: executor.clone(),
                    };
                }
                (Some(executor), Some(current), Some(stated)) if current != stated => {
                    refused = Error::BindingChanged {
                        executor: executor.clone(),
                        current,
                        stated,
                    };
                }
                (Some(_), Some(_), _) => open.push(lane),
            }
        }
        if open.is_empty() {
            Err(refused)
        } else {
            Ok(open)
        }
    }

    /// Takes Works from the lanes: first an equal share of each, then whatever is left.
    async fn take(
        &self,
        tx: &mut Tx<'_>,
        lanes: &HashMap<i32, Lane>,
        queued: Vec<(BindingId, i16)>,
    ) -> Result<Vec<ClaimedRow>, Error> {
        let most = usize::try_from(self.most).unwrap_or(0);
        let order = walk(queued, self.turn);
        let share = i32::try_from(most.div_ceil(order.len())).unwrap_or(self.most);
        let mut rows: Vec<ClaimedRow> = Vec::new();
        for quota in [share, self.most] {
            let wanted = i32::try_from(most - rows.len()).unwrap_or(0);
            let quotas: Vec<LaneQuota> = order
                .iter()
                .filter_map(|lane| self.quota(lanes, *lane, quota))
                .collect();
            let (tenant, owner) = (self.tenant, &self.spec.owner);
            let generation = lanes.values().next().map_or(0, |lane| lane.generation);
            let more = store::claim_works(tx, tenant, owner, generation, &quotas, wanted).await?;
            let none_full = i32::try_from(more.len()).is_ok_and(|taken| taken < share);
            rows.extend(more);
            let bytes: i64 = rows.iter().map(|row| row.bytes).sum();
            // A second walk helps only when a lane's share was the bound, and both fit into one answer.
            if none_full || rows.len() >= most || bytes > SECOND_WALK_BYTES {
                break;
            }
        }
        Ok(rows)
    }

    fn quota(
        &self,
        lanes: &HashMap<i32, Lane>,
        (binding, priority): (BindingId, i16),
        quota: i32,
    ) -> Option<LaneQuota> {
        let lane = lanes.get(&binding.0)?;
        let asked = self
            .spec
            .lease
            .map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
        Some(LaneQuota {
            binding,
            priority,
            quota,
            max_attempts: lane.max_attempts,
            capabilities: lane.capabilities & lane.proved.unwrap_or(0),
            lease_ms: asked.unwrap_or(lane.lease_ms),
            registration: lane.revision.unwrap_or(0),
            digest: digest(lane),
        })
    }

    /// Reads what the attempts are given.
    async fn present(
        &self,
        tx: &mut Tx<'_>,
        lanes: &HashMap<i32, Lane>,
        rows: Vec<ClaimedRow>,
    ) -> Result<Vec<Claimed>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.free_deferred(tx, &rows).await?;
        let works: Vec<WorkId> = rows.iter().map(|row| WorkId(row.work_id)).collect();
        let uids: Vec<EventUid> = rows
            .iter()
            .flat_map(|row| row.uids.iter().flatten())
            .map(|uid| EventUid(*uid))
            .collect();
        let events = store::read_events(tx.conn(), self.tenant, &uids).await?;
        let mut events = Handout::new(events, &uids);
        let mut keys = store::read_keys(tx.conn(), self.tenant, &works).await?;
        let mut out = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(lane) = lanes.get(&row.binding_id) else {
                continue;
            };
            let work = WorkId(row.work_id);
            let presented = row.uids.unwrap_or_default();
            out.push(Claimed {
                lease: Lease {
                    work,
                    attempt: row.attempt,
                    epoch: row.epoch,
                },
                scope: lane.scope.clone(),
                lease_until: row.lease_until,
                lease_duration: Duration::from_millis(u64::try_from(row.lease_ms).unwrap_or(0)),
                inputs: presented
                    .iter()
                    .filter_map(|uid| events.take(EventUid(*uid)))
                    .collect(),
                trigger: EventUid(row.trigger_uid),
                generation: lane.generation,
                keys: keys.remove(&work).unwrap_or_default(),
                tries: row.tries,
            });
        }
        Ok(out)
    }

    /// Taking over ends the lost attempt, so what was deferred to it is due (rule r10).
    async fn free_deferred(&self, tx: &mut Tx<'_>, rows: &[ClaimedRow]) -> Result<(), Error> {
        let lost: Vec<Uuid> = rows
            .iter()
            .filter(|row| row.took_over)
            .map(|row| row.work_id)
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        let scopes: Vec<(Uuid, i32)> = sqlx::query_as(
            "SELECT u.work_id, w.scope_id FROM unnest($2::uuid[]) AS u (work_id) \
             CROSS JOIN LATERAL (SELECT x.scope_id FROM weir.work AS x \
                 WHERE x.tenant_id = $1 AND x.work_id = u.work_id LIMIT 1) AS w",
        )
        .bind(self.tenant.0)
        .bind(&lost)
        .fetch_all(tx.conn())
        .await?;
        let (works, scopes): (Vec<WorkId>, Vec<ScopeId>) = scopes
            .into_iter()
            .map(|(work, scope)| (WorkId(work), ScopeId(scope)))
            .unzip();
        weir_work::free_deferred(tx, self.tenant, &scopes, &works).await?;
        Ok(())
    }
}

/// Events to give out. One can be due to several attempts: it woke more than one Work.
struct Handout {
    events: HashMap<EventUid, StoredEvent>,
    due: HashMap<EventUid, usize>,
}

impl Handout {
    fn new(events: HashMap<EventUid, StoredEvent>, uids: &[EventUid]) -> Self {
        let mut due = HashMap::new();
        for uid in uids {
            *due.entry(*uid).or_default() += 1;
        }
        Self { events, due }
    }

    /// Gives an event, itself for the last who gets it.
    fn take(&mut self, uid: EventUid) -> Option<StoredEvent> {
        let due = self.due.get_mut(&uid)?;
        *due -= 1;
        if *due == 0 {
            self.events.remove(&uid)
        } else {
            self.events.get(&uid).cloned()
        }
    }
}

/// Orders the lanes: highest priority first, rotated among equals, and now and then lowest first.
fn walk(mut lanes: Vec<(BindingId, i16)>, turn: u64) -> Vec<(BindingId, i16)> {
    lanes.sort_unstable_by_key(|(binding, priority)| (*priority, *binding));
    let mut out = Vec::with_capacity(lanes.len());
    for equal in lanes.chunk_by(|a, b| a.1 == b.1) {
        let by = usize::try_from(turn % u64::try_from(equal.len()).unwrap_or(1)).unwrap_or(0);
        out.extend_from_slice(&equal[by..]);
        out.extend_from_slice(&equal[..by]);
    }
    if turn % LOW_FIRST == LOW_FIRST - 1 {
        out.reverse();
    }
    out
}

/// Digests what an attempt relies on: executor, registration and settings (rule l01).
fn digest(lane: &Lane) -> Uuid {
    let mut digest = ContentDigest::default();
    digest
        .field(
            "executor",
            lane.executor.as_deref().unwrap_or_default().as_bytes(),
        )
        .field("registration", &lane.revision.unwrap_or(0).to_be_bytes())
        .field("settings", lane.settings.as_bytes());
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_lanes_are_walked_by_priority_and_rotate_among_equals() {
        let lanes = vec![
            (BindingId(1), 0),
            (BindingId(2), 0),
            (BindingId(3), 0),
            (BindingId(2), -5),
        ];
        let ids = |turn| {
            walk(lanes.clone(), turn)
                .iter()
                .map(|l| (l.0.0, l.1))
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(0), [(2, -5), (1, 0), (2, 0), (3, 0)]);
        assert_eq!(ids(1), [(2, -5), (2, 0), (3, 0), (1, 0)]);
        assert_eq!(
            ids(7).last(),
            Some(&(2, -5)),
            "low lanes come first now and then"
        );
    }
}
