//! `weir events`: publish, read, follow, skip, reroute.

mod operate;
mod publish;
mod read;
mod tail;

use clap::{Args, Subcommand};

use super::error::Failure;
use super::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Publish an event; a repeat is safe
    Publish(publish::Args),
    /// Show an event, and what became of it
    Get(read::GetArgs),
    /// List events in acceptance order
    List(read::ListArgs),
    /// Follow events as they are accepted and decided
    Tail(tail::Args),
    /// Route an unrouted event `skipped`, without asking its routes
    Skip(operate::Args),
    /// Try an unrouted event now, or a copy of a failed, skipped or unmatched one
    Reroute(operate::Args),
}

/// An event, by either of its handles.
#[derive(Debug, Args)]
pub(crate) struct Handle {
    /// Uid that Weir gave
    #[arg(value_name = "UID", required_unless_present = "id", conflicts_with_all = ["source", "id"])]
    event: Option<String>,
    /// Producer's source, with --id
    #[arg(long, requires = "id")]
    source: Option<String>,
    /// Producer's id, with --source
    #[arg(long, requires = "source")]
    id: Option<String>,
}

impl Handle {
    /// The three fields of a request: `event`, or `source` and `id`.
    fn fields(&self) -> (String, String, String) {
        let given = |value: &Option<String>| value.clone().unwrap_or_default();
        (given(&self.event), given(&self.source), given(&self.id))
    }
}

pub(crate) async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Publish(args) => publish::run(session, args).await,
        Command::Get(args) => read::get(session, args).await,
        Command::List(args) => read::list(session, args).await,
        Command::Tail(args) => tail::run(session, args).await,
        Command::Skip(args) => operate::skip(session, args).await,
        Command::Reroute(args) => operate::reroute(session, args).await,
    }
}
