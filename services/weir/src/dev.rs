//! `weir dev`: everything in one process, on a PostgreSQL of its own.
//!
//! The same components as in a fleet, over one pool, with the gateway's calls going straight to the
//! services' routes. Only the gateway's port is opened. Without `DATABASE_URL` a private cluster is
//! made in the data directory from the installed server binaries; it is durable, so a kill at any
//! moment loses nothing that was acknowledged, and the next start adopts a server that was left
//! running. Nothing is ever removed.

mod banner;
mod components;
mod database;
mod tenant;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use weir_runtime::{Component, Running, ServeOptions, Snapshot};

use self::database::Database;
use crate::cli::environment;
use crate::cli::error::Failure;
use crate::cli::output;
use crate::cli::session::Session;

/// How long requests and loops may take to end.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the private PostgreSQL keeps its data; not used with DATABASE_URL
    #[arg(long, value_name = "DIR", default_value = ".weir")]
    data_dir: PathBuf,
    /// Configuration of the tenant, published when it differs from the current one [default: an
    /// example for GitHub, when the tenant has none]
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Where the gateway listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), Failure> {
    weir_runtime::init_logging(Some(
        environment::text("RUST_LOG").as_deref().unwrap_or("warn"),
    ));
    // Read first: a typing error should not cost the start of a database.
    let document = args
        .config
        .as_deref()
        .map(crate::cli::input::text_file)
        .transpose()?;
    let mut signals = Signals::new()?;
    let database = tokio::select! {
        database = Database::open(&args.data_dir) => database?,
        // A cluster that was being started is adopted by the next start.
        () = signals.next() => return Ok(()),
    };
    let result = tokio::select! {
        result = up(session, &args, &database, document.as_deref()) => match result {
            Ok(running) => serve(running, &mut signals).await,
            Err(failure) => Err(failure),
        },
        () = signals.next() => Ok(()),
    };
    // Also after a failure: a server left behind would surprise.
    let stopped = database.close().await;
    result.and(stopped)
}

/// Migrates, starts everything, publishes a configuration, says what to try.
async fn up(
    session: &Session,
    args: &Args,
    database: &Database,
    document: Option<&str>,
) -> Result<Running, Failure> {
    database.migrate().await?;
    let mut components =
        components::all(database.url()).map_err(|error| Failure::failed(format!("{error:#}")))?;
    // Who waits for readiness finds a tenant: a webhook before that would be refused for good.
    let configured = Arc::new(AtomicBool::new(false));
    components.push(tenant_component(Arc::clone(&configured)));
    let options = ServeOptions {
        listen: args.listen,
        // Health is on the gateway's port, too.
        health_listen: None,
        grace: GRACE,
        ..ServeOptions::local()
    };
    let running = Running::start(components, options)
        .await
        .map_err(|error| Failure::failed(format!("{error:#}")))?;
    let failure = tokio::select! {
        () = services_ready(&running) => None,
        failure = running.failed() => Some(failure),
    };
    let prepared = match failure {
        None => tenant::prepare(session, running.addr(), document).await,
        Some(failure) => Err(Failure::failed(failure)),
    };
    match prepared {
        Ok(generation) => {
            configured.store(true, Ordering::Release);
            banner::print(running.addr(), &session.tenant, generation);
            Ok(running)
        }
        Err(failure) => {
            running.stop().await;
            Err(failure)
        }
    }
}

/// Name of what is ready once the tenant has a configuration.
const TENANT: &str = "tenant";

fn tenant_component(configured: Arc<AtomicBool>) -> Component {
    Component::new(TENANT).ready_when("configuration", move || {
        let configured = configured.load(Ordering::Acquire);
        async move {
            if configured {
                Ok(())
            } else {
                Err("it is being published".to_owned())
            }
        }
    })
}

/// Waits for everything that publishing the configuration needs.
async fn services_ready(running: &Running) {
    let ready = |state: &Snapshot| {
        !state.components.is_empty() && state.components.iter().all(|c| c.ready || c.name == TENANT)
    };
    // The sender lives as long as the process, so an error cannot come before its end.
    let _ = running.readiness().wait_for(ready).await;
}

/// Serves until it is told to stop, or a part fails.
async fn serve(running: Running, signals: &mut Signals) -> Result<(), Failure> {
    let failed = tokio::select! {
        () = signals.next() => None,
        failure = running.failed() => Some(failure),
    };
    output::complain("stopping; once more stops at once");
    tokio::select! {
        _ = running.stop() => {}
        () = signals.next() => {}
    }
    match failed {
        None => Ok(()),
        Some(failure) => Err(Failure::failed(failure)),
    }
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
