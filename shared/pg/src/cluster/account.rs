//! The user that the server runs as: PostgreSQL refuses root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::Error;

/// The user that runs the server's processes and owns its data.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Whether this process is root and has to become the account first.
    pub(super) switch: bool,
}

impl Account {
    /// Who has to run a server on `data`. An ordinary user runs it itself. Root runs it as the
    /// owner of the data where there is some (a user's own cluster stays that user's), else as
    /// `postgres`, else as `nobody`.
    pub(super) fn for_data(data: &Path) -> Result<Account, Error> {
        let own = rustix::process::geteuid().as_raw();
        let owner = fs::symlink_metadata(data)
            .ok()
            .map(|meta| (meta.uid(), meta.gid()));
        if own != 0 {
            return match owner {
                Some((owner, _)) if owner != own => Err(Error::ForeignOwner {
                    path: data.to_owned(),
                    owner,
                }),
                _ => Ok(Account {
                    name: own.to_string(),
                    uid: own,
                    gid: rustix::process::getegid().as_raw(),
                    switch: false,
                }),
            };
        }
        if let Some((uid, gid)) = owner.filter(|(uid, _)| *uid != 0) {
            return Ok(Account {
                name: uid.to_string(),
                uid,
                gid,
                switch: true,
            });
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| entry(&users, name))
            .ok_or(Error::NoAccount)
    }

    /// A command that runs as this account, in `/` (a folder that everybody may read), in a
    /// process group of its own so that a Ctrl-C in the terminal does not reach it, and without
    /// the caller's environment. From root, the standard library drops the supplementary groups
    /// together with the user id.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC");
        command
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null());
        if self.switch {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Whether this account can enter a folder. It is tried, not computed from mode bits, because
    /// access lists and mounts have a say as well.
    pub(super) fn can_enter(&self, directory: &Path) -> bool {
        self.command(Path::new("/bin/sh"))
            .args(["-c", r#"cd -- "$1""#, "sh"])
            .arg(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Gives an open file or folder to this account.
    pub(super) fn own(&self, file: &fs::File, path: &Path) -> Result<(), Error> {
        if self.switch {
            std::os::unix::fs::fchown(file, Some(self.uid), Some(self.gid))
                .map_err(Error::io("change the owner of", path))?;
        }
        Ok(())
    }
}

/// One line of `/etc/passwd`: `name:x:uid:gid:..`.
fn entry(users: &str, name: &str) -> Option<Account> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account {
            name: name.to_owned(),
            uid,
            gid,
            switch: true,
        })
    })
}
