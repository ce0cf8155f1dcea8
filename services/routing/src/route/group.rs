//! What must be decided together: r06's closure over one read of the scope's pending rows.
//!
//! The rows come in acceptance order from the oldest, so everything earlier than a member is either in the read
//! or was left undecided by it. A row that may not be decided now (backing off, deferred, braked, in
//! evaluation already) blocks what shares a key or a Work with it, and so on transitively.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weir_kernel::{PendingState, WorkId};

use crate::route::view::{Hold, PendingRow};

/// Keys that decisions want to attach and that tie their event to others (rule r08), by position.
pub type Joins = HashMap<i64, BTreeSet<String>>;

/// What one read comes to.
#[derive(Debug, Default)]
pub struct Plan {
    /// Groups to evaluate, each in acceptance order.
    pub groups: Vec<Vec<PendingRow>>,
    /// Rows that stand behind a deferred one and are not marked so yet.
    pub behind: Vec<(PendingRow, Hold)>,
}

/// Tokens that are blocked, with the deferral that blocks them, if it is one.
#[derive(Debug, Default)]
pub struct Blocked {
    held: HashMap<String, Option<Hold>>,
    /// Tokens that will stand for one Work, each with the one that stands for them.
    tied: HashMap<String, String>,
}

impl Blocked {
    /// Blocks tokens.
    pub fn add(&mut self, tokens: impl Iterator<Item = String>, hold: Option<&Hold>) {
        for token in tokens {
            let token = self.stands_for(token);
            self.held.entry(token).or_insert_with(|| hold.cloned());
        }
    }

    /// Returns what blocks one of the tokens.
    pub fn find(&self, mut tokens: impl Iterator<Item = String>) -> Option<Option<Hold>> {
        tokens.find_map(|t| self.held.get(&self.stands_for(t)).cloned())
    }

    /// Ties tokens: an event wants to attach some of them to the Work of the others, so from here on what blocks one
    /// blocks all (rules r06, r08).
    pub fn tie(&mut self, mut tokens: impl Iterator<Item = String>) {
        let Some(first) = tokens.next().map(|t| self.stands_for(t)) else {
            return;
        };
        for token in tokens {
            let token = self.stands_for(token);
            if token == first {
                continue;
            }
            if let Some(hold) = self.held.remove(&token) {
                self.held.entry(first.clone()).or_insert(hold);
            }
            self.tied.insert(token, first.clone());
        }
    }

    fn stands_for(&self, mut token: String) -> String {
        while let Some(other) = self.tied.get(&token) {
            token.clone_from(other);
        }
        token
    }
}

/// Sorts rows, in acceptance order, into groups; `blocked` carries over from earlier reads of the same pass.
pub fn plan(
    rows: Vec<PendingRow>,
    owners: &HashMap<String, Option<WorkId>>,
    joins: &Joins,
    busy: &HashSet<i64>,
    blocked: &mut Blocked,
) -> Plan {
    let mut plan = Plan::default();
    let mut members = Vec::new();
    for row in rows {
        let tokens = || row.tokens(owners, joins.get(&row.seq));
        if row.state == PendingState::Conflict && !row.due {
            // In nobody's batch, and blocks nobody (rule r05).
            continue;
        }
        if busy.contains(&row.seq) || !row.due {
            blocked.add(
                tokens(),
                row.hold
                    .as_ref()
                    .filter(|_| row.state == PendingState::Deferred),
            );
            continue;
        }
        match blocked.find(tokens()) {
            None => {
                if joins.contains_key(&row.seq) {
                    blocked.tie(tokens());
                }
                members.push(row);
            }
            Some(hold) => {
                blocked.add(tokens(), hold.as_ref());
                if let Some(hold) = hold {
                    plan.behind.push((row, hold));
                }
            }
        }
    }
    // What is decided in this pass blocks the reads that follow: their rows were accepted later.
    for row in &members {
        blocked.add(row.tokens(owners, joins.get(&row.seq)), None);
    }
    plan.groups = connect(members, owners, joins);
    plan
}

/// Joins members that share a token.
fn connect(
    members: Vec<PendingRow>,
    owners: &HashMap<String, Option<WorkId>>,
    joins: &Joins,
) -> Vec<Vec<PendingRow>> {
    let mut leader: Vec<usize> = (0..members.len()).collect();
    let mut first: HashMap<String, usize> = HashMap::new();
    for (i, row) in members.iter().enumerate() {
        for token in row.tokens(owners, joins.get(&row.seq)) {
            let j = *first.entry(token).or_insert(i);
            let (a, b) = (find(&mut leader, i), find(&mut leader, j));
            leader[a.max(b)] = a.min(b);
        }
    }
    let mut groups: BTreeMap<usize, Vec<PendingRow>> = BTreeMap::new();
    for (i, row) in members.into_iter().enumerate() {
        groups.entry(find(&mut leader, i)).or_default().push(row);
    }
    groups.into_values().collect()
}

