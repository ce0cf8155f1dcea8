//! The edge of Weir: identity, permissions, control operations and HTTP. Holds no SQL and no state.
//!
//! One port speaks gRPC, gRPC-Web and HTTP:
//!
//! ```text
//!              ┌ application/grpc* ─ gRPC-Web ─ identity, permission ┬ ControlService   (here)
//! request ─────┤                                (access table)       └ everything else  (forwarded)
//!              └ anything else ───── HTTP routes: events, hooks ────── the same check, the same services
//! ```
//!
//! What is exposed, and what it takes to call it, is read from the contracts' descriptors
//! ([`access`]); nothing is listed by hand. Forwarded calls are not re-encoded: the gateway needs no
//! release when a service's messages grow. Callers' own words about who they are do not travel on
//! ([`identity`]); services believe the gateway, by a shared token or mutual TLS.

pub mod access;
mod config;
mod control;
mod error;
mod forward;
mod gateway;
mod guard;
mod health;
mod http;
pub mod identity;
mod messages;
mod surface;
mod webhook;

pub use config::{Config, component};
pub use error::{Error, UPSTREAM_RETRY};
pub use gateway::Upstreams;
pub use messages::MAX_MESSAGE;
pub use surface::{Settings, StartError, Surface};
pub use webhook::{DEVELOPMENT_SECRET, Secrets};

pub(crate) use gateway::{Call, Gateway};
