//! What a database needs: pure comparisons of the known steps with the recorded ones.

use chrono::{DateTime, Utc};

use crate::{Error, Step};

/// A row of the migrations' table.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) version: i64,
    pub(crate) checksum: Vec<u8>,
    pub(crate) at: DateTime<Utc>,
    /// False for a `-- no-transaction` step that began and did not end.
    pub(crate) finished: bool,
}

/// How binary and database compare (rule m01).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Status {
    /// Newest applied version; 0 for an empty database.
    pub current: i64,
    /// Newest version known to the binary.
    pub latest: i64,
    /// The known migrations, in order.
    pub migrations: Vec<MigrationStatus>,
    /// Applied versions that the binary does not know.
    pub unknown_applied: Vec<i64>,
    /// Versions whose files differ from what was applied.
    pub checksum_mismatches: Vec<i64>,
    /// Says that binary and database agree: nothing pending, unknown, unfinished or different.
    pub up_to_date: bool,
}

/// One known migration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MigrationStatus {
    /// Its version.
    pub version: i64,
    /// Its name.
    pub name: String,
    /// Says that it is applied, whole.
    pub applied: bool,
    /// Says that it began outside a transaction and did not end; the next run repeats it (rule m05).
    pub unfinished: bool,
    /// When it was applied.
    pub applied_at: Option<DateTime<Utc>>,
}

pub(crate) fn status(steps: &[Step], records: &[Record]) -> Status {
    let migrations: Vec<MigrationStatus> = steps
        .iter()
        .map(|step| {
            let record = record(records, step.version);
            MigrationStatus {
                version: step.version,
                name: step.name.clone(),
                applied: record.is_some_and(|r| r.finished),
                unfinished: record.is_some_and(|r| !r.finished),
                applied_at: record.filter(|r| r.finished).map(|r| r.at),
            }
        })
        .collect();
    let unknown_applied = unknown(steps, records);
    let checksum_mismatches = mismatches(steps, records);
    let up_to_date = migrations.iter().all(|m| m.applied)
        && unknown_applied.is_empty()
        && checksum_mismatches.is_empty();
    Status {
        current: current(records),
        latest: latest(steps),
        migrations,
        unknown_applied,
        checksum_mismatches,
        up_to_date,
    }
}

/// Refuses what needs no look at the database.
pub(crate) fn check_up(steps: &[Step], target: Option<i64>) -> Result<(), Error> {
    match target {
        Some(target) if step(steps, target).is_none() => Err(Error::UnknownTarget {
            target,
            latest: latest(steps),
        }),
        _ => Ok(()),
    }
}

/// The same for the way down; returns the target.
pub(crate) fn check_down(steps: &[Step], target: Option<i64>, confirm: bool) -> Result<i64, Error> {
    let target = target.ok_or(Error::TargetMissing)?;
    if target != 0 && step(steps, target).is_none() {
        return Err(Error::UnknownTarget {
            target,
            latest: latest(steps),
        });
    }
    if !confirm {
        return Err(Error::NotConfirmed { target });
    }
    Ok(target)
}

/// Returns the steps to apply, in order.
pub(crate) fn up<'s>(
    steps: &'s [Step],
    records: &[Record],
    target: Option<i64>,
) -> Result<Vec<&'s Step>, Error> {
    check_up(steps, target)?;
    agree(steps, records)?;
    let current = current(records);
    let target = target.unwrap_or_else(|| latest(steps));
    if target < current {
        return Err(Error::Backward { target, current });
    }
    let done = |version| record(records, version).is_some_and(|r| r.finished);
    Ok(steps
        .iter()
        .filter(|step| step.version <= target && !done(step.version))
        .collect())
}

/// Returns the steps to take back, in order, newest first.
pub(crate) fn down<'s>(
    steps: &'s [Step],
    records: &[Record],
    target: i64,
) -> Result<Vec<&'s Step>, Error> {
    agree(steps, records)?;
    if target != 0 && !record(records, target).is_some_and(|r| r.finished) {
        return Err(Error::NotApplied {
            target,
            current: current(records),
        });
    }
    let plan: Vec<&Step> = steps
        .iter()
        .rev()
        .filter(|step| step.version > target && record(records, step.version).is_some())
        .collect();
    // Before the first step: a way back that ends half-way is worse than none.
    match plan.iter().find(|step| step.down.is_none()) {
        Some(step) => Err(Error::NoDownFile {
            version: step.version,
            name: step.name.clone(),
        }),
        None => Ok(plan),
    }
}

fn agree(steps: &[Step], records: &[Record]) -> Result<(), Error> {
    let versions = unknown(steps, records);
    if !versions.is_empty() {
        return Err(Error::UnknownApplied { versions });
    }
    let versions = mismatches(steps, records);
    if !versions.is_empty() {
        return Err(Error::ChecksumMismatch { versions });
    }
    Ok(())
}

fn unknown(steps: &[Step], records: &[Record]) -> Vec<i64> {
    records
        .iter()
        .map(|r| r.version)
        .filter(|version| step(steps, *version).is_none())
        .collect()
}

/// An unfinished step is not compared: its file may be the one that was fixed.
fn mismatches(steps: &[Step], records: &[Record]) -> Vec<i64> {
    let differs = |r: &&Record| {
        r.finished && step(steps, r.version).is_some_and(|s| s.checksum != r.checksum)
    };
    records.iter().filter(differs).map(|r| r.version).collect()
}

pub(crate) fn current(records: &[Record]) -> i64 {
    records
        .iter()
        .filter(|r| r.finished)
        .map(|r| r.version)
        .max()
        .unwrap_or(0)
}

fn latest(steps: &[Step]) -> i64 {
    steps.last().map_or(0, |step| step.version)
}

fn step(steps: &[Step], version: i64) -> Option<&Step> {
    steps.iter().find(|step| step.version == version)
}

fn record(records: &[Record], version: i64) -> Option<&Record> {
    records.iter().find(|record| record.version == version)
}
