//! `weir worker`: any program as an executor.
//!
//! For each claimed Work the program is started once, in a process group of its own:
//!
//! - its inputs come on standard input, one JSON line each: `weir.types.v1.Event` in the proto JSON
//!   mapping, as `weir events get --json` prints it below `event`. Without `--inject` standard input
//!   then closes. With it, it stays open, an injected event arrives as a further line, and a line
//!   `{"ack":"<uid>"}` on standard output acknowledges it;
//! - its environment says `WEIR_WORK`, `WEIR_ATTEMPT`, `WEIR_EPOCH`, `WEIR_SCOPE`, `WEIR_URL` and
//!   `WEIR_TENANT`, which is what a lease and a client are made of;
//! - exit code 0 completes, 65 (`EX_DATAERR`: this input can never be processed) fails for good,
//!   everything else fails and is tried again;
//! - an interrupt is `SIGINT` to the group. A program that dies of it did not fail: its Work is given
//!   back, uncounted. One that handles it goes on, and its exit code counts;
//! - the lease is renewed meanwhile. When it is lost, the whole group is killed at once.
//!
//! Standard output is otherwise only logged, at level `debug`, because it tends to be payload.
//! `SIGTERM` drains: no more claims, running programs get `--grace` to end, then they are killed and
//! their Work is given back. A second signal ends at once.

mod group;
mod lines;
mod program;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use weir_client::executor::{Ending, Error, Report, Settings, Summary, Worker};
use weir_client::proto::lifecycle::v1::Capability;

use self::program::Program;
use super::error::Failure;
use super::output::{self, Output};
use super::session::Session;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
COMMAND gets its inputs as JSON lines on standard input. Its exit code decides: 0 completes,
65 fails for good, everything else fails and is tried again. An interrupt is SIGINT; when the
lease is lost, the process group is killed. See 'docs/EXECUTORS.md'.")]
pub(crate) struct Args {
    /// Binding whose Work is claimed
    #[arg(long)]
    binding: String,
    /// One scope; every scope that has the binding when not given
    #[arg(long)]
    scope: Option<String>,
    /// Name of the executor, as bindings give it; its workers all claim the same capabilities
    #[arg(long, default_value = "command")]
    executor: String,
    /// Take injected input: standard input stays open, {"ack":"<uid>"} on standard output acknowledges
    #[arg(long)]
    inject: bool,
    /// Programs at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// Duration of leases; the binding's when not given
    #[arg(long, value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Shown as the owner of attempts [default: ACTOR@PID]
    #[arg(long)]
    owner: Option<String>,
    /// End after this many Works
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// End when nothing came for this long
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION")]
    idle_exit: Option<Duration>,
    /// How long running programs may go on after SIGTERM
    #[arg(long, value_parser = humantime::parse_duration, default_value = "25s")]
    grace: Duration,
    /// Program to run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), Failure> {
    super::logging::start("warn");
    let program = Program::new(args.command, args.inject, &session.url, &session.tenant)?;
    let groups = program.groups();
    let mut settings = Settings::new(args.executor, args.binding);
    settings.scope = args.scope.unwrap_or_default();
    settings.owner = args
        .owner
        .unwrap_or_else(|| format!("{}@{}", session.actor, std::process::id()));
    settings.capabilities = vec![Capability::Interrupt];
    if args.inject {
        settings.capabilities.insert(0, Capability::Inject);
    }
    settings.concurrency = args.concurrency.into();
    settings.lease = args.lease;
    settings.max_works = args.max;
    settings.idle_exit = args.idle_exit;
    settings.grace = args.grace;
    let out = session.out;
    settings.observer = Some(Arc::new(move |report: &Report| tell(out, report)));

    let worker = Worker::new(session.client()?, settings);
    let stop = CancellationToken::new();
    let mut signals = Signals::new()?;
    let running = worker.run(program, stop.clone());
    tokio::pin!(running);
    let mut asked = false;
    let result = loop {
        tokio::select! {
            result = &mut running => break result,
            () = signals.next() => {
                if asked {
                    groups.kill();
                    return Err(Failure::failed("ended at once; running attempts end with their leases"));
                }
                asked = true;
                stop.cancel();
                output::complain("draining: no more claims, running programs may end; once more ends at once");
            }
        }
    };
    let summary = result.map_err(|Error::Refused { problem, .. }| Failure::from(problem))?;
    if !session.out.is_json() {
        output::complain(&sentence(&summary));
    }
    Ok(())
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn tell(out: Output, report: &Report) {
    if out.is_json() {
        let line = serde_json::json!({
            "work": report.work,
            "attempt": report.attempt,
            "scope": report.scope,
            "ending": report.ending.as_str(),
            "detail": report.detail,
            "tookMs": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        });
        out.line(&line.to_string());
        return;
    }
    let detail = if report.detail.is_empty() {
        String::new()
    } else {
        format!(": {}", report.detail)
    };
    out.line(&format!(
        "work {} attempt {} {} after {} ms{detail}",
        report.work,
        report.attempt,
        words(&report.ending),
        report.took.as_millis(),
    ));
}

fn words(ending: &Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::FailedRetryable => "failed, will be tried again",
        Ending::FailedPermanent => "failed for good",
        Ending::Parked => "waits",
        Ending::Released => "was given back",
        Ending::LeaseLost => "lost its lease",
        Ending::Cancelled => "was cancelled",
        Ending::Refused => "was refused its outcome",
        Ending::Unknown => "has an unknown outcome",
    }
}

fn sentence(summary: &Summary) -> String {
    format!(
        "{} claimed: {} completed, {} failed, {} given back, {} lost",
        summary.claimed, summary.completed, summary.failed, summary.released, summary.lost
    )
}
