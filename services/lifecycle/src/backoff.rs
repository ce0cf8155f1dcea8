//! When a failed Work is tried again (rule l07).

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use weir_kernel::WorkId;

/// The first delay; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest delay, before jitter: a Work that fails for long is still tried often enough to notice
/// that its cause is gone.
const LONGEST: Duration = Duration::from_secs(300);
/// Jitter adds at most this part of the delay, so that Works that failed together do not come back
/// together. It only adds: no try comes before its delay.
const JITTER: f64 = 0.25;

/// Returns the delay before the next try: doubling with each consecutive try, bounded, with jitter that
/// depends on nothing but the Work and the attempt, so that a repeated transaction answers the same.
/// `asked` (retry-after) only lengthens it.
pub(crate) fn delay(work: WorkId, attempt: i32, tries: i16, asked: Option<Duration>) -> Duration {
    let doublings = u32::try_from(tries.max(1) - 1).unwrap_or(0).min(16);
    let base = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let jittered = base.mul_f64(1.0 + JITTER * fraction(work, attempt));
    asked.map_or(jittered, |asked| jittered.max(asked))
}

/// Returns a number from 0 to 1 drawn from the Work and the attempt.
fn fraction(work: WorkId, attempt: i32) -> f64 {
    let mut hash = Sha256::new_with_prefix(b"weir.backoff");
    hash.update(work.0.as_bytes());
    hash.update(attempt.to_be_bytes());
    let digest = hash.finalize();
    f64::from(u16::from_be_bytes([digest[0], digest[1]])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn l07_backoff_doubles_to_a_bound_and_jitter_only_adds() {
        let work = WorkId(Uuid::from_u128(7));
        for (tries, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (32_767, 300)] {
            let base = Duration::from_secs(seconds);
            let delay = delay(work, i32::from(tries), tries, None);
            assert!(
                delay >= base && delay <= base.mul_f64(1.25),
                "{tries}: {delay:?}"
            );
        }
    }

    #[test]
    fn l07_the_same_attempt_has_the_same_delay_and_retry_after_only_lengthens() {
        let work = WorkId(Uuid::from_u128(7));
        let plain = delay(work, 3, 3, None);
        assert_eq!(plain, delay(work, 3, 3, None));
        assert_ne!(plain, delay(WorkId(Uuid::from_u128(8)), 3, 3, None));
        assert_eq!(plain, delay(work, 3, 3, Some(Duration::from_millis(1))));
        assert_eq!(
            delay(work, 3, 3, Some(Duration::from_secs(60))),
            Duration::from_secs(60)
        );
    }
}
