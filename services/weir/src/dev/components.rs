//! Every service in one process: the only place that knows them all.

use std::mem;
use std::sync::Arc;

use crate::cli::environment;
use tokio::sync::Notify;
use weir_gateway::Upstreams;
use weir_routing::handler::Registry;
use weir_rpc::{Secret, Upstream};
use weir_runtime::{CancellationToken, Component, Environment, Settings, Task, Validate};

/// Connections of the whole process: the five services of a fleet have 16 each.
const CONNECTIONS: u32 = 32;

/// Makes the five services over one pool. Their settings are read from the environment as in a
/// fleet, but for the database and the environment, which is development.
pub(super) fn all(url: &str) -> anyhow::Result<Vec<Component>> {
    let routing = settings::<weir_routing::Config>("routing", url)?;
    let lifecycle = settings::<weir_lifecycle::Config>("lifecycle", url)?;
    let causal = settings::<weir_causal::Config>("causal", url)?;
    let migration = settings::<weir_migration::Config>("migration", url)?;
    let gateway = settings::<weir_gateway::Config>("gateway", url)?;

    let mut database = routing.database.clone();
    database.max_connections = CONNECTIONS;
    let db = database.open("weir-dev")?;

    // Hints that travel between processes elsewhere are calls here.
    let routing_hints = weir_routing::Hints::default();
    let accepted = routing_hints.accepted.clone();
    let routed = Arc::clone(&routing_hints.routed);
    let claimers = weir_lifecycle::Hints::default();
    let told = weir_causal::Hints::local(move || accepted.tell());

    let mut routing =
        weir_routing::component(db.clone(), &routing, Registry::default(), routing_hints);
    let mut lifecycle =
        weir_lifecycle::component(db.clone(), &lifecycle, claimers.clone())
            .task(Task::run("dev.wake_claimers", move |stop| {
                wake_claimers(routed, claimers, stop)
            }));
    let mut causal = weir_causal::component(db, &causal, told);
    let mut migration = weir_migration::component(&migration)?;
    let upstreams = Upstreams {
        routing: inward(&mut routing),
        lifecycle: inward(&mut lifecycle),
        causal: inward(&mut causal),
        migration: inward(&mut migration),
    };
    let gateway = weir_gateway::component(
        &gateway,
        Environment::Development,
        &Secret::default(),
        upstreams,
        Arc::new(weir_runtime::environment_secret),
    )?;
    Ok(vec![routing, lifecycle, causal, migration, gateway])
}

/// Tells claimers of routing's commits, which may have made Work claimable.
async fn wake_claimers(
    routed: Arc<Notify>,
    claimers: weir_lifecycle::Hints,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = routed.notified() => claimers.work_ready(),
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Takes a component's routes off the port and makes them the gateway's way to it: a caller from
/// outside must not get past the gateway. The gateway reports the health of their names.
fn inward(component: &mut Component) -> Upstream {
    component.grpc_services.clear();
    let routes = mem::take(&mut component.routes);
    weir_rpc::local(weir_rpc::layered(routes, None))
}

fn settings<C>(service: &'static str, url: &str) -> anyhow::Result<C>
where
    C: Validate + Default + serde::Serialize + serde::de::DeserializeOwned,
{
    let fixed = [
        "WEIR_ENVIRONMENT",
        "DATABASE_URL",
        "DATABASE_URL_FILE",
        "WEIR_INTERNAL_TOKEN",
        "WEIR_INTERNAL_TOKEN_FILE",
    ];
    let environment = environment::all()
        .filter(|(name, _)| !fixed.contains(&name.as_str()))
        .chain([
            ("WEIR_ENVIRONMENT".to_owned(), "Development".to_owned()),
            ("DATABASE_URL".to_owned(), url.to_owned()),
        ]);
    let Settings { service, .. } = weir_runtime::load::<C>(service, environment)?;
    Ok(service)
}
