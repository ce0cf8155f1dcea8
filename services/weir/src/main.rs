//! `weir`: all services in one process for a laptop, and the operator's command line.
//!
//! Everything but `weir dev` (and `weir migrate` with a database address) talks to a gateway and
//! nothing else, with the same calls that `grpcurl` makes. This is the only crate that knows every
//! service, and only [`dev`] uses that.

mod cli;
mod dev;

use std::process::ExitCode;

use clap::Parser as _;

/// Stack of a runtime thread: rules are evaluated recursively in `weir dev`, and debug builds have
/// big frames.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return cli::start_failed(&error),
    };
    let code = runtime.block_on(cli::run(cli));
    // A read of standard input cannot be cancelled; do not wait for one.
    runtime.shutdown_background();
    code
}
