//! The wire: decode, run one command or query, encode.

mod config_service;
mod convert;
mod event_service;
mod inspect;
mod routing_service;

pub(crate) use config_service::Configs;
pub(crate) use event_service::Events;
pub(crate) use inspect::Inspect;
pub(crate) use routing_service::Routing;
