//! The `main` of every binary.

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::{Arg, ArgAction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Known;
use crate::{Component, Process, Running, Settings, Validate, init_logging, load};

/// The exit code of a second signal, as a shell reports an interrupt.
const INTERRUPTED: i32 = 130;

/// The stack of a worker thread, in bytes. Rules are evaluated recursively, and the frames of a debug
/// build are large; memory that is not touched costs nothing.
const STACK: usize = 8 << 20;

/// Runs a service: reads its configuration, builds its components, serves until a signal, drains.
///
/// Exits 0 after SIGTERM or SIGINT, 130 at a second one, 1 when it cannot start or a task fails for
/// good, 2 for a configuration that cannot be used. `--help` lists every setting, `--print-config`
/// shows what is in effect, without secrets.
pub fn main<C, F>(service: &'static str, components: F) -> ExitCode
where
    C: Default + Serialize + DeserializeOwned + Validate,
    F: AsyncFnOnce(C, Process) -> anyhow::Result<Vec<Component>>,
{
    let arguments = command::<C>(service).get_matches();
    let environment = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
    let environment: Vec<(String, String)> = environment.collect();
    let filter = environment
        .iter()
        .find(|(name, _)| name == "RUST_LOG")
        .map(|(_, text)| text.clone());
    let settings = match load::<C>(service, environment) {
        Ok(settings) => settings,
        Err(error) => return fail(service, &weir_rpc::chain(&error), 2),
    };
    if arguments.get_flag("print-config") {
        return match print(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(service, &format!("{error:#}"), 1),
        };
    }
    init_logging(filter.as_deref());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(settings, components)),
        Err(error) => Err(anyhow::Error::from(error).context("cannot start the threads")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(service, &format!("{error:#}"), 1),
    }
}

async fn run<C>(
    settings: Settings<C>,
    components: impl AsyncFnOnce(C, Process) -> anyhow::Result<Vec<Component>>,
) -> anyhow::Result<()> {
    // Listened to before anything starts: a signal during the start is not lost.
    let mut signals = Signals::listen()?;
    let Settings { process, service } = settings;
    tracing::info!(
        service = process.service,
        version = env!("CARGO_PKG_VERSION"),
        environment = %process.environment,
        "starting"
    );
    let options = process.serve_options();
    let starting = async {
        let components = components(service, process).await?;
        Running::start(components, options).await
    };
    let running = tokio::select! {
        running = starting => running?,
        name = signals.next() => {
            tracing::info!(signal = name, "stopped before the start was complete");
            return Ok(());
        }
    };
    let failure = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            None
        }
        failure = running.failed() => Some(failure),
    };
    tokio::select! {
        _ = running.stop() => {}
        name = signals.next() => {
            tracing::warn!(signal = name, "a second signal, ending at once");
            std::process::exit(INTERRUPTED);
        }
    }
    match failure {
        None => Ok(()),
        Some(failure) => Err(anyhow::Error::msg(failure)),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn command<C: Default + Serialize>(service: &'static str) -> clap::Command {
    let mut help = String::from("Settings, by environment variable (default):\n");
    for (name, default) in Known::of::<C>().with_defaults(service) {
        help.push_str(&format!("  {name} ({default})\n"));
    }
    help.push_str(
        "\nEach may be given as a file, with _FILE behind its name. Beside them: WEIR_ENVIRONMENT\n\
         (Production), DATABASE_URL, WEIR_INTERNAL_TOKEN and RUST_LOG (info).",
    );
    clap::Command::new(service)
        .version(env!("CARGO_PKG_VERSION"))
        .about(format!("Weir's service `{service}`"))
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Print the configuration in effect, without secrets, and exit"),
        )
        .after_help(help)
}

fn print<C: Serialize>(settings: &Settings<C>) -> anyhow::Result<()> {
    let mut all = serde_json::to_value(&settings.process.server)?;
    let service = serde_json::to_value(&settings.service)?;
    if let (Some(all), serde_json::Value::Object(service)) = (all.as_object_mut(), service) {
        all.extend(service);
        all.insert(
            "environment".to_owned(),
            settings.process.environment.as_str().into(),
        );
    }
    writeln!(stdout(), "{}", serde_json::to_string_pretty(&all)?)?;
    Ok(())
}

/// Says why on standard error: there is no logger yet, or its reader is gone.
fn fail(service: &str, text: &str, code: u8) -> ExitCode {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(stderr(), "{service}: {text}");
    ExitCode::from(code)
}
