//! What executors do with Works, and operators.

use weir_proto::types::v1::{InputState, Lease, WorkState};

use super::{Run, refused, said};
use crate::model::check::{Difference, same};
use crate::model::config::SCOPES;
use crate::model::works::Claimable;
use crate::model::world::{Input, WorkNo};

impl Run<'_> {
    pub(super) async fn claim(&mut self, scope: usize, binding: u8) -> Result<(), Difference> {
        let before = self.world.clone();
        let answer = self
            .service
            .claim(SCOPES[scope], &format!("b{binding}"))
            .await;
        let claimable = match self.world.claimable(scope, binding) {
            Claimable::Refused(expected) => {
                refused("ClaimOnce", answer, Some(expected))?;
                return Ok(());
            }
            Claimable::Any(works) => works,
        };
        let Some(claimed) = answer.map_err(said("ClaimOnce"))? else {
            return same("claimed", &Vec::new(), &claimable);
        };
        let lease = claimed.lease.ok_or("a claim without lease")?;
        let work = self.names.works.iter().position(|w| *w == lease.work);
        let work = work
            .filter(|w| claimable.contains(w))
            .ok_or_else(|| format!("claimed {work:?}, model: one of {claimable:?}"))?;
        let presented = self.world.claim(work, binding);
        let uids: Vec<String> = claimed.inputs.iter().map(|e| e.uid.clone()).collect();
        let model: Vec<String> = presented
            .iter()
            .map(|e| self.names.events[*e].clone())
            .collect();
        same("presented", &uids, &model)?;
        same("trigger", &Some(&claimed.trigger), &model.first())?;
        same("tries", &claimed.tries, &self.world.works[work].tries)?;
        same("generation", &claimed.generation, &self.world.generation)?;
        same("attempt", &lease.attempt, &self.world.works[work].attempts)?;
        let last = self.leases.insert(work, lease.clone());
        if last.is_some_and(|last| last.epoch >= lease.epoch) {
            return Err(format!("work {work}: epoch {} is not higher", lease.epoch));
        }
        self.settle(before).await
    }

    /// The lease of an attempt that runs.
    fn running(&self, pick: u8) -> Option<(WorkNo, Lease)> {
        let running = |w: &WorkNo| self.world.works[*w].running.is_some();
        let works: Vec<WorkNo> = (0..self.world.works.len()).filter(running).collect();
        let work = *works.get(usize::from(pick).checked_rem(works.len())?)?;
        Some((work, self.leases[&work].clone()))
    }

    pub(super) async fn complete(&mut self, pick: u8) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.complete(&lease).await;
        let refusal = self
            .world
            .refuses_complete(work)
            .then_some("UNROUTED_INPUT");
        if let Some(state) = refused("Complete", answer, refusal)? {
            same("Complete: state", &state, &self.world.complete(work))?;
        }
        self.settle(before).await
    }

    pub(super) async fn fail(&mut self, pick: u8, permanent: bool) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.fail(&lease, permanent).await;
        let state = answer.map_err(said("Fail"))?;
        same("Fail: state", &state, &self.world.fail(work, permanent))?;
        self.settle(before).await
    }

    pub(super) async fn release(&mut self, pick: u8) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.release(&lease).await;
        answer.map_err(said("Release"))?;
        self.world.release(work);
        self.settle(before).await
    }

    pub(super) async fn acknowledge(&mut self, pick: u8) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let injected = |i: &Input| i.injected && i.state == InputState::Queued;
        let inputs = &self.world.works[work].inputs;
        if !inputs.iter().any(injected) {
            return Ok(());
        }
        let taken = self.world.acknowledge(work);
        let uids: Vec<String> = taken
            .iter()
            .map(|e| self.names.events[*e].clone())
            .collect();
        let answer = self.service.acknowledge(&lease, uids.clone()).await;
        let consumed = answer.map_err(said("Acknowledge"))?;
        same("Acknowledge: events", &consumed, &uids)?;
        self.settle(before).await
    }

    pub(super) async fn cancel(&mut self, pick: u8) -> Result<(), Difference> {
        let Some(work) = usize::from(pick).checked_rem(self.world.works.len()) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.cancel(&self.names.works[work]).await;
        let refusal = self.world.works[work].is_terminal();
        if refused("CancelWork", answer, refusal.then_some("WORK_TERMINAL"))?.is_some() {
            self.world.cancel(work);
        }
        self.settle(before).await
    }

    pub(super) async fn let_go(&mut self, pick: u8) -> Result<(), Difference> {
        let is_held = |w: &WorkNo| self.world.works[*w].state == WorkState::Held;
        let held: Vec<WorkNo> = (0..self.world.works.len()).filter(is_held).collect();
        let Some(work) = usize::from(pick).checked_rem(self.world.works.len()) else {
            return Ok(());
        };
        let work = match held.as_slice() {
            [] => work,
            held => held[usize::from(pick) % held.len()],
        };
        let before = self.world.clone();
        let answer = self.service.let_go(&self.names.works[work]).await;
        let refusal = match &self.world.works[work] {
            w if w.is_terminal() => Some("WORK_TERMINAL"),
            w => (w.state != WorkState::Held).then_some("WORK_NOT_HELD"),
        };
        if refused("ReleaseWork", answer, refusal)?.is_some() {
            self.world.let_go(work);
        }
        self.settle(before).await
    }
}
