//! Causal limits: events that derive from others, under the depth and rate of their tree.
//!
//! `rpc` decodes, runs one command or query, and encodes. A command is one transaction: it takes the scope's
//! order lock, proves the emitter's authority, and appends; ancestry, the token and the diagnostic of a
//! refusal are part of `weir_ledger::append` and commit with it (rules c04, c05). Nothing is kept in memory
//! but the tenants' numbers, so every replica can take every step and be killed at any moment (rule o06).
//!
//! # Keys of derived events
//! Derived events carry the keys that their emitter gives. The `sources` rules of a scope (rule a07) are
//! routing's, which owns the configuration model, and are for what producers publish; they are not applied
//! here. A worker knows the keys of what it emits.
//!
//! # Lock order
//! Configuration lock (shared) → order lock of the target scope → the attempt's ready row (FOR SHARE) →
//! causal root → causal bucket → identities. The Work's row is read and not locked: its scope never changes
//! (rule r08), and the ready row alone is the authority (rule l02).

mod command;
mod config;
mod draft;
mod error;
mod hints;
mod query;
mod rpc;

pub use config::Config;
pub use error::Error;
pub use hints::Hints;

use tonic::server::NamedService as _;
use tonic::service::Routes;
use weir_pg::Db;
use weir_proto::causal::v1::causal_service_server::CausalServiceServer;
use weir_proto::causal::v1::inspect_service_server::InspectServiceServer;
use weir_rpc::{MAX_DECODED, MAX_ENCODED};
use weir_runtime::Component;

/// Makes the service's routes, without the layers around them. `hints` is told after each commit that
/// accepted an event.
#[must_use]
pub fn routes(db: Db, config: &Config, hints: Hints) -> Routes {
    let causal = CausalServiceServer::new(rpc::Causal::new(db, config.max_payload, hints))
        .max_decoding_message_size(MAX_DECODED)
        .max_encoding_message_size(MAX_ENCODED);
    Routes::new(causal).add_service(InspectServiceServer::new(rpc::Inspect))
}

/// Makes the service. Ready when the database is reachable, takes writes and has this build's schema
/// (rule m04); routing, which `hints` may tell, never matters for that.
#[must_use]
pub fn component(db: Db, config: &Config, hints: Hints) -> Component {
    let names = [
        CausalServiceServer::<rpc::Causal>::NAME,
        InspectServiceServer::<rpc::Inspect>::NAME,
    ];
    let task = hints.task();
    let component = Component::new("causal")
        .serving(routes(db.clone(), config, hints), names)
        .ready_when("database", move || {
            let db = db.clone();
            async move { weir_pg::schema::readiness(&db).await }
        });
    task.into_iter().fold(component, Component::task)
}
