//! What operators and publishers of configuration do: one struct, one transaction each.

mod event;
pub mod publish_config;
pub mod reroute;
pub mod skip;

pub use event::EventRef;
