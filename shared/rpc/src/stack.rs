//! What stands around every service's routes, from the outside in: [`Observe`], so that everything
//! else is seen; [`Bounded`]; [`InternalAuth`], innermost, so that refusals are counted too.

use axum::Router;
use tonic::service::Routes;

use crate::{Bounded, InternalAuth, Observe};

/// Largest message that a service reads, in bytes: a full batch (4 MiB of payloads) with its envelopes
/// and keys. For `max_decoding_message_size` of every generated server and client.
pub const MAX_DECODED: usize = 8 << 20;

/// Largest message that a service writes, in bytes: what the other side reads.
pub const MAX_ENCODED: usize = MAX_DECODED;

/// Puts the layers around a service's routes. Without `auth` for the edge, which authenticates by
/// itself, and inside one process.
pub fn layered(routes: Routes, auth: Option<InternalAuth>) -> Routes {
    Routes::from(layered_router(routes.into_axum_router(), auth))
}

/// Does the same for a router that serves HTTP too.
pub fn layered_router(router: Router, auth: Option<InternalAuth>) -> Router {
    let router = match auth {
        Some(auth) => router.layer(auth),
        None => router,
    };
    router.layer(Bounded).layer(Observe)
}
