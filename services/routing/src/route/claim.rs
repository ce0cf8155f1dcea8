//! What a process decides now, written down before it asks a handler, so that its death can be told from its failing
//! (rule r21).
//!
//! # Rows
//! One row of `weir.route_claim` for a scope and a process lists the positions in evaluation there. The scope's only
//! worker in the process writes it, once for all groups that a pass starts, and the commit that decides them takes
//! them off in its own transaction: a healthy event costs no write of its own. Groups that are not committed stay
//! until the worker starts others or ends. A claim is no lock: other processes may decide the same event, and the
//! commit tells who won.
//!
//! Expressions cannot take a process down: they are bounded in steps, depth and memory, and have no code of anybody
//! else in them. So a scope whose routes are all `cel` claims nothing, and holds up nobody.
//!
//! # Alone
//! The events of a dead process's claims are *suspects*, and suspects are decided alone: [`Turns`] lets no other
//! group be in evaluation in the process meanwhile, and the claim's `alone` names the very event whose handlers are
//! asked. When that process dies, this event did it and nobody else, whatever else the claims list. The price is paid
//! after a crash only, and bounded by the routes' deadlines: while a suspect is decided, and while it waits for what
//! is in evaluation before it, this process decides nothing else that needs a handler; expressions and the other
//! processes go on (rule r04).
//!
//! # Keeping off
//! A process keeps off what another decides alone, and off all claims of a process that nobody has seen since it
//! started. Its own predecessor is one: else a process that is restarted at once would meet the event that killed it
//! before anybody could tell that it did. A crash so delays the events of its claims by `dead_after`, and no others.

pub mod sweep;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::RwLock;
use weir_kernel::{FailureCode, ScopeId, TenantId};
use weir_pg::{Db, Tx};

use crate::Error;
use crate::generation::Generation;
use crate::replica::Replica;
use crate::route::commit::Commit;
use crate::route::decide::Effect;
use crate::route::evaluate::{Evaluated, Fate};

/// Pause before a mark is taken off again that could not be: the database is away.
const AGAIN: Duration = Duration::from_millis(200);

/// Whose turn it is in this process: groups share it, a suspect has it alone. First come, first served, so that
/// neither starves.
pub type Turns = Arc<RwLock<()>>;

/// The claim of a scope's worker.
#[derive(Debug)]
pub struct Claim {
    db: Db,
    replica: Replica,
    tenant: TenantId,
    scope: ScopeId,
    /// Says that the row may be there.
    held: bool,
}

impl Claim {
    /// Makes a claim that has nothing yet.
    #[must_use]
    pub fn new(db: Db, replica: Replica, tenant: TenantId, scope: ScopeId) -> Self {
        Self {
            db,
            replica,
            tenant,
            scope,
            held: false,
        }
    }

    /// Claims exactly these positions, committed when it returns.
    ///
    /// # Errors
    /// The database's; then no handler may be asked.
    pub async fn take(&mut self, seqs: &HashSet<i64>) -> Result<(), Error> {
        self.held = true;
        let mut sorted: Vec<i64> = seqs.iter().copied().collect();
        sorted.sort_unstable();
        let mut conn = self.db.acquire().await?;
        sqlx::query(include_str!("sql/claim.sql"))
            .bind(self.tenant.0)
            .bind(self.replica.id())
            .bind(self.scope.0)
            .bind(sorted)
            .execute(&mut *conn)
            .await?;
        Ok(())
    }

    /// Returns the positions that this process keeps off.
    ///
    /// # Errors
    /// The database's.
    pub async fn elsewhere(&self) -> Result<HashSet<i64>, Error> {
        let started = self.replica.started().await;
        let mut conn = self.db.acquire().await?;
        let claims: Vec<Vec<i64>> = sqlx::query_scalar(include_str!("sql/claimed_elsewhere.sql"))
            .bind(self.tenant.0)
            .bind(self.scope.0)
            .bind(self.replica.id())
            .bind(started)
            .fetch_all(&mut *conn)
            .await?;
        Ok(claims.into_iter().flatten().collect())
    }

    /// Returns what a commit does with the claim. `in_evaluation` has the groups of the commit, too.
    #[must_use]
    pub fn in_commit<'a>(&'a self, in_evaluation: &'a HashSet<i64>) -> InCommit<'a> {
        InCommit {
            claim: self,
            in_evaluation,
        }
    }

    /// Returns what marks a suspect's members while they are decided.
    #[must_use]
    pub fn alone(&self) -> Alone {
        Alone {
            db: self.db.clone(),
            replica: self.replica.clone(),
            tenant: self.tenant,
            scope: self.scope,
        }
    }

    /// Notes that a commit removed the row: it took all off that was in evaluation.
    pub fn is_gone(&mut self) {
        self.held = false;
    }

    /// Gives up what is left. Nothing may be in evaluation any more.
    ///
    /// # Errors
    /// The database's; then the row is still there.
    pub async fn release(&mut self) -> Result<(), Error> {
        if self.held {
            release(&self.db, &self.replica, self.tenant, self.scope).await?;
            self.held = false;
        }
        Ok(())
    }
}

/// Removes a process's claim on a scope.
///
/// # Errors
/// The database's.
pub async fn release(
    db: &Db,
    replica: &Replica,
    tenant: TenantId,
    scope: ScopeId,
) -> Result<(), Error> {
    let mut conn = db.acquire().await?;
    sqlx::query(include_str!("sql/claim_drop.sql"))
        .bind(tenant.0)
        .bind(replica.id())
        .bind(scope.0)
        .execute(&mut *conn)
        .await?;
    Ok(())
}

