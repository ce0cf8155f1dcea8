//! Counting failures, backing off and giving up (rules r21–r23).

use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::Rng as _;
use weir_kernel::FailureCode;

use crate::route::decide::Effect;
use crate::route::view::{PendingRow, WorkView};

/// When routing gives up on a retryable failure: both must hold (rule r23).
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Failures counted at least.
    pub max_failures: i16,
    /// Time since the first at least.
    pub window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_failures: 5,
            window: Duration::from_secs(15 * 60),
        }
    }
}

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Says whether this failure, as the `failures`th, is the last.
#[must_use]
pub fn gives_up(
    code: FailureCode,
    failures: i16,
    first_failed_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
    limits: Limits,
) -> bool {
    if !code.is_retryable() {
        return true;
    }
    let since = first_failed_at
        .and_then(|first| (now - first).to_std().ok())
        .unwrap_or_default();
    failures >= limits.max_failures && since >= limits.window
}

/// Returns how long to wait after the `failures`th failure: 2 s, doubling, at most 5 min, and up to a
/// quarter more, so that many do not come back at once. Never sooner.
#[must_use]
pub fn backoff(failures: i16) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1))
        .unwrap_or(0)
        .min(16);
    let plain = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    plain.mul_f64(1.0 + rand::rng().random_range(0.0..0.25))
}

/// Returns how an event is given up whose crashes passed both limits (rule r23); no route is asked, so none is named.
#[must_use]
pub fn crashed_out(row: &PendingRow, work: Option<&WorkView>) -> Option<Effect> {
    if !row.crashes.gave_up || work.is_some_and(|w| w.state.is_terminal()) {
        return None;
    }
    let times = row.crashes.count.saturating_sub(1);
    Some(Effect::Failed {
        work: work.map(|w| w.id),
        slot: String::new(),
        code: FailureCode::HandlerCrashed,
        error: format!("deciding it alone took the process down {times} times"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn r21_the_backoff_starts_at_two_seconds_doubles_and_jitter_only_adds() {
        for (failures, plain) in [(1, 2), (2, 4), (3, 8), (8, 256), (9, 300), (100, 300)] {
            for _ in 0..50 {
                let wait = backoff(failures);
                assert!(wait >= Duration::from_secs(plain), "{failures}: {wait:?}");
                assert!(
                    wait <= Duration::from_secs(plain).mul_f64(1.25),
                    "{failures}: {wait:?}"
                );
            }
        }
    }

    #[test]
    fn r23_a_retryable_failure_needs_count_and_window() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(1);
        let gives = |failures, minutes: i64| {
            let first = Some(now - TimeDelta::minutes(minutes));
            gives_up(
                FailureCode::HandlerTimeout,
                failures,
                first,
                now,
                Limits::default(),
            )
        };
        assert!(!gives(5, 14));
        assert!(!gives(4, 60));
        assert!(gives(5, 15));
        assert!(gives_up(
            FailureCode::HandlerPanic,
            1,
            None,
            now,
            Limits::default()
        ));
    }
}
