//! The shared server of a test run, and the databases on it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use weir_pg::cluster::{Error, SharedCluster, SharedOptions, TestDatabase, ensure_template};

use crate::support::{Folder, binaries, execute, scalar, session_until_the_server_goes};

#[tokio::test]
async fn one_shared_server_serves_all_and_tests_get_databases_of_their_own() {
    let folder = Folder::new();
    let wanted = SharedOptions {
        binaries: Some(binaries().directory().to_owned()),
        home: std::env::var_os("HOME").map(PathBuf::from),
        directory: Some(folder.join("shared")),
        ..SharedOptions::default()
    };
    let (one, two) = tokio::join!(
        SharedCluster::attach(wanted.clone()),
        SharedCluster::attach(wanted.clone())
    );
    let (one, two) = (one.expect("started"), two.expect("found"));
    assert_eq!(one.pid(), two.pid());
    let admin = one.admin_url().to_owned();

    static BUILT: AtomicU32 = AtomicU32::new(0);
    let template = || {
        ensure_template(
            &admin,
            "weir",
            b"schema one",
            async |url: String| -> Result<(), sqlx::Error> {
                BUILT.fetch_add(1, Ordering::Relaxed);
                let mut connection = PgConnection::connect(&url).await?;
                sqlx::raw_sql("CREATE TABLE thing (id int)")
                    .execute(&mut connection)
                    .await?;
                connection.close().await
            },
        )
    };
    let (first, second, third) = tokio::join!(template(), template(), template());
    let name = first.expect("built");
    assert_eq!(
        (second.expect("found"), third.expect("found")),
        (name.clone(), name.clone())
    );
    assert_eq!(
        BUILT.load(Ordering::Relaxed),
        1,
        "one builds, the others wait"
    );

    let (a, b) = tokio::join!(
        TestDatabase::create(&admin, &name),
        TestDatabase::create(&admin, &name)
    );
    let (a, b) = (a.expect("a copy"), b.expect("another"));
    execute(&a.url(), "INSERT INTO thing VALUES (1)").await;
    assert_eq!(
        scalar(&b.url(), "SELECT count(*)::text FROM thing").await,
        "0"
    );
    // A forgotten session does not keep a database from being dropped.
    let forgotten = PgConnection::connect(&a.url())
        .await
        .expect("the database is up");
    a.close().await.expect("dropped");
    drop(forgotten);
    drop(b);
    assert_eq!(
        scalar(
            &admin,
            "SELECT count(*)::text FROM pg_database WHERE datname LIKE 't\\_%'"
        )
        .await,
        "0"
    );

    let failed =
        ensure_template(&admin, "weir", b"schema two", async |_| Err("no such luck")).await;
    assert!(matches!(failed, Err(Error::Template { .. })));
    let template_again = ensure_template(&admin, "weir", b"schema two", async |_| {
        Ok::<(), sqlx::Error>(())
    })
    .await;
    assert_ne!(template_again.expect("the draft is in nobody's way"), name);

    drop(two);
    one.stop().await.expect("stopped");
    // A server that is gone is replaced by a fresh one.
    let fresh = SharedCluster::attach(wanted).await.expect("started");
    assert_eq!(
        scalar(
            fresh.admin_url(),
            "SELECT count(*)::text FROM pg_database WHERE datname LIKE 'weir%'"
        )
        .await,
        "0"
    );
    fresh.stop().await.expect("stopped");
}

#[tokio::test]
async fn a_shared_server_that_nobody_uses_stops_by_itself() {
    let folder = Folder::new();
    let shared = SharedCluster::attach(SharedOptions {
        binaries: Some(binaries().directory().to_owned()),
        home: std::env::var_os("HOME").map(PathBuf::from),
        directory: Some(folder.join("shared")),
        idle: Duration::from_secs(1),
        ..SharedOptions::default()
    });
    let shared = shared.await.expect("started");
    let gone = session_until_the_server_goes(shared.admin_url()).await;
    drop(shared);
    assert!(
        gone.await.expect("the session's task ends"),
        "the server has ended the session"
    );
}

#[tokio::test]
async fn a_server_that_is_there_already_is_used_as_it_is() {
    let url = "postgres://somebody@elsewhere/db";
    let options = SharedOptions {
        external_url: Some(url.to_owned()),
        ..SharedOptions::default()
    };
    let shared = SharedCluster::attach(options)
        .await
        .expect("nothing is started");
    assert_eq!((shared.admin_url(), shared.pid()), (url, None));
}
