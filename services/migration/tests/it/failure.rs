//! Steps that fail.

use weir_kernel::{Classify as _, ErrorKind};
use weir_testkit::TestDb;

use crate::folder::{Folder, WAIT, down, exists, up};

#[tokio::test]
async fn m05_a_failed_step_leaves_nothing_and_the_steps_before_it_stay() {
    let db = TestDb::empty().await;
    let second = "CREATE TABLE b (id int8); CREATE TABLE b (id int8)";
    let folder = Folder::new()
        .step(1, "first", "CREATE TABLE a (id int8)", "DROP TABLE a")
        .step(2, "second", second, "DROP TABLE b");
    let runner = folder.runner(&db).await;
    let error = up(&runner, None).await.expect_err("2 fails");
    assert_eq!(
        (error.reason(), error.kind()),
        ("MIGRATION_FAILED", ErrorKind::FailedPrecondition)
    );
    let line = error.to_string();
    assert!(
        line.contains("migration 2 `second` failed going up: relation \"b\" already exists"),
        "{line}"
    );
    assert!(line.contains("rolled back and left nothing"), "{line}");
    assert!(exists(&db, "a").await && !exists(&db, "b").await);
    assert_eq!(runner.status().await.expect("status works").current, 1);

    let fixed = folder.step(2, "second", "CREATE TABLE b (id int8)", "DROP TABLE b");
    assert_eq!(
        up(&fixed.runner(&db).await, None)
            .await
            .expect("2 applies")
            .versions,
        [2]
    );
}

#[tokio::test]
async fn m05_a_failed_first_step_leaves_an_empty_database() {
    let db = TestDb::empty().await;
    let before = db.schema_dump().await;
    let runner = Folder::new()
        .step(1, "first", "CREATE TABLE a (id int8); SELECT 1 / 0", "")
        .runner(&db)
        .await;
    let error = up(&runner, None).await.expect_err("1 fails");
    assert!(
        error.to_string().contains("division by zero (22012)"),
        "{error}"
    );
    assert_eq!(db.schema_dump().await, before);
}

#[tokio::test]
async fn m05_a_failed_way_back_leaves_the_step_applied() {
    let db = TestDb::empty().await;
    let down_file = "DROP TABLE a; DROP TABLE absent";
    let runner = Folder::new()
        .step(1, "first", "CREATE TABLE a (id int8)", down_file)
        .runner(&db)
        .await;
    up(&runner, None).await.expect("1 applies");
    let error = down(&runner, 0).await.expect_err("the way back fails");
    assert!(error.to_string().contains("failed going down"), "{error}");
    assert!(exists(&db, "a").await);
    assert!(runner.status().await.expect("status works").up_to_date);
}

#[tokio::test]
async fn m05_a_step_outside_a_transaction_says_what_it_left_and_is_repeated() {
    let db = TestDb::empty().await;
    let up_file = "-- no-transaction\nALTER TABLE a ADD COLUMN IF NOT EXISTS note text;\n\
                   DROP INDEX CONCURRENTLY IF EXISTS a_id;\nCREATE UNIQUE INDEX CONCURRENTLY a_id ON a (id);\n";
    let folder = Folder::new()
        .step(
            1,
            "first",
            "CREATE TABLE a (id int8); INSERT INTO a VALUES (1), (1)",
            "DROP TABLE a",
        )
        .step(
            2,
            "index",
            up_file,
            "-- no-transaction\nDROP INDEX CONCURRENTLY IF EXISTS a_id;",
        );
    let runner = folder.runner(&db).await;
    let line = up(&runner, None)
        .await
        .expect_err("the values are not unique")
        .to_string();
    for part in [
        "could not create unique index \"a_id\" (23505)",
        "statement 3 of 3, outside a transaction",
        "statements 1 to 2 are done and stay",
        "invalid indexes in the database: `a_id`",
        "recorded as unfinished",
        "run `up` again, which repeats it from its first statement",
    ] {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
    assert!(!line.contains("(1)"), "no value of a row is shown: {line}");
    let status = runner.status().await.expect("status works");
    assert_eq!((status.current, status.up_to_date), (1, false));
    assert!(status.migrations[1].unfinished && !status.migrations[1].applied);

    sqlx::query("DELETE FROM a")
        .execute(db.pool())
        .await
        .expect("the table is there");
    assert_eq!(
        up(&runner, None).await.expect("2 is repeated").versions,
        [2]
    );
    assert!(runner.status().await.expect("status works").up_to_date);
    assert_eq!(
        down(&runner, 1).await.expect("2 is taken back").versions,
        [2]
    );
    assert!(!exists(&db, "a_id").await);
}

#[tokio::test]
async fn m05_an_unfinished_step_can_be_taken_back() {
    let db = TestDb::empty().await;
    let up_file = "-- no-transaction\nCREATE TABLE a (id int8);\nSELECT 1 / 0;";
    let runner = Folder::new()
        .step(1, "first", up_file, "DROP TABLE a")
        .runner(&db)
        .await;
    up(&runner, None)
        .await
        .expect_err("the second statement fails");
    assert_eq!(
        down(&runner, 0)
            .await
            .expect("what is there is taken back")
            .versions,
        [1]
    );
    assert!(!exists(&db, "a").await && !exists(&db, "public.weir_migration").await);
}

#[tokio::test]
async fn m05_a_step_that_meets_a_lock_lets_go_and_tries_again() {
    let db = TestDb::empty().await;
    let second = "SET LOCAL lock_timeout = '20ms'; ALTER TABLE a ADD COLUMN note text";
    let runner = Folder::new()
        .step(1, "first", "CREATE TABLE a (id int8)", "DROP TABLE a")
        .step(2, "second", second, "ALTER TABLE a DROP COLUMN note")
        .runner(&db)
        .await;
    up(&runner, Some(1)).await.expect("1 applies");
    let mut hold = db.hold().await;
    hold.run("LOCK TABLE a IN ACCESS SHARE MODE").await;
    let (shown, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let run = tokio::spawn(async move {
        runner
            .up(None, WAIT, &mut |progress| {
                drop(shown.send(progress.message))
            })
            .await
    });
    let Some(line) = seen.recv().await else {
        panic!("{:?}", run.await)
    };
    assert!(
        line.contains("met a lock that somebody else holds, try 1 of 5"),
        "{line}"
    );
    hold.release().await;
    assert_eq!(
        run.await.expect("no panic").expect("2 applies").versions,
        [2]
    );
}
