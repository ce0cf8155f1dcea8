//! The lease guard (rule l02): every write of an attempt passes here, in the transaction of its effect.
//!
//! An attempt's authority is its row in `weir.ready`: the same epoch and attempt, an owner, and a
//! `lease_until` that the database's clock has not reached. An expired lease has no authority, also
//! before anybody takes it over.

use chrono::{DateTime, Utc};
use sqlx::FromRow as _;
use sqlx::Row as _;
use sqlx::types::Uuid;
use weir_kernel::{ScopeId, TenantId, WorkId};
use weir_pg::Tx;

use crate::row::{LeaseRow, ReadyRow};
use crate::{Error, Locked, Work, lock_one};

/// The authority that a caller claims to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The Work.
    pub work: WorkId,
    /// The attempt's number.
    pub attempt: i32,
    /// The attempt's epoch: the fencing token.
    pub epoch: i64,
}

/// A live lease under the Work lock: nobody else can change the Work until the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The Work.
    pub work: Work,
    /// The lease.
    pub ready: ReadyRow,
    /// Database time, read when all locks were held.
    pub at: DateTime<Utc>,
}

impl From<Held> for Locked {
    fn from(held: Held) -> Self {
        Self {
            work: held.work,
            ready: Some(held.ready),
            at: held.at,
        }
    }
}

impl Lease {
    /// Says whether this lease is the one of a locked Work, and live.
    fn holds(self, ready: &ReadyRow, at: DateTime<Utc>) -> bool {
        ready.work_id == self.work
            && ready.epoch == self.epoch
            && ready.attempt == self.attempt
            && ready.is_leased(at)
    }
}

/// Locks the Work and checks the lease.
///
/// # Errors
/// [`Error::WorkNotFound`] for an unknown or another tenant's Work; [`Error::LeaseLost`] for a stale,
/// ended or expired lease.
pub async fn require_lease(tx: &mut Tx<'_>, tenant: TenantId, lease: Lease) -> Result<Held, Error> {
    check_lease(lock_one(tx, tenant, lease.work).await?, lease)
        .map_err(|_| Error::LeaseLost(lease.work))
}

/// Checks a lease against a locked Work, and gives the Work back when it does not hold, for those who
/// answer a repeat.
///
/// # Errors
/// The locked Work.
pub fn check_lease(locked: Locked, lease: Lease) -> Result<Held, Box<Locked>> {
    match locked {
        Locked {
            work,
            ready: Some(ready),
            at,
        } if lease.holds(&ready, at) => Ok(Held { work, ready, at }),
        other => Err(Box::new(other)),
    }
}

/// A live lease under a share lock of its ready row only: it cannot end, be renewed or be taken over
/// until the commit, and routing of the Work is not blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLease {
    /// Scope of the Work.
    pub scope: ScopeId,
    /// The lease: pins trigger, binding, generation and capabilities.
    pub ready: ReadyRow,
    /// Database time, read after the lock.
    pub at: DateTime<Utc>,
}

/// Share-locks the ready row and checks the lease. For writes of an attempt that leave the Work itself
/// alone, such as Emit. Whoever also takes a scope order lock takes it first.
///
/// # Errors
/// As [`require_lease`].
pub async fn share_lease(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    lease: Lease,
) -> Result<SharedLease, Error> {
    let row = sqlx::query(include_str!("sql/share_lease.sql"))
        .bind(tenant.0)
        .bind(lease.work.0)
        .fetch_optional(tx.conn())
        .await?
        .ok_or(Error::WorkNotFound(lease.work))?;
    let found: Option<Uuid> = row.try_get("work_id")?;
    if found.is_none() {
        return Err(Error::LeaseLost(lease.work));
    }
    let ready = ReadyRow::from(LeaseRow::from_row(&row)?);
    let at = row.try_get("at")?;
    if !lease.holds(&ready, at) {
        return Err(Error::LeaseLost(lease.work));
    }
    Ok(SharedLease {
        scope: ScopeId(row.try_get("scope_id")?),
        ready,
        at,
    })
}
