//! How a process of Weir runs: configuration, telemetry, ports, health, loops, signals and drain.
//!
//! A service is a [`Component`]: routes, tasks and what it takes to be ready. A process is a list of
//! components; the services' binaries have one each, and the all-in-one has all. [`main`] does the
//! rest for a binary, and [`Running`] the same without signals, for tests and the all-in-one:
//!
//! ```no_run
//! # use weir_runtime::{Component, Environment, Process, Validate};
//! # #[derive(Default, serde::Serialize, serde::Deserialize)]
//! # struct Config {}
//! # impl Validate for Config {}
//! # mod routing { pub(super) fn component(_: super::Config) -> weir_runtime::Component {
//! #     weir_runtime::Component::new("routing") } }
//! fn main() -> std::process::ExitCode {
//!     weir_runtime::main("routing", async |config: Config, process: Process| {
//!         Ok(vec![routing::component(config)])
//!     })
//! }
//! ```
//!
//! Nobody else reads the environment, installs a logger, binds a port or spawns a task.

mod component;
mod config;
mod database;
mod environment;
mod environment_secret;
mod health;
mod launch;
mod readiness;
mod serve;
mod task;
mod telemetry;

pub use component::{Check, Component};
pub use config::{ConfigError, Process, ServerConfig, Settings, Validate, load};
pub use database::DatabaseConfig;
pub use environment::Environment;
pub use environment_secret::environment_secret;
pub use launch::main;
pub use readiness::{ComponentState, Snapshot};
pub use serve::{Drained, Running, ServeOptions};
pub use task::{Every, Progress, Step, Task};
pub use telemetry::{init_logging, metrics_handle};
pub use tokio_util::sync::CancellationToken;
pub use weir_rpc::Secret;
