//! What executors and operators do with Works, in the model (rules l01, l02, l04–l08, l14, r30, r31).

use weir_proto::types::v1::{Disposition, InputState, WorkState};

use super::plan::{Caps, Config, Executor};
use super::world::{
    Attempt, Event, EventNo, Mark, Pending, Reason, Record, Standing, Work, WorkNo, World,
};

/// Minutes that pass at once.
const STEP: u32 = 4;

/// What may be claimed of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claimable {
    /// Nothing, for this reason.
    Refused(&'static str),
    /// One of these.
    Any(Vec<WorkNo>),
}

impl World {
    /// Says what may be claimed (rules l01, l04, l11).
    pub(crate) fn claimable(&self, scope: usize, binding: u8) -> Claimable {
        let effective = self.effective(scope);
        let Some(settings) = effective.bindings.get(&binding) else {
            return Claimable::Refused("BINDING_NOT_FOUND");
        };
        let Some(executor) = settings.executor else {
            return Claimable::Refused("EXECUTOR_NOT_REGISTERED");
        };
        if !self.registered.contains_key(&executor) {
            return Claimable::Refused("EXECUTOR_NOT_REGISTERED");
        }
        let claimable = |w: &Work| {
            w.scope == scope
                && w.state == WorkState::Ready
                && !w.backs_off
                && w.first_queued().is_some_and(|i| i.binding == binding)
        };
        let works = self.works.iter().enumerate();
        Claimable::Any(
            works
                .filter_map(|(at, w)| claimable(w).then_some(at))
                .collect(),
        )
    }

    /// Claims a Work that may be claimed and returns the events presented.
    pub(crate) fn claim(&mut self, work: WorkNo, binding: u8) -> Vec<EventNo> {
        let effective = self.effective(self.works[work].scope);
        let settings = &effective.bindings[&binding];
        let proved = settings
            .executor
            .and_then(|e| self.registered.get(&e).copied())
            .unwrap_or_default();
        let w = &mut self.works[work];
        w.attempts += 1;
        w.tries += 1;
        w.state = WorkState::Running;
        w.running = Some(Attempt {
            number: w.attempts,
            binding,
            caps: settings.claimed().and(proved),
            max_attempts: i32::from(settings.max_attempts),
        });
        let mut presented = Vec::new();
        let queued = w
            .inputs
            .iter_mut()
            .filter(|i| i.state == InputState::Queued);
        for input in queued.take_while(|i| i.binding == binding) {
            input.state = InputState::Presented;
            presented.push(input.event);
        }
        presented
    }

    /// The undecided event that refuses a Complete, if there is one (rule l06).
    pub(crate) fn refuses_complete(&self, work: WorkNo) -> bool {
        self.unrouted(work)
            .any(|p| !matches!(p.mark, Mark::Conflict(_) | Mark::Deferred(_)))
    }

    /// Undecided events that belong to a Work.
    fn unrouted(&self, work: WorkNo) -> impl Iterator<Item = &Pending> {
        let of_it =
            move |e: &&Event| e.scope == self.works[work].scope && self.targets(e).contains(&work);
        self.events
            .iter()
            .filter(|e| e.pending().is_some())
            .filter(of_it)
            .filter_map(Event::pending)
    }

    /// Ready Works without open or unrouted input.
    pub(crate) fn drained(&self) -> Vec<WorkNo> {
        let done = |w: &WorkNo| {
            let work = &self.works[*w];
            work.state == WorkState::Ready
                && work.open_inputs() == 0
                && !self
                    .unrouted(*w)
                    .any(|p| !matches!(p.mark, Mark::Conflict(_)))
        };
        (0..self.works.len()).filter(done).collect()
    }

    /// Completes those.
    pub(crate) fn complete_drained(&mut self) {
        for work in self.drained() {
            self.works[work].state = WorkState::Completed;
        }
    }

    /// Completes an attempt that nothing refuses, and returns the Work's state.
    pub(crate) fn complete(&mut self, work: WorkNo) -> WorkState {
        let deferred = self
            .unrouted(work)
            .any(|p| matches!(p.mark, Mark::Deferred(_)));
        let w = &mut self.works[work];
        for input in &mut w.inputs {
            if input.state == InputState::Presented {
                input.state = InputState::Consumed;
            }
        }
        w.tries = 0;
        let left = deferred || w.first_queued().is_some();
        let state = if left {
            WorkState::Ready
        } else {
            WorkState::Completed
        };
        self.end(work, state);
        state
    }

    /// Fails an attempt and returns the Work's state (rule l07).
    pub(crate) fn fail(&mut self, work: WorkNo, permanent: bool) -> WorkState {
        let w = &mut self.works[work];
        let most = w.running.as_ref().map_or(0, |a| a.max_attempts);
        let state = if permanent {
            WorkState::Failed
        } else if w.tries >= most {
            WorkState::Held
        } else {
            w.backs_off = true;
            WorkState::Ready
        };
        self.end(work, state);
        state
    }

