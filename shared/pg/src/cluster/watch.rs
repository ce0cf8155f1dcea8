//! Helpers that outlive this process: small shell programs that end a server nobody needs.
//!
//! A server must also end when its owner is killed, which no `Drop` sees. The program below holds
//! the reading end of a pipe whose other end only the owner has. The system closes that end
//! whenever and however the owner goes, so the program needs neither polling nor the owner's
//! process id (which may be given out again).

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::error::Error;
use super::place::Place;

/// Whether process `$1` is the server of `$2`, and the end of that server.
const COMMON: &str = r#"
serves() { tr '\0' '\n' <"/proc/$1/cmdline" | grep -qxF -- "$2/pgdata"; }
finish() {
  kill -s "$2" "$1"
  n=0
  while serves "$1" "$3" && [ "$n" -lt 300 ]; do sleep 0.1; n=$((n + 1)); done
}
"#;

/// `$1` the cluster's folder, `$2` the signal, `$3` the socket's folder, `$4` yes: remove both.
/// Reads the server's process id from the owner, so that it never ends a successor's server; an
/// owner that went before it could say it is helped out by the server's own file.
const WITH_OWNER: &str = r#"
pid=$(cat)
if [ -n "$pid" ] || read -r pid <"$1/pgdata/postmaster.pid"; then
  if serves "$pid" "$1"; then finish "$pid" "$2" "$1"; fi
fi
if [ "$4" = yes ]; then rm -rf -- "$1" "$3"; fi
"#;

/// `$1` the cluster's folder, `$2` idle seconds, `$3` seconds between looks, `$4` the server,
/// `$5` the socket's folder.
const WHEN_IDLE: &str = r#"
command -v flock >/dev/null || exit 0
while sleep "$3" && serves "$4" "$1"; do
  last=$(stat -c %Y "$1/users") || exit 0
  [ $(($(date +%s) - last)) -ge "$2" ] || continue
  if (flock -n -x 9 || exit 1; finish "$4" INT "$1"; rmdir "$5") 9<"$1/users"; then exit 0; fi
done
"#;

/// Ends the server when this value is dropped or its process ends.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts the watchdog of a cluster. `immediately` leaves out the checkpoint, `remove` removes
    /// the cluster's folder and its socket's folder afterwards.
    pub(super) fn start(place: &Place, immediately: bool, remove: bool) -> Result<Watchdog, Error> {
        let child = shell(WITH_OWNER)
            .arg(&place.home)
            .arg(if immediately { "QUIT" } else { "INT" })
            .arg(&place.socket)
            .arg(if remove { "yes" } else { "no" })
            .stdin(Stdio::piped())
            .spawn()
            .map_err(Error::io("run", Path::new("/bin/sh")))?;
        Ok(Watchdog { child })
    }

    /// Tells the watchdog which server is its own.
    pub(super) fn guard(&mut self, pid: i32) -> Result<(), Error> {
        let pipe = self.child.stdin.as_mut().expect("open until the end");
        writeln!(pipe, "{pid}").map_err(Error::io("write to", Path::new("/bin/sh")))
    }

    /// Lets the watchdog do its work now and waits for its end.
    pub(super) async fn finish(mut self) -> Result<(), Error> {
        drop(self.child.stdin.take());
        tokio::task::spawn_blocking(move || self.child.wait())
            .await
            .map_err(std::io::Error::other)
            .and_then(|waited| waited)
            .map_err(Error::io("wait for", Path::new("/bin/sh")))?;
        Ok(())
    }
}

/// Starts the program that stops server `pid` once nobody has held a shared lock on the cluster's
/// `users` file, and nobody has touched that file, for `idle`.
pub(super) fn stop_when_idle(place: &Place, pid: i32, idle: Duration) -> Result<(), Error> {
    let seconds = idle.as_secs().max(1);
    shell(WHEN_IDLE)
        .arg(&place.home)
        .arg(seconds.to_string())
        .arg(seconds.min(10).to_string())
        .arg(pid.to_string())
        .arg(&place.socket)
        .stdin(Stdio::null())
        .spawn()
        .map_err(Error::io("run", Path::new("/bin/sh")))?;
    Ok(())
}

/// The shell, away from this process's terminal, folder and output (a test runner waits for
/// whoever holds the output of a test).
fn shell(program: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("{COMMON}{program}"))
        .arg("weir-watchdog");
    command
        .current_dir("/")
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
