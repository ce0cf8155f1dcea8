//! `weir replay`: sends a corpus of webhooks through the signed endpoint, as their sender would.
//!
//! A corpus is a file with a JSON object on each line, `{"event": "issues", "payload": {…}}`, or a
//! folder of such files. The payload's bytes are sent exactly as they stand in the line. The
//! delivery id is a UUIDv5 of the file's digest and the line's number: equal lines are separate
//! events, and replaying the same file again accepts nothing new, so an interrupted replay is
//! simply started again.

mod corpus;
mod progress;
mod send;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use self::corpus::Corpus;
use self::progress::Progress;
use self::send::{Delivery, Hook, Sender};
use self::summary::Summary;
use super::environment;
use super::error::{Exit, Failure};
use super::session::Session;

/// The secret of a development gateway when none is set.
const DEVELOPMENT_SECRET: &str = "weir-development";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File of JSON lines, or a folder of *.jsonl
    path: PathBuf,
    /// Webhook to send to, as tenant/scope/source [default: TENANT/github/github]
    #[arg(long, value_name = "TENANT/SCOPE/SOURCE")]
    hook: Option<Hook>,
    /// Variable that holds the secret [default: WEIR_WEBHOOK_SECRET_<TENANT>_MAIN, and without it
    /// the secret of development]
    #[arg(long, value_name = "VAR")]
    secret_env: Option<String>,
    /// Requests at a time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Send at most this many lines
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How long to try again while Weir is not there
    #[arg(long, value_parser = humantime::parse_duration, default_value = "60s")]
    patience: Duration,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), Failure> {
    let hook = match args.hook {
        Some(hook) => hook,
        None => format!("{}/github/github", session.tenant)
            .parse()
            .map_err(Failure::usage)?,
    };
    let secret = secret(&hook, args.secret_env.as_deref(), environment::text)?;
    let corpus = Corpus::open(&args.path, args.limit)?;
    let sender = Arc::new(Sender::new(
        &session.url,
        &hook,
        secret,
        session.timeout,
        args.patience,
    )?);
    let progress = Progress::start(corpus.lines());
    let mut summary = Summary::default();
    let mut deliveries = futures::stream::iter(corpus.entries())
        .map(|entry| {
            let sender = Arc::clone(&sender);
            async move {
                match entry {
                    Ok(entry) => (entry.place(), sender.send(&entry).await),
                    Err(unreadable) => (unreadable.place, Delivery::Refused(unreadable.why)),
                }
            }
        })
        .buffer_unordered(args.concurrency.into());
    let mut gone = None;
    while let Some((place, delivery)) = deliveries.next().await {
        progress.step();
        if let Delivery::Unreachable(why) = delivery {
            gone = Some(format!("gave up at {place}: {why}"));
            break;
        }
        summary.count(place, delivery);
    }
    drop(deliveries);
    progress.end();
    summary.print(session.out, &hook);
    match gone {
        Some(message) => Err(Failure::new(Exit::Unavailable, message)
            .see("replaying again goes on where this ended")),
        None if summary.refused() > 0 => Err(Failure::failed(format!(
            "{} lines were refused",
            summary.refused()
        ))),
        None => Ok(()),
    }
}

/// Finds the webhook's secret: the variable that is named, else the one that a gateway reads for the
/// tenant's secret `main`, else development's. A variable may be given as `…_FILE`, too.
fn secret(
    hook: &Hook,
    named: Option<&str>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<String, Failure> {
    let conventional = format!("WEIR_WEBHOOK_SECRET_{}_MAIN", shout(&hook.tenant));
    let name = named.unwrap_or(&conventional);
    if let Some(secret) = env(name).filter(|secret| !secret.is_empty()) {
        return Ok(secret);
    }
    if let Some(path) = env(&format!("{name}_FILE")).filter(|path| !path.is_empty()) {
        return std::fs::read_to_string(&path)
            .map(|secret| secret.trim_end_matches(['\r', '\n']).to_owned())
            .map_err(|error| {
                Failure::failed(format!("cannot read the secret in `{path}`: {error}"))
            });
    }
    match named {
        Some(name) => Err(Failure::usage(format!("`{name}` is not set"))),
        None => Ok(DEVELOPMENT_SECRET.to_owned()),
    }
}

/// A name as a part of a variable's name.
fn shout(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_comes_from_the_tenants_variable_or_is_developments() {
        let hook: Hook = "my-team/github/github".parse().expect("three names");
        let none = |_: &str| None;
        assert_eq!(
            secret(&hook, None, none).expect("development"),
            DEVELOPMENT_SECRET
        );
        let set = |name: &str| (name == "WEIR_WEBHOOK_SECRET_MY_TEAM_MAIN").then(|| "s".to_owned());
        assert_eq!(secret(&hook, None, set).expect("the tenant's"), "s");
        let failure =
            secret(&hook, Some("OTHER"), none).expect_err("a named variable must be there");
        assert_eq!(failure.exit_code(), 2);
    }
}
