//! Between the domain and the wire: events, records, configurations, and the checks of fields that
//! several methods take.

use tonic::Status;
use weir_kernel::limits::{MAX_IDENTIFIER, optional_identifier};
use weir_kernel::{Disposition, WorkId};
use weir_proto::types::v1 as types;
use weir_rpc::convert::{envelope_to_proto, timestamp};

use crate::command::publish_config::Published;
use crate::query::config::Publication;
use crate::query::event::{EventRecord, Pending, RouteRecord, Standing};
use crate::query::{self, Error};
use crate::tenant::{Problem, Severity};

/// Page size when none is given.
const DEFAULT_PAGE: usize = 100;

/// Writes an event with its record or why there is none.
pub(crate) fn event_to_proto(record: EventRecord) -> types::Event {
    let (route, pending) = standing(&record);
    types::Event {
        uid: record.uid.to_string(),
        scope: record.scope,
        position: record.seq,
        accepted_at: Some(timestamp(record.accepted_at)),
        event: Some(envelope_to_proto(record.envelope)),
        keys: record.keys,
        root: record.root.to_string(),
        parent: text(record.parent),
        depth: i32::from(record.depth),
        copy_of: text(record.copy_of),
        route,
        pending,
        actor: record.actor,
        target_work: text(record.target_work),
    }
}

/// Writes what became of an event: exactly one of the two.
pub(crate) fn standing(
    record: &EventRecord,
) -> (Option<types::RouteRecord>, Option<types::Pending>) {
    match &record.standing {
        Standing::Routed(routed) => (Some(record_to_proto(record, routed)), None),
        Standing::Pending(pending) => (None, Some(pending_to_proto(pending))),
    }
}

fn record_to_proto(event: &EventRecord, record: &RouteRecord) -> types::RouteRecord {
    let refusals = record
        .refusals
        .iter()
        .map(|(route, reason)| types::Refusal {
            route: route.clone(),
            reason: reason.clone(),
        });
    let also = record.also.iter().map(|also| types::Also {
        scope: also.scope.clone(),
        work: also.work.to_string(),
        wait: weir_work::wait_name(also.work, also.wait),
    });
    types::RouteRecord {
        event: event.uid.to_string(),
        scope: event.scope.clone(),
        work: text(record.work),
        route: record.route.clone().unwrap_or_default(),
        binding: record.binding.clone().unwrap_or_default(),
        generation: record.generation,
        // The vocabularies have the same numbers on the wire as in columns; a test compares them.
        disposition: i32::from(record.disposition.code()),
        policy: record.policy.map_or(0, |policy| i32::from(policy.code())),
        reason: record.reason.clone(),
        refusals: refusals.collect(),
        refusals_truncated: record.refusals_truncated,
        error: record.error.clone(),
        attempts: i32::from(record.attempts),
        also: also.collect(),
    }
}

fn pending_to_proto(pending: &Pending) -> types::Pending {
    let last_error = pending
        .last_failure
        .as_ref()
        .map(|(code, error)| match error.as_str() {
            "" => code.to_string(),
            error => format!("{code}: {error}"),
        });
    types::Pending {
        state: i32::from(pending.state.code()),
        reason: pending.reason.clone(),
        failures: i32::from(pending.failures),
        last_error: last_error.unwrap_or_default(),
        next_try: pending.next_try.map(timestamp),
        works: pending.works.iter().map(ToString::to_string).collect(),
        first_failed_at: pending.first_failed_at.map(timestamp),
    }
}

/// Writes a publication.
pub(crate) fn generation_to_proto(publication: Publication) -> types::Generation {
    types::Generation {
        generation: publication.generation,
        digest: hex(&publication.digest),
        actor: publication.actor,
        created_at: Some(timestamp(publication.created_at)),
    }
}

/// Writes what a publication answers.
pub(crate) fn published_to_proto(
    published: Published,
) -> weir_proto::routing::v1::PublishConfigResponse {
    let Published {
        generation,
        digest,
        actor,
        created_at,
        warnings,
    } = published;
    weir_proto::routing::v1::PublishConfigResponse {
        generation: Some(generation_to_proto(Publication {
            generation,
            digest,
            actor,
            created_at,
        })),
        problems: warnings.into_iter().map(problem_to_proto).collect(),
    }
}

