//! `weir work`: read and operate Work.

mod operate;
mod read;

use clap::Subcommand;

use super::error::Failure;
use super::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List Work, newest first
    List(read::ListArgs),
    /// Show a Work, and the one thing that would move it
    Get(read::GetArgs),
    /// List a Work's attempts, oldest first
    Attempts(read::PartArgs),
    /// List a Work's inputs in queue order
    Inputs(read::PartArgs),
    /// Create Work with its first input
    Create(operate::CreateArgs),
    /// Send input to a Work, whatever its routes say
    Send(operate::SendArgs),
    /// Cancel a Work and everything it owns
    Cancel(operate::Args),
    /// Let a held Work go on
    Release(operate::Args),
}

pub(crate) async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(args) => read::list(session, args).await,
        Command::Get(args) => read::get(session, args).await,
        Command::Attempts(args) => read::attempts(session, args).await,
        Command::Inputs(args) => read::inputs(session, args).await,
        Command::Create(args) => operate::create(session, args).await,
        Command::Send(args) => operate::send(session, args).await,
        Command::Cancel(args) => operate::cancel(session, args).await,
        Command::Release(args) => operate::release(session, args).await,
    }
}
