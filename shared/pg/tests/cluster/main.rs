//! A private PostgreSQL: started, stopped, killed, found again, and never in the wrong hands.
//! These run real servers, as root (which switches the user) or as an ordinary user.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests start programs and read the environment as a process does"
)]

mod shared;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sqlx::{Connection, PgConnection};
use weir_pg::cluster::{Binaries, Cluster, Error, Lifetime};

use crate::support::{
    CHILD_DIRECTORY, CHILD_LIFETIME, Folder, child, execute, is_root, options, scalar,
    session_until_the_server_goes,
};

#[tokio::test]
async fn a_stopped_cluster_keeps_its_data_and_its_log() {
    let folder = Folder::new();
    let home = folder.join("pg");
    // Durable, as `weir dev` wants it.
    let mut wanted = options(&home, Lifetime::WithProcess);
    wanted.durable = true;
    wanted
        .settings
        .push(("work_mem".to_owned(), "5MB".to_owned()));

    let cluster = Cluster::start(wanted.clone())
        .await
        .expect("the first start makes it");
    assert_eq!(cluster.relocated(), None);
    assert!(
        cluster
            .create_database_if_missing("weir")
            .await
            .expect("created")
    );
    assert!(
        !cluster
            .create_database_if_missing("weir")
            .await
            .expect("there already")
    );
    assert!(matches!(
        cluster.create_database_if_missing("we\"ir").await,
        Err(Error::Name { .. })
    ));
    let url = cluster.url("weir");
    assert_eq!(scalar(&url, "SELECT current_setting('fsync')").await, "on");
    assert_eq!(
        scalar(&url, "SELECT current_setting('work_mem')").await,
        "5MB"
    );
    assert_eq!(
        scalar(&url, "SELECT current_setting('listen_addresses')").await,
        ""
    );
    execute(
        &url,
        "CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)",
    )
    .await;
    cluster.stop().await.expect("stopped");
    assert!(
        PgConnection::connect(&url).await.is_err(),
        "nobody listens after the stop"
    );
    assert!(!home.join("pgdata/postmaster.pid").exists());

    let cluster = Cluster::start(wanted)
        .await
        .expect("the second start finds it");
    assert!(!cluster.adopted());
    assert_eq!(
        scalar(&cluster.url("weir"), "SELECT id::text FROM kept").await,
        "7"
    );
    cluster.stop().await.expect("stopped");
    assert!(home.join("server.log").exists());
}

