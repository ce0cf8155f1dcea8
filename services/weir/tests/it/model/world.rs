//! The state of the model: everything that the rules speak of, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use weir_proto::types::v1::{Disposition, InputState, WorkState};

use super::config::{Effective, Tree};
use super::plan::{Caps, Config, Draft, Executor, Policy};

/// An event, by its place in [`World::events`].
pub(crate) type EventNo = usize;
/// A Work, by its place in [`World::works`].
pub(crate) type WorkNo = usize;

/// A tenant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct World {
    /// Where the scopes stand.
    pub(crate) tree: Tree,
    /// The current configuration.
    pub(crate) config: Config,
    /// Its number.
    pub(crate) generation: i64,
    /// What executors are registered with.
    pub(crate) registered: BTreeMap<Executor, Caps>,
    /// In acceptance order, all scopes together.
    pub(crate) events: Vec<Event>,
    /// In the order they started.
    pub(crate) works: Vec<Work>,
}

/// An accepted event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Its scope.
    pub(crate) scope: usize,
    /// What was published.
    pub(crate) draft: Draft,
    /// The producer's keys and the derived ones.
    pub(crate) keys: BTreeSet<String>,
    /// Work that it names.
    pub(crate) target: Option<WorkNo>,
    /// The first original, for a copy.
    pub(crate) copy_of: Option<EventNo>,
    /// Where it stands.
    pub(crate) standing: Standing,
}

/// Where an event stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is undecided.
    Pending(Pending),
    /// It is decided.
    Routed(Record),
}

/// An undecided event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    /// It may be decided as soon as nothing stands before it.
    pub(crate) due: bool,
    /// Why it was not decided when it was last tried.
    pub(crate) mark: Mark,
    /// Failures counted.
    pub(crate) failures: i32,
    /// Minutes since the first of them.
    pub(crate) minutes: Option<u32>,
    /// Keys that it wants to attach and that earlier undecided events carry (rule r08).
    pub(crate) ties: BTreeSet<String>,
}

/// Why an event is undecided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It was not tried, or stands behind one that was.
    None,
    /// A retryable failure backs off.
    Backoff,
    /// It waits for an attempt (rule r10).
    Deferred(Hold),
    /// It belongs to these (rule r05).
    Conflict(BTreeSet<WorkNo>),
}

/// The attempt that a deferred event waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The Work.
    pub(crate) work: WorkNo,
    /// The attempt.
    pub(crate) attempt: i32,
    /// It is not deferred itself but stands behind one that is.
    pub(crate) behind: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// What was done.
    pub(crate) disposition: Disposition,
    /// With which Work.
    pub(crate) work: Option<WorkNo>,
    /// By which slot.
    pub(crate) slot: Option<u8>,
    /// On which binding; not told of what is not queued.
    pub(crate) binding: Option<u8>,
    /// By which policy.
    pub(crate) policy: Option<Policy>,
    /// Why.
    pub(crate) reason: Reason,
    /// Who declined, in order, and the field that each missed.
    pub(crate) refusals: Vec<(u8, Option<&'static str>)>,
    /// Failures counted.
    pub(crate) attempts: i32,
    /// By which generation.
    pub(crate) generation: i64,
}

/// A reason, as far as a rule fixes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The handler's own.
    Handler,
    /// A fallback was taken.
    Fallback,
    /// This word.
    Word(&'static str),
}

/// A Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// Its scope.
    pub(crate) scope: usize,
    /// Keys that it owns.
    pub(crate) keys: BTreeSet<String>,
    /// Where it stands.
    pub(crate) state: WorkState,
    /// In queue order.
    pub(crate) inputs: Vec<Input>,
    /// Attempts so far.
    pub(crate) attempts: i32,
    /// Those that count against the most.
    pub(crate) tries: i32,
    /// A failed attempt backs off.
    pub(crate) backs_off: bool,
    /// The attempt that runs.
    pub(crate) running: Option<Attempt>,
}

