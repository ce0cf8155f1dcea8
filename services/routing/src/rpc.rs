//! The wire: decode, run one command or query, encode.

mod config_service;
mod convert;
mod event_service;
mod inspect;
mod routing_service;

pub use config_service::Configs;
pub use event_service::Events;
pub use inspect::Inspect;
pub use routing_service::Routing;
