//! Between the contract and the domain.

use std::time::Duration;

use weir_proto::migration::v1::{DownResponse, GetStatusResponse, Migration, UpResponse};

use crate::{DEFAULT_WAIT, Error, Progress, Status};

pub(crate) fn status(status: &Status) -> GetStatusResponse {
    let migrations = status.migrations.iter().map(|migration| Migration {
        version: migration.version,
        name: migration.name.clone(),
        applied: migration.applied,
        applied_at: migration.applied_at.map(|at| prost_types::Timestamp {
            seconds: at.timestamp(),
            // Chrono counts a leap second past the end of its second; the wire has none.
            nanos: at.timestamp_subsec_nanos().min(999_999_999).cast_signed(),
        }),
    });
    GetStatusResponse {
        current: status.current,
        latest: status.latest,
        migrations: migrations.collect(),
        unknown_applied: status.unknown_applied.clone(),
        checksum_mismatches: status.checksum_mismatches.clone(),
        up_to_date: status.up_to_date,
    }
}

pub(crate) fn up(progress: Progress) -> UpResponse {
    let Progress {
        message,
        version,
        done,
        total,
    } = progress;
    UpResponse {
        message,
        version,
        done: count(done),
        total: count(total),
    }
}

pub(crate) fn down(progress: Progress) -> DownResponse {
    let Progress {
        message,
        version,
        done,
        total,
    } = progress;
    DownResponse {
        message,
        version,
        done: count(done),
        total: count(total),
    }
}

/// Reads how long to wait for another runner.
pub(crate) fn wait(wait: Option<prost_types::Duration>) -> Result<Duration, Error> {
    match wait {
        None => Ok(DEFAULT_WAIT),
        Some(wait) => Duration::try_from(wait).map_err(|_| Error::InvalidWait),
    }
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
