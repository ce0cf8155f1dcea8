//! From wire types to domain types. Errors name the field.

use std::str::FromStr;
use std::time::Duration;

use weir_kernel::limits::{MAX_IDENTIFIER, identifier, optional_identifier};
use weir_kernel::{EventUid, Violation, WorkId, WorkState};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::types::v1 as types;
use weir_work::Lease;

use crate::Error;
use crate::command::ClaimSpec;

/// Shortest lease: shorter ones are lost to a moment's pause.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// Longest lease: longer ones leave the Work of a dead worker lying too long.
const LONGEST_LEASE: Duration = Duration::from_secs(3_600);
/// Longest time that a worker may put off the next try.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(7 * 86_400);

fn parse<T: FromStr>(field: &str, text: &str) -> Result<T, Error>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| Error::field(field, error.to_string()))
}

/// Reads a Work's id.
pub(super) fn work(field: &str, text: &str) -> Result<WorkId, Error> {
    parse(field, text)
}

/// Reads events' uids: at least one, at most a thousand.
pub(super) fn events(field: &str, texts: &[String]) -> Result<Vec<EventUid>, Error> {
    if texts.is_empty() || texts.len() > 1_000 {
        return Err(Error::field(
            field,
            format!("has {} events, not 1 to 1000", texts.len()),
        ));
    }
    let read = |(i, text): (usize, &String)| parse(&format!("{field}[{i}]"), text);
    texts.iter().enumerate().map(read).collect()
}

/// Reads a lease.
pub(super) fn lease(lease: Option<types::Lease>) -> Result<Lease, Error> {
    let lease = lease.ok_or_else(|| Violation::new("lease", "is required"))?;
    let work = work("lease.work", &lease.work)?;
    if lease.attempt < 1 {
        return Err(Error::field("lease.attempt", "is not a number from 1"));
    }
    if lease.epoch < 1 {
        return Err(Error::field("lease.epoch", "is not a number from 1"));
    }
    Ok(Lease {
        work,
        attempt: lease.attempt,
        epoch: lease.epoch,
    })
}

/// Reads a duration of `shortest` to `longest`.
pub(super) fn duration(
    field: &str,
    given: Option<prost_types::Duration>,
    shortest: Duration,
    longest: Duration,
) -> Result<Option<Duration>, Error> {
    let Some(given) = given else { return Ok(None) };
    match Duration::try_from(given) {
        Ok(given) if given >= shortest && given <= longest => Ok(Some(given)),
        _ => Err(Error::field(
            field,
            format!(
                "is not a duration of {} to {}",
                humantime::format_duration(shortest),
                humantime::format_duration(longest)
            ),
        )),
    }
}

/// Reads a lease's duration.
pub(super) fn lease_duration(
    field: &str,
    given: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Error> {
    duration(field, given, SHORTEST_LEASE, LONGEST_LEASE)
}

/// Reads a time to wait before the next try.
pub(super) fn retry_after(given: Option<prost_types::Duration>) -> Result<Option<Duration>, Error> {
    duration("retry_after", given, Duration::ZERO, LONGEST_RETRY_AFTER)
}

/// Reads how long to wait for the first Work.
pub(super) fn wait(given: Option<prost_types::Duration>) -> Result<Duration, Error> {
    let longest = Duration::from_secs(30);
    Ok(duration("wait", given, Duration::ZERO, longest)?.unwrap_or_default())
}

/// Reads what to claim. The owner is the actor when none is given.
pub(super) fn claim_spec(spec: Option<pb::ClaimSpec>, actor: &str) -> Result<ClaimSpec, Error> {
    let spec = spec.ok_or_else(|| Violation::new("spec", "is required"))?;
    identifier("spec.binding", &spec.binding, MAX_IDENTIFIER)?;
    optional_identifier("spec.scope", &spec.scope, MAX_IDENTIFIER)?;
    optional_identifier("spec.owner", &spec.owner, MAX_IDENTIFIER)?;
    if spec.registration < 0 {
        return Err(Error::field("spec.registration", "is negative"));
    }
    Ok(ClaimSpec {
        binding: spec.binding,
        scope: Some(spec.scope).filter(|scope| !scope.is_empty()),
        owner: if spec.owner.is_empty() {
            actor.to_owned()
        } else {
            spec.owner
        },
        registration: Some(spec.registration).filter(|revision| *revision > 0),
        lease: lease_duration("spec.lease", spec.lease)?,
    })
}

/// Reads capabilities as their bits.
pub(super) fn capabilities(given: &[i32]) -> Result<i16, Error> {
    let mut bits = 0;
    for (i, capability) in given.iter().enumerate() {
        bits |= match pb::Capability::try_from(*capability) {
            Ok(pb::Capability::Inject) => 1,
            Ok(pb::Capability::Interrupt) => 2,
            Ok(pb::Capability::Unspecified) | Err(_) => {
                return Err(Error::field(
                    format!("capabilities[{i}]"),
                    "is not a capability",
                ));
            }
        };
    }
    Ok(bits)
}

/// Reads a Work's state.
pub(super) fn state(given: Option<i32>) -> Result<Option<WorkState>, Error> {
    let Some(given) = given else { return Ok(None) };
    let code = i16::try_from(given).unwrap_or(0);
    let state = WorkState::from_code(code)
        .map_err(|_| Error::field("state", "is not a state of a work"))?;
    Ok(Some(state))
}
