//! The locks of the aggregate, in the one order: Work rows by id, then their ready rows.
//!
//! Each is a statement of its own. A statement that waits for a lock keeps the snapshot it had before
//! the wait, so whoever decides reads in a statement after the locks.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use sqlx::{FromRow as _, Row as _};
use weir_kernel::{TenantId, WorkId};
use weir_pg::Tx;

use crate::row::{LeaseRow, WorkRow};
use crate::{Error, Locked, ReadyRow, Work};

/// Locks Works, sorted by id, and returns those that exist. The rows are as of the lock.
///
/// # Errors
/// The database's.
pub async fn lock_works(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[WorkId],
) -> Result<Vec<Work>, Error> {
    let mut ids: Vec<Uuid> = works.iter().map(|work| work.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows: Vec<WorkRow> = sqlx::query_as(include_str!("sql/lock_works.sql"))
        .bind(tenant.0)
        .bind(&ids)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter().map(Work::try_from).collect()
}

/// Locks the ready rows of Works that [`lock_works`] locked, and returns them by Work, with the
/// database time read after the locks. A claim that holds one is waited for: it is one short commit.
///
/// # Errors
/// The database's.
pub async fn lock_ready(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[Work],
) -> Result<(HashMap<WorkId, ReadyRow>, DateTime<Utc>), Error> {
    let mut bindings = Vec::new();
    let mut priorities = Vec::new();
    let mut positions = Vec::new();
    for work in works {
        if let Some(pos) = work.queue_pos {
            bindings.push(work.binding_id.0);
            priorities.push(work.lane_priority());
            positions.push(pos);
        }
    }
    let mut found = HashMap::new();
    let mut at = None;
    if !positions.is_empty() {
        let rows = sqlx::query(include_str!("sql/lock_ready.sql"))
            .bind(tenant.0)
            .bind(&bindings)
            .bind(&priorities)
            .bind(&positions)
            .fetch_all(tx.conn())
            .await?;
        for row in rows {
            at = at.max(Some(row.try_get("at")?));
            let ready = ReadyRow::from(LeaseRow::from_row(&row)?);
            found.insert(ready.work_id, ready);
        }
    }
    let at = match at {
        Some(at) => at,
        None => clock(tx).await?,
    };
    Ok((found, at))
}

/// Locks Works and their ready rows: both of the above.
///
/// # Errors
/// The database's, and a Work whose ready row is not where the Work says.
pub async fn lock(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    works: &[WorkId],
) -> Result<Vec<Locked>, Error> {
    let works = lock_works(tx, tenant, works).await?;
    let (mut ready, at) = lock_ready(tx, tenant, &works).await?;
    works
        .into_iter()
        .map(|work| {
            let ready = ready.remove(&work.work_id);
            if work.queue_pos.is_some() != ready.is_some() {
                return Err(Error::Inconsistent {
                    work: work.work_id,
                    what: "its ready row is not at its queue position",
                });
            }
            Ok(Locked { work, ready, at })
        })
        .collect()
}

/// Locks one Work and its ready row.
///
/// # Errors
/// [`Error::WorkNotFound`], and those of [`lock`].
pub async fn lock_one(tx: &mut Tx<'_>, tenant: TenantId, work: WorkId) -> Result<Locked, Error> {
    lock(tx, tenant, &[work])
        .await?
        .pop()
        .ok_or(Error::WorkNotFound(work))
}

/// Reads the database's clock.
///
/// # Errors
/// The database's.
pub async fn clock(tx: &mut Tx<'_>) -> Result<DateTime<Utc>, Error> {
    Ok(sqlx::query_scalar("SELECT weir.clock()")
        .fetch_one(tx.conn())
        .await?)
}
