//! Status, up and down, one runner at a time.

use weir_kernel::Classify as _;
use weir_testkit::{TestDb, migrations_folder};

use crate::folder::{Folder, WAIT, down, exists, quiet, runner, up};

#[tokio::test]
async fn m01_status_works_on_an_empty_database_and_changes_nothing() {
    let db = TestDb::empty().await;
    let before = db.schema_dump().await;
    let status = Folder::two_steps()
        .runner(&db)
        .await
        .status()
        .await
        .expect("status works");
    assert_eq!(
        (status.current, status.latest, status.up_to_date),
        (0, 2, false)
    );
    assert!(
        status
            .migrations
            .iter()
            .all(|m| !m.applied && m.applied_at.is_none())
    );
    assert_eq!(
        status
            .migrations
            .iter()
            .map(|m| m.name.as_str())
            .collect::<Vec<_>>(),
        ["first", "second"]
    );
    assert_eq!(db.schema_dump().await, before);
}

#[tokio::test]
async fn m01_status_tells_applied_pending_unknown_and_changed() {
    let db = TestDb::empty().await;
    up(&Folder::two_steps().runner(&db).await, None)
        .await
        .expect("both steps apply");

    let status = Folder::two_steps()
        .runner(&db)
        .await
        .status()
        .await
        .expect("status works");
    assert!(
        status.up_to_date
            && status
                .migrations
                .iter()
                .all(|m| m.applied && m.applied_at.is_some())
    );

    // Another binary: an edited 1, no 2, a new 3.
    let other = Folder::new()
        .step(1, "first", "CREATE SCHEMA other", "")
        .step(3, "third", "SELECT 1", "");
    let status = other
        .runner(&db)
        .await
        .status()
        .await
        .expect("status works");
    assert_eq!(
        (status.current, status.latest, status.up_to_date),
        (2, 3, false)
    );
    assert_eq!(
        (status.unknown_applied, status.checksum_mismatches),
        (vec![2], vec![1])
    );
    assert_eq!(
        status
            .migrations
            .iter()
            .map(|m| m.applied)
            .collect::<Vec<_>>(),
        [true, false]
    );
}

#[tokio::test]
async fn m02_up_applies_what_is_missing_and_may_be_repeated() {
    let db = TestDb::empty().await;
    let runner = Folder::two_steps().runner(&db).await;
    let mut lines = Vec::new();
    let report = runner
        .up(Some(1), WAIT, &mut |p| {
            lines.push((p.version, p.done, p.total))
        })
        .await
        .expect("1 applies");
    assert_eq!(
        (report.from, report.to, report.versions, lines),
        (0, 1, vec![1], vec![(1, 1, 1)])
    );
    assert!(exists(&db, "s.a").await && !exists(&db, "s.b").await);

    assert_eq!(up(&runner, None).await.expect("2 applies").versions, [2]);
    assert!(exists(&db, "s.b").await);
    let again = up(&runner, None).await.expect("nothing to do is a success");
    assert_eq!((again.from, again.to, again.versions), (2, 2, vec![]));
    assert_eq!(
        up(&runner, Some(2))
            .await
            .expect("being there is a success")
            .versions,
        [0_i64; 0]
    );
}

#[tokio::test]
async fn m02_up_refuses_to_move_backward_and_unknown_targets() {
    let db = TestDb::empty().await;
    let runner = Folder::two_steps().runner(&db).await;
    up(&runner, None).await.expect("both steps apply");
    let before = db.schema_dump().await;

    let error = up(&runner, Some(1)).await.expect_err("1 is behind");
    assert_eq!(error.reason(), "MIGRATION_BACKWARD");
    for target in [3, 0, -1] {
        let error = up(&runner, Some(target))
            .await
            .expect_err("there is no such migration");
        assert_eq!(error.reason(), "MIGRATION_UNKNOWN_TARGET", "{target}");
    }
    assert_eq!(db.schema_dump().await, before);
}

#[tokio::test]
async fn m02_down_refuses_without_target_without_confirmation_and_unknown_targets() {
    let db = TestDb::empty().await;
    let runner = Folder::two_steps().runner(&db).await;
    up(&runner, Some(1)).await.expect("1 applies");
    let before = db.schema_dump().await;
    for (target, confirm, reason) in [
        (None, true, "MIGRATION_NOT_CONFIRMED"),
        (None, false, "MIGRATION_NOT_CONFIRMED"),
        (Some(0), false, "MIGRATION_NOT_CONFIRMED"),
        (Some(7), true, "MIGRATION_UNKNOWN_TARGET"),
        (Some(-1), true, "MIGRATION_UNKNOWN_TARGET"),
        // Known, and never reached.
        (Some(2), true, "MIGRATION_UNKNOWN_TARGET"),
    ] {
        let error = runner
            .down(target, confirm, WAIT, &mut quiet)
            .await
            .expect_err("it is refused");
        assert_eq!(error.reason(), reason, "{target:?} {confirm}");
        assert!(!error.violations().is_empty());
    }
    assert_eq!(db.schema_dump().await, before);
    assert_eq!(
        down(&runner, 1)
            .await
            .expect("being there is a success")
            .versions,
        [0_i64; 0]
    );
}