fn find(leader: &mut [usize], mut i: usize) -> usize {
    while leader[i] != i {
        leader[i] = leader[leader[i]];
        i = leader[i];
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use weir_kernel::EventUid;

    fn row(seq: i64, keys: &[&str]) -> PendingRow {
        PendingRow {
            seq,
            uid: EventUid(Uuid::now_v7()),
            accepted_at: chrono::DateTime::UNIX_EPOCH,
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            target: None,
            state: PendingState::Due,
            due: true,
            failures: 0,
            first_failed_at: None,
            hold: None,
            bytes: 0,
            crashes: crate::route::view::Crashes::default(),
        }
    }

    fn seqs(plan: &Plan) -> Vec<Vec<i64>> {
        plan.groups
            .iter()
            .map(|g| g.iter().map(|r| r.seq).collect())
            .collect()
    }

    #[test]
    fn r06_keys_connect_transitively_and_in_order() {
        let rows = vec![
            row(1, &["a"]),
            row(2, &["b"]),
            row(3, &["c"]),
            row(4, &["a", "b"]),
            row(5, &[]),
        ];
        let plan = plan(
            rows,
            &HashMap::new(),
            &HashMap::new(),
            &HashSet::new(),
            &mut Blocked::default(),
        );
        assert_eq!(seqs(&plan), [vec![1, 2, 4], vec![3], vec![5]]);
    }

    #[test]
    fn r06_an_owned_key_stands_for_its_work() {
        let work = WorkId(Uuid::now_v7());
        let owners = HashMap::from([("a".to_owned(), Some(work)), ("b".to_owned(), Some(work))]);
        let rows = vec![row(1, &["a"]), row(2, &["b"])];
        let plan = plan(
            rows,
            &owners,
            &HashMap::new(),
            &HashSet::new(),
            &mut Blocked::default(),
        );
        assert_eq!(seqs(&plan), [vec![1, 2]]);
    }

    #[test]
    fn r06_a_backing_off_row_blocks_what_depends_on_it_and_nothing_else() {
        let mut first = row(1, &["a"]);
        (first.due, first.state) = (false, PendingState::Backoff);
        let rows = vec![first, row(2, &["a", "b"]), row(3, &["b"]), row(4, &["c"])];
        let plan = plan(
            rows,
            &HashMap::new(),
            &HashMap::new(),
            &HashSet::new(),
            &mut Blocked::default(),
        );
        assert_eq!(seqs(&plan), [vec![4]]);
        assert!(plan.behind.is_empty());
    }

    #[test]
    fn r05_a_conflicting_row_blocks_nobody() {
        let mut first = row(1, &["a", "b"]);
        (first.due, first.state) = (false, PendingState::Conflict);
        let plan = plan(
            vec![first, row(2, &["a"])],
            &HashMap::new(),
            &HashMap::new(),
            &HashSet::new(),
            &mut Blocked::default(),
        );
        assert_eq!(seqs(&plan), [vec![2]]);
    }

    #[test]
    fn r06_what_blocks_a_key_that_is_about_to_attach_blocks_the_works_later_input() {
        let mut between = row(2, &["b"]);
        (between.due, between.state) = (false, PendingState::Backoff);
        let rows = || vec![row(1, &["a"]), between.clone(), row(3, &["a"])];
        let seen = |joins: &Joins| {
            let (owners, busy) = (HashMap::new(), HashSet::new());
            seqs(&plan(
                rows(),
                &owners,
                joins,
                &busy,
                &mut Blocked::default(),
            ))
        };
        assert_eq!(seen(&Joins::new()), [vec![1, 3]]);
        let joins = Joins::from([(1, BTreeSet::from(["b".to_owned()]))]);
        assert_eq!(seen(&joins), [vec![1]]);
    }

    #[test]
    fn r10_what_stands_behind_a_deferred_row_is_deferred_too() {
        let mut first = row(1, &["a"]);
        let hold = Hold {
            event: first.uid,
            work: WorkId(Uuid::now_v7()),
            attempt: 3,
        };
        (first.due, first.state, first.hold) = (false, PendingState::Deferred, Some(hold.clone()));
        let plan = plan(
            vec![first, row(2, &["a"])],
            &HashMap::new(),
            &HashMap::new(),
            &HashSet::new(),
            &mut Blocked::default(),
        );
        assert_eq!(plan.behind.len(), 1);
        assert_eq!(plan.behind[0].1, hold);
    }
}
