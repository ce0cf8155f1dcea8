//! `weir migrate`: the schema, through the gateway or straight on a database.
//!
//! A first installation has no services yet, so with `--database-url` the same runner works in this
//! process. Both ways answer with the same messages.

mod direct;

pub(crate) use self::direct::failure;

use std::time::Duration;

use clap::{Args, Subcommand};
use weir_proto::migration::v1::{
    DownRequest, DownResponse, GetStatusRequest, GetStatusResponse, UpRequest, UpResponse,
};

use self::direct::Direct;
use super::error::Failure;
use super::session::Session;
use super::{format, output};

/// Where the schema is.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Work on this database directly, without a gateway; the address must not lead through a
    /// transaction pooler
    #[arg(
        long,
        env = "DATABASE_DIRECT_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    database_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare this binary with the database; changes nothing
    Status {
        #[command(flatten)]
        place: Place,
    },
    /// Apply what is missing
    Up {
        #[command(flatten)]
        place: Place,
        /// Version to reach; the latest when not given
        #[arg(long)]
        target: Option<i64>,
        /// How long to wait for another runner
        #[arg(long, value_parser = humantime::parse_duration, default_value = "60s")]
        wait: Duration,
    },
    /// Take back everything above a version; this may lose data
    Down {
        #[command(flatten)]
        place: Place,
        /// Version to go back to; 0 empties the schema
        #[arg(long)]
        target: Option<i64>,
        /// Losing data is meant
        #[arg(long)]
        confirm: bool,
        /// How long to wait for another runner
        #[arg(long, value_parser = humantime::parse_duration, default_value = "60s")]
        wait: Duration,
    },
}

pub(crate) async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Status { place } => status(session, place).await,
        Command::Up {
            place,
            target,
            wait,
        } => up(session, place, target, wait).await,
        Command::Down {
            place,
            target,
            confirm,
            wait,
        } => down(session, place, target, confirm, wait).await,
    }
}

async fn status(session: &Session, place: Place) -> Result<(), Failure> {
    let answer = match Direct::at(&place)? {
        Some(direct) => direct.status().await?,
        None => session
            .client()?
            .migration()
            .get_status(session.request(GetStatusRequest {}))
            .await?
            .into_inner(),
    };
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        show(session, answer);
    }
    Ok(())
}

fn show(session: &Session, answer: GetStatusResponse) {
    let list = |versions: &[i64]| {
        versions
            .iter()
            .map(i64::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    session.out.facts(&[
        ("database", answer.current.to_string()),
        ("binary", answer.latest.to_string()),
        (
            "up to date",
            if answer.up_to_date { "yes" } else { "no" }.to_owned(),
        ),
        ("unknown", list(&answer.unknown_applied)),
        ("changed", list(&answer.checksum_mismatches)),
    ]);
    let rows = answer
        .migrations
        .into_iter()
        .map(|migration| {
            let applied = match format::time(migration.applied_at) {
                time if migration.applied && !time.is_empty() => time,
                _ if migration.applied => "yes".to_owned(),
                _ => "pending".to_owned(),
            };
            vec![migration.version.to_string(), migration.name, applied]
        })
        .collect();
    session
        .out
        .table(&["VERSION", "NAME", "APPLIED"], rows, "no migrations");
}

async fn up(
    session: &Session,
    place: Place,
    target: Option<i64>,
    wait: Duration,
) -> Result<(), Failure> {
    if let Some(direct) = Direct::at(&place)? {
        return direct
            .up(target, wait, &mut |answer| say_up(session, &answer))
            .await;
    }
    let request = UpRequest {
        target,
        wait: prost_types::Duration::try_from(wait).ok(),
    };
    let mut answers = session
        .client()?
        .migration()
        .up(request)
        .await?
        .into_inner();
    while let Some(answer) = answers.message().await? {
        say_up(session, &answer);
    }
    Ok(())
}

async fn down(
    session: &Session,
    place: Place,
    target: Option<i64>,
    confirm: bool,
    wait: Duration,
) -> Result<(), Failure> {
    if let Some(direct) = Direct::at(&place)? {
        return direct
            .down(target, confirm, wait, &mut |answer| {
                say_down(session, &answer)
            })
            .await;
    }
    let request = DownRequest {
        target,
        confirm,
        wait: prost_types::Duration::try_from(wait).ok(),
    };
    let mut answers = session
        .client()?
        .migration()
        .down(request)
        .await?
        .into_inner();
    while let Some(answer) = answers.message().await? {
        say_down(session, &answer);
    }
    Ok(())
}

fn say_up(session: &Session, answer: &UpResponse) {
    if session.out.is_json() {
        session.out.message(answer);
    } else {
        output::complain(&progress(&answer.message, answer.done, answer.total));
    }
}

fn say_down(session: &Session, answer: &DownResponse) {
    if session.out.is_json() {
        session.out.message(answer);
    } else {
        output::complain(&progress(&answer.message, answer.done, answer.total));
    }
}

fn progress(message: &str, done: i32, total: i32) -> String {
    if total > 0 {
        format!("[{done}/{total}] {message}")
    } else {
        message.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_counts_when_there_is_something_to_count() {
        assert_eq!(progress("applied 3", 3, 12), "[3/12] applied 3");
        assert_eq!(progress("nothing to do", 0, 0), "nothing to do");
    }
}
