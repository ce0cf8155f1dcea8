//! Loading from made-up environments.

use std::time::Duration;

use serde::Deserialize;

use super::*;
use crate::{DatabaseConfig, Secret};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    #[serde(with = "humantime_serde")]
    lease: Duration,
    batch: u32,
    upstream: Option<String>,
    names: Vec<String>,
    database: DatabaseConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            batch: 100,
            upstream: None,
            names: Vec::new(),
            database: DatabaseConfig::default(),
        }
    }
}

impl Validate for Config {
    fn validate(&self, _: Environment) -> Result<(), String> {
        self.database.validate()
    }
}

fn environment(more: &[(&str, &str)]) -> Vec<(String, String)> {
    [
        ("WEIR_ENVIRONMENT", "Development"),
        ("DATABASE_URL", "postgres://u:hunter2@h/d"),
        ("PATH", "/bin"),
    ]
    .iter()
    .chain(more)
    .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
    .collect()
}

fn fault(more: &[(&str, &str)]) -> String {
    load::<Config>("routing", environment(more))
        .expect_err("refused")
        .to_string()
}

#[test]
fn every_kind_of_value_is_read() {
    let settings = load::<Config>(
        "routing",
        environment(&[
            ("WEIR_ROUTING__LEASE", "1m 30s"),
            ("WEIR_ROUTING__BATCH", "7"),
            ("WEIR_ROUTING__UPSTREAM", "http://lifecycle:7100"),
            ("WEIR_ROUTING__NAMES", "a, b"),
            ("WEIR_ROUTING__DATABASE__TRANSACTION_POOLER", "true"),
            ("WEIR_ROUTING__LISTEN", "127.0.0.1:0"),
            ("WEIR_ROUTING__READINESS_DELAY", "2s"),
            ("WEIR_LIFECYCLE__WHATEVER", "is another service's"),
        ]),
    )
    .expect("all are known");
    let (config, process) = (settings.service, settings.process);
    assert_eq!((config.lease, config.batch), (Duration::from_secs(90), 7));
    assert_eq!(config.upstream.as_deref(), Some("http://lifecycle:7100"));
    assert_eq!(config.names, ["a", "b"]);
    assert!(config.database.transaction_pooler);
    assert_eq!(config.database.url, Secret::new("postgres://u:hunter2@h/d"));
    assert_eq!(process.server.listen.port(), 0);
    assert_eq!(
        process.serve_options().readiness_delay,
        Duration::from_secs(2)
    );
    assert!(process.environment.is_development());
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_setting_nobody_knows_is_refused_and_the_known_are_listed() {
    for name in [
        "WEIR_ROUTING__LEESE",
        "WEIR_ROUTING__DATABASE__POOL",
        "WEIR_ROUTING__DATABASE",
    ] {
        let fault = fault(&[(name, "x")]);
        assert!(
            fault.starts_with(&format!("`{name}` is not a setting; the settings are: ")),
            "{fault}"
        );
        for known in [
            "WEIR_ROUTING__LEASE",
            "WEIR_ROUTING__LISTEN",
            "WEIR_ROUTING__DATABASE__URL",
        ] {
            assert!(fault.contains(known), "{fault}");
        }
    }
}

#[test]
fn a_wrong_value_names_its_variable_and_is_not_shown() {
    for (name, text, says) in [
        (
            "WEIR_ROUTING__BATCH",
            "hunter3",
            "`WEIR_ROUTING__BATCH`: expected a whole number",
        ),
        ("WEIR_ROUTING__LEASE", "soon", "`WEIR_ROUTING__LEASE`: "),
        (
            "WEIR_ROUTING__LISTEN",
            "nowhere",
            "`WEIR_ROUTING__LISTEN`: ",
        ),
        (
            "WEIR_ROUTING__REFLECTION",
            "maybe",
            "`WEIR_ROUTING__REFLECTION`: expected `true` or `false`",
        ),
        (
            "WEIR_ROUTING__DATABASE__MAX_CONNECTIONS",
            "0",
            "`database.max_connections` must be",
        ),
    ] {
        let fault = fault(&[(name, text)]);
        assert!(fault.starts_with(says), "{fault}");
        assert!(!fault.contains("hunter"), "{fault}");
    }
}

#[test]
fn secrets_come_from_files_too_and_only_once() {
    let path = std::env::temp_dir().join(format!("weir-secret-{}", std::process::id()));
    std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").expect("a temporary file");
    let file = path.to_str().expect("a plain path");
    let own = [("WEIR_ROUTING__INTERNAL_TOKEN_FILE", file)];
    let shared = [("WEIR_INTERNAL_TOKEN_FILE", file)];
    for env in [&own, &shared] {
        let settings = load::<Config>("routing", environment(env)).expect("the file is there");
        let token = settings.process.server.internal_token;
        assert_eq!(token.expose(), "0123456789abcdef0123456789abcdef");
    }
    let twice = fault(&[own[0], ("WEIR_ROUTING__INTERNAL_TOKEN", "x")]);
    assert!(
        twice.contains("sets what another variable sets too"),
        "{twice}"
    );
    std::fs::remove_file(&path).expect("ours");
    assert!(fault(&own).contains("cannot be read"));
}

#[test]
fn o03_production_needs_a_token() {
    let production = |more: &[(&str, &str)]| {
        let mut env = environment(more);
        env.retain(|(name, _)| name != "WEIR_ENVIRONMENT");
        load::<Config>("routing", env)
    };
    let fault = production(&[]).expect_err("no token").to_string();
    assert!(fault.contains("`WEIR_INTERNAL_TOKEN`"), "{fault}");
    let fault = production(&[("WEIR_INTERNAL_TOKEN", "short")])
        .expect_err("too short")
        .to_string();
    assert!(
        fault.contains("at least 32 bytes") && !fault.contains("short"),
        "{fault}"
    );
    let token = "0123456789abcdef0123456789abcdef";
    let settings = production(&[("WEIR_INTERNAL_TOKEN", token)]).expect("long enough");
    assert_eq!(settings.process.environment, Environment::Production);
    assert_eq!(
        settings.process.serve_options().readiness_delay,
        Duration::from_secs(5)
    );
}

#[test]
fn the_variables_are_listed_with_their_defaults() {
    let all = Known::of::<Config>().with_defaults("routing");
    assert!(all.contains(&("WEIR_ROUTING__LEASE".into(), "30s".into())));
    assert!(all.contains(&("WEIR_ROUTING__DATABASE__URL".into(), String::new())));
    assert!(all.contains(&("WEIR_ROUTING__UPSTREAM".into(), String::new())));
}
