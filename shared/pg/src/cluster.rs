//! A private PostgreSQL, made from the distribution's server binaries: for `weir dev` and for
//! tests, never for production.
//!
//! What makes it private: the server listens on no network address, only on a socket in a folder
//! of mode 0700. Whoever can enter that folder (the user, and root) is the superuser `weir` there,
//! without a password; nobody else gets in.
//!
//! PostgreSQL refuses to run as root. Started by root, the server's processes run as `postgres`
//! (or `nobody`), and when that user cannot reach the folder that was asked for, for instance below
//! a home folder of mode 0700, the cluster stands below `/var/lib/weir/` instead and
//! [`Cluster::relocated`] says so.
//!
//! A folder has one [`Cluster`] at a time, guarded by a lock that the system releases when its
//! process ends. A server that a killed process left running is adopted when it runs with the
//! same settings, otherwise it is stopped and started again.

mod account;
mod binaries;
mod database;
mod error;
mod place;
mod server;
mod shared;
mod watch;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use uuid::Uuid;

pub use self::binaries::Binaries;
pub use self::database::{TestDatabase, database_url, ensure_template};
pub use self::error::Error;
pub use self::shared::{SharedCluster, SharedOptions, shared_for_tests};

use self::place::Place;
use self::server::Server;
use self::watch::Watchdog;

/// How long the server lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until [`Cluster::stop`]. When the process ends without it, the server stays and the next
    /// start adopts it. Nothing is ever removed. The choice of `weir dev`.
    Kept,
    /// As long as the [`Cluster`]: it is stopped, fast, when that is dropped or when its process
    /// ends, however it ends. The data stays.
    WithProcess,
    /// As `WithProcess`, but stopped immediately, and the folder is removed. It must be absent or
    /// empty at the start.
    Ephemeral,
}

/// What cluster to start. Fields not set by [`Options::new`]'s arguments have the defaults that
/// `weir dev` wants.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The folder that belongs to the cluster; created when absent. It holds the data (`pgdata`),
    /// the log (`server.log`) and the lock (`lock`).
    pub directory: PathBuf,
    /// The server programs to use.
    pub binaries: Binaries,
    /// Whether a commit survives a crash of the machine (`fsync`). Without it, commits survive the
    /// death of any process but not of the machine. Default: true.
    pub durable: bool,
    /// The most connections at a time. Default: 200.
    pub max_connections: u16,
    /// More server settings (`name`, `value`), which win over the others.
    pub settings: Vec<(String, String)>,
    /// How long the server lives. Default: [`Lifetime::Kept`].
    pub lifetime: Lifetime,
    /// How long the server may take to accept connections, recovery included. Default: 60 s.
    pub startup_timeout: Duration,
    /// Where the socket's folder is made. Default: `/tmp`, because a socket's path has at most 107
    /// bytes.
    pub socket_root: PathBuf,
    /// Where the cluster stands when the server's user cannot reach `directory`. Only used as root.
    /// Default: `/var/lib/weir`.
    pub relocation_root: PathBuf,
}

impl Options {
    /// Options with defaults for everything but the folder and the programs.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, binaries: Binaries) -> Options {
        Options {
            directory: directory.into(),
            binaries,
            durable: true,
            max_connections: 200,
            settings: Vec::new(),
            lifetime: Lifetime::Kept,
            startup_timeout: Duration::from_secs(60),
            socket_root: PathBuf::from("/tmp"),
            relocation_root: PathBuf::from("/var/lib/weir"),
        }
    }

    fn server_settings(&self) -> Vec<(String, String)> {
        // Shown with every process of the server. The name of a bound cluster is new each time, so
        // that nobody adopts its server, which is about to be ended by its watchdog.
        let name = match self.lifetime {
            Lifetime::Kept => "weir".to_owned(),
            Lifetime::WithProcess | Lifetime::Ephemeral => {
                format!("weir_{}", Uuid::now_v7().simple())
            }
        };
        let mut settings = vec![("cluster_name".to_owned(), name)];
        settings.push((
            "max_connections".to_owned(),
            self.max_connections.to_string(),
        ));
        if !self.durable {
            settings.push(("fsync".to_owned(), "off".to_owned()));
            settings.push(("full_page_writes".to_owned(), "off".to_owned()));
        }
        settings.extend(self.settings.iter().cloned());
        settings
    }
}

