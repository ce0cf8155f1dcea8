//! `weir-causal` serves.

use std::process::ExitCode;

use weir_causal::{Config, component};
use weir_runtime::Process;

fn main() -> ExitCode {
    weir_runtime::main("causal", async |config: Config, process: Process| {
        tracing::debug!(environment = %process.environment, "serving derived events");
        let db = config.database.open("weir-causal")?;
        let hints = config.hints(&process.server.internal_token)?;
        Ok(vec![component(db, &config, hints)])
    })
}
