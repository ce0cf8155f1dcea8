//! Process groups that belong to attempts, so that none outlives its authority.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// The groups that run now.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    running: Arc<Mutex<BTreeSet<i32>>>,
}

impl Groups {
    /// Takes charge of the group that `leader` leads.
    pub(super) fn adopt(&self, leader: u32) -> Option<Group> {
        let leader = Pid::from_raw(i32::try_from(leader).ok()?)?;
        self.with(|running| running.insert(leader.as_raw_pid()));
        Some(Group {
            leader,
            groups: self.clone(),
        })
    }

    /// Kills every group, for an end without ceremony.
    pub(super) fn kill(&self) {
        let running = self.with(std::mem::take);
        for leader in running.into_iter().filter_map(Pid::from_raw) {
            signal(leader, Signal::KILL);
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut BTreeSet<i32>) -> R) -> R {
        // A set of numbers is never half changed.
        change(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A running group. Dropping it kills what is left of it.
///
/// That is also done right after the leader ended by itself: an attempt that is over must leave
/// nobody behind who acts in its name. The leader's id could by then belong to somebody else only
/// if the system had gone through all ids since.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    groups: Groups,
}

impl Group {
    /// Asks the group to stop what it does.
    pub(super) fn interrupt(&self) {
        signal(self.leader, Signal::INT);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.leader.as_raw_pid();
        if self.groups.with(|running| running.remove(&leader)) {
            signal(self.leader, Signal::KILL);
        }
    }
}

fn signal(leader: Pid, signal: Signal) {
    // The group may have ended on its own in the meantime.
    let _ = kill_process_group(leader, signal);
}
