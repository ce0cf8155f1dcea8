//! Running a history: each action through the service and through the model, and a comparison after each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use tonic::Status;
use weir_proto::types::v1::{InputState, Lease, WorkState};

use super::check::{self, Difference, Names, same};
use super::config::{SCOPES, Tree};
use super::foresee::{agree, compare, foresee};
use super::oracle::outcomes;
use super::plan::{Action, Case, Config, Datum, Draft, key};
use super::service::{Item, Service, reason};
use super::works::Claimable;
use super::world::{Event, EventNo, Mark, Pending, Standing, WorkNo, World};
use crate::support::{Weir, event};

/// How far a history is.
pub(crate) struct Run<'a> {
    service: Service<'a>,
    world: World,
    names: Names,
    leases: BTreeMap<WorkNo, Lease>,
    patience: Duration,
    published: usize,
    tally: Tally,
}

/// What a history came across.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many (configuration, state, event) triples were traced and then decided.
    pub(crate) triples: usize,
    /// How often an event came to stand somewhere, by a word for it.
    pub(crate) standings: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// Adds another.
    pub(crate) fn add(&mut self, other: Self) {
        self.triples += other.triples;
        for (word, count) in other.standings {
            *self.standings.entry(word).or_default() += count;
        }
    }

    fn count(&mut self, before: &World, now: &World) {
        for (number, event) in now.events.iter().enumerate() {
            if before.events.get(number).map(|e| &e.standing) != Some(&event.standing) {
                *self.standings.entry(word(&event.standing)).or_default() += 1;
            }
        }
    }
}

fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Routed(record) => record.disposition.as_str_name(),
        Standing::Pending(pending) => match &pending.mark {
            Mark::None if pending.ties.is_empty() => "stands behind another",
            Mark::None => "wants a key of an earlier one",
            Mark::Backoff => "backs off",
            Mark::Deferred(hold) if hold.behind => "deferred behind another",
            Mark::Deferred(_) => "deferred",
            Mark::Conflict(_) => "in conflict",
        },
    }
}

/// Runs a history as a tenant of its own.
///
/// # Errors
/// The first difference between service and model, with the action that showed it.
pub(crate) async fn run(
    weir: &Weir,
    tenant: &str,
    case: &Case,
    patience: Duration,
) -> Result<Tally, Difference> {
    let tree = Tree {
        scopes: case.scopes,
        deep: case.deep,
    };
    let mut run = Run {
        service: Service::of(weir, tenant),
        world: World {
            tree,
            config: case.config.clone(),
            generation: 0,
            registered: BTreeMap::new(),
            events: Vec::new(),
            works: Vec::new(),
        },
        names: Names::default(),
        leases: BTreeMap::new(),
        patience,
        published: 0,
        tally: Tally::default(),
    };
    let first = case.registered.map(|caps| Action::Register {
        executor: super::plan::Executor::E,
        caps,
    });
    let config = Action::Configure(Box::new(case.config.clone()));
    let all = std::iter::once(&config).chain(&first).chain(&case.actions);
    for (at, action) in all.enumerate() {
        run.act(action)
            .await
            .map_err(|difference| format!("{difference}\nat {at}: {action:?}"))?;
    }
    check::works(&run.service, None, &run.world, &run.names).await?;
    Ok(run.tally)
}

fn said(call: &'static str) -> impl Fn(Status) -> Difference {
    move |status| format!("{call}: {} {}", reason(&status), status.message())
}

/// A refusal is as expected, or there is none.
fn refused<T>(
    call: &'static str,
    answer: Result<T, Status>,
    expected: Option<&str>,
) -> Result<Option<T>, Difference> {
    match (answer, expected) {
        (Ok(answer), None) => Ok(Some(answer)),
        (Ok(_), Some(expected)) => Err(format!("{call}: not refused, model {expected}")),
        (Err(status), Some(expected)) if reason(&status) == expected => Ok(None),
        (Err(status), _) => Err(format!("{}, model {expected:?}", said(call)(status))),
    }
}

