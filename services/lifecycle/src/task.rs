//! Loops of this service: each step is one small batch a tenant, and idempotent.

use std::sync::Arc;

use tokio::sync::Notify;
use weir_kernel::TenantId;
use weir_pg::Db;
use weir_runtime::{Progress, Task};

use crate::command::{ForgetRequests, HoldExhausted, MakePartitions};
use crate::{Config, Error};

/// Works held at once: each takes a few statements under its locks.
const HOLD_BATCH: i32 = 50;
/// Answers deleted at once.
const FORGET_BATCH: i64 = 1_000;

pub(crate) fn all(db: &Db, config: &Config) -> [Task; 3] {
    let (hold, partitions, forget) = (db.clone(), db.clone(), db.clone());
    // A stored permit: the first step does not wait for the interval.
    let start = Arc::new(Notify::new());
    start.notify_one();
    [
        Task::every("lifecycle.hold_exhausted", config.hold_interval).run(move || {
            let db = hold.clone();
            async move { hold_exhausted(&db).await }
        }),
        Task::every("lifecycle.make_partitions", config.partition_interval)
            .woken_by(start)
            .run(move || {
                let db = partitions.clone();
                async move { make_partitions(&db).await }
            }),
        Task::every("lifecycle.forget_requests", config.forget_interval).run(move || {
            let db = forget.clone();
            async move { forget_requests(&db).await }
        }),
    ]
}

/// Holds Works whose attempts are spent, of every tenant (rule l07).
///
/// # Errors
/// The database's.
pub async fn hold_exhausted(db: &Db) -> Result<Progress, Error> {
    let mut progress = Progress::Idle;
    for tenant in tenants(db).await? {
        let found = db
            .run(&HoldExhausted {
                tenant,
                most: HOLD_BATCH,
            })
            .await?;
        if i32::try_from(found).is_ok_and(|found| found == HOLD_BATCH) {
            progress = Progress::More;
        }
    }
    Ok(progress)
}

/// Makes the days' payload partitions ahead of time.
///
/// # Errors
/// The database's.
pub async fn make_partitions(db: &Db) -> Result<Progress, Error> {
    let made = db.run(&MakePartitions).await?;
    if made > 0 {
        tracing::info!(made, "made partitions for coming days");
    }
    Ok(Progress::Idle)
}

/// Deletes answers that are older than 24 h, of every tenant (rule o08).
///
/// # Errors
/// The database's.
pub async fn forget_requests(db: &Db) -> Result<Progress, Error> {
    let mut progress = Progress::Idle;
    for tenant in tenants(db).await? {
        let deleted = db
            .run(&ForgetRequests {
                tenant,
                most: FORGET_BATCH,
            })
            .await?;
        if i64::try_from(deleted).is_ok_and(|deleted| deleted == FORGET_BATCH) {
            progress = Progress::More;
        }
    }
    Ok(progress)
}

async fn tenants(db: &Db) -> Result<Vec<TenantId>, Error> {
    let mut conn = db.acquire().await?;
    let ids: Vec<i64> = sqlx::query_scalar("SELECT tenant_id FROM weir.tenant ORDER BY tenant_id")
        .fetch_all(&mut *conn)
        .await?;
    Ok(ids.into_iter().map(TenantId).collect())
}
