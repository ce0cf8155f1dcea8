//! Traces: the decision about an event that nobody published (rules r40–r42, r45). The same functions decide; nothing
//! is written.
//!
//! What is read is read in READ ONLY transactions on one snapshot, under a role without any right to write
//! ([`weir_pg::Reader`]): the first one has all that is known before the routes are asked. It is closed then, so that
//! a slow handler keeps no connection; the owners of keys that a handler attaches are read in another one like it.

mod also;
mod answer;
mod behind;
mod candidate;
mod read;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_kernel::limits::text;
use weir_kernel::{EventUid, PendingState, WorkId};
use weir_pg::Tx;
use weir_proto::routing::v1::{TraceRequest, TraceResponse};
use weir_rpc::Caller;

use crate::Error;
use crate::generation::{Generation, Generations};
use crate::route::evaluate::{Context, evaluate};
use crate::route::group::Joins;
use crate::route::view::{EventView, PendingRow};

use answer::{Traced, answer};
use behind::{behind, holds_back};
use read::State;

pub use candidate::trace_candidate;

/// Position of an event that has none: behind all others.
const NOWHERE: i64 = i64::MAX;

/// Decides a hypothetical event.
///
/// # Errors
/// What acceptance would refuse: INVALID_REQUEST, TENANT_NOT_FOUND, SCOPE_NOT_FOUND, EVENT_CONFLICT, WORK_NOT_FOUND,
/// KEY_RULE_FAILED. READ_ROLE_UNUSABLE when the database has no role to read under. Safe to repeat: nothing is
/// written.
pub async fn trace(
    context: &Context,
    generations: &Generations,
    caller: &Caller,
    request: TraceRequest,
    max_payload: usize,
) -> Result<TraceResponse, Error> {
    checked(&request)?;
    let mut tx = context.reader.begin().await?;
    let generation = generations.seen_by(&mut tx, &caller.tenant).await?;
    let label = generation.number.to_string();
    dry_run(
        context,
        tx,
        &generation,
        caller,
        request,
        max_payload,
        label,
    )
    .await
}

fn checked(request: &TraceRequest) -> Result<(), Error> {
    text("filter", &request.filter, 255).map_err(|v| Error::Invalid(vec![v]))
}

/// Reads the state in the transaction, closes it, and decides.
async fn dry_run(
    context: &Context,
    mut tx: Tx<'static>,
    generation: &Arc<Generation>,
    caller: &Caller,
    request: TraceRequest,
    max_payload: usize,
    label: String,
) -> Result<TraceResponse, Error> {
    let state = State::read(&mut tx, generation, caller, &request, max_payload).await?;
    let view = EventView {
        envelope: Arc::new(state.event.envelope.clone()),
        scope: Arc::from(request.scope.as_str()),
        keys: state.event.keys.clone(),
        depth: 0,
    };
    let woken = also::woken(&mut tx, generation, state.scope, &view).await?;
    let row = PendingRow {
        seq: NOWHERE,
        uid: EventUid(uuid::Uuid::nil()),
        accepted_at: state.snapshot.at,
        keys: state.event.keys.clone(),
        target: state.event.target_work,
        state: PendingState::Due,
        due: true,
        failures: 0,
        first_failed_at: None,
        hold: None,
        bytes: 0,
        crashes: crate::route::view::Crashes::default(),
    };
    let behind = behind(
        &mut tx,
        generation,
        state.scope,
        &row,
        &state.snapshot.owners,
    )
    .await?;
    drop(tx);
    let events = HashMap::from([(NOWHERE, view)]);
    let owners = row.keys.iter().filter_map(|k| state.snapshot.owners.get(k));
    let works: BTreeSet<WorkId> = owners.copied().flatten().chain(row.target).collect();
    let work = works.first().copied().filter(|_| works.len() == 1);
    // What is held back is not decided now: nobody is asked.
    let rows = if behind.is_none() {
        vec![row]
    } else {
        Vec::new()
    };
    let mut evaluated = evaluate(
        context,
        generation,
        state.scope,
        rows,
        &events,
        state.snapshot,
        &state.proofs,
        &Joins::new(),
        true,
    )
    .await?;
    if let Some(hold) = behind {
        holds_back(&mut evaluated, hold);
    }
    let traced = Traced {
        scope: &request.scope,
        filter: &request.filter,
        event: &state.event,
        work,
        accepted_as: state.accepted_as,
        label,
        also: also::named(generation, state.scope, &evaluated, woken),
    };
    Ok(answer(generation, traced, &evaluated))
}
