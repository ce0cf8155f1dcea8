//! The metadata that services believe, because only the gateway and other services can send it.

/// Name of the tenant, verified by the gateway.
pub const TENANT: &str = "x-weir-tenant";
/// Who acts, verified by the gateway.
pub const ACTOR: &str = "x-weir-actor";
/// What the caller may do: `*`, or names with commas between.
pub const PERMISSIONS: &str = "x-weir-permissions";
/// The shared token of the installation; never passed on to a handler.
pub const INTERNAL_TOKEN: &str = "x-weir-internal-token";
/// Ties the log lines of one request together over all services.
pub const REQUEST_ID: &str = "x-request-id";
