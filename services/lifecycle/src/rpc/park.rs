//! Park on the wire.

use std::time::Duration;

use chrono::{DateTime, Utc};
use prost::Message as _;
use weir_cel::Program;
use weir_kernel::limits::{MAX_IDENTIFIER, identifier};
use weir_kernel::{TenantId, Violation, WorkId};
use weir_proto::lifecycle::v1 as pb;
use weir_proto::lifecycle::v1::wait_condition::Condition as Given;
use weir_proto::types::v1 as types;
use weir_rpc::convert::timestamp;

use super::decode;
use crate::Error;
use crate::command::{LONGEST_WAIT, Park, Parked};
use crate::condition::Condition;

/// Most conditions of one wait.
const MOST_CONDITIONS: usize = 32;
/// Shortest timeout.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Reads a request. A filter is an expression over `event`; `work` is `{}` to it, as a wait is checked without a
/// snapshot.
///
/// # Errors
/// The fields at fault; of a filter with line and column.
pub(super) fn decode(tenant: TenantId, mut message: pb::ParkRequest) -> Result<Park, Error> {
    let lease = decode::lease(message.lease.take())?;
    // Without the lease, which names the attempt that the digest is stored with.
    let content = message.encode_to_vec();
    let timeout = decode::duration("timeout", message.timeout, SHORTEST_WAIT, LONGEST_WAIT)?;
    let since = message.since.map(instant).transpose()?;
    let given = message.conditions;
    if given.is_empty() && timeout.is_none() {
        return Err(Error::field(
            "conditions",
            "has none, and there is no `timeout`; name what wakes the work",
        ));
    }
    if given.len() > MOST_CONDITIONS {
        let text = format!(
            "has {} conditions, the limit is {MOST_CONDITIONS}",
            given.len()
        );
        return Err(Error::field("conditions", text));
    }
    let mut conditions = Vec::with_capacity(given.len());
    let mut faults = Vec::new();
    for (i, given) in given.into_iter().enumerate() {
        match condition(&format!("conditions[{i}]"), given, lease.work) {
            Ok(condition) => conditions.push(condition),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(Error::Invalid(faults));
    }
    Ok(Park {
        tenant,
        lease,
        conditions,
        timeout,
        since,
        content,
    })
}

fn condition(field: &str, given: pb::WaitCondition, own: WorkId) -> Result<Condition, Violation> {
    match given.condition {
        None => Err(Violation::new(
            field,
            "is empty; set `own_input`, `event` or `ended_work`",
        )),
        Some(Given::OwnInput(pb::OwnInput {})) => Ok(Condition::Own),
        Some(Given::Event(event)) => {
            identifier(
                &format!("{field}.event.scope"),
                &event.scope,
                MAX_IDENTIFIER,
            )?;
            if !event.filter.is_empty() {
                let fault = |text: String| Violation::new(format!("{field}.event.filter"), text);
                let filter =
                    Program::compile(&event.filter).map_err(|error| fault(error.to_string()))?;
                if filter.reads_work() {
                    return Err(fault(
                        "reads `work`; a filter sees the event only".to_owned(),
                    ));
                }
            }
            let emitter = match event.emitter.as_str() {
                "" => None,
                text => Some(work(&format!("{field}.event.emitter"), text)?),
            };
            Ok(Condition::Event {
                scope: event.scope,
                filter: event.filter,
                emitter,
            })
        }
        Some(Given::EndedWork(text)) => {
            let field = format!("{field}.ended_work");
            let ended = work(&field, &text)?;
            if ended == own {
                return Err(Violation::new(
                    field,
                    "is the work itself, which cannot end while it waits",
                ));
            }
            Ok(Condition::Ended(ended))
        }
    }
}

fn work(field: &str, text: &str) -> Result<WorkId, Violation> {
    text.parse()
        .map_err(|error: <WorkId as std::str::FromStr>::Err| {
            Violation::new(field, error.to_string())
        })
}

fn instant(given: prost_types::Timestamp) -> Result<DateTime<Utc>, Error> {
    u32::try_from(given.nanos)
        .ok()
        .and_then(|nanos| DateTime::from_timestamp(given.seconds, nanos))
        .ok_or_else(|| Error::field("since", "is not an instant"))
}

/// Writes the answer, the same to every repeat.
pub(super) fn encode(park: &Park, parked: Parked) -> pb::ParkResponse {
    pb::ParkResponse {
        wait: Some(types::Wait {
            wait: parked.wait,
            work: park.lease.work.to_string(),
            attempt: park.lease.attempt,
            conditions: park.conditions.iter().map(Condition::to_string).collect(),
            due_at: parked.due_at.map(timestamp),
            winner: String::new(),
        }),
    }
}
