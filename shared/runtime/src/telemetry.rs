//! Logs and metrics of the process.

use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{EnvFilter, fmt};

/// What is logged unless `RUST_LOG` says otherwise: ours, and of others what an operator can act on.
const DEFAULT_FILTER: &str = "info,h2=off,hyper=off,tower=off,sqlx=warn";

/// Bounds of the histograms of durations, in seconds: from a local statement to a call's deadline.
const SECONDS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

/// Installs the logger of the process: JSON lines on standard error, or text when that is a terminal.
/// `filter` is the value of `RUST_LOG`. Does nothing when a logger is there already.
pub fn init_logging(filter: Option<&str>) {
    let filter = EnvFilter::new(filter.filter(|f| !f.is_empty()).unwrap_or(DEFAULT_FILTER));
    let logger = fmt().with_env_filter(filter).with_writer(stderr);
    // An error only says that the process, a test for instance, has its own logger.
    let _ = if stderr().is_terminal() {
        logger.try_init()
    } else {
        logger.json().flatten_event(true).try_init()
    };
}

/// Returns the recorder of the process, installed by the first call; none when the process has another
/// one.
pub fn metrics_handle() -> Option<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let install = || {
        PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .ok()?
            .install_recorder()
            .ok()
    };
    HANDLE.get_or_init(install).as_ref()
}