/// A running private PostgreSQL, and the lock on its folder. See [`Lifetime`] for what happens when
/// it is dropped.
#[derive(Debug)]
pub struct Cluster {
    place: Place,
    server: Server,
    relocated: bool,
    // Fields drop in this order: the watchdog hears of the end before the lock is free.
    watchdog: Option<Watchdog>,
    _lock: File,
}

impl Cluster {
    /// Starts the cluster of a folder, made on the first start, or adopts the server that a killed
    /// process left running on it. Returns when the server accepts connections.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process has the folder, with that process's id;
    /// [`Error::ForeignOwner`] when the folder, or the socket's, belongs to a user that is not to be
    /// trusted; [`Error::Unreachable`] when the server's user cannot reach data that is already
    /// there; [`Error::Initdb`], [`Error::Died`] and [`Error::NotReady`] when PostgreSQL fails.
    /// After an error no server that this call started is left running.
    pub async fn start(options: Options) -> Result<Cluster, Error> {
        let (home, account, relocated) =
            place::settle(&options.directory, &options.relocation_root)?;
        let lock = place::lock(&home, &account)?;
        let ephemeral = options.lifetime == Lifetime::Ephemeral;
        if ephemeral {
            require_empty(&home)?;
        }
        let socket = place::socket_folder(&options.socket_root, &home, &account)?;
        let place = Place {
            home,
            account,
            socket,
        };
        // Before the server: a kill in between must not leave one behind.
        let mut watchdog = match options.lifetime {
            Lifetime::Kept => None,
            Lifetime::WithProcess | Lifetime::Ephemeral => {
                Some(Watchdog::start(&place, ephemeral, ephemeral)?)
            }
        };
        let settings = options.server_settings();
        let server = server::bring_up(
            &place,
            &options.binaries,
            &settings,
            options.durable,
            options.startup_timeout,
        )
        .await
        .inspect_err(|_| {
            // As after a stop; it stays when it is not empty.
            let _ = fs::remove_dir(&place.socket);
        })?;
        if let Some(watchdog) = &mut watchdog {
            watchdog.guard(server.pid)?;
        }
        tracing::info!(pid = server.pid, adopted = server.adopted, directory = %place.home.display(), "private PostgreSQL is ready");
        Ok(Cluster {
            place,
            server,
            relocated,
            watchdog,
            _lock: lock,
        })
    }

    /// The address of a database, in the form that sqlx and libpq take. The name is not checked.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        server::url(&self.place.socket, database)
    }

    /// The folder in which the cluster stands, which is not the one that was asked for when it was
    /// relocated.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.place.home
    }

    /// Where the cluster stands when that is not the folder that was asked for, because the user
    /// that runs the server cannot reach that one.
    #[must_use]
    pub fn relocated(&self) -> Option<&Path> {
        self.relocated.then_some(self.place.home.as_path())
    }

    /// The process id of the server.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.server.pid
    }

    /// Whether the server was found running, left by a process that was killed.
    #[must_use]
    pub fn adopted(&self) -> bool {
        self.server.adopted
    }

    /// Creates a database unless there is one of that name. May be called again, also by several
    /// callers at a time. Returns whether it was created.
    ///
    /// # Errors
    /// [`Error::Name`] when the name is not a plain one, [`Error::Sql`] otherwise.
    pub async fn create_database_if_missing(&self, name: &str) -> Result<bool, Error> {
        database::create_if_missing(&self.url("postgres"), name).await
    }

    /// Stops the server, fast (sessions are ended, everything is written out), and waits for its
    /// end. An [`Lifetime::Ephemeral`] cluster is stopped immediately and its folder removed.
    ///
    /// # Errors
    /// [`Error::NotStopped`] when the server survives even an immediate shutdown.
    pub async fn stop(mut self) -> Result<(), Error> {
        if let Some(watchdog) = self.watchdog.take() {
            // It also removes what has to be removed. The server's end is awaited again below: the
            // watchdog gives up after a while, and the exit status is ours to collect.
            watchdog.finish().await?;
        }
        server::stop(&self.place, &mut self.server, Signal::INT).await?;
        // Made again by the next start. Whatever stands in it was not made here, so it may stay.
        let _ = fs::remove_dir(&self.place.socket);
        Ok(())
    }
}

/// Refuses a folder with anything in it but the lock that was just taken.
fn require_empty(home: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(home).map_err(Error::io("read", home))?;
    if entries.flatten().any(|entry| entry.file_name() != "lock") {
        return Err(Error::NotEmpty {
            directory: home.to_owned(),
        });
    }
    Ok(())
}
