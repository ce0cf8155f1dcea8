//! The loop that checks waits: those that ask for it, those that are due, and those with a subscription to a
//! scope that has new events.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::StreamExt as _;
use sqlx::Row as _;
use uuid::Uuid;
use weir_kernel::{ScopeId, TenantId, WorkId};
use weir_runtime::CancellationToken;
use weir_work::open_wait;

use crate::Error;
use crate::route::worker::Router;
use crate::wait::check::{Check, Look, Own, What};
use crate::wait::wake::{WakeWork, Woken};

/// Waits of one round, of each kind and scope.
const ROUND: i64 = 500;
/// Waits checked side by side.
const ABREAST: usize = 4;
/// Pages of events for each subscription of one check; then it is taken up again.
const WINDOWS: u32 = 40;

type Waiting = (TenantId, WorkId, ScopeId);

/// Runs until `shutdown`. A failure is logged once and the loop goes on.
pub async fn run(router: Router, shutdown: CancellationToken) {
    let mut failing = false;
    // Where the last round of asked checks ended: those that cannot be done yet are not asked first again.
    let mut after = Uuid::nil();
    while !shutdown.is_cancelled() {
        // Registered before the look, so that a wake-up during it is not lost.
        let arrived = router.arrived.notified();
        let routed = router.routed.notified();
        let mut watching = true;
        let again = match round(&router, &mut after).await {
            Ok(round) => {
                failing = false;
                watching = round.watching;
                round.more
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(error = %weir_rpc::chain(&error), "cannot check waits; it goes on");
                }
                false
            }
        };
        if again {
            tokio::task::yield_now().await;
            continue;
        }
        let pause = router.poll.mul_f64(rand::random_range(0.8..1.2));
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = arrived, if watching => pace(&shutdown).await,
            () = routed, if watching => pace(&shutdown).await,
        }
    }
}

/// Events that arrive one by one are looked at together.
async fn pace(shutdown: &CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(Duration::from_millis(10)) => {}
    }
}

/// What a round came to.
struct Round {
    /// There is more to see now.
    more: bool,
    /// Somebody waits for something. If not, an event or a decision changes nothing here.
    watching: bool,
}

/// Checks what is due once.
async fn round(router: &Router, after: &mut Uuid) -> Result<Round, Error> {
    let (due, watching) = due(router, after).await?;
    let mut more = false;
    let mut checks = futures::stream::iter(due)
        .map(|waiting| check(router, waiting))
        .buffer_unordered(ABREAST);
    let mut failed = None;
    while let Some(result) = checks.next().await {
        match result {
            Ok(unfinished) => more |= unfinished,
            // One wait that cannot be checked harms no neighbour.
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if !more => Err(error),
        _ => Ok(Round { more, watching }),
    }
}

async fn due(router: &Router, after: &mut Uuid) -> Result<(BTreeSet<Waiting>, bool), Error> {
    let mut conn = router.context.db.acquire().await?;
    let (now, watching): (DateTime<Utc>, bool) = sqlx::query_as(
        "SELECT weir.clock(), EXISTS (SELECT FROM weir.wait_sub) \
             OR EXISTS (SELECT FROM weir.wait WHERE state = 1 AND due_at IS NOT NULL)",
    )
    .fetch_one(&mut *conn)
    .await?;
    let asked = sqlx::query(include_str!("sql/select_asked.sql"))
        .bind(ROUND)
        .bind(*after)
        .fetch_all(&mut *conn)
        .await?;
    *after = match asked.last() {
        Some(last) if i64::try_from(asked.len()).unwrap_or(ROUND) >= ROUND => {
            last.try_get("work_id")?
        }
        _ => Uuid::nil(),
    };
    let timed = sqlx::query(include_str!("sql/select_due.sql"))
        .bind(ROUND)
        .bind(now)
        .fetch_all(&mut *conn)
        .await?;
    let behind = sqlx::query(include_str!("sql/select_behind.sql"))
        .bind(ROUND)
        .fetch_all(&mut *conn)
        .await?;
    let due: Result<_, Error> = asked
        .iter()
        .chain(&timed)
        .chain(&behind)
        .map(|row| {
            Ok((
                TenantId(row.try_get("tenant_id")?),
                WorkId(row.try_get("work_id")?),
                ScopeId(row.try_get("scope_id")?),
            ))
        })
        .collect();
    Ok((due?, watching))
}

/// Checks one wait and wakes its Work if somebody won. Says whether there is more to see.
async fn check(router: &Router, (tenant, work, scope): Waiting) -> Result<bool, Error> {
    let generation = router.generations.by_id(tenant).await?;
    let mut conn = router.context.db.acquire().await?;
    let Some(wait) = open_wait(&mut conn, tenant, work).await? else {
        return Ok(false);
    };
    let mut check = Check::new(wait);
    let look = check
        .look(&mut conn, &generation, scope, Own::Stored, None, WINDOWS)
        .await?;
    drop(conn);
    match look {
        Look::Won(winner) if matches!(winner.what, What::Unrouted(_)) => {
            // It is routed `wake` when its turn comes. What else is asked for is kept.
            router.wake.notify_one();
            Ok(false)
        }
        Look::Won(_) => {
            let command = WakeWork {
                generation: &generation,
                scope,
                check: &check,
            };
            match router.context.db.run(&command).await? {
                Woken::Woken(_) => {
                    metrics::counter!("weir_routing_waits_woken_total").increment(1);
                    tracing::debug!(work.id = %work, "a wait was won");
                    router.wake.notify_one();
                    router.arrived.notify_waiters();
                    router.routed.notify_waiters();
                }
                Woken::Held(code) => {
                    metrics::counter!("weir_routing_waits_refused_total", "code" => code.as_str())
                        .increment(1);
                    tracing::warn!(work.id = %work, code = %code, "the causal limits refuse to wake a work; it is held");
                    router.wake.notify_one();
                }
                // Closed, or there was too much new to see under the locks: what was seen is kept.
                Woken::Nothing => save(router, tenant, &check, 0).await?,
            }
            Ok(false)
        }
        Look::Open => save(router, tenant, &check, check.wait.asked)
            .await
            .map(|()| false),
        // Only the progress: the check is not done.
        Look::More => save(router, tenant, &check, 0).await.map(|()| true),
    }
}

async fn save(router: &Router, tenant: TenantId, check: &Check, asked: i64) -> Result<(), Error> {
    let (items, seqs, times) = check.progress();
    let mut conn = router.context.db.acquire().await?;
    sqlx::query(include_str!("sql/save_progress.sql"))
        .bind(tenant.0)
        .bind(check.wait.work.0)
        .bind(check.wait.n)
        .bind(&items)
        .bind(&seqs)
        .bind(&times)
        .bind(asked)
        .execute(&mut *conn)
        .await?;
    Ok(())
}
