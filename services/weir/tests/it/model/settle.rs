//! Routing in the model: one event at a time, until nothing may be decided any more (rules r05–r08, r10, r21–r24).
//!
//! The rules fix the order among events that depend on each other, and no other. What that leaves open is asked of
//! an [`Oracle`]; the service may do what one of its answers leads to.

mod finish;

use std::collections::BTreeSet;

use weir_proto::types::v1::{Disposition, InputState, WorkState};

use super::config::SCOPES;
use super::decide::{Effect, Selected, decide};
use super::oracle::Oracle;
use super::plan::Policy;
use super::world::{EventNo, Hold, Input, Mark, Pending, Record, Work, WorkNo, World};

/// What ties two events together: a Work, or a key that nobody owns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Work(WorkNo),
    Key(String),
}

/// What came of considering an event.
enum Came {
    /// It is decided, or stands aside as a conflict.
    Out,
    /// It is undecided, and what depends on it waits.
    Stopped,
    /// Another is to be considered first.
    NotYet {
        /// Nothing says so but this answer.
        once: bool,
    },
}

/// A tie was not met: the event does not attach the key after all (rule r08).
struct Unmet(EventNo, String);

/// Routes until nothing may be decided any more.
pub(crate) fn settle(world: &mut World, oracle: &mut Oracle) {
    for scope in 0..SCOPES.len() {
        let mut banned = BTreeSet::new();
        loop {
            let mut pass = Pass {
                world: world.clone(),
                scope,
                banned: &banned,
                stopped: Vec::new(),
                fresh: BTreeSet::new(),
            };
            match pass.run(oracle) {
                Ok(()) => {
                    *world = pass.world;
                    break;
                }
                Err(Unmet(event, key)) => {
                    world.events[event].pending_mut().ties.remove(&key);
                    banned.insert((event, key));
                }
            }
        }
    }
}

struct Pass<'a> {
    world: World,
    scope: usize,
    /// Ties that were not met.
    banned: &'a BTreeSet<(EventNo, String)>,
    /// Undecided events that hold back what depends on them.
    stopped: Vec<EventNo>,
    /// Keys attached by this pass.
    fresh: BTreeSet<String>,
}