#[tokio::test]
async fn the_socket_folder_is_for_the_servers_user_only() {
    let folder = Folder::new();
    let cluster = Cluster::start(options(&folder.join("pg"), Lifetime::Ephemeral))
        .await
        .expect("started");
    let url = cluster.url("postgres");
    let socket = PathBuf::from(url.split_once("host=").expect("a socket folder").1);
    let mode = fs::metadata(&socket)
        .expect("the folder")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    if is_root() {
        let user = scalar(&url, "SELECT pg_catalog.pg_read_file('/proc/self/status')").await;
        let uid = user
            .lines()
            .find(|line| line.starts_with("Uid:"))
            .expect("a user id")
            .to_owned();
        assert_ne!(uid.split_whitespace().nth(1), Some("0"), "{uid}");
        let groups = user
            .lines()
            .find(|line| line.starts_with("Groups:"))
            .expect("groups")
            .to_owned();
        assert_eq!(
            groups.split_whitespace().nth(1),
            None,
            "root's groups are gone: {groups}"
        );
    }
    cluster.stop().await.expect("stopped");
    assert!(
        !folder.join("pg").exists(),
        "an ephemeral cluster leaves nothing"
    );
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_socket_folder_that_is_a_link_is_refused() {
    let folder = Folder::new();
    let sockets = folder.join("s");
    fs::create_dir(&sockets).expect("a new folder");
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o755)).expect("our own folder");
    let mut wanted = options(&folder.join("pg"), Lifetime::WithProcess);
    wanted.socket_root = sockets.clone();
    let cluster = Cluster::start(wanted.clone()).await.expect("started");
    let url = cluster.url("postgres");
    cluster.stop().await.expect("stopped");

    let socket = PathBuf::from(url.split_once("host=").expect("a socket folder").1);
    assert!(!socket.exists(), "a stop takes the empty folder away");
    fs::create_dir(folder.join("trap")).expect("a new folder");
    std::os::unix::fs::symlink(folder.join("trap"), &socket).expect("a link in our folder");
    let refused = Cluster::start(wanted.clone())
        .await
        .expect_err("a link is not a folder of ours");
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    assert_eq!(
        fs::read_dir(folder.join("trap"))
            .expect("the folder")
            .count(),
        0
    );

    if is_root() {
        fs::remove_file(&socket).expect("our own link");
        fs::create_dir(&socket).expect("a new folder");
        std::os::unix::fs::chown(&socket, Some(12345), None).expect("root may");
        let refused = Cluster::start(wanted)
            .await
            .expect_err("somebody else's folder");
        assert!(
            matches!(refused, Error::ForeignOwner { owner: 12345, .. }),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_socket_path_that_is_too_long_is_refused() {
    let folder = Folder::new();
    let mut wanted = options(&folder.join("pg"), Lifetime::WithProcess);
    wanted.socket_root = folder.join(&"s".repeat(100));
    let refused = Cluster::start(wanted).await.expect_err("over 107 bytes");
    assert!(matches!(refused, Error::SocketPath { .. }), "{refused}");
}

#[tokio::test]
async fn root_below_a_closed_folder_stands_elsewhere() {
    if !is_root() {
        return; // An ordinary user's server reaches whatever the user reaches.
    }
    let folder = Folder::new();
    let closed = folder.join("closed");
    fs::create_dir(&closed).expect("a new folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("our own folder");
    let mut wanted = options(&closed.join("data"), Lifetime::WithProcess);
    wanted.relocation_root = folder.join("lib");

    let cluster = Cluster::start(wanted.clone())
        .await
        .expect("started elsewhere");
    let elsewhere = cluster.relocated().expect("it says so").to_owned();
    assert!(
        elsewhere.starts_with(folder.join("lib")),
        "{}",
        elsewhere.display()
    );
    execute(
        &cluster.url("postgres"),
        "CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)",
    )
    .await;
    cluster.stop().await.expect("stopped");

    // Where its data is, it stays, also when the folder has become reachable.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).expect("our own folder");
    let cluster = Cluster::start(wanted).await.expect("started");
    assert_eq!(cluster.relocated(), Some(elsewhere.as_path()));
    assert_eq!(
        scalar(&cluster.url("postgres"), "SELECT id::text FROM kept").await,
        "7"
    );
    cluster.stop().await.expect("stopped");
}

#[tokio::test]
async fn a_directory_in_use_is_refused_with_the_holders_process_id() {
    let folder = Folder::new();
    let home = folder.join("pg");
    let mut other = child(&home, "ephemeral");
    let refused = Cluster::start(options(&home, Lifetime::Kept))
        .await
        .expect_err("the child has it");
    assert!(
        refused
            .to_string()
            .contains(&format!("in use by process {}", other.process.id())),
        "{refused}"
    );
    other.kill();
}

#[tokio::test]
async fn a_server_left_by_a_killed_process_is_adopted() {
    let folder = Folder::new();
    let home = folder.join("pg");
    let mut other = child(&home, "kept");
    execute(
        &other.url,
        "CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)",
    )
    .await;
    other.kill();

    let cluster = Cluster::start(options(&home, Lifetime::Kept))
        .await
        .expect("adopted");
    assert!(cluster.adopted());
    assert_eq!(cluster.pid(), other.server);
    assert_eq!(
        scalar(&cluster.url("postgres"), "SELECT id::text FROM kept").await,
        "7"
    );
    // Dropped without a stop, a kept server stays; with other settings it is started again.
    drop(cluster);
    let mut changed = options(&home, Lifetime::WithProcess);
    changed.max_connections = 33;
    let cluster = Cluster::start(changed).await.expect("started again");
    assert!(!cluster.adopted());
    assert_eq!(
        scalar(
            &cluster.url("postgres"),
            "SELECT current_setting('max_connections')"
        )
        .await,
        "33"
    );
    assert_eq!(
        scalar(&cluster.url("postgres"), "SELECT id::text FROM kept").await,
        "7"
    );
    cluster.stop().await.expect("stopped");
}

#[tokio::test]
async fn a_server_bound_to_a_process_ends_when_that_is_killed() {
    let folder = Folder::new();
    let mut other = child(&folder.join("pg"), "ephemeral");
    let gone = session_until_the_server_goes(&other.url).await;
    other.kill();
    assert!(
        gone.await.expect("the session's task ends"),
        "the server has ended the session"
    );
}

#[tokio::test]
async fn a_pid_file_of_a_dead_server_does_not_stop_a_start() {
    let folder = Folder::new();
    let home = folder.join("pg");
    Cluster::start(options(&home, Lifetime::WithProcess))
        .await
        .expect("made")
        .stop()
        .await
        .expect("stopped");
    // As after a restart of the machine: the id now is that of a process that is no server.
    let file = home.join("pgdata/postmaster.pid");
    fs::write(
        &file,
        format!(
            "{}\n{}\n",
            std::process::id(),
            home.join("pgdata").display()
        ),
    )
    .expect("a file");
    let cluster = Cluster::start(options(&home, Lifetime::WithProcess))
        .await
        .expect("started all the same");
    cluster.stop().await.expect("stopped");
}

#[tokio::test]
async fn a_half_made_data_directory_is_made_anew() {
    let folder = Folder::new();
    let home = folder.join("pg");
    fs::create_dir_all(home.join("pgdata.new")).expect("a folder");
    fs::write(home.join("pgdata.new/PG_VERSION"), "15\n").expect("a file");
    let cluster = Cluster::start(options(&home, Lifetime::WithProcess))
        .await
        .expect("started");
    cluster.stop().await.expect("stopped");
}

#[tokio::test]
async fn a_setting_that_the_server_refuses_is_said_in_the_error() {
    let folder = Folder::new();
    let mut wanted = options(&folder.join("pg"), Lifetime::WithProcess);
    wanted
        .settings
        .push(("work_mem".to_owned(), "many".to_owned()));
    let refused = Cluster::start(wanted).await.expect_err("the server ends");
    assert!(
        matches!(refused, Error::Died { .. }) && refused.to_string().contains("work_mem"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_ephemeral_cluster_refuses_a_folder_with_something_in_it() {
    let folder = Folder::new();
    fs::write(folder.join("precious"), "x").expect("a file");
    let refused = Cluster::start(options(&folder.0, Lifetime::Ephemeral))
        .await
        .expect_err("not empty");
    assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");
    assert!(folder.join("precious").exists());
}

#[test]
fn missing_binaries_say_what_to_do() {
    let folder = Folder::new();
    let missing = Binaries::find(Some(&folder.0), None).expect_err("an empty folder");
    assert!(
        missing
            .to_string()
            .contains("run `make setup`, or install the `postgresql` package"),
        "{missing}"
    );
}

#[tokio::test]
#[ignore = "the other process of the tests above, which start it themselves"]
async fn the_other_process() {
    // Run by hand with all ignored tests it has nothing to do.
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else {
        return;
    };
    let lifetime = match std::env::var(CHILD_LIFETIME).as_deref() {
        Ok("kept") => Lifetime::Kept,
        Ok("ephemeral") => Lifetime::Ephemeral,
        _ => Lifetime::WithProcess,
    };
    let cluster = Cluster::start(options(Path::new(&directory), lifetime))
        .await
        .expect("started");
    {
        println!("ready {} {}", cluster.pid(), cluster.url("postgres"));
    }
    // Until the kill; or, should the parent be gone, until its end of the pipe closes.
    let _ = std::io::stdin().lines().next();
}
