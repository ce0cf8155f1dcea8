//! What validation warns about, as an author of a configuration sees it.

use std::process::Command;

use weir_proto::routing::v1::{PublishConfigRequest, ValidateConfigRequest};
use weir_proto::types::v1::{Disposition, Problem};

use crate::support::{Weir, event};

/// The document of the reference, in which nothing is wrong but that the executor is not there yet.
const GOOD: &str = r##"scopes:
  - name: root
    limits: { depth: 32, derived_per_minute: 128 }
    brake: { after_refusals_per_minute: 1000 }
    bindings:
      triage: { executor: command, capabilities: [inject, interrupt], lease: 30s, max_attempts: 5, priority: 0, concurrency: { max: 8, per: [{ key: 'event.subject', max: 1 }] }, emits: ['triage.*'], on_parent_cancel: leave }
    sources:
      - name: github
        match: { source: 'webhook/*/github' }
        webhook: { kind: github, secret: main }
        keys:
          - { when: 'has(event.data.issue)',        key: '"issue/" + event.data.repository.full_name + "#" + string(event.data.issue.number)' }
          - { when: 'has(event.data.pull_request)', key: '"issue/" + event.data.repository.full_name + "#" + string(event.data.pull_request.number)' }
    routes:
      - { slot: bots,   when: 'event.data.sender.type == "Bot"', policy: drop }
      - { slot: closed, when: 'event.type == "issues.closed" && has(work.id)', binding: triage, policy: interrupt, fallback: queue }
      - { slot: issues, when: 'event.type.startsWith("issues.")', binding: triage, policy: inject, fallback: queue, attach: ['"node/" + event.data.issue.node_id'], self: avoid }
      - { slot: custom, handler: { remote: "http://127.0.0.1:9000", name: score }, binding: triage, policy: queue }
  - name: github
    parent: root
    routes: [ { slot: bots, disabled: true } ]
"##;

/// The same with one fault of each kind: what is told stands behind it, at its line.
fn faulty() -> String {
    let mut text = GOOD
        .replace("emits: ['triage.*']", "emits: ['issues.done']")
        .replace(", self: avoid", "")
        .replace("has(event.data.issue)", "has(work.id)        ");
    text.push_str("    bindings: { triage: { executor: command, emits: ['triage.*'] } }\n");
    text.push_str("  - name: shadow\n    parent: root\n    routes:\n");
    text.push_str(
        "      - { slot: late, when: 'event.type == \"issues.reopened\"', binding: triage }\n",
    );
    text.push_str(
        "      - { slot: stat, when: 'work.stat == \"held\"', binding: triage, policy: inject }\n",
    );
    text
}

async fn validate(weir: &Weir, document: &str) -> (bool, Vec<Problem>) {
    let request = ValidateConfigRequest {
        document: document.to_owned(),
    };
    let answer = weir.user.config().validate_config(request).await;
    let answer = answer.expect("it is looked at").into_inner();
    (answer.valid, answer.problems)
}

fn places(problems: &[Problem]) -> Vec<(i32, &str, &str)> {
    problems
        .iter()
        .map(|p| (p.line, p.reason.as_str(), p.path.as_str()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_r26_c02_validation_warns_with_slots_and_lines_and_refuses_nothing() {
    let weir = Weir::bare().await;
    let (valid, problems) = validate(&weir, GOOD).await;
    assert!(valid);
    assert_eq!(
        places(&problems),
        [(
            6,
            "EXECUTOR_NOT_REGISTERED",
            "scopes[0].bindings.triage.executor"
        )]
    );

    let text = faulty();
    let (valid, problems) = validate(&weir, &text).await;
    assert!(valid, "{problems:#?}");
    assert!(
        problems.iter().all(|p| p.severity == "warning"),
        "{problems:#?}"
    );
    let found = places(&problems);
    assert_eq!(
        found,
        [
            (6, "EMIT_CYCLE", "scopes[0].bindings.triage.emits[0]"),
            (12, "WORK_UNAVAILABLE", "scopes[0].sources[0].keys[0].when"),
            (16, "FALLBACK_ALWAYS", "scopes[0].routes[1].policy"),
            (17, "FALLBACK_ALWAYS", "scopes[0].routes[2].policy"),
            (26, "ROUTE_UNREACHABLE", "scopes[2].routes[0].slot"),
            (27, "FIELD_UNKNOWN", "scopes[2].routes[1].when"),
            (
                6,
                "EXECUTOR_NOT_REGISTERED",
                "scopes[0].bindings.triage.executor"
            ),
            (
                22,
                "EXECUTOR_NOT_REGISTERED",
                "scopes[1].bindings.triage.executor"
            ),
        ]
    );
    assert!(problems.iter().all(|p| p.column > 0), "{problems:#?}");
    assert_eq!(
        problems[4].message,
        "slot `late` never matches: slot `issues` before it takes all that it could take in scope `shadow`"
    );
    assert_eq!(
        problems[0].message,
        "events can go round for ever: `triage` -(`issues.done`)-> slot `issues` -> `triage` in scopes `root`, `shadow`; `self: avoid` on slot `issues` would decline what its own Work emitted; only the causal limits stop it, at depth 32 and after 128 derived events of a root and minute"
    );
    assert_eq!(
        problems[2].message,
        "slot `closed` can never apply `interrupt`: binding `triage` does not claim it in scope `github`; events for a running attempt always fall back to `queue`"
    );

    // It is published all the same, with the same warnings, and what was said of it is so.
    let request = PublishConfigRequest {
        document: text.clone(),
        expected_generation: Some(0),
        request_id: "once".to_owned(),
    };
    for _ in 0..2 {
        let answer = weir.user.config().publish_config(request.clone()).await;
        let answer = answer.expect("warnings refuse nothing").into_inner();
        assert_eq!(places(&answer.problems), found);
        assert_eq!(answer.generation.expect("always there").generation, 1);
    }
    let uid = weir
        .try_publish(
            "shadow",
            event("1", "issues.reopened", r#"{"issue":{"node_id":"n"}}"#),
            &["k"],
        )
        .await
        .expect("accepted")
        .uid;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.route.as_str()),
        (Disposition::Start, "issues")
    );

    // An error is still all that refuses, and then nothing else is told.
    let (valid, problems) = validate(&weir, &text.replace("work.stat ==", "wrk.state ==")).await;
    assert!(!valid);
    assert_eq!(
        places(&problems),
        [(27, "CEL_INVALID", "scopes[2].routes[1].when")]
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_the_command_line_shows_the_warnings() {
    let weir = Weir::bare().await;
    let folder = std::env::temp_dir().join(format!("weir-analysis-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("faulty.yaml");
    std::fs::write(&file, faulty()).expect("written");
    let (url, shown) = (weir.url.clone(), file.clone());
    let output = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["config", "validate"])
            .arg(shown)
            .env("WEIR_URL", url)
            .env("WEIR_TENANT", "demo")
            .output()
            .expect("it runs")
    })
    .await
    .expect("it ends");
    std::fs::remove_dir_all(&folder).expect("removed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let line = text
        .lines()
        .find(|line| line.contains("ROUTE_UNREACHABLE"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains("faulty.yaml:26:")
            && line.contains("warning: scopes[2].routes[0].slot: slot `late`"),
        "{line}"
    );
    weir.stop().await;
}
