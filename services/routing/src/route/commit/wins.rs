//! Waits that the events of a commit win: looked at once more under the locks, and their bridges.

use std::collections::HashMap;

use weir_kernel::WorkId;
use weir_ledger::{Outcome, append, lock_scope};
use weir_pg::Tx;
use weir_work::{Locked, Queued};

use super::{Commit, CommitGroups};
use crate::Error;
use crate::route::evaluate::{Evaluated, Wins};
use crate::route::view::PendingRow;
use crate::wait::check::{Look, Own, What, Winner};
use crate::wait::wake::{bridge, queued, woken_before};

/// Pages of new events that are looked at under the locks.
const LAST_LOOK: u32 = 2;

/// The bridge that a commit appended for a Work, and the wait it closes.
pub(super) type Bridges = HashMap<WorkId, (i32, Queued)>;

fn winning<'g>(
    groups: &'g [Evaluated],
    results: &[Commit],
) -> Vec<(usize, &'g Evaluated, &'g Wins)> {
    groups
        .iter()
        .enumerate()
        .filter(|(i, _)| results[*i] == Commit::Done)
        .filter_map(|(i, g)| Some((i, g, g.wins.as_ref()?)))
        .collect()
}

/// The pending row of the event that wins.
fn winner<'g>(group: &'g Evaluated, wins: &Wins) -> Option<&'g PendingRow> {
    group.rows.iter().find(|r| r.seq == wins.seq)
}

/// What it is to its wait.
fn of_row(row: &PendingRow) -> Winner {
    Winner {
        at: row.accepted_at,
        what: What::This(row.uid),
    }
}

/// Somebody else has won meanwhile: the winner is the least of those visible under the Work's lock (rule l10).
pub(super) async fn drop_lost(
    commit: &CommitGroups<'_>,
    tx: &mut Tx<'_>,
    results: &mut [Commit],
) -> Result<(), Error> {
    for (i, group, wins) in winning(commit.groups, results) {
        let Some(expected) = winner(group, wins) else {
            continue;
        };
        let open = weir_work::open_wait(tx.conn(), commit.generation.tenant, wins.check.wait.work)
            .await?
            .is_some_and(|open| open.n == wins.check.wait.n);
        let mut check = wins.check.clone();
        let (uid, at) = (expected.uid, expected.accepted_at);
        let look = check
            .look(
                tx.conn(),
                commit.generation,
                commit.scope,
                Own::Deciding(uid, at),
                Some(at),
                LAST_LOOK,
            )
            .await?;
        if !open || look != Look::Won(of_row(expected)) {
            results[i] = Commit::Lost(Vec::new());
        }
    }
    Ok(())
}

/// Appends the bridges. A group whose bridge is refused is evaluated again: its event is context then, and the
/// diagnostic of the refusal stays (rule c05).
pub(super) async fn append_bridges(
    commit: &CommitGroups<'_>,
    tx: &mut Tx<'_>,
    locked: &HashMap<WorkId, Locked>,
    results: &mut [Commit],
) -> Result<Bridges, Error> {
    let mut bridges = Bridges::new();
    let winning = winning(commit.groups, results);
    if winning.is_empty() {
        return Ok(bridges);
    }
    let generation = commit.generation;
    let scope = generation.scope_name(commit.scope).unwrap_or_default();
    let mut events = Vec::with_capacity(winning.len());
    let mut of = Vec::with_capacity(winning.len());
    for (i, group, wins) in winning {
        let wait = &wins.check.wait;
        let (Some(locked), Some(winner)) = (locked.get(&wait.work), winner(group, wins)) else {
            results[i] = Commit::Lost(Vec::new());
            continue;
        };
        events.push(bridge(
            locked,
            wait,
            &of_row(winner),
            scope,
            generation.number,
        ));
        of.push((i, wait, locked));
    }
    let lock = lock_scope(tx, generation.tenant, commit.scope).await?;
    let outcomes = append(tx, &lock, &events).await?;
    for ((outcome, event), (i, wait, locked)) in outcomes.into_iter().zip(&events).zip(of) {
        match outcome {
            Outcome::Accepted(accepted) => {
                let queued = queued(&accepted, event.envelope.payload_len(), locked);
                bridges.insert(wait.work, (wait.n, queued));
            }
            Outcome::Refused(_) => results[i] = Commit::Lost(Vec::new()),
            _ => return Err(woken_before(wait.work)),
        }
    }
    Ok(bridges)
}
