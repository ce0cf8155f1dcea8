//! The binary as a job, and the component as a server.

use std::process::{Command, Output};
use std::time::Duration;

use weir_migration::{Config, component};
use weir_proto::migration::v1::GetStatusRequest;
use weir_proto::migration::v1::migration_service_client::MigrationServiceClient;
use weir_rpc::remote;
use weir_runtime::{
    DatabaseConfig, Environment, Running, Secret, ServeOptions, Validate as _, load,
};
use weir_testkit::TestDb;

fn binary(url: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-migration"))
        .args(arguments)
        .env_clear()
        // Behind a pooler that is not there: a job takes the direct way.
        .env("DATABASE_URL", "postgres://pooler.invalid/none")
        .env("DATABASE_DIRECT_URL", url)
        .output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("the binary prints UTF-8");
    (
        status.code().expect("it was not killed"),
        text(stdout),
        text(stderr),
    )
}

#[tokio::test]
async fn m02_the_binary_migrates_without_a_gateway_and_without_a_token() {
    let db = TestDb::empty().await;
    let (code, out, _) = binary(db.url(), &["status"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("pending") && out.ends_with("binary and database differ\n"),
        "{out}"
    );
    let (code, out, err) = binary(db.url(), &["up", "--wait", "5s"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let (code, out, _) = binary(db.url(), &["status", "--json"]);
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("one line of JSON");
    assert_eq!(json["upToDate"], true);

    let (code, _, err) = binary(db.url(), &["down", "--confirm"]);
    assert_eq!(code, 2);
    assert!(err.contains("MIGRATION_NOT_CONFIRMED"), "{err}");
    assert_eq!(
        binary(db.url(), &["down", "--target", "-1", "--confirm"]).0,
        2
    );
    assert_eq!(binary(db.url(), &["sideways", "up"]).0, 2);
    assert_eq!(
        binary(db.url(), &["--json", "down", "--target", "0", "--confirm"]).0,
        0
    );
    let (code, _, err) = binary("postgres://nobody@127.0.0.1:1/none", &["up"]);
    assert_eq!(code, 1);
    assert!(err.contains("DATABASE_UNAVAILABLE"), "{err}");
}

fn config(url: &str) -> Config {
    Config {
        direct_url: Secret::new(url),
        ..Config::default()
    }
}

#[tokio::test]
async fn m04_the_service_is_ready_on_an_empty_database() {
    let db = TestDb::empty().await;
    let component = component(&config(db.url())).expect("the address is one");
    let running = Running::start(vec![component], ServeOptions::local())
        .await
        .expect("ports are free");
    running.ready().await;
    let upstream = remote(&format!("http://{}", running.addr())).expect("an address");
    let status = MigrationServiceClient::new(upstream)
        .get_status(GetStatusRequest {})
        .await;
    assert_eq!(status.expect("status works").into_inner().current, 0);
    running.stop().await;
}

#[tokio::test]
async fn m04_the_service_is_not_ready_without_a_database() {
    let component =
        component(&config("postgres://u:hunter2@127.0.0.1:1/none")).expect("an address");
    let (_, ask) = component.readiness.first().expect("there is one condition");
    let why = tokio::time::timeout(Duration::from_secs(10), ask())
        .await
        .expect("in time")
        .expect_err("nobody there");
    assert!(
        why.starts_with("the database is unavailable: ") && !why.contains("hunter2"),
        "{why}"
    );
}

#[test]
fn the_direct_way_is_taken_and_required_beside_a_pooler() {
    let pooled = DatabaseConfig {
        url: Secret::new("postgres://pooler/d"),
        transaction_pooler: true,
        ..Default::default()
    };
    let mut config = Config {
        database: pooled,
        ..Config::default()
    };
    let fault = config
        .validate(Environment::Production)
        .expect_err("a pooler will not do");
    assert!(fault.contains("`DATABASE_DIRECT_URL`"), "{fault}");
    config.direct_url = Secret::new("postgres://direct/d");
    assert_eq!(config.validate(Environment::Production), Ok(()));
    assert_eq!(config.url().expose(), "postgres://direct/d");

    let variables = [
        ("WEIR_ENVIRONMENT", "Development"),
        ("DATABASE_URL", "postgres://h/d"),
    ];
    let environment = variables.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let config = load::<Config>("migration", environment)
        .expect("one address will do")
        .service;
    assert_eq!(config.url().expose(), "postgres://h/d");
}
