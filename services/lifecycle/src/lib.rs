//! The life of Work: claims, leases, attempts and their ends, and what operators do with Work.
//!
//! `rpc` decodes, runs one command or query, and encodes. A command is one transaction over the Work
//! aggregate of `weir_work`, whose row in `weir.ready` is the queue entry and the lease in one. Nothing here
//! is kept in memory but the tenants' numbers, so every replica can take every step and be killed at any
//! moment (rule o06).

mod backoff;
mod command;
mod condition;
mod config;
mod error;
mod hints;
mod query;
mod rpc;
mod store;
mod task;

pub use config::Config;
pub use error::Error;
pub use hints::Hints;
pub use task::{forget_requests, hold_exhausted, make_partitions};

use std::sync::Arc;

use tonic::server::NamedService as _;
use tonic::service::Routes;
use weir_pg::Db;
use weir_proto::lifecycle::v1::executor_service_server::ExecutorServiceServer;
use weir_proto::lifecycle::v1::inspect_service_server::InspectServiceServer;
use weir_proto::lifecycle::v1::work_service_server::WorkServiceServer;
use weir_rpc::{MAX_DECODED, MAX_ENCODED};
use weir_runtime::{CancellationToken, Component};

/// Makes the service's routes, without the layers around them. Claim streams end on `shutdown`.
#[must_use]
pub fn routes(db: Db, hints: Hints, shutdown: CancellationToken) -> Routes {
    let context = rpc::Context::new(db);
    let claimer = Arc::new(rpc::Claimer::new(context.clone(), hints.clone(), shutdown));
    let executors = ExecutorServiceServer::new(rpc::Executors {
        context: context.clone(),
        claimer,
    })
    .max_decoding_message_size(MAX_DECODED)
    .max_encoding_message_size(MAX_ENCODED);
    let works = WorkServiceServer::new(rpc::Works { context, hints })
        .max_decoding_message_size(MAX_DECODED)
        .max_encoding_message_size(MAX_ENCODED);
    Routes::new(executors)
        .add_service(works)
        .add_service(InspectServiceServer::new(rpc::Inspect))
}

/// Makes the service. Ready when the database is reachable, takes writes and has this build's schema
/// (rule m04). `hints` wakes its claimers; whoever makes Work claimable in the same process keeps a clone.
#[must_use]
pub fn component(db: Db, config: &Config, hints: Hints) -> Component {
    let names = [
        ExecutorServiceServer::<rpc::Executors>::NAME,
        WorkServiceServer::<rpc::Works>::NAME,
        InspectServiceServer::<rpc::Inspect>::NAME,
    ];
    let component = Component::new("lifecycle");
    let shutdown = component.shutdown();
    let probe = db.clone();
    let component = component
        .serving(routes(db.clone(), hints, shutdown), names)
        .ready_when("database", move || {
            let db = probe.clone();
            async move { weir_pg::schema::readiness(&db).await }
        });
    task::all(&db, config)
        .into_iter()
        .fold(component, Component::task)
}