    /// Gives a Work back, uncounted.
    pub(crate) fn release(&mut self, work: WorkNo) {
        self.works[work].tries -= 1;
        self.end(work, WorkState::Ready);
    }

    /// Cancels a Work that has not ended.
    pub(crate) fn cancel(&mut self, work: WorkNo) {
        self.end(work, WorkState::Cancelled);
    }

    /// Lets a held Work go on.
    pub(crate) fn let_go(&mut self, work: WorkNo) {
        let w = &mut self.works[work];
        w.tries = 0;
        w.state = WorkState::Ready;
    }

    /// Consumes what was injected into an attempt, and returns the events (rule l05).
    pub(crate) fn acknowledge(&mut self, work: WorkNo) -> Vec<EventNo> {
        let mut taken = Vec::new();
        for input in &mut self.works[work].inputs {
            if input.injected && input.state == InputState::Queued {
                input.state = InputState::Consumed;
                taken.push(input.event);
            }
        }
        taken
    }

    /// Ends the attempt, if one runs, and brings the Work into a state. What was presented goes back; a terminal Work
    /// abandons it. What waited for the attempt is due (rule r10).
    fn end(&mut self, work: WorkNo, state: WorkState) {
        let w = &mut self.works[work];
        w.state = state;
        w.running = None;
        let terminal = w.is_terminal();
        w.backs_off &= !terminal;
        for input in &mut w.inputs {
            input.injected = false;
            match input.state {
                InputState::Presented | InputState::Queued if terminal => {
                    input.state = InputState::Abandoned;
                }
                InputState::Presented => input.state = InputState::Queued,
                _ => {}
            }
        }
        self.free(work);
    }

    /// What waits for an attempt of a Work is due.
    fn free(&mut self, work: WorkNo) {
        for event in &mut self.events {
            if let Standing::Pending(pending) = &mut event.standing
                && matches!(pending.mark, Mark::Deferred(hold) if hold.work == work)
            {
                pending.mark = Mark::None;
                pending.due = true;
            }
        }
    }

    /// What stands behind something deferred is looked at again.
    fn free_behind(&mut self) {
        for event in &mut self.events {
            if let Standing::Pending(pending) = &mut event.standing
                && matches!(pending.mark, Mark::Deferred(hold) if hold.behind)
            {
                pending.mark = Mark::None;
                pending.due = true;
            }
        }
    }

    /// Skips an undecided event (rule r30).
    pub(crate) fn skip(&mut self, event: EventNo) {
        let targets = self.targets(&self.events[event]);
        let record = Record {
            disposition: Disposition::Skipped,
            work: targets.first().copied().filter(|_| targets.len() == 1),
            slot: None,
            binding: None,
            policy: None,
            reason: Reason::Word("test"),
            refusals: Vec::new(),
            attempts: 0,
            generation: self.generation,
        };
        self.events[event].standing = Standing::Routed(record);
        self.free_behind();
        self.complete_drained();
    }

    /// Reroutes an event: an undecided one is tried at once, one that came to nothing is accepted again (rule r31).
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) fn reroute(&mut self, event: EventNo) -> Result<Option<EventNo>, &'static str> {
        if self.events[event].pending().is_some() {
            self.events[event].standing = Standing::Pending(Pending::new());
            self.free_behind();
            return Ok(None);
        }
        if !self.came_to_nothing(event) {
            return Err("ALREADY_ROUTED");
        }
        let original = self.events[event].copy_of.unwrap_or(event);
        let live =
            |e: &EventNo| self.events[*e].copy_of == Some(original) && !self.came_to_nothing(*e);
        if (0..self.events.len()).any(|e| live(&e)) {
            return Err("ALREADY_REROUTED");
        }
        let copy = Event {
            copy_of: Some(original),
            standing: Standing::Pending(Pending::new()),
            ..self.events[event].clone()
        };
        Ok(Some(self.accept(copy)))
    }

    fn came_to_nothing(&self, event: EventNo) -> bool {
        self.events[event].record().is_some_and(|r| {
            matches!(
                r.disposition,
                Disposition::Failed | Disposition::Skipped | Disposition::Unmatched
            )
        })
    }

    /// Publishes a generation: everything undecided is tried again (rules r05, r10, r22).
    pub(crate) fn configure(&mut self, config: Config) {
        self.config = config;
        self.generation += 1;
        for event in &mut self.events {
            if let Standing::Pending(pending) = &mut event.standing {
                pending.due = true;
            }
        }
    }

    /// Registers an executor.
    pub(crate) fn register(&mut self, executor: Executor, caps: Caps) {
        self.registered.insert(executor, caps);
    }

    /// Lets four minutes pass: every backoff is over.
    pub(crate) fn pass_time(&mut self) {
        for event in &mut self.events {
            if let Standing::Pending(pending) = &mut event.standing {
                pending.minutes = pending.minutes.map(|m| m + STEP);
                pending.due |= pending.mark == Mark::Backoff;
            }
        }
        for work in &mut self.works {
            work.backs_off = false;
        }
    }
}
