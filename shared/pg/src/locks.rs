//! Advisory locks, and the one list of the order of all locks.
//!
//! # Lock order
//!
//! Every transaction of Weir takes its locks in this order, each set sorted, and never goes back:
//!
//! 1. configuration lock of the tenant ([`lock_config`])
//! 2. scope order locks, sorted by the lock's key and not by scope: keys are hashes and can collide
//!    ([`lock_scope_order`])
//! 3. `pending` rows, by `seq`
//! 4. `work` rows, by id
//! 5. `ready` rows, then `wait` rows, by Work and number
//! 6. `causal_root`
//! 7. `causal_bucket`, by root
//! 8. event identities, sorted, one statement
//! 9. `work_key`, sorted, one statement
//! 10. the request id's row
//!
//! A claim takes ready rows with SKIP LOCKED only, and so waits for nobody. No transaction that
//! holds a scope or a root waits for anything that is held longer than one commit.
//!
//! # A lock is taken by a statement of its own
//!
//! A statement's snapshot is as old as its start, so a statement that waits for a lock and then
//! reads does not see what its predecessor committed. The functions here send the lock alone; under
//! READ COMMITTED the next statement has fresh eyes.
//!
//! # Never upgrade
//!
//! Two holders of a shared lock that both want it exclusively wait for each other for ever. A
//! transaction that may need it exclusively takes it so from the start; one call of
//! [`lock_scope_order`] names every scope that the transaction will need.
//!
//! All locks end with their transaction. The keys are in the single-`int8` space; the migrations use
//! the two-`int4` space, so that the two never meet.

use sha2::{Digest, Sha256};
use weir_kernel::{ScopeId, TenantId};

use crate::{Error, Tx};

/// Who else may hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Others in shared mode: readers of a configuration, routers that attach keys.
    Shared,
    /// Nobody: publications, and every commit that gives out acceptance numbers.
    Exclusive,
}

/// The classes of keys. A released spelling is never changed: two versions of Weir must exclude each
/// other during a rolling upgrade.
const CONFIG: &[u8] = b"weir.config";
const SCOPE_ORDER: &[u8] = b"weir.scope_order";

const LOCK: &str = "
-- pg.lock
SELECT CASE WHEN l.exclusive
            THEN pg_advisory_xact_lock(l.key)
            ELSE pg_advisory_xact_lock_shared(l.key) END
  FROM unnest($1::int8[], $2::bool[]) AS l(key, exclusive)";

/// Takes the tenant's configuration lock until the transaction ends: exclusively to publish a
/// generation, shared to rely on the current one.
///
/// # Errors
///
/// Those of any statement.
pub async fn lock_config(tx: &mut Tx<'_>, tenant: TenantId, mode: Mode) -> Result<(), Error> {
    lock(tx, vec![(config_key(tenant), mode)]).await
}

/// Takes the order locks of these scopes until the transaction ends, in the order of their keys. A
/// scope named twice is taken once, in the stronger mode.
///
/// Exclusively for a commit that appends events to the scope, shared for one that attaches keys or
/// subscribes there.
///
/// # Errors
///
/// Those of any statement.
pub async fn lock_scope_order(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scopes: &[(ScopeId, Mode)],
) -> Result<(), Error> {
    let locks = scopes
        .iter()
        .map(|(scope, mode)| (scope_key(tenant, *scope), *mode));
    lock(tx, locks.collect()).await
}

async fn lock(tx: &mut Tx<'_>, locks: Vec<(i64, Mode)>) -> Result<(), Error> {
    let (keys, exclusive) = in_order(locks);
    if keys.is_empty() {
        return Ok(());
    }
    sqlx::query(LOCK)
        .bind(keys)
        .bind(exclusive)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Sorts by key and folds what is asked twice into its stronger mode.
fn in_order(mut locks: Vec<(i64, Mode)>) -> (Vec<i64>, Vec<bool>) {
    // The stronger mode comes first among equals, and the first is the one that stays.
    locks.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    locks.dedup_by_key(|(key, _)| *key);
    locks
        .into_iter()
        .map(|(key, mode)| (key, mode == Mode::Exclusive))
        .unzip()
}

/// Returns the key of a tenant's configuration lock, as `pg_locks` shows it.
pub fn config_key(tenant: TenantId) -> i64 {
    key(CONFIG, tenant, None)
}

/// Returns the key of a scope's order lock, as `pg_locks` shows it.
pub fn scope_key(tenant: TenantId, scope: ScopeId) -> i64 {
    key(SCOPE_ORDER, tenant, Some(scope))
}

/// A collision only makes two scopes wait for each other; it never breaks a rule.
fn key(class: &[u8], tenant: TenantId, scope: Option<ScopeId>) -> i64 {
    let mut hash = Sha256::new();
    hash.update(class);
    hash.update(tenant.0.to_be_bytes());
    if let Some(scope) = scope {
        hash.update(scope.0.to_be_bytes());
    }
    let digest = hash.finalize();
    let (head, _) = digest
        .split_first_chunk::<8>()
        .expect("a SHA-256 digest has 32 bytes");
    i64::from_be_bytes(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_changes_between_versions() {
        assert_eq!(
            scope_key(TenantId(1), ScopeId(1)),
            -6_426_886_943_477_939_116
        );
        assert_ne!(
            scope_key(TenantId(1), ScopeId(1)),
            scope_key(TenantId(1), ScopeId(2))
        );
        assert_ne!(
            scope_key(TenantId(1), ScopeId(1)),
            scope_key(TenantId(2), ScopeId(1))
        );
        assert_ne!(config_key(TenantId(1)), config_key(TenantId(2)));
    }

    #[test]
    fn locks_are_sorted_by_key_and_the_stronger_mode_wins() {
        let asked = vec![
            (5, Mode::Shared),
            (-3, Mode::Exclusive),
            (5, Mode::Exclusive),
            (9, Mode::Shared),
            (5, Mode::Shared),
        ];
        assert_eq!(in_order(asked), (vec![-3, 5, 9], vec![true, true, false]));
    }
}
