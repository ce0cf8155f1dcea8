//! Hints that Work may be claimable. Losing one costs latency only.

use std::sync::Arc;

use tokio::sync::Notify;

/// Wakes this process's claimers. Carries no data: whoever wakes looks for himself.
#[derive(Debug, Clone, Default)]
pub struct Hints {
    pub(crate) ready: Arc<Notify>,
}

impl Hints {
    /// Says that Work may be claimable now: call it after the commit that made it so.
    pub fn work_ready(&self) {
        self.ready.notify_waiters();
    }
}
