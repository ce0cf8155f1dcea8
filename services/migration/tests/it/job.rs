//! The one-shot commands: what they print and how they exit.

use std::time::Duration;

use weir_migration::job::{Job, run};
use weir_testkit::TestDb;

use crate::folder::{Folder, WAIT};

struct Ran {
    code: u8,
    out: String,
    err: String,
}

async fn job(job: Job, json: bool, folder: &Folder, db: &TestDb) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let runner = folder.runner(db).await;
    let code = run(&job, Ok(runner), json, &mut out, &mut err)
        .await
        .expect("memory can be written");
    let text = |bytes| String::from_utf8(bytes).expect("jobs print UTF-8");
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}

fn up(target: Option<i64>) -> Job {
    Job::Up { target, wait: WAIT }
}

#[tokio::test]
async fn m01_status_is_a_table_or_the_answer_in_json() {
    let db = TestDb::empty().await;
    let folder = Folder::two_steps();
    assert_eq!(job(up(Some(1)), false, &folder, &db).await.code, 0);
    let ran = job(Job::Status, false, &folder, &db).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(
        lines[0].starts_with("   1  first ") && lines[0].contains("applied  2"),
        "{}",
        ran.out
    );
    assert!(
        lines[1].starts_with("   2  second ") && lines[1].ends_with("pending"),
        "{}",
        ran.out
    );
    assert_eq!(lines[2], "database 1, binary 2: binary and database differ");

    let ran = job(Job::Status, true, &folder, &db).await;
    let json: serde_json::Value = serde_json::from_str(&ran.out).expect("one line of JSON");
    assert_eq!(
        (&json["current"], &json["upToDate"]),
        (&"1".into(), &false.into())
    );
    assert_eq!(json["migrations"][1]["name"], "second");
}

#[tokio::test]
async fn m02_each_way_to_end_has_its_exit_code() {
    let db = TestDb::empty().await;
    let folder = Folder::two_steps();
    let ran = job(up(None), true, &folder, &db).await;
    assert_eq!(
        (ran.code, ran.out.lines().count(), ran.err.as_str()),
        (0, 2, "")
    );
    let ran = job(up(None), false, &folder, &db).await;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "nothing to do, the database is at version 2\n")
    );

    let ran = job(up(Some(1)), false, &folder, &db).await;
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.starts_with("error: ") && ran.err.ends_with(" (MIGRATION_BACKWARD)\n"),
        "{}",
        ran.err
    );
    let down = |confirm| Job::Down {
        target: Some(1),
        confirm,
        wait: WAIT,
    };
    let ran = job(down(false), true, &folder, &db).await;
    let json: serde_json::Value = serde_json::from_str(&ran.err).expect("one line of JSON");
    assert_eq!(
        (ran.code, &json["reason"]),
        (2, &"MIGRATION_NOT_CONFIRMED".into())
    );
    assert_eq!(job(down(true), false, &folder, &db).await.code, 0);

    let broken = Folder::two_steps().step(2, "second", "SELECT 1 / 0", "");
    assert_eq!(job(up(None), false, &broken, &db).await.code, 1);
}

#[tokio::test]
async fn m02_a_job_that_finds_another_runner_exits_with_5() {
    let db = TestDb::empty().await;
    let folder = Folder::new().step(1, "first", "SELECT pg_advisory_xact_lock(1)", "SELECT 1");
    let mut hold = db.hold().await;
    hold.run("SELECT pg_advisory_xact_lock(1)").await;
    let runner = folder.runner(&db).await;
    let first = tokio::spawn(async move { crate::folder::up(&runner, None).await });
    db.wait_until_blocked(1).await;
    let ran = job(
        Job::Up {
            target: None,
            wait: Duration::from_millis(300),
        },
        false,
        &folder,
        &db,
    )
    .await;
    assert_eq!(ran.code, 5);
    assert!(
        ran.out
            .starts_with("another runner is migrating this database: server process "),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("given up after ") && ran.err.ends_with(" (MIGRATION_LOCKED)\n"),
        "{}",
        ran.err
    );
    hold.release().await;
    first.await.expect("no panic").expect("the first succeeds");
}