/// Writes a finding about a document.
pub(crate) fn problem_to_proto(problem: Problem) -> types::Problem {
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    types::Problem {
        severity: severity.to_owned(),
        path: problem.path,
        line: number(problem.line),
        column: number(problem.column),
        message: problem.message,
        reason: problem.reason.to_ascii_uppercase(),
    }
}

/// Reads a page size: 1 to 1,000, 100 when 0.
///
/// # Errors
/// `INVALID_REQUEST`.
pub(crate) fn page_size(given: i32) -> Result<usize, Error> {
    match usize::try_from(given) {
        Ok(0) => Ok(DEFAULT_PAGE),
        Ok(size) if size <= query::list::MAX_PAGE => Ok(size),
        _ => {
            let limit = query::list::MAX_PAGE;
            Err(Error::field(
                "page_size",
                format!("is {given}; it is 1 to {limit}, or 0 for {DEFAULT_PAGE}"),
            ))
        }
    }
}

/// Reads a disposition that is given.
///
/// # Errors
/// `INVALID_REQUEST` for a number that is none, and for zero, which means nothing.
pub(crate) fn disposition(field: &str, given: i32) -> Result<Disposition, Error> {
    i16::try_from(given)
        .ok()
        .and_then(|code| Disposition::from_code(code).ok())
        .ok_or_else(|| {
            Error::field(
                field,
                format!("has the number {given}, which is no disposition of this version"),
            )
        })
}

/// Reads a Work's id, if it is given.
///
/// # Errors
/// `INVALID_REQUEST`.
pub(crate) fn work(field: &str, given: &str) -> Result<Option<WorkId>, Error> {
    match given {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|e: weir_kernel::ParseIdError| Error::field(field, e.to_string())),
    }
}

/// Reads an identifier that may be empty (rule a05).
///
/// # Errors
/// `INVALID_REQUEST`.
pub(crate) fn identifier<'a>(field: &str, given: &'a str) -> Result<Option<&'a str>, Error> {
    optional_identifier(field, given, MAX_IDENTIFIER)?;
    Ok(Some(given).filter(|text| !text.is_empty()))
}

/// Turns an error of a read into its answer.
pub(crate) fn refused(error: impl Into<Error>) -> Status {
    weir_rpc::status(error.into())
}

fn text(id: Option<impl ToString>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
            write!(out, "{byte:02x}").expect("writing to a string cannot fail");
            out
        })
}

#[cfg(test)]
mod tests {
    use weir_kernel::{Classify as _, PendingState, Policy};

    use super::*;

    #[test]
    fn the_vocabularies_have_the_same_numbers_and_names_on_the_wire() {
        for value in Disposition::ALL {
            let wire = types::Disposition::try_from(i32::from(value.code()))
                .expect("it is in the contract");
            assert_eq!(
                wire.as_str_name(),
                format!("DISPOSITION_{}", value.as_str().to_uppercase())
            );
        }
        for value in Policy::ALL {
            let wire =
                types::Policy::try_from(i32::from(value.code())).expect("it is in the contract");
            assert_eq!(
                wire.as_str_name(),
                format!("POLICY_{}", value.as_str().to_uppercase())
            );
        }
        for value in PendingState::ALL {
            let wire = types::PendingState::try_from(i32::from(value.code()))
                .expect("it is in the contract");
            assert_eq!(
                wire.as_str_name(),
                format!("PENDING_STATE_{}", value.as_str().to_uppercase())
            );
        }
    }

    #[test]
    fn an_unknown_or_zero_enum_value_is_refused_and_the_field_named() {
        assert_eq!(
            disposition("disposition", 7).expect("it is one"),
            Disposition::Unmatched
        );
        for number in [0, -1, 11, i32::MAX] {
            let refused = disposition("disposition", number).expect_err("it is none");
            assert_eq!(refused.reason(), "INVALID_REQUEST");
            assert_eq!(refused.violations()[0].field, "disposition");
            assert!(
                refused.to_string().contains(&number.to_string()),
                "{refused}"
            );
        }
    }

    #[test]
    fn page_sizes_are_bounded() {
        assert_eq!(page_size(0).expect("the default"), 100);
        assert_eq!(page_size(1_000).expect("the most"), 1_000);
        assert!(page_size(1_001).is_err() && page_size(-1).is_err());
    }
}
