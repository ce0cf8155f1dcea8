//! Records in the model (rules r12, r13, r23).

use weir_proto::types::v1::Disposition;

use super::{Came, Pass};
use crate::model::decide::{Effect, Selected};
use crate::model::world::{EventNo, Mark, Reason, Record, Standing, WorkNo};

/// Failures after which routing can give up, and the minutes that must have passed.
const GIVES_UP: (i32, u32) = (5, 15);

impl Pass<'_> {
    /// All that is no input.
    pub(super) fn finish(&mut self, event: EventNo, work: Option<WorkNo>, effect: Effect) -> Came {
        let plain = |disposition, reason| Record {
            disposition,
            work,
            slot: None,
            binding: None,
            policy: None,
            reason: Reason::Word(reason),
            refusals: Vec::new(),
            attempts: 0,
            generation: self.world.generation,
        };
        let record = match effect {
            Effect::Drop(selected) => self.selected(Disposition::Drop, work, &selected),
            Effect::Unmatched(refusals) => Record {
                refusals,
                ..plain(Disposition::Unmatched, "no_match")
            },
            Effect::Terminal => plain(Disposition::Terminal, "terminal"),
            Effect::Failed { slot, code } => {
                let pending = self.world.events[event].pending_mut();
                pending.failures += 1;
                let (failures, minutes) = (pending.failures, *pending.minutes.get_or_insert(0));
                let gives_up = failures >= GIVES_UP.0 && minutes >= GIVES_UP.1;
                if code == "handler_failed" && !gives_up {
                    self.mark(event, Mark::Backoff);
                    return Came::Stopped;
                }
                Record {
                    slot: Some(slot),
                    attempts: failures,
                    ..plain(Disposition::Failed, code)
                }
            }
            Effect::Input(_) | Effect::Deferred => unreachable!("these are handled before"),
        };
        self.record(event, record);
        Came::Out
    }

    pub(super) fn selected(
        &self,
        disposition: Disposition,
        work: Option<WorkNo>,
        selected: &Selected,
    ) -> Record {
        Record {
            disposition,
            work,
            slot: Some(selected.slot),
            binding: None,
            policy: Some(selected.policy),
            reason: selected.reason,
            refusals: Vec::new(),
            attempts: 0,
            generation: self.world.generation,
        }
    }

    pub(super) fn record(&mut self, event: EventNo, record: Record) {
        self.world.events[event].standing = Standing::Routed(record);
    }
}
