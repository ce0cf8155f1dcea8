//! Routing: accepts events durably, decides which Work each belongs to, and answers what became of it.
//!
//! `rpc` decodes, runs one command or query, and encodes. [`publish`] accepts, [`route`] decides, [`command`] is what
//! operators do, [`wait`] wakes parked Work, [`trace`] decides what nobody published, [`tenant`] and [`generation`] are the configuration, [`cel`]
//! its expressions; [`replica`] is this process among the others. All state is in the database: every replica can
//! take every step and be killed at any moment (rule o06).

pub mod command;
mod config;
mod error;
pub mod generation;
pub mod handler;
pub mod publish;
pub mod query;
pub mod replica;
pub mod route;
mod rpc;
pub mod tenant;
pub mod trace;
pub mod wait;

pub use config::Config;
pub use error::Error;
pub use weir_cel as cel;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tonic::server::NamedService as _;
use tonic::service::Routes;
use weir_pg::Db;
use weir_proto::routing::v1::config_service_server::ConfigServiceServer;
use weir_proto::routing::v1::event_service_server::EventServiceServer;
use weir_proto::routing::v1::inspect_service_server::InspectServiceServer;
use weir_proto::routing::v1::routing_service_server::RoutingServiceServer;
use weir_rpc::{MAX_DECODED, MAX_ENCODED};
use weir_runtime::{Component, Task};

use generation::Generations;
use handler::Registry;
use publish::{Accepted, Publisher};
use replica::Replica;
use route::claim::Left;
use route::evaluate::Context;
use route::worker::Router;

/// What ties this service to others of the same process. Losing any of it costs latency only.
#[derive(Debug, Clone)]
pub struct Hints {
    /// Wake it when events may be undecided.
    pub accepted: Accepted,
    /// Woken after each routing commit: watchers, and claimers of the same process.
    pub routed: Arc<Notify>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            accepted: Accepted {
                wake: Arc::default(),
                arrived: Arc::default(),
            },
            routed: Arc::default(),
        }
    }
}

/// Makes the service. Ready when the database is reachable, takes writes and has this build's schema (rule m04).
/// `registry` has the Rust handlers of this process (rule r52).
#[must_use]
pub fn component(db: Db, config: &Config, registry: Registry, hints: Hints) -> Component {
    let component = Component::new("routing");
    let shutdown = component.shutdown();
    let generations = Generations::new(db.clone());
    let publisher = Publisher::new(
        db.clone(),
        generations.clone(),
        config.max_payload,
        hints.accepted.clone(),
        TaskTracker::new(),
    );
    let replica = Replica::new(db.clone(), generations.clone(), &registry, config.timing());
    let context = Context {
        db: db.clone(),
        reader: config.reader(&db),
        registry,
        limits: config.limits(),
        replica: replica.clone(),
        alone: None,
    };
    let router = Router {
        context: context.clone(),
        generations: generations.clone(),
        wake: Arc::clone(&hints.accepted.wake),
        arrived: Arc::clone(&hints.accepted.arrived),
        routed: Arc::clone(&hints.routed),
        poll: config.poll_interval,
        joins: Arc::default(),
        turns: Arc::default(),
        left: Left::default(),
        unreleased: Arc::default(),
    };
    let waits = router.clone();
    let remotes = context.registry.remotes().clone();
    let probing = handler::probing(
        remotes.clone(),
        generations.clone(),
        config.handler_probe_interval,
    );
    let events = rpc::Events::new(
        db.clone(),
        generations.clone(),
        publisher.clone(),
        &hints,
        shutdown,
    );
    let routing = rpc::Routing {
        context,
        generations: generations.clone(),
        publisher,
        hints,
    };
    let routes = Routes::new(
        EventServiceServer::new(events)
            .max_decoding_message_size(MAX_DECODED)
            .max_encoding_message_size(MAX_ENCODED),
    )
    .add_service(
        ConfigServiceServer::new(rpc::Configs::new(db.clone(), generations, replica.clone()))
            .max_decoding_message_size(MAX_DECODED)
            .max_encoding_message_size(MAX_ENCODED),
    )
    .add_service(
        RoutingServiceServer::new(routing)
            .max_decoding_message_size(MAX_DECODED)
            .max_encoding_message_size(MAX_ENCODED),
    )
    .add_service(InspectServiceServer::new(rpc::Inspect));
    let names = [
        EventServiceServer::<rpc::Events>::NAME,
        ConfigServiceServer::<rpc::Configs>::NAME,
        RoutingServiceServer::<rpc::Routing>::NAME,
        InspectServiceServer::<rpc::Inspect>::NAME,
    ];
    let leaving = replica.clone();
    let [beat, follow, sweep] = replica::tasks(&replica, config.limits());
    component
        .serving(routes, names)
        .ready_when("database", move || {
            let db = db.clone();
            async move { weir_pg::schema::readiness(&db).await }
        })
        .task(Task::run(
            "routing.route_pending",
            move |shutdown| async move {
                router.run(shutdown).await;
                leaving.leave().await;
                Ok(())
            },
        ))
        .task(beat)
        .task(follow)
        .task(sweep)
        .task(probing)
        .health_http(handler::page(remotes))
        .task(Task::run(
            "routing.check_waits",
            move |shutdown| async move {
                wait::task::run(waits, shutdown).await;
                Ok(())
            },
        ))
}