impl Pass<'_> {
    fn run(&mut self, oracle: &mut Oracle) -> Result<(), Unmet> {
        let (mut todo, stopped): (Vec<EventNo>, Vec<EventNo>) = self
            .world
            .pending(self.scope)
            .into_iter()
            .partition(|e| self.pending(*e).due);
        self.stopped = stopped
            .into_iter()
            .filter(|e| !self.world.events[*e].stands_aside())
            .collect();
        let mut not_yet = None;
        while !todo.is_empty() {
            let mut next = self.next(&todo);
            next.retain(|e| Some(*e) != not_yet);
            let event = next[oracle.choose(next.len())];
            not_yet = None;
            match self.consider(event, &todo, oracle)? {
                Came::NotYet { once } => not_yet = once.then_some(event),
                Came::Stopped => {
                    todo.retain(|e| *e != event);
                    if !self.world.events[event].stands_aside() {
                        self.stopped.push(event);
                    }
                }
                Came::Out => {
                    todo.retain(|e| *e != event);
                    self.drain(&todo, oracle);
                }
            }
        }
        self.world.complete_drained();
        Ok(())
    }

    fn pending(&self, event: EventNo) -> &Pending {
        self.world.events[event]
            .pending()
            .expect("only undecided events are asked about")
    }

    fn tokens(&self, event: EventNo) -> BTreeSet<Token> {
        let e = &self.world.events[event];
        let ties = &self.pending(event).ties;
        let of_key = |key: &String| match self.world.owner(self.scope, key) {
            Some(work) => Token::Work(work),
            None => Token::Key(key.clone()),
        };
        e.keys
            .iter()
            .chain(ties)
            .map(of_key)
            .chain(e.target.map(Token::Work))
            .collect()
    }

    fn depends(&self, later: EventNo, earlier: EventNo) -> bool {
        earlier < later && !self.tokens(later).is_disjoint(&self.tokens(earlier))
    }

    /// Those that nothing earlier of the rest stands before, oldest first. Where nothing can come of another order,
    /// just the oldest.
    fn next(&self, todo: &[EventNo]) -> Vec<EventNo> {
        let aside = |e: &EventNo| self.world.events[*e].stands_aside();
        let attaches = self
            .world
            .effective(self.scope)
            .routes
            .iter()
            .any(|r| r.attach.is_some());
        if !attaches && !todo.iter().any(aside) {
            return todo[..1].to_vec();
        }
        let free = |e: &EventNo| {
            !todo
                .iter()
                .any(|before| !aside(before) && self.depends(*e, *before))
        };
        todo.iter().copied().filter(free).collect()
    }

    fn blockers(&self, event: EventNo) -> Vec<EventNo> {
        let before = |e: &EventNo| self.depends(event, *e);
        self.stopped.iter().copied().filter(before).collect()
    }

    fn consider(
        &mut self,
        event: EventNo,
        todo: &[EventNo],
        oracle: &mut Oracle,
    ) -> Result<Came, Unmet> {
        let blockers = self.blockers(event);
        if !blockers.is_empty() {
            self.wait(event, &blockers, oracle);
            return Ok(Came::Stopped);
        }
        let targets = self.targets(event, todo);
        if targets.len() > 1 {
            return self.conflict(event, targets);
        }
        let work = targets.first().copied();
        let decision = decide(
            &self.world,
            &self.world.events[event],
            work.map(|w| &self.world.works[w]),
        );
        if let Effect::Input(selected) = &decision.effect {
            let selected = selected.clone();
            return self.input(event, work, selected, todo);
        }
        if decision.effect == Effect::Deferred {
            let work = work.expect("only the attempt of a work defers");
            let attempt = self.world.works[work].attempts;
            let hold = Hold {
                work,
                attempt,
                behind: false,
            };
            self.mark(event, Mark::Deferred(hold));
            return Ok(Came::Stopped);
        }
        self.met(event, &BTreeSet::new())?;
        Ok(self.finish(event, work, decision.effect))
    }

    /// It stands behind others: deferred with one that is (rule r10), else just undecided.
    fn wait(&mut self, event: EventNo, blockers: &[EventNo], oracle: &mut Oracle) {
        let mut holds: Vec<Option<Hold>> = Vec::new();
        for blocker in blockers {
            let hold = match self.pending(*blocker).mark {
                Mark::Deferred(hold) => Some(Hold {
                    behind: true,
                    ..hold
                }),
                _ => None,
            };
            if !holds.contains(&hold) {
                holds.push(hold);
            }
        }
        let hold = holds[oracle.choose(holds.len())];
        if let Some(hold) = hold.filter(|_| !self.world.events[event].stands_aside()) {
            self.mark(event, Mark::Deferred(hold));
        }
    }

    fn mark(&mut self, event: EventNo, mark: Mark) {
        let pending = self.world.events[event].pending_mut();
        pending.mark = mark;
        pending.due = false;
    }

    /// The Works that an event belongs to. One that carries a key which a later event of a Work wants to attach joins
    /// that Work, and the later one joins a Work that got the key meanwhile (rule r08).
    fn targets(&self, event: EventNo, todo: &[EventNo]) -> BTreeSet<WorkNo> {
        let e = &self.world.events[event];
        let mut targets = self.world.targets(e);
        let given = self.pending(event).ties.intersection(&self.fresh);
        targets.extend(given.filter_map(|k| self.world.owner(self.scope, k)));
        for later in todo.iter().filter(|l| **l > event) {
            let wanted: Vec<&String> = self
                .pending(*later)
                .ties
                .iter()
                .filter(|k| e.keys.contains(*k) && self.world.owner(self.scope, k).is_none())
                .collect();
            if wanted.is_empty() || !self.blockers(*later).is_empty() {
                continue;
            }
            let theirs = self.world.targets(&self.world.events[*later]);
            if theirs.len() == 1 {
                targets.extend(theirs);
            }
        }
        targets
    }

    fn conflict(&mut self, event: EventNo, works: BTreeSet<WorkNo>) -> Result<Came, Unmet> {
        self.met(event, &BTreeSet::new())?;
        self.mark(event, Mark::Conflict(works));
        Ok(Came::Out)
    }

    /// Ties hold only while the event attaches those keys.
    fn met(&self, event: EventNo, attach: &BTreeSet<String>) -> Result<(), Unmet> {
        match self.pending(event).ties.difference(attach).next() {
            Some(key) => Err(Unmet(event, key.clone())),
            None => Ok(()),
        }
    }

    /// It becomes input of its Work or a new one, if nobody else owns what it attaches and nobody earlier carries it.
    fn input(
        &mut self,
        event: EventNo,
        work: Option<WorkNo>,
        selected: Selected,
        todo: &[EventNo],
    ) -> Result<Came, Unmet> {
        let owner = |key: &String| self.world.owner(self.scope, key);
        let others: BTreeSet<WorkNo> = selected
            .attach
            .iter()
            .filter_map(owner)
            .filter(|o| Some(*o) != work)
            .collect();
        if !others.is_empty() {
            return self.conflict(event, work.into_iter().chain(others).collect());
        }
        let own = self.world.events[event].keys.clone();
        for key in selected.attach.difference(&own) {
            if self.world.owner(self.scope, key).is_some() {
                continue;
            }
            let early = |e: &EventNo| {
                let other = &self.world.events[*e];
                *e < event && !other.stands_aside() && other.keys.contains(key)
            };
            let Some(first) = self.world.pending(self.scope).into_iter().find(early) else {
                continue;
            };
            let once = todo.contains(&first) && self.banned.contains(&(event, key.clone()));
            if !once {
                let ties = &mut self.world.events[event].pending_mut().ties;
                ties.insert(key.clone());
            }
            return Ok(Came::NotYet { once });
        }
        self.met(event, &selected.attach)?;
        let keys: BTreeSet<String> = own.union(&selected.attach).cloned().collect();
        self.fresh.extend(keys.iter().cloned());
        let (work, disposition) = match work {
            Some(work) => (work, of_policy(selected.policy)),
            None => (self.start(), Disposition::Start),
        };
        let w = &mut self.world.works[work];
        w.keys.extend(keys);
        w.inputs.push(Input {
            event,
            binding: selected.binding,
            state: InputState::Queued,
            injected: selected.policy == Policy::Inject,
        });
        let record = Record {
            binding: Some(selected.binding),
            ..self.selected(disposition, Some(work), &selected)
        };
        self.record(event, record);
        Ok(Came::Out)
    }

    fn start(&mut self) -> WorkNo {
        self.world.works.push(Work {
            scope: self.scope,
            keys: BTreeSet::new(),
            state: WorkState::Ready,
            inputs: Vec::new(),
            attempts: 0,
            tries: 0,
            backs_off: false,
            running: None,
        });
        self.world.works.len() - 1
    }

    /// Completes each ready Work that has nothing left (rule l06). Whether a conflicting event of it that is about to
    /// be tried again comes first is open.
    fn drain(&mut self, todo: &[EventNo], oracle: &mut Oracle) {
        let found = self.world.drained();
        let contested = todo.iter().any(|e| {
            let targets = self.world.targets(&self.world.events[*e]);
            found.iter().any(|w| targets.contains(w))
        });
        if !contested || oracle.choose(2) == 0 {
            self.world.complete_drained();
        }
    }
}

const fn of_policy(policy: Policy) -> Disposition {
    match policy {
        Policy::Queue => Disposition::Queue,
        Policy::Inject => Disposition::Inject,
        Policy::Interrupt => Disposition::Interrupt,
        Policy::Drop => Disposition::Drop,
    }
}