impl Run<'_> {
    async fn act(&mut self, action: &Action) -> Result<(), Difference> {
        match action {
            Action::Publish { scope, event } => self.publish(self.scope(*scope), event).await,
            Action::Batch { scope, events } => self.batch(self.scope(*scope), events).await,
            Action::Claim { scope, binding } => self.claim(self.scope(*scope), *binding).await,
            Action::Complete { pick } => self.complete(*pick).await,
            Action::Fail { pick, permanent } => self.fail(*pick, *permanent).await,
            Action::Release { pick } => self.release(*pick).await,
            Action::Acknowledge { pick } => self.acknowledge(*pick).await,
            Action::Cancel { pick } => self.cancel(*pick).await,
            Action::LetGo { pick } => self.let_go(*pick).await,
            Action::Skip { pick } => self.skip(*pick).await,
            Action::Reroute { pick } => self.reroute(*pick).await,
            Action::RouteAgain { pick } => self.route_again(*pick).await,
            Action::Configure(config) => self.configure(config).await,
            Action::Register { executor, caps } => {
                let done = self.service.register(*executor, *caps).await;
                done.map_err(said("RegisterExecutor"))?;
                let before = self.world.clone();
                self.world.register(*executor, *caps);
                self.settle(before).await
            }
            Action::PassTime { times } => {
                for _ in 0..*times {
                    let before = self.world.clone();
                    self.service.pass_time().await;
                    self.world.pass_time();
                    self.settle(before).await?;
                }
                Ok(())
            }
        }
    }

    fn scope(&self, scope: u8) -> usize {
        usize::from(scope) % self.world.tree.scopes
    }

    /// Waits until the service is where the model says that it comes to, by one of the ways that the rules leave.
    async fn settle(&mut self, before: World) -> Result<(), Difference> {
        let candidates = outcomes(&self.world);
        let mut differences: Vec<Difference> = Vec::new();
        let mut agreed: Option<(World, Names)> = None;
        let (service, names) = (&self.service, &self.names);
        let met = service
            .until(self.patience, async || {
                differences.clear();
                let rows = service.undecided().await;
                for model in &candidates {
                    let found = match check::undecided(model, names, &rows) {
                        Ok(()) => {
                            check::everything(service, &before, model, names.clone(), &rows).await
                        }
                        Err(difference) => Err(difference),
                    };
                    match found {
                        Ok(names) => {
                            agreed = Some((model.clone(), names));
                            return true;
                        }
                        Err(difference) if !differences.contains(&difference) => {
                            differences.push(difference);
                        }
                        Err(_) => {}
                    }
                }
                false
            })
            .await;
        if let Some((world, names)) = agreed.filter(|_| met) {
            self.tally.count(&before, &world);
            (self.world, self.names) = (world, names);
            return Ok(());
        }
        let mut text = format!("{} ways, none agrees:", candidates.len());
        for difference in differences.iter().take(6) {
            write!(text, "\n  {difference}").expect("a string takes all");
        }
        Err(text)
    }

    /// Makes an event of a scope, for the service and for the model; the model's is `None` when a source rule refuses it
    /// (rule a07).
    fn draft(&mut self, scope: usize, draft: &Draft) -> (Item, Option<Event>) {
        let mut fields: Vec<String> = Vec::new();
        fields.extend(draft.n.map(|n| format!("\"n\":{n}")));
        fields.extend(draft.k.map(|k| match k {
            Datum::Text(k) => format!("\"k\":\"{k}\""),
            Datum::Number(k) => format!("\"k\":{k}"),
        }));
        let here = |w: &WorkNo| self.world.works[*w].scope == scope;
        let works: Vec<WorkNo> = (0..self.world.works.len()).filter(here).collect();
        let target = draft
            .target
            .filter(|_| !works.is_empty())
            .map(|t| works[usize::from(t) % works.len()]);
        let keys: BTreeSet<String> = draft.keys.iter().map(|k| key(*k)).collect();
        let id = format!("e{}", self.published);
        self.published += 1;
        let item = Item {
            event: event(&id, draft.kind.word(), &format!("{{{}}}", fields.join(","))),
            keys: keys.iter().cloned().collect(),
            target: target.map(|t| self.names.works[t].clone()),
        };
        let source = self.world.effective(scope).source;
        let source = source.filter(|s| s.kind.is_none_or(|k| k == draft.kind));
        let model = match source.map_or(Ok(None), |s| s.key.key(draft.k)) {
            Ok(derived) => Some(Event {
                scope,
                draft: draft.clone(),
                keys: keys.into_iter().chain(derived).collect(),
                target,
                copy_of: None,
                standing: Standing::Pending(Pending::new()),
            }),
            Err(_) => None,
        };
        (item, model)
    }

    async fn publish(&mut self, scope: usize, draft: &Draft) -> Result<(), Difference> {
        let before = self.world.clone();
        let (item, model) = self.draft(scope, draft);
        let refusal = model.is_none().then_some("KEY_RULE_FAILED");
        let traced = refused("TraceEvent", self.service.trace(SCOPES[scope], &item).await, refusal)?;
        let answer = self.service.publish(SCOPES[scope], item).await;
        let uid = refused("Publish", answer, refusal)?;
        let (Some(trace), Some(uid), Some(model)) = (traced, uid, model) else {
            return Ok(());
        };
        compare(
            &trace,
            &foresee(&self.world, &model),
            &self.names,
            &model.keys,
        )?;
        let alone = self.world.pending(scope).is_empty();
        self.accept(model, uid.clone());
        self.settle(before).await?;
        if alone {
            let done = self.service.standing(&uid).await;
            let effect = trace.effect.as_ref().ok_or("the trace has no effect")?;
            agree(effect, &done.map_err(said("GetRoute"))?)?;
            self.tally.triples += 1;
        }
        Ok(())
    }

    fn accept(&mut self, event: Event, uid: String) {
        self.world.accept(event);
        self.names.events.push(uid);
    }

    async fn batch(&mut self, scope: usize, drafts: &[Draft]) -> Result<(), Difference> {
        let before = self.world.clone();
        let (mut items, mut models) = (Vec::new(), Vec::new());
        for draft in drafts {
            let (item, model) = self.draft(scope, draft);
            items.push(item);
            models.extend(model);
        }
        let refusal = (models.len() < items.len()).then_some("KEY_RULE_FAILED");
        let answer = self.service.publish_all(SCOPES[scope], items).await;
        let uids = refused("PublishBatch", answer, refusal)?;
        for (model, uid) in models.into_iter().zip(uids.unwrap_or_default()) {
            self.accept(model, uid);
        }
        self.settle(before).await
    }

    async fn claim(&mut self, scope: usize, binding: u8) -> Result<(), Difference> {
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
        let work = work.filter(|w| claimable.contains(w)).ok_or_else(|| {
            format!("claimed {work:?}, model: one of {claimable:?}")
        })?;
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

    async fn complete(&mut self, pick: u8) -> Result<(), Difference> {
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

    async fn fail(&mut self, pick: u8, permanent: bool) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.fail(&lease, permanent).await;
        let state = answer.map_err(said("Fail"))?;
        same("Fail: state", &state, &self.world.fail(work, permanent))?;
        self.settle(before).await
    }

    async fn release(&mut self, pick: u8) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.release(&lease).await;
        answer.map_err(said("Release"))?;
        self.world.release(work);
        self.settle(before).await
    }

    async fn acknowledge(&mut self, pick: u8) -> Result<(), Difference> {
        let Some((work, lease)) = self.running(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let injected = |i: &super::world::Input| i.injected && i.state == InputState::Queued;
        let inputs = &self.world.works[work].inputs;
        if !inputs.iter().any(injected) {
            return Ok(());
        }
        let taken = self.world.acknowledge(work);
        let uids: Vec<String> = taken.iter().map(|e| self.names.events[*e].clone()).collect();
        let answer = self.service.acknowledge(&lease, uids.clone()).await;
        let consumed = answer.map_err(said("Acknowledge"))?;
        same("Acknowledge: events", &consumed, &uids)?;
        self.settle(before).await
    }

    async fn cancel(&mut self, pick: u8) -> Result<(), Difference> {
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

    async fn let_go(&mut self, pick: u8) -> Result<(), Difference> {
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

    /// An event, an undecided one if there is one.
    fn event(&self, pick: u8) -> Option<EventNo> {
        let undecided: Vec<EventNo> = (0..SCOPES.len())
            .flat_map(|s| self.world.pending(s))
            .collect();
        match undecided.as_slice() {
            [] => usize::from(pick).checked_rem(self.world.events.len()),
            undecided => Some(undecided[usize::from(pick) % undecided.len()]),
        }
    }

    async fn skip(&mut self, pick: u8) -> Result<(), Difference> {
        let Some(event) = self.event(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.skip(&self.names.events[event]).await;
        let routed = self.world.events[event].record().is_some();
        if refused("SkipEvent", answer, routed.then_some("ALREADY_ROUTED"))?.is_some() {
            self.world.skip(event);
        }
        self.settle(before).await
    }

    async fn reroute(&mut self, pick: u8) -> Result<(), Difference> {
        let Some(event) = self.event(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.reroute(&self.names.events[event]).await;
        let model = self.world.reroute(event);
        let tried = refused("RerouteEvent", answer, model.as_ref().err().copied())?;
        match (tried, model) {
            (Some(uid), Ok(Some(_))) => self.names.events.push(uid),
            (Some(uid), Ok(None)) => {
                same("RerouteEvent: event", &uid, &self.names.events[event])?;
            }
            _ => {}
        }
        self.settle(before).await
    }

    /// Routing a decided event again changes nothing and answers the record (rule r16).
    async fn route_again(&mut self, pick: u8) -> Result<(), Difference> {
        let decided = |e: &EventNo| self.world.events[*e].record().is_some();
        let decided: Vec<EventNo> = (0..self.world.events.len()).filter(decided).collect();
        let Some(at) = usize::from(pick).checked_rem(decided.len()) else {
            return Ok(());
        };
        let uid = &self.names.events[decided[at]];
        let stored = self.service.standing(uid).await;
        let stored = stored.map_err(said("GetRoute"))?.record;
        let again = self.service.route(uid).await.record;
        same("RouteEvent: record", &again, &stored)?;
        self.settle(self.world.clone()).await
    }

    async fn configure(&mut self, config: &Config) -> Result<(), Difference> {
        let before = self.world.clone();
        let document = config.document(self.world.tree);
        let done = self.service.configure(document, self.world.generation).await;
        done.map_err(said("PublishConfig"))?;
        self.world.configure(config.clone());
        self.settle(before).await
    }
}
