//! What every gRPC service and every client of Weir does the same way.
//!
//! - Errors: [`status`] turns a classified error into an answer with `google.rpc` details, by one
//!   table; [`Problem`] reads such an answer back.
//! - Identity: services trust only the gateway and each other. [`Caller`] is the verified caller in a
//!   request's metadata; [`InternalAuth`] refuses whoever does not know the shared token.
//! - Transport: an [`Upstream`] is a way to a service, over the network or to the routes in the same
//!   process; the generated client over it is the same, codec included.
//! - The outside of every call: [`layered`] puts request id, span, metrics, deadline and the catching
//!   of panics around a service's routes, so that handlers do none of it.

mod auth;
mod bounded;
mod caller;
pub mod convert;
pub mod headers;
mod methods;
mod observe;
mod problem;
mod refusal;
mod request_id;
mod secret;
mod stack;
mod status;
mod upstream;

pub use auth::InternalAuth;
pub use bounded::{Bounded, DEFAULT_DEADLINE};
pub use caller::Caller;
pub use observe::Observe;
pub use problem::{Problem, code_name, http_status};
pub use refusal::Refusal;
pub use request_id::request_id;
pub use secret::Secret;
pub use stack::{MAX_DECODED, MAX_ENCODED, layered, layered_router};
pub use status::{DOMAIN, chain, code, status, unimplemented};
pub use upstream::{InvalidUpstream, Upstream, local, remote, with_token};
