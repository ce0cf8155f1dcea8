//! The example of a remote handler in Python (rule r51): no Rust is needed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use weir_proto::types::v1::Disposition;

use super::arrange::publish;
use crate::support::Weir;

/// Python with grpcio: the one that is named, else the machine's.
#[expect(
    clippy::disallowed_methods,
    reason = "a test has no configuration to read it from"
)]
async fn python() -> Result<PathBuf, String> {
    let python =
        std::env::var_os("WEIR_TEST_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let imports = Command::new(&python)
        .args(["-c", "import grpc, grpc_tools"])
        .output()
        .await
        .map_err(|e| format!("{}: {e}", python.display()))?;
    if imports.status.success() {
        return Ok(python);
    }
    let said = String::from_utf8_lossy(&imports.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("{}: {last}", python.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_the_python_example_scores_issues() {
    let python = match python().await {
        Ok(python) => python,
        Err(why) => {
            println!(
                "skipped: no Python with grpcio and grpcio-tools ({why}); name one in WEIR_TEST_PYTHON"
            );
            return;
        }
    };
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../routing/examples/python/route_handler.py");
    let mut child = Command::new(python)
        .arg(example)
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("Python starts");
    let stdout = child.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    let line = lines
        .next_line()
        .await
        .expect("it can be read")
        .expect("it says where it listens");
    let address = line
        .strip_prefix("listening on ")
        .expect("the documented line")
        .to_owned();

    let weir = Weir::with(&format!(
        r#"
scopes:
  - name: root
  - name: s
    parent: root
    bindings: {{ b: {{ executor: e }} }}
    routes:
      - {{ slot: custom, handler: {{ remote: "http://{address}", name: score }}, timeout: 20s, binding: b }}
"#
    ))
    .await;
    let hot = r#"{"issue":{"title":"Crash on save","body":"data loss","node_id":"I_1"}}"#;
    let uid = publish(&weir, "1", "issues.opened", hot, &["issue/1"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.reason.as_str()),
        (Disposition::Start, "score 4: crash, data loss")
    );
    assert_eq!(weir.work(&record.work).await.keys, ["issue/1", "node/I_1"]);
    let uid = publish(
        &weir,
        "2",
        "issues.opened",
        r#"{"issue":{"title":"Typo"}}"#,
        &[],
    )
    .await;
    let record = weir.record(&uid).await;
    assert_eq!(record.disposition(), Disposition::Unmatched);
    assert_eq!(record.refusals[0].reason, "score 0: nothing urgent");
    let uid = publish(&weir, "3", "issues.opened", "[]", &[]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.reason.as_str(), record.error.as_str()),
        (
            "handler_invalid",
            "INVALID_ARGUMENT: the data has no `issue`"
        )
    );
    let samples = weir.samples("s").await.expect("it offers one");
    assert_eq!((samples.len(), samples[0].name.as_str()), (1, "a crash"));
    weir.stop().await;
    child.kill().await.expect("it ends");
}
