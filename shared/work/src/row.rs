//! The rows of the aggregate, typed.

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use weir_kernel::{BindingId, EventUid, ScopeId, WorkId, WorkState};

use crate::Error;

/// A Work as it is stored. `running` is never stored: see [`ReadyRow::is_leased`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The Work.
    pub work_id: WorkId,
    /// Its scope, for ever.
    pub scope_id: ScopeId,
    /// Where it stands.
    pub state: WorkState,
    /// Rises with all that routing can see, but a claim.
    pub revision: i64,
    /// The binding it runs on next, and the lane of its ready row.
    pub binding_id: BindingId,
    /// The binding it was created on.
    pub created_binding: BindingId,
    /// Number of the attempt that the last rebind followed.
    pub rebound_after: Option<i32>,
    /// Priority; higher is claimed first.
    pub priority: i16,
    /// Position of its ready row in its lane; `None`: it has none.
    pub queue_pos: Option<i64>,
    /// Epoch as of the last attempt's end. While a ready row exists, that one is ahead.
    pub epoch: i64,
    /// Attempts so far, as of the last attempt's end.
    pub attempts: i32,
    /// Consecutive counted attempts, as of the last attempt's end.
    pub tries: i16,
    /// Highest queue number given.
    pub last_input: i64,
    /// Inputs up to here are consumed.
    pub consumed: i64,
    /// Why it is held.
    pub held_reason: Option<String>,
    /// Parent Work.
    pub parent_id: Option<WorkId>,
    /// Predecessor.
    pub predecessor_id: Option<WorkId>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

impl Work {
    /// Returns the priority column of its ready row: ascending is claimed first.
    #[must_use]
    pub fn lane_priority(&self) -> i16 {
        self.priority.saturating_neg()
    }
}

/// A ready row: a place in the queue, and the lease while an attempt runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyRow {
    /// Lane: the binding.
    pub binding_id: BindingId,
    /// Lane: the negated priority.
    pub priority: i16,
    /// Position in the lane.
    pub pos: i64,
    /// The Work.
    pub work_id: WorkId,
    /// Highest epoch given so far.
    pub epoch: i64,
    /// Number of the latest attempt.
    pub attempt: i32,
    /// Consecutive counted attempts, the running one included.
    pub tries: i16,
    /// Capabilities pinned at the claim (bits: 1 inject, 2 interrupt).
    pub capabilities: i16,
    /// Who claimed it; empty: nobody.
    pub owner: String,
    /// Until when the lease holds or, not leased, not to be claimed before. `None`: at once.
    pub lease_until: Option<DateTime<Utc>>,
    /// When it was claimed; `None`: never.
    pub claimed_at: Option<DateTime<Utc>>,
    /// Generation pinned at the claim.
    pub generation: i64,
    /// Registration revision pinned at the claim.
    pub registration: i64,
    /// Digest of the binding, pinned at the claim.
    pub digest: Uuid,
    /// Event that triggered the attempt; `None`: no attempt yet.
    pub trigger: Option<EventUid>,
    /// Number of the bridge that woke the Work, presented before the queue (rule l04); 0: none.
    pub bridge_n: i64,
    /// First input not consumed.
    pub input_from: i64,
    /// Last input presented; `input_from - 1`: none.
    pub input_to: i64,
}

impl ReadyRow {
    /// Says whether an attempt was started and did not end, its lease live or run out.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        !self.owner.is_empty()
    }

    /// Says whether an attempt holds a live lease at the database time `at` (rule l02).
    #[must_use]
    pub fn is_leased(&self, at: DateTime<Utc>) -> bool {
        self.is_claimed() && self.lease_until.is_some_and(|until| until > at)
    }
}

/// A Work and its ready row, both locked, at one database time read after the locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// The Work.
    pub work: Work,
    /// Its ready row.
    pub ready: Option<ReadyRow>,
    /// Database time, read when all locks were held.
    pub at: DateTime<Utc>,
}

impl Locked {
    /// Returns the state that readers see: `running` while a lease is live.
    #[must_use]
    pub fn state(&self) -> WorkState {
        match &self.ready {
            Some(ready) if ready.is_leased(self.at) => WorkState::Running,
            _ => self.work.state,
        }
    }

    /// Returns the highest epoch given so far.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.ready
            .as_ref()
            .map_or(self.work.epoch, |ready| ready.epoch)
    }

    /// Returns the number of the latest attempt.
    #[must_use]
    pub fn attempts(&self) -> i32 {
        self.ready
            .as_ref()
            .map_or(self.work.attempts, |ready| ready.attempt)
    }

    /// Returns the consecutive counted attempts.
    #[must_use]
    pub fn tries(&self) -> i16 {
        self.ready
            .as_ref()
            .map_or(self.work.tries, |ready| ready.tries)
    }
}

/// The columns of a Work, before their codes are read.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct WorkRow {
    work_id: Uuid,
    scope_id: i32,
    state: i16,
    revision: i64,
    binding_id: i32,
    created_binding: i32,
    rebound_after: Option<i32>,
    priority: i16,
    queue_pos: Option<i64>,
    epoch: i64,
    attempts: i32,
    tries: i16,
    last_input: i64,
    consumed: i64,
    held_reason: Option<String>,
    parent_id: Option<Uuid>,
    predecessor_id: Option<Uuid>,
    created_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
}

impl TryFrom<WorkRow> for Work {
    type Error = Error;

    fn try_from(row: WorkRow) -> Result<Self, Error> {
        Ok(Self {
            work_id: WorkId(row.work_id),
            scope_id: ScopeId(row.scope_id),
            state: WorkState::from_code(row.state)?,
            revision: row.revision,
            binding_id: BindingId(row.binding_id),
            created_binding: BindingId(row.created_binding),
            rebound_after: row.rebound_after,
            priority: row.priority,
            queue_pos: row.queue_pos,
            epoch: row.epoch,
            attempts: row.attempts,
            tries: row.tries,
            last_input: row.last_input,
            consumed: row.consumed,
            held_reason: row.held_reason,
            parent_id: row.parent_id.map(WorkId),
            predecessor_id: row.predecessor_id.map(WorkId),
            created_at: row.created_at,
            ended_at: row.ended_at,
        })
    }
}

/// The columns of a ready row, before their identifiers are typed. Infinite times come as NULL: the driver
/// cannot hold them.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct LeaseRow {
    binding_id: i32,
    priority: i16,
    pos: i64,
    work_id: Uuid,
    epoch: i64,
    attempt: i32,
    tries: i16,
    capabilities: i16,
    owner: String,
    lease_until: Option<DateTime<Utc>>,
    claimed_at: Option<DateTime<Utc>>,
    generation: i64,
    registration: i64,
    digest: Uuid,
    trigger_uid: Uuid,
    bridge_n: i64,
    input_from: i64,
    input_to: i64,
}

impl From<LeaseRow> for ReadyRow {
    fn from(row: LeaseRow) -> Self {
        Self {
            binding_id: BindingId(row.binding_id),
            priority: row.priority,
            pos: row.pos,
            work_id: WorkId(row.work_id),
            epoch: row.epoch,
            attempt: row.attempt,
            tries: row.tries,
            capabilities: row.capabilities,
            owner: row.owner,
            lease_until: row.lease_until,
            claimed_at: row.claimed_at,
            generation: row.generation,
            registration: row.registration,
            digest: row.digest,
            trigger: (!row.trigger_uid.is_nil()).then_some(EventUid(row.trigger_uid)),
            bridge_n: row.bridge_n,
            input_from: row.input_from,
            input_to: row.input_to,
        }
    }
}
