//! A Work as readers see it.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;
use weir_kernel::{EventUid, ScopeId, TenantId, WorkId, WorkState};

use crate::Error;
use crate::condition::Condition;

/// A Work, and what would move it.
#[derive(Debug, Clone)]
pub(crate) struct WorkView {
    pub(crate) work: WorkId,
    pub(crate) scope: String,
    pub(crate) state: WorkState,
    pub(crate) revision: i64,
    pub(crate) binding: String,
    pub(crate) priority: i16,
    pub(crate) keys: Vec<String>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) ended_at: Option<DateTime<Utc>>,
    pub(crate) held_reason: Option<String>,
    pub(crate) parent: Option<WorkId>,
    pub(crate) predecessor: Option<WorkId>,
    pub(crate) attempts: i32,
    pub(crate) tries: i16,
    pub(crate) open_inputs: i64,
    pub(crate) epoch: i64,
    pub(crate) blocked_by: Blocker,
}

/// The one thing that would move a Work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Blocker {
    pub(crate) kind: &'static str,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) until: Option<DateTime<Utc>>,
    pub(crate) detail: String,
    pub(crate) event: Option<EventUid>,
}

#[derive(sqlx::FromRow)]
struct Row {
    work_id: Uuid,
    scope: Option<String>,
    state: i16,
    revision: i64,
    binding: Option<String>,
    priority: i16,
    held_reason: Option<String>,
    parent_id: Option<Uuid>,
    predecessor_id: Option<Uuid>,
    created_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    attempts: i32,
    tries: i16,
    epoch: i64,
    keys: Vec<String>,
    open_inputs: i64,
    queued_at: Option<DateTime<Utc>>,
    owner: Option<String>,
    lease_until: Option<DateTime<Utc>>,
    claimed_at: Option<DateTime<Utc>>,
    unrouted: Option<Uuid>,
    unrouted_at: Option<DateTime<Utc>>,
    hold_reason: Option<String>,
    wait: Option<i32>,
    wait_since: Option<DateTime<Utc>>,
    wait_due: Option<DateTime<Utc>>,
    kinds: Option<Vec<i16>>,
    scopes: Option<Vec<Option<String>>>,
    filters: Option<Vec<Option<String>>>,
    emitters: Option<Vec<Option<Uuid>>>,
    ended: Option<Vec<Option<Uuid>>>,
    at: DateTime<Utc>,
}

impl Row {
    /// Whether the row in the queue has a time that is still to come.
    fn until(&self) -> Option<DateTime<Utc>> {
        self.lease_until.filter(|until| *until > self.at)
    }

    fn state(&self) -> Result<WorkState, Error> {
        let claimed = self.owner.as_deref().is_some_and(|owner| !owner.is_empty());
        if claimed && self.until().is_some() {
            return Ok(WorkState::Running);
        }
        Ok(WorkState::from_code(self.state)?)
    }

    fn blocker(&self, state: WorkState) -> Blocker {
        match state {
            WorkState::Completed | WorkState::Failed | WorkState::Cancelled => Blocker {
                kind: "nothing",
                since: self.ended_at,
                detail: "the work has ended".to_owned(),
                ..Blocker::default()
            },
            WorkState::Held => Blocker {
                kind: "held",
                detail: match (self.held_reason.as_deref(), self.wait_words()) {
                    (reason, None) => reason.unwrap_or_default().to_owned(),
                    (reason, Some(wait)) => format!("{}; {wait}", reason.unwrap_or_default()),
                },
                ..Blocker::default()
            },
            WorkState::Waiting => Blocker {
                kind: "wait",
                since: self.wait_since,
                until: self.wait_due,
                detail: self.wait_words().unwrap_or_default(),
                event: None,
            },
            WorkState::Running => Blocker {
                kind: "lease",
                since: self.claimed_at,
                until: self.lease_until,
                detail: format!(
                    "attempt {} is leased to `{}`",
                    self.attempts,
                    self.owner.as_deref().unwrap_or_default()
                ),
                event: None,
            },
            WorkState::Ready => self.ready_blocker(),
        }
    }

    /// Names the open wait, with its conditions in words.
    fn wait_words(&self) -> Option<String> {
        let name = weir_work::wait_name(WorkId(self.work_id), self.wait?);
        let words: Vec<String> = self.conditions().iter().map(Condition::to_string).collect();
        Some(if words.is_empty() {
            format!("wait `{name}` for its timeout")
        } else {
            format!("wait `{name}` for {}", words.join(", or "))
        })
    }

