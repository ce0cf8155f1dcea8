//! The gateway as a process of its own.

use std::process::ExitCode;
use std::sync::Arc;
use weir_gateway::{Config, Upstreams, component};

fn main() -> ExitCode {
    weir_runtime::main("gateway", async |config: Config, process| {
        let upstreams = Upstreams::remote(&config)?;
        let secrets = Arc::new(weir_runtime::environment_secret);
        let token = &process.server.internal_token;
        Ok(vec![component(
            &config,
            process.environment,
            token,
            upstreams,
            secrets,
        )?])
    })
}
