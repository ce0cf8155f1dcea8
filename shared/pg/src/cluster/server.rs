//! The server process of one cluster: made, found, started, waited for, stopped. All of it
//! happens under the lock of the cluster's folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sqlx::{Connection, PgConnection};

use super::binaries::Binaries;
use super::error::Error;
use super::place::{PORT, Place, open_file, own_folder};

/// The superuser that owns everything in a private cluster.
pub(super) const USER: &str = "weir";

/// How often a state of the server is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(25);
/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long a fast shutdown may take (it writes a checkpoint) before the immediate one.
const FAST: Duration = Duration::from_secs(30);
/// How long an immediate shutdown may take: PostgreSQL itself kills its children after 5 s.
const IMMEDIATE: Duration = Duration::from_secs(10);
/// A log larger than this, in bytes, begins anew at the next start.
const LOG_MAX: u64 = 16 << 20;

/// A server process.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) pid: i32,
    /// Present when this process is the server's parent and has to collect its exit status.
    child: Option<Child>,
    /// Whether the server was found running rather than started.
    pub(super) adopted: bool,
}

/// Finds the server of `place` running with exactly these arguments, or starts it, after having
/// made the data directory where there is none. A server that runs with other arguments is stopped
/// first. Returns once the server accepts connections.
pub(super) async fn bring_up(
    place: &Place,
    binaries: &Binaries,
    settings: &[(String, String)],
    durable: bool,
    patience: Duration,
) -> Result<Server, Error> {
    let binaries = match data_version(place)? {
        Some(found) if found != binaries.version().to_string() => {
            binaries.sibling(&found).ok_or_else(|| Error::DataVersion {
                directory: place.home.clone(),
                found,
                binaries: binaries.version(),
            })?
        }
        _ => binaries.clone(),
    };
    let arguments = arguments(place, settings);
    if let Some(mut running) = running(place)? {
        if command_line(running.pid).is_some_and(|line| line.get(1..) == Some(&arguments)) {
            match wait_ready(place, &mut running, patience).await {
                Ok(()) => return Ok(running),
                Err(error) => {
                    tracing::warn!(pid = running.pid, %error, "a running server is not usable, it is restarted")
                }
            }
        }
        stop(place, &mut running, Signal::INT).await?;
    }
    if place.account.switch && !place.account.can_enter(binaries.directory()) {
        return Err(Error::Unreachable {
            account: place.account.name.clone(),
            path: binaries.directory().to_owned(),
        });
    }
    if data_version(place)?.is_none() {
        initialize(place, &binaries, durable).await?;
    }
    let mut server = launch(place, &binaries, &arguments)?;
    if let Err(error) = wait_ready(place, &mut server, patience).await {
        // A server that did not get ready must not stay behind unseen.
        if let Err(stop_error) = stop(place, &mut server, Signal::QUIT).await {
            tracing::warn!(error = %stop_error, "a server that did not start could not be stopped");
        }
        return Err(error);
    }
    Ok(server)
}

/// The server that runs on the cluster's data, if any. A `postmaster.pid` that names a process
/// which is no server of this data (the process id was given out again, as happens after a restart
/// of a container) is removed: PostgreSQL would refuse to start because of it.
pub(super) fn running(place: &Place) -> Result<Option<Server>, Error> {
    let file = place.data().join("postmaster.pid");
    let Some(pid) = fs::read_to_string(&file)
        .ok()
        .and_then(|text| text.lines().next()?.trim().parse::<i32>().ok())
    else {
        return Ok(None);
    };
    let Some(line) = command_line(pid) else {
        // Gone, or there is no /proc to ask: PostgreSQL judges its own stale file.
        return Ok(None);
    };
    if serves(&line, &place.data()) {
        return Ok(Some(Server {
            pid,
            child: None,
            adopted: true,
        }));
    }
    let program = line.first().map(|program| {
        Path::new(program)
            .file_name()
            .unwrap_or_default()
            .to_owned()
    });
    if program.is_some_and(|name| name == "postgres" || name == "postmaster") {
        return Err(Error::ForeignServer {
            directory: place.home.clone(),
            pid,
        });
    }
    fs::remove_file(&file).map_err(Error::io("remove", &file))?;
    Ok(None)
}

