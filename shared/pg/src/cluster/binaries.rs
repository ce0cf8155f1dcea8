//! Where the distribution keeps PostgreSQL's server programs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Account;
use super::error::Error;

/// Where `make setup` unpacks the distribution's packages for an ordinary user, below the home
/// folder.
const UNPACKED: &str = ".cache/weir/postgres";

/// A folder with PostgreSQL's server programs (`initdb`, `postgres`), of one version.
#[derive(Debug, Clone)]
pub struct Binaries {
    directory: PathBuf,
    /// The root of an unpacked package tree, whose libraries are not on the system's search path.
    unpacked: Option<PathBuf>,
    version: u32,
}

impl Binaries {
    /// Finds server programs. `explicit` (the value of `WEIR_PG_BIN`) is the only place that is
    /// looked at when it is given. Otherwise, in this order: the newest of
    /// `/usr/lib/postgresql/*/bin`, of `/usr/pgsql-*/bin`, of what `make setup` unpacked below
    /// `home`, then the folders of `PATH`.
    ///
    /// # Errors
    /// [`Error::BinariesMissing`], whose text says what to install, and
    /// [`Error::BinariesVersion`] when a program was found but does not run.
    pub fn find(explicit: Option<&Path>, home: Option<&Path>) -> Result<Binaries, Error> {
        if let Some(directory) = explicit {
            if !complete(directory) {
                return Err(Error::BinariesMissing {
                    explicit: Some(directory.to_owned()),
                });
            }
            let directory = fs::canonicalize(directory).map_err(Error::io("resolve", directory))?;
            // Programs of an unpacked tree need its libraries even when they are named directly.
            let unpacked = unpacked_root(&directory, home);
            return Binaries::at(directory, unpacked);
        }
        let system = newest(Path::new("/usr/lib/postgresql"), "", "bin")
            .or_else(|| newest(Path::new("/usr"), "pgsql-", "bin"));
        if let Some(directory) = system {
            return Binaries::at(directory, None);
        }
        if let Some(root) = home.map(|home| home.join(UNPACKED))
            && let Some(directory) = newest(&root.join("usr/lib/postgresql"), "", "bin")
        {
            return Binaries::at(directory, Some(root));
        }
        match on_path() {
            Some(directory) => Binaries::at(directory, None),
            None => Err(Error::BinariesMissing { explicit: None }),
        }
    }

    /// The folder that holds the programs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The major version, such as 15.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The same programs of another major version, when they are installed next to these, as
    /// Debian does it: an upgrade of the system must not make old data unreadable.
    pub(super) fn sibling(&self, version: &str) -> Option<Binaries> {
        let directory = self.directory.parent()?.parent()?.join(version).join("bin");
        complete(&directory)
            .then(|| Binaries::at(directory, self.unpacked.clone()).ok())
            .flatten()
    }

    /// A command for one of the programs, run by `account`, with an environment of its own: a
    /// stray `PGPORT` or `PGOPTIONS` of the caller must not reach the server.
    pub(super) fn command(&self, program: &str, account: &Account) -> Command {
        let mut command = account.command(&self.directory.join(program));
        if let Some(path) = self.library_path() {
            command.env("LD_LIBRARY_PATH", path);
        }
        command
    }

    fn at(directory: PathBuf, unpacked: Option<PathBuf>) -> Result<Binaries, Error> {
        let mut binaries = Binaries {
            directory,
            unpacked,
            version: 0,
        };
        let program = binaries.directory.join("postgres");
        let mut command = Command::new(&program);
        if let Some(path) = binaries.library_path() {
            command.env("LD_LIBRARY_PATH", path);
        }
        let output = command.arg("--version").stdin(Stdio::null()).output();
        binaries.version = match output {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout);
                major(&said).ok_or_else(|| Error::BinariesVersion {
                    program,
                    detail: format!(
                        "{}{}",
                        said.trim(),
                        String::from_utf8_lossy(&output.stderr).trim()
                    ),
                })?
            }
            Err(error) => {
                return Err(Error::BinariesVersion {
                    program,
                    detail: error.to_string(),
                });
            }
        };
        Ok(binaries)
    }

    /// The unpacked tree's library folders: the plain ones and those of the machine's triplet.
    fn library_path(&self) -> Option<OsString> {
        let root = self.unpacked.as_ref()?;
        let mut folders = Vec::new();
        for base in ["usr/lib", "lib"] {
            let base = root.join(base);
            for entry in fs::read_dir(&base).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().contains("-linux-") && entry.path().is_dir()
                {
                    folders.push(entry.path());
                }
            }
            folders.push(base);
        }
        std::env::join_paths(folders).ok()
    }
}

/// Whether a folder holds the two programs that a cluster needs.
fn complete(directory: &Path) -> bool {
    ["initdb", "postgres"]
        .iter()
        .all(|program| directory.join(program).is_file())
}

/// The folder `base/prefix<version>/suffix` of the highest version that is complete.
fn newest(base: &Path, prefix: &str, suffix: &str) -> Option<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = fs::read_dir(base)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(prefix)?;
            // By number: as text, 9.6 would be newer than 15.
            let version = version
                .split('.')
                .map(|part| part.parse().ok())
                .collect::<Option<Vec<u32>>>()?;
            let directory = entry.path().join(suffix);
            complete(&directory).then_some((version, directory))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, directory)| directory)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the search path is the environment's"
)]
fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|folder| {
        // A link in /usr/local/bin may stand for `postgres` only; its target's folder has all.
        let program = fs::canonicalize(folder.join("postgres")).ok()?;
        let directory = program.parent()?.to_owned();
        complete(&directory).then_some(directory)
    })
}

fn unpacked_root(directory: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let root = fs::canonicalize(home?.join(UNPACKED)).ok()?;
    directory.starts_with(&root).then_some(root)
}

/// `postgres (PostgreSQL) 15.14 (Debian ..)` is 15; so is `15beta1`.
fn major(said: &str) -> Option<u32> {
    let rest = said.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn reads_the_major_version() {
        assert_eq!(
            major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major("sh: not found"), None);
    }
}
