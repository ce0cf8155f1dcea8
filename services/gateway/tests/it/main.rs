//! The gateway's port, with services in the same process that record what reaches them.

mod control;
mod fake;
mod forwarding;
mod http_events;
mod network;
mod process;
mod routing;
mod webhooks;
