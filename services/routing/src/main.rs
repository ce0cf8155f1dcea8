//! `weir-routing` serves.

use std::process::ExitCode;

use weir_routing::handler::Registry;
use weir_routing::{Config, Hints, component};
use weir_runtime::Process;

fn main() -> ExitCode {
    weir_runtime::main("routing", async |config: Config, process: Process| {
        tracing::debug!(environment = %process.environment, "serving events");
        let db = config.database.open("weir-routing")?;
        Ok(vec![component(
            db,
            &config,
            Registry::default(),
            Hints::default(),
        )])
    })
}
