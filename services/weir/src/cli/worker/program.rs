//! One run of the program, for one attempt.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use weir_client::executor::{Context, Handler, Outcome};
use weir_client::proto::lifecycle::v1::ClaimedWork;

use super::super::environment;
use super::super::error::Failure;
use super::super::json;
use super::group::Groups;
use super::lines::{acknowledged, next_line};

/// `EX_DATAERR` of sysexits.h: the input is wrong, and will be wrong the next time.
const DATA_ERROR: i32 = 65;
/// How long to read on after the program ended. What it wrote is in the pipe already; only somebody
/// who left the process group could still hold it open.
const REST: Duration = Duration::from_secs(1);
/// Number of `SIGINT`, also what shells add to 128 for it.
const SIGINT: i32 = 2;

/// A program as a handler.
pub(super) struct Program {
    command: Vec<OsString>,
    inject: bool,
    url: String,
    tenant: String,
    groups: Groups,
}

impl Program {
    /// Takes a command line. The program must be there now: a typing error should not use up the
    /// tries of every Work.
    pub(super) fn new(
        command: Vec<OsString>,
        inject: bool,
        url: &str,
        tenant: &str,
    ) -> Result<Self, Failure> {
        let name = command
            .first()
            .ok_or_else(|| Failure::usage("a COMMAND is needed after --"))?;
        if !exists(name, environment::raw("PATH").as_deref()) {
            return Err(Failure::usage(format!(
                "program `{}` was not found",
                name.to_string_lossy()
            )));
        }
        Ok(Self {
            command,
            inject,
            url: url.to_owned(),
            tenant: tenant.to_owned(),
            groups: Groups::default(),
        })
    }

    /// The process groups that it runs.
    pub(super) fn groups(&self) -> Groups {
        self.groups.clone()
    }

    fn command(&self, work: &ClaimedWork) -> Command {
        let lease = work.lease.clone().unwrap_or_default();
        // `new` saw that there is a first one.
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .env("WEIR_WORK", lease.work)
            .env("WEIR_ATTEMPT", lease.attempt.to_string())
            .env("WEIR_EPOCH", lease.epoch.to_string())
            .env("WEIR_SCOPE", &work.scope)
            .env("WEIR_URL", &self.url)
            .env("WEIR_TENANT", &self.tenant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// Whether a program can be found: a path as such, a name in the folders of `path`.
fn exists(name: &OsStr, path: Option<&OsStr>) -> bool {
    if name.as_encoded_bytes().contains(&b'/') {
        return Path::new(name).is_file();
    }
    path.is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join(name).is_file()))
}

impl Handler for Program {
    async fn handle(&self, work: ClaimedWork, context: Context) -> Outcome {
        let mut child = match self.command(&work).spawn() {
            Ok(child) => child,
            Err(error) => return Outcome::retry(format!("program cannot be started: {error}")),
        };
        // Declared after the child, so dropped before it: the group is killed while its leader's id
        // still belongs to it.
        let Some(group) = child.id().and_then(|leader| self.groups.adopt(leader)) else {
            return Outcome::retry("program has no process id");
        };
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Outcome::retry("program has no pipes");
        };
        let feed = feed(stdin, &work, self.inject.then_some(&context));
        let listen = listen(stdout, &work, self.inject.then_some(&context));
        tokio::pin!(feed, listen);
        let (mut feeding, mut listening, mut interrupted) = (true, true, false);
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                () = &mut feed, if feeding => feeding = false,
                () = &mut listen, if listening => listening = false,
                _ = context.next_interrupt() => {
                    interrupted = true;
                    group.interrupt();
                }
            }
        };
        drop(group);
        if listening && tokio::time::timeout(REST, listen).await.is_err() {
            tracing::debug!("output of the program is still open, not read to its end");
        }
        match status {
            Ok(status) => outcome(status, interrupted),
            Err(error) => Outcome::retry(format!("program cannot be awaited: {error}")),
        }
    }
}

/// Writes the inputs, and with a context whatever is injected, until the program does not read on.
async fn feed(mut stdin: ChildStdin, work: &ClaimedWork, injects: Option<&Context>) {
    for event in &work.inputs {
        // A program need not read its input.
        if write_line(&mut stdin, &json::line(event)).await.is_err() {
            return;
        }
    }
    if let Some(context) = injects {
        loop {
            let event = context.next_inject().await;
            if write_line(&mut stdin, &json::line(&event)).await.is_err() {
                return;
            }
        }
    }
}

async fn write_line(stdin: &mut ChildStdin, line: &str) -> std::io::Result<()> {
    stdin.write_all(line.as_bytes()).await?;
    stdin.write_all(b"\n").await?;
    stdin.flush().await
}

/// Reads what the program prints, and with a context passes on what it acknowledges.
async fn listen(stdout: ChildStdout, work: &ClaimedWork, acks: Option<&Context>) {
    let id = work
        .lease
        .as_ref()
        .map(|lease| lease.work.as_str())
        .unwrap_or_default();
    let mut reader = BufReader::new(stdout);
    while let Some(line) = next_line(&mut reader).await {
        match (acks, acknowledged(&line)) {
            (Some(context), Some(uid)) => {
                if let Err(problem) = context.acknowledge(vec![uid]).await {
                    tracing::warn!(work.id = %id, error = %problem.message, "acknowledgement was refused");
                }
            }
            _ => tracing::debug!(work.id = %id, "program: {line}"),
        }
    }
}

/// What an exit means.
fn outcome(status: ExitStatus, interrupted: bool) -> Outcome {
    let by_interrupt = status.signal() == Some(SIGINT) || status.code() == Some(128 + SIGINT);
    if interrupted && by_interrupt {
        return Outcome::Release;
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Outcome::complete("exit status 0"),
        (Some(code @ DATA_ERROR), _) => Outcome::give_up(format!("exit status {code}")),
        (Some(code), _) => Outcome::retry(format!("exit status {code}")),
        (None, Some(signal)) => Outcome::retry(format!("killed by signal {signal}")),
        (None, None) => Outcome::retry("program ended in an unknown way"),
    }
}

#[cfg(test)]
mod tests;
