//! The command line: what there is, and how it ends.

pub(crate) mod config;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod logging;
pub(crate) mod migrate;
pub(crate) mod output;
pub(crate) mod replay;
pub(crate) mod session;
pub(crate) mod trace;
pub(crate) mod work;
pub(crate) mod worker;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::error::Failure;
use self::session::{Global, Session};

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  refused, or failed
  2  the command line is wrong
  3  Weir (or its database) cannot be reached
  4  there is no such thing
  5  somebody else is migrating";

/// Weir routes events to durable Work and can say why.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, after_help = AFTER_HELP, propagate_version = false)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything in one process, on a PostgreSQL of its own
    Dev(crate::dev::Args),
    /// Check, publish and read a tenant's configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Publish, read, skip and reroute events
    #[command(subcommand)]
    Events(events::Command),
    /// Read and operate Work
    #[command(subcommand)]
    Work(work::Command),
    /// Say what would become of an event, and write nothing
    Trace(trace::Args),
    /// Send a file of webhooks, signed, as if their sender did
    Replay(replay::Args),
    /// Migrate the database schema
    #[command(subcommand)]
    Migrate(migrate::Command),
    /// Run a program on claimed Work
    Worker(worker::Args),
    /// Print the version
    Version,
}

/// Runs a command and says how it ended.
pub(crate) async fn run(cli: Cli) -> ExitCode {
    let session = Session::new(cli.global);
    let result = match cli.command {
        Command::Dev(args) => crate::dev::run(&session, args).await,
        Command::Config(command) => config::run(&session, command).await,
        Command::Events(command) => events::run(&session, command).await,
        Command::Work(command) => work::run(&session, command).await,
        Command::Trace(args) => trace::run(&session, args).await,
        Command::Replay(args) => replay::run(&session, args).await,
        Command::Migrate(command) => migrate::run(&session, command).await,
        Command::Worker(args) => worker::run(&session, args).await,
        Command::Version => {
            session
                .out
                .line(&format!("weir {}", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

/// Says that not even a runtime could be had.
pub(crate) fn start_failed(error: &std::io::Error) -> ExitCode {
    failed(&Failure::failed(format!("cannot start threads: {error}")))
}

fn failed(failure: &Failure) -> ExitCode {
    for line in failure.lines() {
        output::complain(&line);
    }
    ExitCode::from(failure.exit_code())
}
