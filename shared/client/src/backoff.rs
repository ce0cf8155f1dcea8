//! How long to wait before trying again.

use std::time::Duration;

use rand::Rng as _;

/// Doubling delays with jitter, between a first delay and a limit.
///
/// The jitter only shortens, by at most a half, so that many clients cut off by one restart do not
/// come back in step, and the limit stays a limit.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts at `first` and never exceeds `limit`.
    #[must_use]
    pub fn new(first: Duration, limit: Duration) -> Self {
        Self {
            first,
            limit,
            next: first,
        }
    }

    /// Returns the next delay.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next.min(self.limit);
        self.next = delay.saturating_mul(2).min(self.limit);
        delay.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Starts over, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        for full in [100, 200, 350, 350] {
            let delay = backoff.next_delay();
            assert!(
                delay <= Duration::from_millis(full),
                "{delay:?} exceeds {full} ms"
            );
            assert!(
                delay >= Duration::from_millis(full / 2),
                "{delay:?} is below half of {full} ms"
            );
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(100));
    }
}
