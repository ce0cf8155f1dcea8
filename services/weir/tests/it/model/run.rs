//! Running a history: each action through the service and through the model, and a comparison after each.

mod attempts;
mod events;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use tonic::Status;
use weir_proto::types::v1::Lease;

use super::check::{self, Difference, Names};
use super::config::Tree;
use super::oracle::{outcomes, plainest};
use super::plan::{Action, Case, Config, Executor};
use super::service::{Service, reason};
use super::world::{Mark, Standing, WorkNo, World};
use crate::support::Weir;

/// After so many looks the other ways are tried, too: nearly always the service goes the plainest.
const OTHERS: usize = 20;

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
    let result = run.all(case).await;
    run.service.retire().await;
    result.map(|()| run.tally)
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
    async fn all(&mut self, case: &Case) -> Result<(), Difference> {
        let first = case.registered.map(|caps| Action::Register {
            executor: Executor::E,
            caps,
        });
        let config = Action::Configure(Box::new(case.config.clone()));
        let all = std::iter::once(&config).chain(&first).chain(&case.actions);
        for (at, action) in all.enumerate() {
            self.act(action)
                .await
                .map_err(|difference| format!("{difference}\nat {at}: {action:?}"))?;
        }
        check::works(&self.service, None, &self.world, &self.names).await
    }

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
        let (mut candidates, mut polls) = (vec![plainest(&self.world)], 0);
        let mut differences: Vec<Difference> = Vec::new();
        let mut agreed: Option<(World, Names)> = None;
        let (service, names, world) = (&self.service, &self.names, &self.world);
        let met = service
            .until(self.patience, async || {
                differences.clear();
                polls += 1;
                if polls == OTHERS {
                    candidates = outcomes(world);
                }
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

    async fn configure(&mut self, config: &Config) -> Result<(), Difference> {
        let before = self.world.clone();
        let document = config.document(self.world.tree);
        let done = self
            .service
            .configure(document, self.world.generation)
            .await;
        done.map_err(said("PublishConfig"))?;
        self.world.configure(config.clone());
        self.settle(before).await
    }
}
