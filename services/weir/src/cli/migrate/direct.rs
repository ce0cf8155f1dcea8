//! The runner in this process, speaking as the service does.

use std::time::Duration;

use prost_types::Timestamp;
use weir_kernel::{Classify, ErrorKind};
use weir_migration::{Error, MIGRATOR, Progress, Runner};
use weir_proto::migration::v1::{DownResponse, GetStatusResponse, Migration, UpResponse};

use super::super::error::{Exit, Failure};
use super::Place;

/// A runner on a database.
pub(super) struct Direct {
    runner: Runner,
}

impl Direct {
    /// Makes a runner when a database is named.
    pub(super) fn at(place: &Place) -> Result<Option<Self>, Failure> {
        let Some(url) = place.database_url.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let runner = Runner::new(url, &MIGRATOR, "weir migrate").map_err(failure)?;
        Ok(Some(Self { runner }))
    }

    pub(super) async fn status(&self) -> Result<GetStatusResponse, Failure> {
        let status = self.runner.status().await.map_err(failure)?;
        let migrations = status
            .migrations
            .into_iter()
            .map(|migration| Migration {
                version: migration.version,
                name: migration.name,
                applied: migration.applied,
                applied_at: migration.applied_at.map(|at| Timestamp {
                    seconds: at.timestamp(),
                    nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or_default(),
                }),
            })
            .collect();
        Ok(GetStatusResponse {
            current: status.current,
            latest: status.latest,
            migrations,
            unknown_applied: status.unknown_applied,
            checksum_mismatches: status.checksum_mismatches,
            up_to_date: status.up_to_date,
        })
    }

    pub(super) async fn up(
        &self,
        target: Option<i64>,
        wait: Duration,
        say: &mut (dyn FnMut(UpResponse) + Send),
    ) -> Result<(), Failure> {
        let mut sink = |progress: Progress| {
            let (done, total) = counts(&progress);
            say(UpResponse {
                message: progress.message,
                version: progress.version,
                done,
                total,
            });
        };
        self.runner
            .up(target, wait, &mut sink)
            .await
            .map(drop)
            .map_err(failure)
    }

    pub(super) async fn down(
        &self,
        target: Option<i64>,
        confirm: bool,
        wait: Duration,
        say: &mut (dyn FnMut(DownResponse) + Send),
    ) -> Result<(), Failure> {
        let mut sink = |progress: Progress| {
            let (done, total) = counts(&progress);
            say(DownResponse {
                message: progress.message,
                version: progress.version,
                done,
                total,
            });
        };
        self.runner
            .down(target, confirm, wait, &mut sink)
            .await
            .map(drop)
            .map_err(failure)
    }
}

fn counts(progress: &Progress) -> (i32, i32) {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    (count(progress.done), count(progress.total))
}

/// The same exit codes as when the service answers.
pub(crate) fn failure(error: Error) -> Failure {
    let exit = match error.kind() {
        _ if error.reason() == "MIGRATION_LOCKED" => Exit::MigrationLocked,
        ErrorKind::Unavailable | ErrorKind::Timeout => Exit::Unavailable,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string()).because(error.reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m02_a_second_runner_ends_with_5_and_an_unconfirmed_way_down_with_1() {
        let locked = Error::Locked {
            holder: None,
            waited: Duration::from_secs(60),
        };
        assert_eq!(failure(locked).exit_code(), 5);
        let refused = failure(Error::NotConfirmed { target: 3 });
        assert_eq!(refused.exit_code(), 1);
        assert!(
            refused.lines()[0].contains("[MIGRATION_NOT_CONFIRMED]"),
            "{refused:?}"
        );
    }
}
