//! One server for a whole test run, used by many test processes at the same time.
//!
//! The first process starts it, the others find it. It stays between runs, so that the next run
//! starts at once, and ends by itself when nobody has used it for a while. Two locks make that
//! safe: a user holds `users` *shared* for as long as its process lives, and whoever stops the
//! idle server holds it *exclusively*; `lock` is held while looking for the server and starting it.
//!
//! The data is worth nothing, so the server does not wait for the disk, and a server that is gone
//! is replaced by a fresh one, never repaired.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use tokio::sync::OnceCell;

use super::account::Account;
use super::binaries::Binaries;
use super::error::Error;
use super::place::{self, Place};
use super::{server, watch};

/// The server's settings: cheap, and enough connections for many processes of many tasks.
const SETTINGS: &[(&str, &str)] = &[
    ("max_connections", "400"),
    ("shared_buffers", "128MB"),
    ("random_page_cost", "1.1"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    // Template databases are copied all the time; no test waits for these.
    ("max_wal_size", "2GB"),
    ("autovacuum_naptime", "5min"),
];

/// How long the server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which server the tests use.
#[derive(Debug, Clone)]
pub struct SharedOptions {
    /// Address of a server that is there already (the value of `WEIR_TEST_DATABASE_URL`), of a
    /// database that stays and with a user who may create databases. Nothing is started then.
    pub external_url: Option<String>,
    /// The folder with the server programs (the value of `WEIR_PG_BIN`), see [`Binaries::find`].
    pub binaries: Option<PathBuf>,
    /// The user's home folder, see [`Binaries::find`].
    pub home: Option<PathBuf>,
    /// The cluster's folder; its parent must exist and be reachable for the server's user.
    /// Default: one below `/tmp`, keyed by user, PostgreSQL version and settings.
    pub directory: Option<PathBuf>,
    /// The server stops when nobody uses it and nobody has begun to for this long (whole seconds).
    /// Default: 10 minutes.
    pub idle: Duration,
}

impl Default for SharedOptions {
    fn default() -> SharedOptions {
        SharedOptions {
            external_url: None,
            binaries: None,
            home: None,
            directory: None,
            idle: Duration::from_secs(600),
        }
    }
}

/// The shared server. While a value lives, the server does not count as idle.
#[derive(Debug)]
pub struct SharedCluster {
    admin_url: String,
    /// Absent for a server that was there already.
    own: Option<(Place, i32, File)>,
}

/// The shared server of this process, which holds on to it until the process ends. The first
/// caller's options decide.
///
/// # Errors
/// As [`SharedCluster::attach`]; the next call tries again.
pub async fn shared_for_tests(options: SharedOptions) -> Result<&'static SharedCluster, Error> {
    static SHARED: OnceCell<SharedCluster> = OnceCell::const_new();
    SHARED
        .get_or_try_init(|| SharedCluster::attach(options))
        .await
}

impl SharedCluster {
    /// Finds the shared server, or starts it.
    ///
    /// # Errors
    /// [`Error::BinariesMissing`], [`Error::ForeignOwner`] when somebody else made the folder, and
    /// those of a failing PostgreSQL.
    pub async fn attach(options: SharedOptions) -> Result<SharedCluster, Error> {
        if let Some(admin_url) = options.external_url {
            return Ok(SharedCluster {
                admin_url,
                own: None,
            });
        }
        let binaries = Binaries::find(options.binaries.as_deref(), options.home.as_deref())?;
        let settings: Vec<(String, String)> = SETTINGS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let home = options
            .directory
            .unwrap_or_else(|| default_directory(&binaries));
        // 0711: as root the server's user has to pass through to its data.
        place::own_folder(&home, 0o711)?;
        let home = fs::canonicalize(&home).map_err(Error::io("resolve", &home))?;
        let account = Account::for_data(&home.join("pgdata"))?;
        if !account.can_enter(&home) {
            return Err(Error::Unreachable {
                account: account.name,
                path: home,
            });
        }

        let users = locked(home.join("users"), account.clone(), File::lock_shared).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "a file's time, no time of the domain"
        )]
        let now = SystemTime::now();
        users
            .set_modified(now)
            .map_err(Error::io("touch", &home.join("users")))?;
        let lock = locked(home.join("lock"), account.clone(), File::lock).await?;
        let socket = place::socket_folder(Path::new("/tmp"), &home, &account)?;
        let place = Place {
            home,
            account,
            socket,
        };
        if server::running(&place)?.is_none() && place.data().exists() {
            fs::remove_dir_all(place.data()).map_err(Error::io("remove", &place.data()))?;
        }
        let server = server::bring_up(&place, &binaries, &settings, false, PATIENCE).await?;
        if !server.adopted {
            watch::stop_when_idle(&place, server.pid, options.idle)?;
        }
        drop(lock);
        Ok(SharedCluster {
            admin_url: server::url(&place.socket, "postgres"),
            own: Some((place, server.pid, users)),
        })
    }

    /// The address from which databases are created.
    #[must_use]
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// The server's process id; none for a server that was there already.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.own.as_ref().map(|(_, pid, _)| *pid)
    }

    /// Stops the server now, whoever uses it, and removes the server's data. A server that was
    /// there already is left alone.
    ///
    /// # Errors
    /// [`Error::NotStopped`] and [`Error::Io`].
    pub async fn stop(self) -> Result<(), Error> {
        let Some((place, _, _users)) = self.own else {
            return Ok(());
        };
        let _lock = locked(place.home.join("lock"), place.account.clone(), File::lock).await?;
        if let Some(mut server) = server::running(&place)? {
            server::stop(&place, &mut server, Signal::INT).await?;
        }
        let _ = fs::remove_dir(&place.socket);
        match fs::remove_dir_all(place.data()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &place.data())(error))
            }
            _ => Ok(()),
        }
    }
}

/// Different settings are a different server: an older checkout's run must not be disturbed.
fn default_directory(binaries: &Binaries) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    let bin = binaries.directory().as_os_str().as_encoded_bytes();
    let mut parts: Vec<&[u8]> = vec![bin];
    for (name, value) in SETTINGS {
        parts.extend([name.as_bytes(), value.as_bytes()]);
    }
    PathBuf::from(format!(
        "/tmp/weir-tests-{uid}-pg{}-{}",
        binaries.version(),
        &place::digest(&parts)[..8]
    ))
}

/// Opens a file and waits for a lock on it, away from the threads that run tasks.
async fn locked(
    path: PathBuf,
    account: Account,
    lock: fn(&File) -> std::io::Result<()>,
) -> Result<File, Error> {
    let waiting = tokio::task::spawn_blocking(move || {
        let file = place::open_file(&path, &account)?;
        lock(&file).map_err(Error::io("lock", &path))?;
        Ok(file)
    });
    match waiting.await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
