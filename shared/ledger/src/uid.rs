//! UUIDv7 of the database's clock.

use chrono::{DateTime, Utc};
use uuid::{ContextV7, Timestamp, Uuid};

/// Makes time-ordered uids for one instant: those of one source rise in the order they are made.
pub struct UidSource {
    context: ContextV7,
    seconds: u64,
    nanos: u32,
}

impl UidSource {
    /// Makes uids for an instant that the database gave.
    #[must_use]
    pub fn at(at: DateTime<Utc>) -> Self {
        Self {
            context: ContextV7::new(),
            seconds: u64::try_from(at.timestamp()).unwrap_or(0),
            nanos: at.timestamp_subsec_nanos(),
        }
    }

    /// Returns the next uid.
    #[must_use]
    pub fn next(&self) -> Uuid {
        Uuid::new_v7(Timestamp::from_unix(
            &self.context,
            self.seconds,
            self.nanos,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_of_one_instant_rise() {
        let source = UidSource::at(DateTime::UNIX_EPOCH + chrono::TimeDelta::days(20_000));
        let made: Vec<Uuid> = (0..1_000).map(|_| source.next()).collect();
        assert!(made.windows(2).all(|w| w[0] < w[1]));
    }
}
