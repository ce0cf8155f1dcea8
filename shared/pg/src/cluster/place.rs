//! Where a cluster stands: its folder, its lock, its socket folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use super::account::Account;
use super::error::Error;

/// The port names the socket file only: the server listens on no network address.
pub(super) const PORT: u16 = 5432;

/// The longest path that fits the system's socket address.
const SOCKET_PATH_MAX: usize = 107;

/// The folder of one cluster and who runs its server.
///
/// ```text
/// home/lock         held for the life of the `Cluster`
/// home/pgdata/      PostgreSQL's data directory, 0700
/// home/server.log   the server's log
/// ```
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) home: PathBuf,
    pub(super) account: Account,
    pub(super) socket: PathBuf,
}

impl Place {
    pub(super) fn data(&self) -> PathBuf {
        self.home.join("pgdata")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.home.join("server.log")
    }

    pub(super) fn socket_file(&self) -> PathBuf {
        self.socket.join(format!(".s.PGSQL.{PORT}"))
    }
}

/// Decides where the cluster that was asked for in `wanted` stands. The second value says whether
/// that is elsewhere, below `relocation_root`: as root the server runs as another user, and that
/// user may be unable to reach `wanted`. A cluster that was relocated once stays where it is, also
/// when its folder has become reachable since: going back would look like a loss of all data.
pub(super) fn settle(
    wanted: &Path,
    relocation_root: &Path,
) -> Result<(PathBuf, Account, bool), Error> {
    let wanted = std::path::absolute(wanted).map_err(Error::io("resolve", wanted))?;
    fs::create_dir_all(&wanted).map_err(Error::io("create", &wanted))?;
    let wanted = fs::canonicalize(&wanted).map_err(Error::io("resolve", &wanted))?;
    let account = Account::for_data(&wanted.join("pgdata"))?;
    if !account.switch {
        return Ok((wanted, account, false));
    }
    let elsewhere = relocation_root.join(&digest(&[wanted.as_os_str().as_encoded_bytes()])[..16]);
    let here = wanted.join("pgdata").exists();
    if !elsewhere.join("pgdata").exists() || here {
        if account.can_enter(&wanted) {
            return Ok((wanted, account, false));
        }
        if here {
            return Err(Error::Unreachable {
                account: account.name,
                path: wanted,
            });
        }
    }
    let account = Account::for_data(&elsewhere.join("pgdata"))?;
    fs::create_dir_all(relocation_root).map_err(Error::io("create", relocation_root))?;
    own_folder(&elsewhere, 0o711)?;
    let origin = elsewhere.join("origin");
    fs::write(&origin, wanted.as_os_str().as_encoded_bytes())
        .map_err(Error::io("write", &origin))?;
    let elsewhere = fs::canonicalize(&elsewhere).map_err(Error::io("resolve", &elsewhere))?;
    if !account.can_enter(&elsewhere) {
        return Err(Error::Unreachable {
            account: account.name,
            path: elsewhere,
        });
    }
    Ok((elsewhere, account, true))
}

/// Creates a folder of this process's own user, or takes one that is. The check is done on the
/// open folder: in `/tmp` everybody may create a name before we do, also as a link.
pub(super) fn own_folder(path: &Path, mode: u32) -> Result<File, Error> {
    take_folder(path, mode, &[rustix::process::geteuid().as_raw()])
}

/// Makes the folder of the server's socket: short, for a socket's path has at most 107 bytes, and
/// only for the user that runs the server, for whoever reaches the socket is a superuser there.
pub(super) fn socket_folder(root: &Path, home: &Path, account: &Account) -> Result<PathBuf, Error> {
    let key = digest(&[
        &account.uid.to_le_bytes(),
        home.as_os_str().as_encoded_bytes(),
    ]);
    let path = root.join(format!("weir-{}", &key[..8]));
    let socket = path.join(format!(".s.PGSQL.{PORT}"));
    if socket.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(Error::SocketPath { path: socket });
    }
    let folder = take_folder(
        &path,
        0o700,
        &[account.uid, rustix::process::geteuid().as_raw()],
    )?;
    account.own(&folder, &path)?;
    Ok(path)
}

fn take_folder(path: &Path, mode: u32, owners: &[u32]) -> Result<File, Error> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", path)(error));
        }
        _ => {}
    }
    // Before opening: somebody else's folder cannot be opened, and its owner is the better reason.
    let owner = fs::symlink_metadata(path)
        .map_err(Error::io("examine", path))?
        .uid();
    if !owners.contains(&owner) {
        return Err(Error::ForeignOwner {
            path: path.to_owned(),
            owner,
        });
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| Error::io("open", path)(errno.into()))?;
    let folder = File::from(folder);
    let owner = folder.metadata().map_err(Error::io("examine", path))?.uid();
    if !owners.contains(&owner) {
        return Err(Error::ForeignOwner {
            path: path.to_owned(),
            owner,
        });
    }
    folder
        .set_permissions(fs::Permissions::from_mode(mode))
        .map_err(Error::io("change the mode of", path))?;
    Ok(folder)
}

/// Opens a file of the cluster's folder for reading and writing, never through a link.
pub(super) fn open_file(path: &Path, account: &Account) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(Error::io("open", path))?;
    account.own(&file, path)?;
    Ok(file)
}

/// Takes the cluster's lock, for as long as the file is open. The system gives it back when the
/// process ends, however it ends.
pub(super) fn lock(home: &Path, account: &Account) -> Result<File, Error> {
    let path = home.join("lock");
    let mut file = open_file(&path, account)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // An unreadable lock file only costs the process id in the message.
            let pid = file
                .read_to_string(&mut text)
                .ok()
                .and_then(|_| text.trim().parse().ok());
            return Err(Error::Locked {
                directory: home.to_owned(),
                pid,
            });
        }
        Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(Error::io("write", &path))?;
    Ok(file)
}

/// SHA-256 of the parts, in hexadecimal.
pub(super) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(
            u64::try_from(part.len())
                .expect("a length fits 64 bits")
                .to_le_bytes(),
        );
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
