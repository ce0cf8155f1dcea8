//! Counting what dead processes left (rule r21).
//!
//! # Lock order
//! Pending rows in the order of their positions, one scope after the other, then claims: as a commit does, which
//! takes its pending rows first and the claim of its scope last. Nothing is skipped: a row that is locked is being
//! decided, and counted afterwards if it still stands.
//!
//! # Interleavings considered
//! - *Two sweepers*: the second waits for the pending rows or the claims, finds the claims gone, does nothing.
//! - *The owner lives after all and commits*: it holds the pending rows or has changed the claim; read again under
//!   the locks the claim is another, or its owner was seen, and nothing is counted. The next sweep looks afresh.
//! - *The owner lives, and is swept*: its commit finds no claim to take off, which is no error. Its events are
//!   decided alone once, in vain.
//! - *An operator skips or reroutes an event meanwhile*: its row is gone, or starts anew as a suspect.

use sqlx::Row as _;
use uuid::Uuid;
use weir_kernel::{EventUid, FailureCode};
use weir_pg::{Command, Db, Tx};

use crate::Error;
use crate::replica::Replica;
use crate::route::failure::Limits;

/// Crashes alone from which on each is a failure (`handler_crashed`).
pub const CRASHES: i16 = 3;

/// Counts the crashes of processes that are dead by now. The replica must be settled.
///
/// # Errors
/// The database's; what was counted stays counted.
pub async fn sweep(db: &Db, replica: &Replica, limits: Limits) -> Result<(), Error> {
    let mut conn = db.acquire().await?;
    let dead: Vec<Uuid> = sqlx::query_scalar(include_str!("../sql/dead_owners.sql"))
        .bind(replica.id())
        .bind(replica.dead_after_ms())
        .fetch_all(&mut *conn)
        .await?;
    drop(conn);
    for owner in dead {
        let command = CountCrash {
            owner,
            dead_after_ms: replica.dead_after_ms(),
            limits,
        };
        match db.run(&command).await? {
            Counted::Nothing => {}
            Counted::Suspects(suspects) => tracing::warn!(
                replica = %owner,
                suspects,
                "a replica ended while it decided events; they are decided alone"
            ),
            Counted::Crash(event, times) => {
                metrics::counter!("weir_routing_crashes_total").increment(1);
                tracing::warn!(
                    replica = %owner,
                    event.uid = %event,
                    times,
                    "deciding an event alone took a replica down"
                );
            }
        }
    }
    Ok(())
}

/// Counts the crash of one process and removes its claims, all or nothing.
#[derive(Debug)]
struct CountCrash {
    owner: Uuid,
    dead_after_ms: i64,
    limits: Limits,
}

/// What was counted.
#[derive(Debug)]
enum Counted {
    Nothing,
    Suspects(usize),
    Crash(EventUid, i32),
}

/// The claim of one scope.
#[derive(Debug, PartialEq, Eq)]
struct Claimed {
    tenant: i64,
    scope: i32,
    seqs: Vec<i64>,
    alone: Option<i64>,
}

impl Command for CountCrash {
    const NAME: &'static str = "routing.count_crash";
    type Output = Counted;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Counted, Error> {
        let claims = self.claims(tx, false).await?;
        // Who decided an event alone had nothing else in evaluation.
        let mut marks = claims.iter().filter_map(|c| Some((c, c.alone?)));
        let alone = match (marks.next(), marks.next()) {
            (Some(mark), None) => Some(mark),
            _ => None,
        };
        let mut suspects = Vec::new();
        let mut blamed = None;
        for claim in &claims {
            let mut seqs = claim.seqs.clone();
            seqs.extend(claim.alone);
            seqs.sort_unstable();
            seqs.dedup();
            let standing: Vec<i64> = sqlx::query_scalar(include_str!("../sql/lock_pending.sql"))
                .bind(claim.tenant)
                .bind(claim.scope)
                .bind(&seqs)
                .fetch_all(tx.conn())
                .await?;
            let is_there = |(c, seq): &(&Claimed, i64)| *c == claim && standing.contains(seq);
            blamed = blamed.or_else(|| alone.filter(is_there));
            suspects.push((claim, standing));
        }
        if claims.is_empty() || self.claims(tx, true).await? != claims {
            return Ok(Counted::Nothing);
        }
        let counted = if let Some((claim, seq)) = blamed {
            self.crashed(tx, claim, seq).await?
        } else {
            for (claim, standing) in &suspects {
                sqlx::query(include_str!("../sql/suspect.sql"))
                    .bind(claim.tenant)
                    .bind(claim.scope)
                    .bind(standing)
                    .execute(tx.conn())
                    .await?;
            }
            match suspects.iter().map(|(_, s)| s.len()).sum() {
                0 => Counted::Nothing,
                n => Counted::Suspects(n),
            }
        };
        sqlx::query("DELETE FROM weir.route_claim WHERE owner = $1")
            .bind(self.owner)
            .execute(tx.conn())
            .await?;
        Ok(counted)
    }
}

impl CountCrash {
    async fn claims(&self, tx: &mut Tx<'_>, locked: bool) -> Result<Vec<Claimed>, Error> {
        let statement = if locked {
            concat!(include_str!("../sql/claims_of.sql"), "   FOR UPDATE OF c")
        } else {
            include_str!("../sql/claims_of.sql")
        };
        let rows = sqlx::query(statement)
            .bind(self.owner)
            .bind(self.dead_after_ms)
            .fetch_all(tx.conn())
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Claimed {
                    tenant: row.try_get(0)?,
                    scope: row.try_get(1)?,
                    seqs: row.try_get(2)?,
                    alone: row.try_get(3)?,
                })
            })
            .collect()
    }

    async fn crashed(&self, tx: &mut Tx<'_>, claim: &Claimed, seq: i64) -> Result<Counted, Error> {
        let window = i64::try_from(self.limits.window.as_millis()).unwrap_or(i64::MAX);
        let row = sqlx::query(include_str!("../sql/crashed.sql"))
            .bind(claim.tenant)
            .bind(claim.scope)
            .bind(seq)
            .bind(FailureCode::HandlerCrashed.code())
            .bind(i32::from(self.limits.max_failures))
            .bind(window)
            .bind(i32::from(CRASHES))
            .fetch_one(tx.conn())
            .await?;
        Ok(Counted::Crash(EventUid(row.try_get(0)?), row.try_get(1)?))
    }
}