    fn conditions(&self) -> Vec<Condition> {
        let kinds = self.kinds.as_deref().unwrap_or_default();
        let text = |column: &Option<Vec<Option<String>>>, i: usize| {
            let cell = column.as_ref().and_then(|column| column.get(i));
            cell.cloned().flatten().unwrap_or_default()
        };
        let work = |column: &Option<Vec<Option<Uuid>>>, i: usize| {
            let cell = column.as_ref().and_then(|column| column.get(i));
            cell.copied().flatten().map(WorkId)
        };
        kinds
            .iter()
            .enumerate()
            .map(|(i, kind)| match kind {
                1 => Condition::Own,
                2 => Condition::Event {
                    scope: text(&self.scopes, i),
                    filter: text(&self.filters, i),
                    emitter: work(&self.emitters, i),
                },
                _ => Condition::Ended(work(&self.ended, i).unwrap_or(WorkId(Uuid::nil()))),
            })
            .collect()
    }

    fn ready_blocker(&self) -> Blocker {
        match (&self.owner, self.until()) {
            (Some(_), Some(until)) => Blocker {
                kind: "backoff",
                until: Some(until),
                detail: format!("tried {} times, next try later", self.tries),
                ..Blocker::default()
            },
            (Some(owner), None) => Blocker {
                kind: "unclaimed",
                since: self.lease_until.or(self.queued_at),
                detail: if owner.is_empty() {
                    "no worker has claimed it".to_owned()
                } else {
                    format!(
                        "the lease of attempt {} ran out, nobody took over",
                        self.attempts
                    )
                },
                ..Blocker::default()
            },
            (None, _) => Blocker {
                kind: "event",
                since: self.unrouted_at,
                detail: self
                    .hold_reason
                    .clone()
                    .unwrap_or_else(|| "its input is unrouted".to_owned()),
                event: self.unrouted.map(EventUid),
                ..Blocker::default()
            },
        }
    }
}

impl TryFrom<Row> for WorkView {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        let state = row.state()?;
        let blocked_by = row.blocker(state);
        Ok(Self {
            work: WorkId(row.work_id),
            scope: row.scope.unwrap_or_default(),
            state,
            revision: row.revision,
            binding: row.binding.unwrap_or_default(),
            priority: row.priority,
            keys: row.keys,
            created_at: row.created_at,
            ended_at: row.ended_at,
            held_reason: row.held_reason,
            parent: row.parent_id.map(WorkId),
            predecessor: row.predecessor_id.map(WorkId),
            attempts: row.attempts,
            tries: row.tries,
            open_inputs: row.open_inputs,
            epoch: row.epoch,
            blocked_by,
        })
    }
}

/// Reads Works in the order asked; unknown ones are missing.
pub(crate) async fn read_works(
    conn: &mut PgConnection,
    tenant: TenantId,
    works: &[Uuid],
) -> Result<Vec<WorkView>, Error> {
    let rows: Vec<Row> = sqlx::query_as(include_str!("read_works.sql"))
        .bind(tenant.0)
        .bind(works)
        .fetch_all(conn)
        .await?;
    rows.into_iter().map(WorkView::try_from).collect()
}

/// Reads one Work.
///
/// # Errors
/// `WORK_NOT_FOUND`.
pub(crate) async fn read_work(
    conn: &mut PgConnection,
    tenant: TenantId,
    work: WorkId,
) -> Result<WorkView, Error> {
    let found = read_works(conn, tenant, &[work.0]).await?.pop();
    found.ok_or_else(|| weir_work::Error::WorkNotFound(work).into())
}

/// Finds the Work that owns a key of a scope.
///
/// # Errors
/// `SCOPE_NOT_FOUND`, `WORK_NOT_FOUND`.
pub(crate) async fn find_by_key(
    conn: &mut PgConnection,
    tenant: TenantId,
    scope: &str,
    key: &str,
) -> Result<WorkId, Error> {
    let scope_id: Option<i32> =
        sqlx::query_scalar("SELECT scope_id FROM weir.scope WHERE tenant_id = $1 AND name = $2")
            .bind(tenant.0)
            .bind(scope)
            .fetch_optional(&mut *conn)
            .await?;
    let scope_id = scope_id
        .map(ScopeId)
        .ok_or_else(|| weir_ledger::Error::ScopeNotFound(scope.to_owned()))?;
    let work: Option<Uuid> = sqlx::query_scalar(
        "SELECT work_id FROM weir.work_key WHERE tenant_id = $1 AND scope_id = $2 AND key = $3",
    )
    .bind(tenant.0)
    .bind(scope_id.0)
    .bind(key)
    .fetch_optional(conn)
    .await?;
    work.map(WorkId)
        .ok_or_else(|| Error::KeyNotFound(key.to_owned()))
}
