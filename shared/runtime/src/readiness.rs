//! Who is ready, and why not.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::component::{Check, Component};

/// How often readiness is asked, and how long one answer may take.
const INTERVAL: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(2);

/// The readiness of a process at one moment.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether the process takes requests.
    pub ready: bool,
    /// Whether it is on its way out.
    pub draining: bool,
    /// Each component.
    pub components: Vec<ComponentState>,
}

/// The readiness of a component.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct ComponentState {
    /// Its name.
    pub name: &'static str,
    /// Whether every condition holds.
    pub ready: bool,
    /// What does not hold, one line each.
    pub reasons: Vec<String>,
}

struct Watched {
    name: &'static str,
    services: Vec<String>,
    checks: Vec<(&'static str, Check)>,
    service_health: Vec<(Vec<String>, Check)>,
}

/// Asks the components and tells gRPC health and the health port.
pub(crate) struct Readiness {
    components: Vec<Watched>,
    reporter: HealthReporter,
    state: watch::Sender<Snapshot>,
}

impl Readiness {
    pub(crate) fn new(components: &[Component], reporter: HealthReporter) -> Arc<Self> {
        let starting = components
            .iter()
            .map(|c| ComponentState {
                name: c.name,
                ready: false,
                reasons: vec!["starting".into()],
            })
            .collect();
        let (state, _) = watch::channel(Snapshot {
            ready: false,
            draining: false,
            components: starting,
        });
        let components = components
            .iter()
            .map(|c| Watched {
                name: c.name,
                services: c.grpc_services.clone(),
                checks: c.readiness.clone(),
                service_health: c.service_health.clone(),
            })
            .collect();
        Arc::new(Self {
            components,
            reporter,
            state,
        })
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.state.subscribe()
    }

    /// Registers every name, so that a health check that comes first is answered and not refused.
    pub(crate) async fn register(&self) {
        self.report_all(ServingStatus::NotServing).await;
    }

    /// Asks until the process drains. Upkeep of the metrics rides along.
    pub(crate) async fn poll(&self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ask() => {}
            }
            if let Some(handle) = crate::metrics_handle() {
                handle.run_upkeep();
            }
        }
    }

    async fn ask(&self) {
        let components = join_all(self.components.iter().map(|c| self.ask_component(c))).await;
        let ready = components.iter().all(|c| c.ready);
        self.report("", ready).await;
        let was = self.state.borrow().clone();
        for (now, before) in components.iter().zip(&was.components) {
            if now.reasons != before.reasons {
                if now.ready {
                    tracing::info!(component = now.name, "ready");
                } else {
                    let reasons = now.reasons.join("; ");
                    tracing::warn!(component = now.name, reasons, "not ready");
                }
            }
        }
        self.state.send_modify(|state| {
            state.ready = ready && !state.draining;
            state.components = components;
        });
    }

    async fn ask_component(&self, component: &Watched) -> ComponentState {
        let answers = component.checks.iter().map(async |(name, check)| {
            answer(check)
                .await
                .err()
                .map(|reason| format!("{name}: {reason}"))
        });
        let reasons: Vec<String> = join_all(answers).await.into_iter().flatten().collect();
        let ready = reasons.is_empty();
        for service in &component.services {
            self.report(service, ready).await;
        }
        join_all(
            component
                .service_health
                .iter()
                .map(async |(services, check)| {
                    let serving = answer(check).await.is_ok();
                    for service in services {
                        self.report(service, serving).await;
                    }
                }),
        )
        .await;
        ComponentState {
            name: component.name,
            ready,
            reasons,
        }
    }

    /// Says that the process leaves: to load balancers and probes, before anything stops.
    pub(crate) async fn drain(&self) {
        self.state.send_modify(|state| {
            state.ready = false;
            state.draining = true;
        });
        self.report_all(ServingStatus::NotServing).await;
    }

    async fn report(&self, service: &str, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        self.reporter.set_service_status(service, status).await;
    }

    async fn report_all(&self, status: ServingStatus) {
        self.reporter.set_service_status("", status).await;
        for component in &self.components {
            let health = component
                .service_health
                .iter()
                .flat_map(|(services, _)| services);
            for service in component.services.iter().chain(health) {
                self.reporter.set_service_status(service, status).await;
            }
        }
    }
}

async fn answer(check: &Check) -> Result<(), String> {
    match tokio::time::timeout(TIMEOUT, check()).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {TIMEOUT:?}")),
    }
}
