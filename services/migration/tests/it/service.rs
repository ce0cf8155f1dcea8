//! The contract, through the generated client over the service's own routes.

use tonic::{Code, Status, Streaming};
use weir_kernel::Classify as _;
use weir_proto::migration::v1::inspect_service_client::InspectServiceClient;
use weir_proto::migration::v1::migration_service_client::MigrationServiceClient;
use weir_proto::migration::v1::{
    DiagnoseRequest, DownRequest, GetStatusRequest, UpRequest, UpResponse,
};
use weir_rpc::{Problem, Upstream};
use weir_testkit::{TestDb, upstream};

use crate::folder::{Folder, exists};

async fn service(folder: &Folder, db: &TestDb) -> Upstream {
    upstream(
        weir_migration::routes(folder.runner(db).await),
        "demo",
        "operator",
    )
}

/// Reads a stream to its end: what it said, and the error that ended it.
async fn all<T>(mut stream: Streaming<T>) -> (Vec<T>, Option<Status>) {
    let mut said = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(message)) => said.push(message),
            Ok(None) => return (said, None),
            Err(status) => return (said, Some(status)),
        }
    }
}

fn versions(said: &[UpResponse]) -> Vec<(i64, i32, i32)> {
    said.iter()
        .map(|up| (up.version, up.done, up.total))
        .collect()
}

#[tokio::test]
async fn m01_get_status_answers_before_and_after() {
    let db = TestDb::empty().await;
    let mut client = MigrationServiceClient::new(service(&Folder::two_steps(), &db).await);
    let status = client
        .get_status(GetStatusRequest {})
        .await
        .expect("status works")
        .into_inner();
    assert_eq!(
        (status.current, status.latest, status.up_to_date),
        (0, 2, false)
    );
    let (said, ended) = all(client
        .up(UpRequest::default())
        .await
        .expect("up begins")
        .into_inner())
    .await;
    assert!(ended.is_none(), "{ended:?}");
    assert_eq!(versions(&said), [(1, 1, 2), (2, 2, 2)]);
    let status = client
        .get_status(GetStatusRequest {})
        .await
        .expect("status works")
        .into_inner();
    assert_eq!((status.current, status.up_to_date), (2, true));
    assert!(
        status
            .migrations
            .iter()
            .all(|m| m.applied && m.applied_at.is_some())
    );
}

#[tokio::test]
async fn m02_refusals_carry_their_reasons() {
    let db = TestDb::empty().await;
    let mut client = MigrationServiceClient::new(service(&Folder::two_steps(), &db).await);
    let (_, ended) = all(client
        .up(UpRequest::default())
        .await
        .expect("up begins")
        .into_inner())
    .await;
    assert!(ended.is_none(), "{ended:?}");

    for (target, code, reason) in [
        (1, Code::FailedPrecondition, "MIGRATION_BACKWARD"),
        (9, Code::InvalidArgument, "MIGRATION_UNKNOWN_TARGET"),
    ] {
        let request = UpRequest {
            target: Some(target),
            wait: None,
        };
        let (said, ended) = all(client.up(request).await.expect("up begins").into_inner()).await;
        let status = ended.expect("it is refused");
        assert_eq!((said.len(), status.code()), (0, code));
        assert_eq!(Problem::from(status).reason, reason);
    }
    for request in [
        DownRequest {
            confirm: true,
            ..Default::default()
        },
        DownRequest {
            target: Some(0),
            ..Default::default()
        },
    ] {
        let (_, ended) = all(client
            .down(request)
            .await
            .expect("down begins")
            .into_inner())
        .await;
        assert_eq!(
            Problem::from(ended.expect("it is refused")).reason,
            "MIGRATION_NOT_CONFIRMED"
        );
    }
    let wait = Some(prost_types::Duration {
        seconds: -1,
        nanos: 0,
    });
    let refused = client
        .up(UpRequest { target: None, wait })
        .await
        .expect_err("time does not run backward");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(exists(&db, "s.b").await);

    let request = DownRequest {
        target: Some(0),
        confirm: true,
        wait: None,
    };
    let (said, ended) = all(client
        .down(request)
        .await
        .expect("down begins")
        .into_inner())
    .await;
    assert!(ended.is_none(), "{ended:?}");
    assert_eq!(
        said.iter().map(|down| down.version).collect::<Vec<_>>(),
        [2, 1]
    );
    assert!(!exists(&db, "s.a").await);
}

#[tokio::test]
async fn m05_a_failure_comes_after_what_was_said_and_is_readable() {
    let db = TestDb::empty().await;
    let folder = Folder::two_steps().step(3, "third", "SELECT 1 / 0", "SELECT 1");
    let mut client = MigrationServiceClient::new(service(&folder, &db).await);
    let (said, ended) = all(client
        .up(UpRequest::default())
        .await
        .expect("up begins")
        .into_inner())
    .await;
    assert_eq!(versions(&said), [(1, 1, 3), (2, 2, 3)]);
    let status = ended.expect("3 fails");
    assert!(
        status
            .message()
            .contains("migration 3 `third` failed going up: division by zero"),
        "{status}"
    );
    assert_eq!(Problem::from(status).reason, "MIGRATION_FAILED");
}

#[tokio::test]
async fn m02_a_caller_who_goes_away_takes_the_run_along() {
    let db = TestDb::empty().await;
    let folder = Folder::new().step(
        1,
        "first",
        "SELECT pg_advisory_xact_lock(1); CREATE TABLE a (id int8)",
        "",
    );
    let mut client = MigrationServiceClient::new(service(&folder, &db).await);
    let mut hold = db.hold().await;
    hold.run("SELECT pg_advisory_xact_lock(1)").await;
    let stream = client
        .up(UpRequest::default())
        .await
        .expect("up begins")
        .into_inner();
    tokio::select! {
        (_, ended) = all(stream) => panic!("the run was not stopped: {ended:?}"),
        () = db.wait_until_blocked(1) => {}
    }
    db.wait_until("the run's session is gone", async |pool| {
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weir-migration%'";
        sqlx::query_scalar::<_, i64>(sessions).fetch_one(pool).await.is_ok_and(|count| count == 0)
    })
    .await;
    hold.release().await;
    assert!(!exists(&db, "a").await);
}

#[tokio::test]
async fn the_doctors_checks_come_later() {
    let db = TestDb::empty().await;
    let mut client = InspectServiceClient::new(service(&Folder::two_steps(), &db).await);
    let refused = client
        .diagnose(DiagnoseRequest {})
        .await
        .expect_err("not in this version");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert_eq!(Problem::from(refused).reason, "NOT_IMPLEMENTED");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let migrator = &weir_migration::MIGRATOR;
    let runner =
        weir_migration::Runner::new("postgres://nobody@127.0.0.1:1/none", migrator, "test")
            .expect("an address");
    let error = runner.status().await.expect_err("nobody is there");
    assert_eq!(error.reason(), "DATABASE_UNAVAILABLE");
    let mut client =
        MigrationServiceClient::new(upstream(weir_migration::routes(runner), "demo", "operator"));
    let refused = client
        .get_status(GetStatusRequest {})
        .await
        .expect_err("nobody is there");
    assert_eq!(refused.code(), Code::Unavailable);
}