/// A claim within the commit of some of its groups.
#[derive(Debug, Clone, Copy)]
pub struct InCommit<'a> {
    claim: &'a Claim,
    in_evaluation: &'a HashSet<i64>,
}

impl InCommit<'_> {
    /// Loses the groups that fail an event for a handler which another live process has by now (rule r23): after
    /// their locks, so that one which had it before is seen.
    ///
    /// # Errors
    /// The database's.
    pub async fn drop_served(
        &self,
        tx: &mut Tx<'_>,
        generation: &Generation,
        groups: &[Evaluated],
        results: &mut [Commit],
    ) -> Result<(), Error> {
        let mut found: HashMap<&str, bool> = HashMap::new();
        for (group, result) in groups.iter().zip(results) {
            if *result != Commit::Done {
                continue;
            }
            for slot in group.fates.iter().filter_map(missing) {
                let served = match found.get(slot) {
                    Some(served) => *served,
                    None => {
                        let replica = &self.claim.replica;
                        let scope = self.claim.scope;
                        replica
                            .leaves(tx.conn(), generation, scope, slot, false)
                            .await?
                    }
                };
                found.insert(slot, served);
                if served {
                    *result = Commit::Lost(Vec::new());
                }
            }
        }
        Ok(())
    }

    /// Takes the committed groups off the claim.
    ///
    /// # Errors
    /// The database's.
    pub async fn take_off(
        &self,
        tx: &mut Tx<'_>,
        groups: &[Evaluated],
        results: &[Commit],
    ) -> Result<(), Error> {
        let done: HashSet<i64> = groups
            .iter()
            .zip(results)
            .filter(|(_, result)| **result == Commit::Done)
            .flat_map(|(group, _)| group.rows.iter().map(|r| r.seq))
            .collect();
        let claim = self.claim;
        if !claim.held || done.is_empty() {
            return Ok(());
        }
        let mut stay: Vec<i64> = self.in_evaluation.difference(&done).copied().collect();
        stay.sort_unstable();
        let statement = if stay.is_empty() {
            include_str!("sql/claim_drop.sql")
        } else {
            include_str!("sql/claim_keep.sql")
        };
        let mut query = sqlx::query(statement)
            .bind(claim.tenant.0)
            .bind(claim.replica.id())
            .bind(claim.scope.0);
        if !stay.is_empty() {
            query = query.bind(stay);
        }
        query.execute(tx.conn()).await?;
        Ok(())
    }
}

/// Returns the slot whose handler is missing, where that fails the event.
fn missing(fate: &Fate) -> Option<&str> {
    match fate {
        Fate::Decided {
            effect:
                Effect::Failed {
                    slot,
                    code: FailureCode::HandlerMissing,
                    ..
                },
            ..
        } => Some(slot),
        _ => None,
    }
}

/// Marks which member of a suspect group is decided now.
#[derive(Debug, Clone)]
pub struct Alone {
    db: Db,
    replica: Replica,
    tenant: TenantId,
    scope: ScopeId,
}

impl Alone {
    /// Says that this event is decided now, committed when it returns.
    ///
    /// # Errors
    /// The database's; then its handlers may not be asked.
    pub async fn deciding(&self, seq: i64) -> Result<(), Error> {
        let mut conn = self.db.acquire().await?;
        sqlx::query(include_str!("sql/claim_alone.sql"))
            .bind(self.tenant.0)
            .bind(self.replica.id())
            .bind(self.scope.0)
            .bind(seq)
            .execute(&mut *conn)
            .await?;
        Ok(())
    }

    /// Says that none is. It goes on until that is written: while the mark stands, nothing else may be decided, or
    /// the wrong event would be blamed.
    pub async fn over(&self) {
        while let Err(error) = self.take_mark_off().await {
            tracing::debug!(error = %weir_rpc::chain(&error), "a suspect's mark is not taken off yet");
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn take_mark_off(&self) -> Result<(), Error> {
        let mut conn = self.db.acquire().await?;
        sqlx::query(include_str!("sql/claim_over.sql"))
            .bind(self.tenant.0)
            .bind(self.replica.id())
            .bind(self.scope.0)
            .execute(&mut *conn)
            .await?;
        Ok(())
    }
}

/// Events left to other processes (rule r23), and until when they are not looked at here: looking costs handlers'
/// calls and a read.
#[derive(Debug, Clone, Default)]
pub struct Left(Arc<Mutex<Until>>);

/// When they are looked at again.
type Until = HashMap<(TenantId, ScopeId, i64), Instant>;

impl Left {
    /// Leaves an event for a time.
    pub fn leave(&self, tenant: TenantId, scope: ScopeId, seq: i64, time: Duration) {
        let until = Instant::now() + time;
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.insert((tenant, scope, seq), until);
    }

    /// Returns those of a scope.
    #[must_use]
    pub fn of(&self, tenant: TenantId, scope: ScopeId) -> HashSet<i64> {
        let now = Instant::now();
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|_, until| *until > now);
        left.keys()
            .filter(|(t, s, _)| (*t, *s) == (tenant, scope))
            .map(|(_, _, seq)| *seq)
            .collect()
    }
}
