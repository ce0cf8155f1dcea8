//! `weir-migration` serves; `weir-migration status|up|down` does one thing and exits, for a job that
//! runs before there is a gateway.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use weir_migration::job::{self, Job};
use weir_migration::{Config, MIGRATOR, Runner, component};
use weir_runtime::{Process, init_logging, load};

/// Status, up and down of the schema, without the service.
///
/// The database is the one of DATABASE_DIRECT_URL, else of DATABASE_URL (or the files that these names
/// with _FILE behind them name).
///
/// Exit codes: 0 done or nothing to do, 1 failed, 2 refused with nothing changed, 5 another runner is
/// at work.
#[derive(Parser)]
#[command(name = "weir-migration", version, verbatim_doc_comment)]
struct Arguments {
    /// Print JSON, a line at a time
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    job: Job,
}

fn main() -> ExitCode {
    let job = std::env::args()
        .skip(1)
        .any(|argument| matches!(argument.as_str(), "status" | "up" | "down" | "help"));
    if job {
        return one_job(&Arguments::parse());
    }
    weir_runtime::main("migration", async |config: Config, process: Process| {
        tracing::debug!(environment = %process.environment, "serving migrations");
        Ok(vec![component(&config)?])
    })
}

fn one_job(arguments: &Arguments) -> ExitCode {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .collect();
    let variable = |name: &str| {
        environment
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, text)| text.clone())
    };
    // Progress is printed; the log is for what goes wrong beside it.
    init_logging(Some(variable("RUST_LOG").as_deref().unwrap_or("warn")));
    let host = variable("HOSTNAME").unwrap_or_default();
    let name = format!("job, process {} {host}", std::process::id());
    // A job serves nobody, so it needs no token and no identity: what production demands of a service
    // is not asked of it.
    let development = ("WEIR_ENVIRONMENT".to_owned(), "Development".to_owned());
    let config: Config = match load("migration", environment.into_iter().chain([development])) {
        Ok(settings) => settings.service,
        Err(error) => return fail(&error.to_string(), 2),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string(), 1),
    };
    let runner = Runner::new(config.url().expose(), &MIGRATOR, &name);
    let done = runtime.block_on(job::run(
        &arguments.job,
        runner,
        arguments.json,
        &mut io::stdout(),
        &mut io::stderr(),
    ));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error.to_string(), 1),
    }
}

fn fail(text: &str, code: u8) -> ExitCode {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(io::stderr(), "error: {text}");
    ExitCode::from(code)
}
