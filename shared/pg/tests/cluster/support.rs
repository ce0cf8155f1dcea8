//! Folders, options and the other process of the tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sqlx::{Connection, PgConnection};
use uuid::Uuid;
use weir_pg::cluster::{Binaries, Lifetime, Options};

/// Tells the other half of a test, run by [`child`], which folder to use and how.
pub(crate) const CHILD_DIRECTORY: &str = "WEIR_TEST_CLUSTER_DIRECTORY";
pub(crate) const CHILD_LIFETIME: &str = "WEIR_TEST_CLUSTER_LIFETIME";

/// A folder that every user can reach, removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("weir-cluster-{}", Uuid::now_v7().simple()));
        fs::create_dir(&path).expect("the folder for temporary files takes a new one");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own folder");
        Folder(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn binaries() -> Binaries {
    let named = |name| std::env::var_os(name).map(PathBuf::from);
    Binaries::find(named("WEIR_PG_BIN").as_deref(), named("HOME").as_deref())
        .expect("`make setup` was run")
}

pub(crate) fn options(directory: &Path, lifetime: Lifetime) -> Options {
    let mut options = Options::new(directory, binaries());
    options.durable = false;
    options.lifetime = lifetime;
    options
}

pub(crate) async fn scalar(url: &str, sql: &'static str) -> String {
    let mut connection = PgConnection::connect(url).await.expect("the server is up");
    let value = sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .expect("a value");
    connection.close().await.expect("a good-bye");
    value
}

pub(crate) async fn execute(url: &str, sql: &'static str) {
    let mut connection = PgConnection::connect(url).await.expect("the server is up");
    sqlx::raw_sql(sql)
        .execute(&mut connection)
        .await
        .expect("the statement holds");
    connection.close().await.expect("a good-bye");
}

/// A session that waits inside the server: it fails as soon as the server goes, which lets a test
/// wait for that without looking at a clock.
pub(crate) async fn session_until_the_server_goes(url: &str) -> tokio::task::JoinHandle<bool> {
    let mut connection = PgConnection::connect(url).await.expect("the server is up");
    tokio::spawn(async move {
        sqlx::raw_sql("SELECT pg_catalog.pg_sleep(60)")
            .execute(&mut connection)
            .await
            .is_err()
    })
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Another process that runs a cluster; it ends by being killed.
pub(crate) struct Other {
    pub(crate) process: Child,
    pub(crate) server: i32,
    pub(crate) url: String,
}

impl Other {
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("our child");
        self.process.wait().expect("our child");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs [`the_other_process`] on a folder, and returns when its cluster is up.
pub(crate) fn child(directory: &Path, lifetime: &str) -> Other {
    let mut process = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .env(CHILD_LIFETIME, lifetime)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs");
    let output = BufReader::new(process.stdout.take().expect("a pipe"));
    let line = output
        .lines()
        .map(|line| line.expect("text"))
        .find_map(|line| line.split_once("ready ").map(|(_, rest)| rest.to_owned()))
        .expect("the child says that it is ready");
    let (server, url) = line.split_once(' ').expect("two words");
    Other {
        process,
        server: server.parse().expect("a process id"),
        url: url.to_owned(),
    }
}
