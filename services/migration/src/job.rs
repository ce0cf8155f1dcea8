//! The runner as a one-shot command, for a job that has no gateway to talk to.
//!
//! Exit codes: 0 done, or nothing to do; 1 the database cannot be used or a step failed; 2 refused,
//! nothing was changed; 5 another runner is at work.

use std::io::{self, Write};
use std::time::Duration;

use prost::Message;
use prost_reflect::DynamicMessage;
use weir_kernel::Classify as _;
use weir_proto::DESCRIPTORS;

use crate::rpc::convert;
use crate::{Error, Runner, Status};

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
pub enum Job {
    /// Tell what is applied and what is pending; changes nothing
    Status,
    /// Apply what is missing
    Up {
        /// Version to reach; the latest when not given
        #[arg(long, value_name = "VERSION")]
        target: Option<i64>,
        /// How long to wait for another runner
        #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
        wait: Duration,
    },
    /// Take back every migration above a version; may lose data
    Down {
        /// Version to go back to; 0 empties the schema
        #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
        target: Option<i64>,
        /// Say that losing data is meant
        #[arg(long)]
        confirm: bool,
        /// How long to wait for another runner
        #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
        wait: Duration,
    },
}

/// Does a job and returns the exit code. What it tells goes to `out`, a line at a time, for people or
/// with `json` as the answers of the service in their JSON form; an error goes to `err`.
///
/// # Errors
/// Neither can be written.
pub async fn run(
    job: &Job,
    runner: Result<Runner, Error>,
    json: bool,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> io::Result<u8> {
    match attempt(job, runner, json, out).await {
        Ok(written) => written.map(|()| 0),
        Err(error) => {
            if json {
                let line =
                    serde_json::json!({ "reason": error.reason(), "message": error.to_string() });
                writeln!(err, "{line}")?;
            } else {
                writeln!(err, "error: {error} ({})", error.reason())?;
            }
            Ok(exit_code(&error))
        }
    }
}

async fn attempt(
    job: &Job,
    runner: Result<Runner, Error>,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<io::Result<()>, Error> {
    let runner = runner?;
    // A reader that is gone must not stop a migration half-way; it is told at the end.
    let mut written = Ok(());
    match job {
        Job::Status => {
            let status = runner.status().await?;
            written = if json {
                line(
                    out,
                    "weir.migration.v1.GetStatusResponse",
                    &convert::status(&status),
                )
            } else {
                table(out, &status)
            };
        }
        Job::Up { target, wait } => {
            let show = &mut |progress: crate::Progress| {
                let now = if json {
                    line(out, "weir.migration.v1.UpResponse", &convert::up(progress))
                } else {
                    writeln!(out, "{}", progress.message)
                };
                keep_first(&mut written, now);
            };
            runner.up(*target, *wait, show).await?;
        }
        Job::Down {
            target,
            confirm,
            wait,
        } => {
            let show = &mut |progress: crate::Progress| {
                let now = if json {
                    line(
                        out,
                        "weir.migration.v1.DownResponse",
                        &convert::down(progress),
                    )
                } else {
                    writeln!(out, "{}", progress.message)
                };
                keep_first(&mut written, now);
            };
            runner.down(*target, *confirm, *wait, show).await?;
        }
    }
    Ok(written)
}

fn keep_first(first: &mut io::Result<()>, now: io::Result<()>) {
    if first.is_ok() {
        *first = now;
    }
}

fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Locked { .. } => 5,
        Error::Failed { .. } | Error::Address(_) | Error::Database(_) => 1,
        Error::Backward { .. }
        | Error::UnknownTarget { .. }
        | Error::NotApplied { .. }
        | Error::TargetMissing
        | Error::NotConfirmed { .. }
        | Error::ChecksumMismatch { .. }
        | Error::UnknownApplied { .. }
        | Error::NoDownFile { .. }
        | Error::InvalidWait => 2,
    }
}

/// Writes a message in the JSON form of the contracts.
fn line(out: &mut dyn Write, name: &str, message: &impl Message) -> io::Result<()> {
    let descriptor = DESCRIPTORS
        .get_message_by_name(name)
        .ok_or(io::ErrorKind::NotFound)?;
    let message = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .map_err(io::Error::other)?;
    let options = prost_reflect::SerializeOptions::new().skip_default_fields(false);
    let mut serializer = serde_json::Serializer::new(Vec::new());
    message.serialize_with_options(&mut serializer, &options)?;
    out.write_all(&serializer.into_inner())?;
    writeln!(out)
}

fn table(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    for migration in &status.migrations {
        let state = match (migration.applied_at, migration.unfinished) {
            (Some(at), _) => format!("applied  {}", at.format("%Y-%m-%d %H:%M:%SZ")),
            (None, true) => "unfinished; `up` repeats it".to_owned(),
            (None, false) => "pending".to_owned(),
        };
        let differs = if status.checksum_mismatches.contains(&migration.version) {
            "  (its file differs)"
        } else {
            ""
        };
        writeln!(
            out,
            "{:>4}  {:<32}  {state}{differs}",
            migration.version, migration.name
        )?;
    }
    for version in &status.unknown_applied {
        writeln!(
            out,
            "{version:>4}  {:<32}  applied by a newer binary",
            "(unknown)"
        )?;
    }
    let verdict = if status.up_to_date {
        "up to date"
    } else {
        "binary and database differ"
    };
    writeln!(
        out,
        "database {}, binary {}: {verdict}",
        status.current, status.latest
    )
}