/// An input of a Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    /// The event.
    pub(crate) event: EventNo,
    /// Its binding.
    pub(crate) binding: u8,
    /// Where it stands.
    pub(crate) state: InputState,
    /// Injected into the attempt that runs.
    pub(crate) injected: bool,
}

/// A running attempt, with what its claim pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Its number.
    pub(crate) number: i32,
    /// Its binding.
    pub(crate) binding: u8,
    /// What it can do.
    pub(crate) caps: Caps,
    /// After how many tries the Work is held.
    pub(crate) max_attempts: i32,
}

impl World {
    /// What is effective in a scope.
    pub(crate) fn effective(&self, scope: usize) -> Effective {
        self.config.effective(self.tree, scope)
    }

    /// The undecided events of a scope, in order.
    pub(crate) fn pending(&self, scope: usize) -> Vec<EventNo> {
        let pending =
            |e: &EventNo| self.events[*e].scope == scope && self.events[*e].pending().is_some();
        (0..self.events.len()).filter(pending).collect()
    }

    /// Who owns a key of a scope (rule r08).
    pub(crate) fn owner(&self, scope: usize, key: &str) -> Option<WorkNo> {
        self.works
            .iter()
            .position(|w| w.scope == scope && w.keys.contains(key))
    }

    /// The Works that an event belongs to: those it names and those that own its keys (rule r05).
    pub(crate) fn targets(&self, event: &Event) -> BTreeSet<WorkNo> {
        let owners = event.keys.iter().filter_map(|k| self.owner(event.scope, k));
        event.target.into_iter().chain(owners).collect()
    }

    /// Accepts an event with these keys.
    pub(crate) fn accept(&mut self, event: Event) -> EventNo {
        self.events.push(event);
        self.events.len() - 1
    }
}

impl Event {
    /// How it is undecided, if it is.
    pub(crate) const fn pending(&self) -> Option<&Pending> {
        match &self.standing {
            Standing::Pending(pending) => Some(pending),
            Standing::Routed(_) => None,
        }
    }

    /// What was decided, if it is.
    pub(crate) const fn record(&self) -> Option<&Record> {
        match &self.standing {
            Standing::Pending(_) => None,
            Standing::Routed(record) => Some(record),
        }
    }

    /// How it is undecided.
    pub(crate) fn pending_mut(&mut self) -> &mut Pending {
        match &mut self.standing {
            Standing::Pending(pending) => pending,
            Standing::Routed(record) => panic!("it is decided: {record:?}"),
        }
    }

    /// It is undecided and marked as a conflict, which stands in nobody's way (rule r05).
    pub(crate) fn stands_aside(&self) -> bool {
        self.pending()
            .is_some_and(|p| matches!(p.mark, Mark::Conflict(_)))
    }
}

impl Pending {
    /// Accepted just now.
    pub(crate) const fn new() -> Self {
        Self {
            due: true,
            mark: Mark::None,
            failures: 0,
            minutes: None,
            ties: BTreeSet::new(),
        }
    }
}

impl Work {
    /// It has ended.
    pub(crate) const fn is_terminal(&self) -> bool {
        matches!(
            self.state,
            WorkState::Completed | WorkState::Failed | WorkState::Cancelled
        )
    }

    /// Its first queued input, if it has one.
    pub(crate) fn first_queued(&self) -> Option<&Input> {
        self.inputs.iter().find(|i| i.state == InputState::Queued)
    }

    /// Inputs that are not consumed or abandoned.
    pub(crate) fn open_inputs(&self) -> usize {
        let open = |i: &&Input| matches!(i.state, InputState::Queued | InputState::Presented);
        self.inputs.iter().filter(open).count()
    }

    /// How its state reads in expressions.
    pub(crate) const fn state_word(&self) -> &'static str {
        match self.state {
            WorkState::Ready => "ready",
            WorkState::Running => "running",
            WorkState::Waiting => "waiting",
            WorkState::Held => "held",
            WorkState::Completed => "completed",
            WorkState::Failed => "failed",
            WorkState::Cancelled => "cancelled",
            WorkState::Unspecified => "",
        }
    }
}