/// Stops a server: with `INT` fast (sessions are ended, data is written out), with `QUIT`
/// immediately (the next start recovers). Escalates to the latter when the former takes too long.
/// Returns when the process is gone.
pub(super) async fn stop(place: &Place, server: &mut Server, signal: Signal) -> Result<(), Error> {
    let mut attempts = vec![(Signal::QUIT, IMMEDIATE)];
    if signal == Signal::INT {
        attempts.insert(0, (Signal::INT, FAST));
    }
    for (signal, patience) in attempts {
        let deadline = Instant::now() + patience;
        if alive(place, server)? {
            // An error here means that the process has just ended.
            let _ = Pid::from_raw(server.pid).map(|pid| kill_process(pid, signal));
        }
        while alive(place, server)? {
            if Instant::now() > deadline {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        if !alive(place, server)? {
            return Ok(());
        }
    }
    Err(Error::NotStopped { pid: server.pid })
}

/// Whether the server's process is still there.
fn alive(place: &Place, server: &mut Server) -> Result<bool, Error> {
    if let Some(child) = &mut server.child {
        return Ok(child
            .try_wait()
            .map_err(Error::io("wait for the server of", &place.home))?
            .is_none());
    }
    // A process that nobody collects keeps its id but loses its command line.
    Ok(command_line(server.pid).is_some_and(|line| serves(&line, &place.data())))
}

/// Arguments of a process, its program first. `None` when there is no such process. Everybody may
/// read them, unlike the process's working directory, which a container's root may not.
fn command_line(pid: i32) -> Option<Vec<OsString>> {
    let pid_known = Pid::from_raw(pid)?;
    if test_kill_process(pid_known) == Err(rustix::io::Errno::SRCH) {
        return None;
    }
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    Some(
        bytes
            .split(|byte| *byte == 0)
            .map(|part| OsString::from_vec(part.to_vec()))
            .collect(),
    )
}

fn serves(line: &[OsString], data: &Path) -> bool {
    line.windows(2)
        .any(|pair| pair[0] == "-D" && Path::new(&pair[1]) == data)
}

/// The server's arguments. Settings are given here and not in a file, so that the arguments of a
/// running server tell whether it is the one that is wanted.
fn arguments(place: &Place, settings: &[(String, String)]) -> Vec<OsString> {
    let mut socket = OsString::from("unix_socket_directories=");
    socket.push(&place.socket);
    let mut arguments = vec![
        OsString::from("-D"),
        place.data().into_os_string(),
        "-c".into(),
        socket,
    ];
    for fixed in [
        "listen_addresses=".to_owned(),
        format!("port={PORT}"),
        "unix_socket_permissions=0700".to_owned(),
        "timezone=UTC".to_owned(),
        "log_timezone=UTC".to_owned(),
    ] {
        arguments.push("-c".into());
        arguments.push(fixed.into());
    }
    for (name, value) in settings {
        arguments.push("-c".into());
        arguments.push(format!("{name}={value}").into());
    }
    arguments
}

/// The major version that wrote the data directory; `None` when there is no data.
fn data_version(place: &Place) -> Result<Option<String>, Error> {
    let path = place.data().join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(version) => Ok(Some(version.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

/// Makes the data directory. It is made beside its place and renamed at the end: `initdb` writes
/// `PG_VERSION` early, so a half-made directory would pass for a whole one.
async fn initialize(place: &Place, binaries: &Binaries, durable: bool) -> Result<(), Error> {
    let fresh = place.home.join("pgdata.new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(Error::io("remove", &fresh))?;
    }
    let folder = own_folder(&fresh, 0o700)?;
    place.account.own(&folder, &fresh)?;
    let mut command = tokio::process::Command::from(binaries.command("initdb", &place.account));
    command
        .arg("-D")
        .arg(&fresh)
        .args(["-U", USER, "-E", "UTF8", "--locale=C.UTF-8"]);
    // The socket's folder is the gate, and there is no other way in.
    command.args(["--auth-local=trust", "--auth-host=reject"]);
    if !durable {
        command.arg("--no-sync");
    }
    let output = command
        .kill_on_drop(true)
        .output()
        .await
        .map_err(Error::io("run `initdb` of", binaries.directory()))?;
    if !output.status.success() {
        return Err(Error::Initdb {
            detail: last_line(&output.stderr),
        });
    }
    fs::rename(&fresh, place.data()).map_err(Error::io("rename", &fresh))?;
    if durable {
        File::open(&place.home)
            .and_then(|home| home.sync_all())
            .map_err(Error::io("write out", &place.home))?;
    }
    Ok(())
}

fn launch(place: &Place, binaries: &Binaries, arguments: &[OsString]) -> Result<Server, Error> {
    // A socket's lock file names a process as well, and may be as stale as postmaster.pid.
    let socket = place.socket_file();
    let mut lock = socket.clone().into_os_string();
    lock.push(".lock");
    for stale in [socket.as_path(), Path::new(&lock)] {
        match fs::remove_file(stale) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", stale)(error));
            }
            _ => {}
        }
    }
    let path = place.log();
    let log = open_file(&path, &place.account)?;
    if log.metadata().is_ok_and(|meta| meta.len() > LOG_MAX) {
        log.set_len(0).map_err(Error::io("shorten", &path))?;
    }
    let twin = log.try_clone().map_err(Error::io("open", &path))?;
    let child = binaries
        .command("postgres", &place.account)
        .args(arguments)
        .stdout(Stdio::from(log))
        .stderr(Stdio::from(twin))
        .spawn()
        .map_err(Error::io("run `postgres` of", binaries.directory()))?;
    let pid = i32::try_from(child.id()).expect("a process id fits 31 bits");
    Ok(Server {
        pid,
        child: Some(child),
        adopted: false,
    })
}

/// Waits until a connection succeeds, for as long as the process lives and `patience` lasts.
async fn wait_ready(place: &Place, server: &mut Server, patience: Duration) -> Result<(), Error> {
    let url = url(&place.socket, "postgres");
    let deadline = Instant::now() + patience;
    loop {
        let detail = match tokio::time::timeout(ATTEMPT, PgConnection::connect(&url)).await {
            Ok(Ok(connection)) => {
                // It answered; how it takes the good-bye does not matter.
                let _ = connection.close().await;
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if !alive(place, server)? {
            return Err(Error::Died {
                log: place.log(),
                detail: tail(&place.log()),
            });
        }
        if Instant::now() > deadline {
            return Err(Error::NotReady {
                log: place.log(),
                detail,
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The address of a database of the server behind a socket folder. The host is only there because
/// an address needs one; the port is spelled out because `PGPORT` would win otherwise.
pub(super) fn url(socket: &Path, database: &str) -> String {
    format!(
        "postgres://{USER}@localhost:{PORT}/{}?host={}",
        encode(database.as_bytes()),
        encode(socket.as_os_str().as_encoded_bytes())
    )
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The last line of a log file that says something.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(4096)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_or_else(|error| error.to_string(), |bytes| last_line(&bytes))
}

/// The last line that is not empty; of PostgreSQL's messages the fatal one, which hints follow.
fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let last = lines.clone().next().unwrap_or("it wrote nothing");
    lines
        .find(|line| line.contains("FATAL:") || line.contains("error:"))
        .unwrap_or(last)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::str::FromStr;

    use sqlx::postgres::PgConnectOptions;

    use super::{last_line, url};

    #[test]
    fn the_address_names_the_socket_folder_and_the_database() {
        let options = PgConnectOptions::from_str(&url(Path::new("/tmp/a b&c"), "weir_1"))
            .expect("the driver takes it");
        assert_eq!(
            options.get_socket().map(|path| path.as_path()),
            Some(Path::new("/tmp/a b&c"))
        );
        assert_eq!(options.get_port(), 5432);
        assert_eq!(options.get_username(), "weir");
        assert_eq!(options.get_database(), Some("weir_1"));
    }

    #[test]
    fn the_reason_is_the_fatal_line_and_not_its_hint() {
        assert_eq!(
            last_line(b"x\ninitdb: error: cannot be run as root\ninitdb: hint: log in\n"),
            "initdb: error: cannot be run as root"
        );
        assert_eq!(last_line(b"\n one \n\n"), "one");
        assert_eq!(last_line(b""), "it wrote nothing");
    }
}
