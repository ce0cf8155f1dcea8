//! `weir-lifecycle` serves.

use std::process::ExitCode;

use weir_lifecycle::{Config, Hints, component};
use weir_runtime::Process;

fn main() -> ExitCode {
    weir_runtime::main("lifecycle", async |config: Config, process: Process| {
        tracing::debug!(environment = %process.environment, "serving work");
        let db = config.database.open("weir-lifecycle")?;
        Ok(vec![component(db, &config, Hints::default())])
    })
}
