//! Events with what routing decided, or why it has not (rules r12, r13).

mod rows;

use chrono::{DateTime, Utc};
use weir_kernel::envelope::{Attribute, Envelope};
use weir_kernel::{
    Disposition, EventUid, FailureCode, PendingState, Policy, ScopeId, TenantId, WorkId,
};
use weir_pg::Db;

use super::Error;
use crate::command::EventRef;

pub use rows::read_all;

/// An accepted event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// The event.
    pub uid: EventUid,
    /// Its scope's number.
    pub scope_id: ScopeId,
    /// Its scope's name.
    pub scope: String,
    /// Its position.
    pub seq: i64,
    /// Database time of acceptance.
    pub accepted_at: DateTime<Utc>,
    /// The envelope. Without attributes and payload once retention has dropped them; without payload
    /// where it was not asked for.
    pub envelope: Envelope,
    /// Correlation keys, sorted.
    pub keys: Vec<String>,
    /// Work that the producer named.
    pub target_work: Option<WorkId>,
    /// Root of its causal tree; itself for a root.
    pub root: EventUid,
    /// Causal parent.
    pub parent: Option<EventUid>,
    /// Distance from the root.
    pub depth: i16,
    /// The original that it is a copy of.
    pub copy_of: Option<EventUid>,
    /// Who published it.
    pub actor: String,
    /// What became of it.
    pub standing: Standing,
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// It was decided.
    Routed(RouteRecord),
    /// It was not, yet.
    Pending(Pending),
}

/// What routing decided, as it was applied.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteRecord {
    /// What was done.
    pub disposition: Disposition,
    /// Its Work.
    pub work: Option<WorkId>,
    /// Slot of the route that took or failed it.
    pub route: Option<String>,
    /// Binding of the queued input.
    pub binding: Option<String>,
    /// Generation that decided.
    pub generation: i64,
    /// Effective policy.
    pub policy: Option<Policy>,
    /// Reason.
    pub reason: String,
    /// Routes that declined, in order: slot and reason.
    pub refusals: Vec<(String, String)>,
    /// Says that there were more.
    pub refusals_truncated: bool,
    /// Error text of a failure.
    pub error: String,
    /// Failures counted.
    pub attempts: i16,
    /// Waits that the event won beside (rule r44), by Work.
    pub also: Vec<Also>,
}

/// A wait that an event won, though it was routed by its own routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Also {
    /// Scope of the waiting Work.
    pub scope: String,
    /// The Work.
    pub work: WorkId,
    /// The wait's number within the Work.
    pub wait: i32,
}

/// Why an event is unrouted.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The state.
    pub state: PendingState,
    /// Details in words.
    pub reason: String,
    /// Failures counted so far.
    pub failures: i16,
    /// Code and text of the last failure.
    pub last_failure: Option<(FailureCode, String)>,
    /// When it is tried next.
    pub next_try: Option<DateTime<Utc>>,
    /// Works in conflict, or the Work whose attempt it waits for.
    pub works: Vec<WorkId>,
    /// When it failed first.
    pub first_failed_at: Option<DateTime<Utc>>,
}

impl EventRecord {
    /// Says whether routing still has to decide it.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.standing, Standing::Pending(_))
    }

    /// Returns about how many bytes it takes on the wire.
    #[must_use]
    pub fn size(&self) -> usize {
        /// Uids, times, numbers and framing.
        const FIXED: usize = 512;
        let e = &self.envelope;
        let attributes: usize = e
            .attributes
            .iter()
            .map(|(name, value)| name.len() + size_of(value) + 16)
            .sum();
        let standing = match &self.standing {
            Standing::Pending(p) => {
                p.reason.len()
                    + p.works.len() * 38
                    + p.last_failure.as_ref().map_or(0, |(_, text)| text.len())
            }
            Standing::Routed(r) => {
                let refusals: usize = r
                    .refusals
                    .iter()
                    .map(|(slot, reason)| slot.len() + reason.len() + 8)
                    .sum();
                r.reason.len() + r.error.len() + refusals
            }
        };
        let keys: usize = self.keys.iter().map(|key| key.len() + 4).sum();
        FIXED
            + e.id.len()
            + e.source.len()
            + e.kind.len()
            + attributes
            + e.payload_len()
            + keys
            + standing
    }
}

fn size_of(value: &Attribute) -> usize {
    match value {
        Attribute::Bytes(bytes) => bytes.len(),
        other => other.as_text().map_or(16, str::len),
    }
}

/// Reads one event.
///
/// # Errors
/// EVENT_NOT_FOUND, also for another tenant's (rule o04).
pub async fn read(
    db: &Db,
    tenant: TenantId,
    event: &EventRef,
    with_data: bool,
) -> Result<EventRecord, Error> {
    let absent = || match event {
        EventRef::Uid(uid) => Error::EventNotFound(uid.to_string()),
        EventRef::Identity(source, id) => Error::EventNotFound(format!("{source} {id}")),
    };
    let mut tx = db.snapshot().await?;
    let uid = match event {
        EventRef::Uid(uid) => *uid,
        EventRef::Identity(source, id) => {
            let uid: Option<uuid::Uuid> = sqlx::query_scalar(
                "SELECT uid FROM weir.event WHERE tenant_id = $1 AND source = $2 AND id = $3",
            )
            .bind(tenant.0)
            .bind(source)
            .bind(id)
            .fetch_optional(tx.conn())
            .await?;
            EventUid(uid.ok_or_else(absent)?)
        }
    };
    let found = read_all(&mut tx, tenant, &[uid], with_data).await?;
    found.into_iter().next().ok_or_else(absent)
}
