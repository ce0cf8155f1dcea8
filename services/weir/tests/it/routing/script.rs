//! A handler that a test tells, by event id, what to say and when.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};

use weir_routing::handler::{Failure, Handler, Input, Verdict};

/// What the handler says of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Say {
    /// It takes it.
    Match,
    /// It declines, for this reason.
    Skip(String),
    /// It fails, and may be asked again.
    Fail,
    /// It calls it malformed.
    Invalid,
    /// It panics.
    Panic,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The event's id.
    pub(crate) id: String,
    /// The event's type.
    pub(crate) kind: String,
    /// State of its Work, if it belongs to one.
    pub(crate) state: Option<String>,
    /// Of a trace.
    pub(crate) dry_run: bool,
}

/// The script. An event that it does not name is declined at once.
#[derive(Debug, Default)]
pub(crate) struct Script {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    says: HashMap<String, VecDeque<Say>>,
    /// Closed gates, with the calls that may pass all the same.
    gates: HashMap<String, HashSet<usize>>,
    calls: Vec<Call>,
    waiting: HashMap<String, usize>,
}

impl Script {
    /// Says these of an event, one a call; the last for all further ones.
    pub(crate) fn say(&self, id: &str, says: impl IntoIterator<Item = Say>) {
        self.state()
            .says
            .insert(id.to_owned(), says.into_iter().collect());
    }

    /// Lets no call about an event end.
    pub(crate) fn close(&self, id: &str) {
        self.state().gates.insert(id.to_owned(), HashSet::new());
    }

    /// Lets the `nth` call about an event end, counted from 0, and keeps the gate closed for the others.
    pub(crate) fn pass(&self, id: &str, nth: usize) {
        if let Some(passes) = self.state().gates.get_mut(id) {
            passes.insert(nth);
        }
        self.changed.notify_all();
    }

    /// Lets calls about an event end, those that hang and all to come.
    pub(crate) fn open(&self, id: &str) {
        self.state().gates.remove(id);
        self.changed.notify_all();
    }

    /// Opens all.
    pub(crate) fn open_all(&self) {
        self.state().gates.clear();
        self.changed.notify_all();
    }

    /// Says how many calls about an event hang.
    pub(crate) fn hanging(&self, id: &str) -> usize {
        self.state().waiting.get(id).copied().unwrap_or_default()
    }

    /// Returns the calls about an event.
    pub(crate) fn calls(&self, id: &str) -> Vec<Call> {
        self.state()
            .calls
            .iter()
            .filter(|c| c.id == id)
            .cloned()
            .collect()
    }

    /// Returns all calls.
    pub(crate) fn all_calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// A scripted panic happens without the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl Handler for Script {
    fn decide(&self, input: &Input) -> Result<Verdict, Failure> {
        let id = &input.event.id;
        let mut state = self.state();
        let nth = state.calls.iter().filter(|c| c.id == *id).count();
        state.calls.push(Call {
            id: id.clone(),
            kind: input.event.kind.clone(),
            state: input.work.as_ref().map(|w| w.state.clone()),
            dry_run: input.dry_run,
        });
        // What it says is fixed when it is asked: later calls have later words.
        let say = match state.says.get_mut(id) {
            Some(says) if says.len() > 1 => says.pop_front(),
            Some(says) => says.front().cloned(),
            None => None,
        };
        *state.waiting.entry(id.clone()).or_default() += 1;
        while state.gates.get(id).is_some_and(|g| !g.contains(&nth)) {
            state = self.changed.wait(state).expect("no holder panics");
        }
        *state.waiting.entry(id.clone()).or_default() -= 1;
        drop(state);
        match say {
            Some(Say::Match) => Ok(Verdict::Match {
                reason: "as told".to_owned(),
                attach: Vec::new(),
            }),
            Some(Say::Skip(reason)) => Ok(Verdict::Skip { reason }),
            Some(Say::Fail) => Err(Failure::Failed("upstream is away".to_owned())),
            Some(Say::Invalid) => Err(Failure::Invalid("no title".to_owned())),
            Some(Say::Panic) => panic!("the script fell over"),
            None => Ok(Verdict::Skip {
                reason: "not told".to_owned(),
            }),
        }
    }
}
