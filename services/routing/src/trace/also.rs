//! Waits that a traced event would win beside its own effect, and those that others win before it (rules r43, r44).

use sqlx::Row as _;
use weir_kernel::{ScopeId, WorkId};
use weir_pg::Tx;
use weir_proto::types::v1::Also;
use weir_work::{open_wait, wait_name};

use crate::Error;
use crate::generation::Generation;
use crate::route::evaluate::{Evaluated, Fate, root_refusal};
use crate::route::view::EventView;
use crate::wait::check::{Check, Look, Own};

/// Waits that one trace looks at.
const MOST: i64 = 1_000;
/// Pages of events for each of their subscriptions.
const WINDOWS: u32 = 20;

/// A wait that is won: its Work with its scope, and its number.
pub(super) struct Woken {
    scope: String,
    work: WorkId,
    n: i32,
}

/// Returns the waits, of any scope of the tenant, that subscribe to events of the scope and that the event would
/// win: nobody has won them yet.
pub(super) async fn woken(
    tx: &mut Tx<'_>,
    generation: &Generation,
    scope: ScopeId,
    event: &EventView,
) -> Result<Vec<Woken>, Error> {
    if root_refusal(generation, scope).is_some() {
        // Nothing derives from what this scope accepts: those Works would be held.
        return Ok(Vec::new());
    }
    let rows = sqlx::query(include_str!("sql/subscribed.sql"))
        .bind(generation.tenant.0)
        .bind(scope.0)
        .bind(MOST)
        .fetch_all(tx.conn())
        .await?;
    let mut out = Vec::new();
    for row in rows {
        let work = WorkId(row.try_get("work_id")?);
        let own_scope = ScopeId(row.try_get("scope_id")?);
        let Some(wait) = open_wait(tx.conn(), generation.tenant, work).await? else {
            continue;
        };
        let mut check = Check::new(wait);
        if !check.matches(scope, event) {
            continue;
        }
        let look = check
            .look(tx.conn(), generation, own_scope, Own::Stored, None, WINDOWS)
            .await?;
        if look == Look::Open {
            out.push(Woken {
                scope: row.try_get("name")?,
                work,
                n: check.wait.n,
            });
        }
    }
    Ok(out)
}

/// Returns all of them for the answer, each once.
pub(super) fn named(
    generation: &Generation,
    scope: ScopeId,
    evaluated: &Evaluated,
    woken: Vec<Woken>,
) -> Vec<Also> {
    // Its own wait is its effect.
    let own = match evaluated.fates.first() {
        Some(Fate::Decided { effect, .. }) => effect.wakes(),
        _ => None,
    };
    let before = evaluated.also.iter().map(|(work, n)| Also {
        scope: generation.scope_name(scope).unwrap_or_default().to_owned(),
        work: work.to_string(),
        wait: wait_name(*work, *n),
    });
    let beside = woken
        .into_iter()
        .filter(|w| Some(w.work) != own)
        .map(|w| Also {
            scope: w.scope,
            work: w.work.to_string(),
            wait: wait_name(w.work, w.n),
        });
    let mut all: Vec<Also> = before.chain(beside).collect();
    all.sort_by(|a, b| a.wait.cmp(&b.wait));
    all.dedup();
    all
}
