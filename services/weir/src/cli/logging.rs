//! Log lines of long-running commands, on standard error.

use tracing_subscriber::EnvFilter;

/// Starts logging at `level`, unless `RUST_LOG` says otherwise.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    // A second start in one process changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(super::output::is_watched())
        .with_target(false)
        .try_init();
}
