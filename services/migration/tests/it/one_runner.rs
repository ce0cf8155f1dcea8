//! Several runners on one database.

use std::time::Duration;

use futures::{FutureExt as _, poll};
use weir_kernel::Classify as _;
use weir_testkit::TestDb;

use crate::folder::{Folder, WAIT, exists, quiet, up};

/// A second step that stands still while the test holds lock 1.
fn stops_at_lock_1() -> Folder {
    let up =
        "SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock(1); CREATE TABLE b (id int8)";
    Folder::new()
        .step(1, "first", "CREATE TABLE a (id int8)", "DROP TABLE a")
        .step(2, "second", up, "DROP TABLE b")
}

#[tokio::test]
async fn m02_two_runners_at_once_apply_each_step_once() {
    let db = TestDb::empty().await;
    let folder = Folder::two_steps();
    let (one, two) = (folder.runner(&db).await, folder.runner(&db).await);
    let (one, two) = tokio::join!(up(&one, None), up(&two, None));
    let mut versions = one.expect("one succeeds").versions;
    versions.extend(two.expect("and so does the other").versions);
    assert_eq!(versions, [1, 2]);
}

#[tokio::test]
async fn m02_the_second_runner_gives_up_with_the_holder_shown() {
    let db = TestDb::empty().await;
    let folder = stops_at_lock_1();
    let mut hold = db.hold().await;
    hold.run("SELECT pg_advisory_xact_lock(1)").await;
    let first = folder.runner(&db).await;
    let first = tokio::spawn(async move { up(&first, None).await });
    db.wait_until_blocked(1).await;

    let second = folder.runner(&db).await;
    let error = second
        .up(None, Duration::ZERO, &mut quiet)
        .await
        .expect_err("the first runner is at work");
    assert_eq!(error.reason(), "MIGRATION_LOCKED");
    let line = error.to_string();
    assert!(
        line.contains("`weir-migration test`") && line.contains("since "),
        "{line}"
    );
    // Status takes no lock.
    assert_eq!(second.status().await.expect("status works").current, 1);

    // One that waits shows the holder, and finds nothing to do when the first is done.
    let (shown, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let waiting = tokio::spawn(async move {
        second
            .up(None, WAIT, &mut |progress| {
                shown.send(progress.message).expect("the test listens")
            })
            .await
    });
    let line = seen
        .recv()
        .await
        .expect("the second runner says that it waits");
    assert!(
        line.contains("another runner is migrating") && line.contains("waiting up to 1m"),
        "{line}"
    );
    hold.release().await;
    assert_eq!(
        first
            .await
            .expect("no panic")
            .expect("the first succeeds")
            .versions,
        [1, 2]
    );
    assert_eq!(
        waiting
            .await
            .expect("no panic")
            .expect("the second succeeds")
            .versions,
        [0_i64; 0]
    );
}

#[tokio::test]
async fn m02_a_runner_that_is_gone_leaves_neither_its_lock_nor_its_step() {
    let db = TestDb::empty().await;
    let folder = stops_at_lock_1();
    let mut hold = db.hold().await;
    hold.run("SELECT pg_advisory_xact_lock(1)").await;
    let first = folder.runner(&db).await;
    let mut first = async move { up(&first, None).await }.boxed();
    // Drives the first runner until it stands at the lock, then drops it there.
    tokio::select! {
        result = &mut first => panic!("the first runner was not stopped: {result:?}"),
        () = db.wait_until_blocked(1) => {}
    }
    assert!(poll!(&mut first).is_pending());
    drop(first);

    let second = folder.runner(&db).await;
    let report = up(&second, Some(1))
        .await
        .expect("the lock is free, though the step's lock is not");
    assert_eq!((report.to, exists(&db, "b").await), (1, false));
    hold.release().await;
    assert_eq!(up(&second, None).await.expect("2 applies").versions, [2]);
}