#[tokio::test]
async fn m02_down_takes_back_the_newest_first_and_0_leaves_nothing() {
    let db = TestDb::empty().await;
    let empty = db.schema_dump().await;
    let runner = Folder::two_steps().runner(&db).await;
    up(&runner, None).await.expect("both steps apply");
    let full = db.schema_dump().await;

    assert_eq!(
        down(&runner, 1).await.expect("2 is taken back").versions,
        [2]
    );
    assert!(exists(&db, "s.a").await && !exists(&db, "s.b").await);
    up(&runner, None).await.expect("2 applies again");
    assert_eq!(db.schema_dump().await, full);

    let report = down(&runner, 0).await.expect("all is taken back");
    assert_eq!(
        (report.from, report.to, report.versions),
        (2, 0, vec![2, 1])
    );
    assert_eq!(db.schema_dump().await, empty);
}

#[tokio::test]
async fn m02_a_database_of_a_newer_or_another_binary_is_left_alone() {
    let db = TestDb::empty().await;
    up(&Folder::two_steps().runner(&db).await, None)
        .await
        .expect("both steps apply");
    let before = db.schema_dump().await;

    let older = Folder::new().step(
        1,
        "first",
        "CREATE SCHEMA s; CREATE TABLE s.a (id int8)",
        "DROP SCHEMA s CASCADE",
    );
    let edited =
        Folder::two_steps().step(2, "second", "CREATE TABLE s.c (id int8)", "DROP TABLE s.c");
    for (folder, reason) in [
        (older, "MIGRATION_UNKNOWN_APPLIED"),
        (edited, "MIGRATION_CHECKSUM_MISMATCH"),
    ] {
        let runner = folder.runner(&db).await;
        let error = up(&runner, None).await.expect_err("it is refused");
        assert_eq!(error.reason(), reason);
        assert!(error.to_string().contains('2'), "{error}");
        assert_eq!(
            down(&runner, 0).await.expect_err("it is refused").reason(),
            reason
        );
    }
    assert_eq!(db.schema_dump().await, before);
}

#[tokio::test]
async fn m02_a_step_without_a_way_back_is_refused_before_anything_is_taken_back() {
    let db = TestDb::empty().await;
    let runner = Folder::new()
        .file("0001_one_way.up.sql", "CREATE TABLE a (id int8)")
        .step(2, "second", "CREATE TABLE b (id int8)", "DROP TABLE b")
        .runner(&db)
        .await;
    up(&runner, None).await.expect("both steps apply");
    assert_eq!(
        down(&runner, 0)
            .await
            .expect_err("1 has no down file")
            .reason(),
        "MIGRATION_FAILED"
    );
    assert!(exists(&db, "b").await);
}

#[tokio::test]
async fn m02_the_schema_goes_down_and_up_again() {
    let db = TestDb::empty().await;
    let empty = db.schema_dump().await;
    let runner = runner(&migrations_folder(), &db).await;
    // Step by step, and back step by step: each down is the inverse of its up.
    let mut before = vec![empty.clone()];
    for step in runner.steps() {
        up(&runner, Some(step.version))
            .await
            .expect("the step applies");
        before.push(db.schema_dump().await);
    }
    before.pop();
    let full = db.schema_dump().await;
    let targets: Vec<i64> = std::iter::once(0)
        .chain(runner.steps().iter().map(|step| step.version))
        .collect();
    for (target, before) in targets.iter().zip(&before).rev() {
        down(&runner, *target)
            .await
            .expect("the step is taken back");
        assert_eq!(
            &db.schema_dump().await,
            before,
            "after going down to {target}"
        );
    }
    assert_eq!(db.schema_dump().await, empty);
    up(&runner, None).await.expect("all steps apply again");
    assert_eq!(db.schema_dump().await, full);
}

#[tokio::test]
async fn m04_readiness_names_the_first_pending_migration() {
    let db = TestDb::empty().await;
    let service = db.open("a service");
    let why = weir_pg::schema::readiness(&service)
        .await
        .expect_err("nothing is applied");
    assert!(why.starts_with("migration 1 `"), "{why}");

    let migrator = &weir_migration::MIGRATOR;
    let runner =
        weir_migration::Runner::new(db.url(), migrator, "test").expect("the kit made this address");
    let [.., before_last, last] = weir_pg::schema::KNOWN else {
        panic!("there are several migrations")
    };
    up(&runner, Some(before_last.0))
        .await
        .expect("all but one apply");
    let why = weir_pg::schema::readiness(&service)
        .await
        .expect_err("one is pending");
    assert_eq!(
        why,
        format!(
            "migration {} `{}` is pending; run `weir migrate up`",
            last.0, last.1
        )
    );
    assert_eq!(
        weir_pg::schema::is_current(&service, before_last.0).await,
        Ok(true)
    );
    assert_eq!(
        weir_pg::schema::is_current(&service, last.0).await,
        Ok(false)
    );

    up(&runner, None).await.expect("the last applies");
    assert_eq!(weir_pg::schema::readiness(&service).await, Ok(()));
    // A newer binary's migration does not matter to an older service.
    let newer = "INSERT INTO public.weir_migration VALUES (999999, 'newer', now(), true, '', 0)";
    sqlx::query(newer)
        .execute(db.pool())
        .await
        .expect("the row is right");
    assert_eq!(weir_pg::schema::readiness(&service).await, Ok(()));
}
