//! Waits, as the side that wakes them needs them (rules l10, l11, r17): reading an open one, waking its Work,
//! and holding it when the causal limits refuse.
//!
//! A wait is won once: whoever wakes holds the Work's lock, finds the wait open, and closes it in the commit
//! that queues the bridge. Parking, the other end, is in the `park` module with the storage contract.
//!
//! The bridge and, when the winner is the Work's own event, the winner are inputs with `taken_by` 0: presented
//! first by the next claim and not a part of the ordinary queue (rule l04).

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use sqlx::{PgConnection, Row as _};
use weir_kernel::{EventUid, RefusalCode, ScopeId, TenantId, WorkId, WorkState};
use weir_pg::Tx;

use crate::{Error, Locked, Queued, lock_one};

/// What a wait is won by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Any further input of the Work.
    Own,
    /// An accepted event.
    Event {
        /// Its scope.
        scope: ScopeId,
        /// Expression over it; empty: any.
        filter: String,
        /// The Work that emitted it; anybody when `None`.
        emitter: Option<WorkId>,
        /// Events up to this position were seen and did not match.
        seen_seq: i64,
        /// When the last of those was accepted; `None`: none was seen.
        seen_at: Option<DateTime<Utc>>,
    },
    /// The end of another Work.
    Ended(WorkId),
}

/// An open wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWait {
    /// The waiting Work.
    pub work: WorkId,
    /// Its number within the Work.
    pub n: i32,
    /// The attempt that parked.
    pub attempt: i32,
    /// The lookback: only events accepted since then count, own input apart.
    pub since: DateTime<Utc>,
    /// When it times out.
    pub due_at: Option<DateTime<Utc>>,
    /// Trigger of the attempt that parked, or what that derives from when it is a bridge: parent of a bridge that no
    /// event won.
    pub trigger: EventUid,
    /// How often a check was asked for.
    pub asked: i64,
    /// Its conditions, by item.
    pub conditions: Vec<(i16, Condition)>,
}

impl OpenWait {
    /// Returns its name in the contracts.
    #[must_use]
    pub fn name(&self) -> String {
        wait_name(self.work, self.n)
    }

    /// Says whether any further input of the Work wins it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.conditions
            .iter()
            .any(|(_, c)| matches!(c, Condition::Own))
    }
}

/// Returns the name of a Work's wait in the contracts: `<work>/<n>`.
#[must_use]
pub fn wait_name(work: WorkId, n: i32) -> String {
    format!("{work}/{n}")
}

/// Reads the open wait of a Work with its conditions.
///
/// # Errors
/// The database's.
pub async fn open_wait(
    conn: &mut PgConnection,
    tenant: TenantId,
    work: WorkId,
) -> Result<Option<OpenWait>, Error> {
    let rows = sqlx::query(include_str!("sql/open_wait.sql"))
        .bind(tenant.0)
        .bind(work.0)
        .fetch_all(conn)
        .await?;
    let mut wait: Option<OpenWait> = None;
    for row in rows {
        let wait = match &mut wait {
            Some(wait) => wait,
            none => none.insert(OpenWait {
                work,
                n: row.try_get("n")?,
                attempt: row.try_get("attempt")?,
                since: row.try_get("since")?,
                due_at: row.try_get("due_at")?,
                trigger: EventUid(row.try_get("trigger_uid")?),
                asked: row.try_get("asked")?,
                conditions: Vec::new(),
            }),
        };
        let Some(item) = row.try_get::<Option<i16>, _>("item")? else {
            continue;
        };
        let condition = match row.try_get::<i16, _>("kind")? {
            1 => Condition::Own,
            2 => Condition::Event {
                scope: ScopeId(row.try_get("scope_id")?),
                filter: row
                    .try_get::<Option<_>, _>("condition")?
                    .unwrap_or_default(),
                emitter: row.try_get::<Option<Uuid>, _>("emitter")?.map(WorkId),
                seen_seq: row.try_get("seen_seq")?,
                seen_at: row.try_get("seen_at")?,
            },
            _ => Condition::Ended(WorkId(row.try_get("ended_work")?)),
        };
        wait.conditions.push((item, condition));
    }
    Ok(wait)
}

/// Who won.
#[derive(Debug, Clone, Copy)]
pub enum Won {
    /// An event that is no input of the Work.
    Foreign(EventUid),
    /// An event that is queued already.
    Queued(EventUid),
    /// The Work's own event, routed `wake` by this very commit.
    Own(Queued),
    /// No event: another Work ended.
    Ended,
    /// Nobody: the wait timed out.
    TimedOut,
}

impl Won {
    /// Returns the winning event.
    #[must_use]
    pub const fn event(&self) -> Option<EventUid> {
        match self {
            Self::Foreign(uid) | Self::Queued(uid) => Some(*uid),
            Self::Own(queued) => Some(queued.uid),
            Self::Ended | Self::TimedOut => None,
        }
    }
}

/// Wakes a locked, waiting Work: closes its wait, queues the bridge with its winner, and makes the Work
/// claimable at the end of its lane. Returns the Work as it is now.
///
/// # Errors
/// The database's; a Work that is not waiting.
pub async fn wake(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    n: i32,
    won: Won,
    bridge: Queued,
) -> Result<Locked, Error> {
    if locked.work.state != WorkState::Waiting {
        return Err(Error::Inconsistent {
            work: locked.work.work_id,
            what: "it is woken but does not wait",
        });
    }
    let own = match won {
        Won::Own(queued) => Some(queued),
        _ => None,
    };
    let state: i16 = if matches!(won, Won::TimedOut) { 3 } else { 2 };
    let woken = sqlx::query(include_str!("sql/wake.sql"))
        .bind(tenant.0)
        .bind(locked.work.work_id.0)
        .bind(n)
        .bind(state)
        .bind(won.event().map(|uid| uid.0))
        .bind(bridge.uid.0)
        .bind(bridge.seq)
        .bind(bridge.accepted_at)
        .bind(bridge.bytes)
        .bind(bridge.binding.0)
        .bind(locked.work.lane_priority())
        .bind(own.map(|q| q.uid.0))
        .bind(own.map(|q| q.seq))
        .bind(own.map(|q| q.accepted_at))
        .bind(own.map(|q| q.bytes))
        .fetch_optional(tx.conn())
        .await?;
    if woken.is_none() {
        return Err(Error::Inconsistent {
            work: locked.work.work_id,
            what: "its open wait is not there",
        });
    }
    lock_one(tx, tenant, locked.work.work_id).await
}

/// Holds a locked, waiting Work because the causal limits refuse to wake it (rule l11). Its wait stays open
/// and is not looked at until an operator releases the Work.
///
/// # Errors
/// The database's.
pub async fn hold_refused(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    locked: &Locked,
    n: i32,
    code: RefusalCode,
) -> Result<(), Error> {
    sqlx::query(include_str!("sql/hold_refused.sql"))
        .bind(tenant.0)
        .bind(locked.work.work_id.0)
        .bind(n)
        .bind(code.code())
        .bind(refused_reason(code))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Returns why a Work is held whose wake the causal limits refuse.
#[must_use]
pub const fn refused_reason(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::Depth => "wake_refused_depth",
        RefusalCode::Rate => "wake_refused_rate",
        RefusalCode::MissingParent => "wake_refused_missing_parent",
        RefusalCode::Braked => "wake_refused_braked",
    }
}
