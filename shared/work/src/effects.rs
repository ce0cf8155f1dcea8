//! Effects of routing decisions on Work, set-based: many Works of one scope in one statement (rules r08, r09,
//! r12, l04). The caller decided on a snapshot, holds the locks and has revalidated.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sqlx::types::Uuid;
use weir_kernel::{BindingId, EventUid, IntentKind, ScopeId, TenantId, WorkId, WorkState};
use weir_pg::Tx;

use crate::{Error, Locked, Queued};

/// A Work that an event starts.
#[derive(Debug, Clone)]
pub struct NewWork {
    /// Its id, made from the database's clock.
    pub work: WorkId,
    /// Priority of its binding.
    pub priority: i16,
    /// Event that starts it.
    pub cause: EventUid,
}

/// An input that an event becomes.
#[derive(Debug, Clone)]
pub struct NewInput {
    /// Its Work, new or existing.
    pub work: WorkId,
    /// The input.
    pub queued: Queued,
    /// Priority of its binding, used when the Work becomes claimable by it.
    pub priority: i16,
    /// Asks the running attempt (number, epoch) to take it before it ends.
    pub intent: Option<(IntentKind, i32, i64)>,
}

/// What the decisions of one commit do to Work.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Works that start.
    pub works: Vec<NewWork>,
    /// Inputs, in queue order.
    pub inputs: Vec<NewInput>,
    /// Keys that attach.
    pub keys: BTreeMap<String, WorkId>,
}

/// Positions of one `nextval`: the sequence's increment.
const BLOCK: i64 = 1_024;

/// work, binding, priority, queue position, last input, cause
type NewRow = (Uuid, i32, i16, i64, i64, Uuid);
/// work, binding, priority, queue position if it becomes claimable, last input
type GrownRow = (Uuid, i32, i16, Option<i64>, i64);
/// binding, priority, position, work, epoch, attempt, tries, first input
type ReadyRow = (i32, i16, i64, Uuid, i64, i32, i16, i64);
/// work, n, event, position, acceptance, bytes, binding
type InputRow = (Uuid, i64, Uuid, i64, DateTime<Utc>, i32, i32);
/// work, epoch, event, kind, n, attempt
type IntentRow = (Uuid, i64, Uuid, i16, i64, i32);

#[derive(Default)]
struct Columns {
    new: Vec<NewRow>,
    grown: Vec<GrownRow>,
    ready: Vec<ReadyRow>,
    inputs: Vec<InputRow>,
    intents: Vec<IntentRow>,
}

/// Writes the effects. `locked` are the existing Works concerned, as they were locked.
///
/// # Errors
/// `Again` when a key was taken meanwhile: the decision is made afresh.
pub async fn apply(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scope: ScopeId,
    at: DateTime<Utc>,
    locked: &HashMap<WorkId, Locked>,
    effects: &Effects,
) -> Result<(), Error> {
    if effects.inputs.is_empty() && effects.keys.is_empty() && effects.works.is_empty() {
        return Ok(());
    }
    // At most one ready row per Work that starts or grows.
    let rows = effects.works.len() + locked.len();
    let blocks = i64::try_from(rows).unwrap_or(i64::MAX) / BLOCK + 1;
    let blocks: Vec<i64> =
        sqlx::query_scalar("SELECT nextval('weir.ready_pos') FROM generate_series(1, $1)")
            .bind(blocks)
            .fetch_all(tx.conn())
            .await?;
    let c = lay_out(
        locked,
        effects,
        blocks.into_iter().flat_map(|b| b..b + BLOCK),
    );
    let attached: i64 = sqlx::query_scalar(include_str!("sql/apply_effects.sql"))
        .bind(tenant.0)
        .bind(scope.0)
        .bind(at)
        .bind(c.new.iter().map(|r| r.0).collect::<Vec<_>>())
        .bind(c.new.iter().map(|r| r.1).collect::<Vec<_>>())
        .bind(c.new.iter().map(|r| r.2).collect::<Vec<_>>())
        .bind(c.new.iter().map(|r| r.3).collect::<Vec<_>>())
        .bind(c.new.iter().map(|r| r.4).collect::<Vec<_>>())
        .bind(c.new.iter().map(|r| r.5).collect::<Vec<_>>())
        .bind(c.grown.iter().map(|r| r.0).collect::<Vec<_>>())
        .bind(c.grown.iter().map(|r| r.1).collect::<Vec<_>>())
        .bind(c.grown.iter().map(|r| r.2).collect::<Vec<_>>())
        .bind(c.grown.iter().map(|r| r.3).collect::<Vec<_>>())
        .bind(c.grown.iter().map(|r| r.4).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.0).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.1).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.2).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.3).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.4).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.5).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.6).collect::<Vec<_>>())
        .bind(c.ready.iter().map(|r| r.7).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.0).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.1).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.2).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.3).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.4).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.5).collect::<Vec<_>>())
        .bind(c.inputs.iter().map(|r| r.6).collect::<Vec<_>>())
        .bind(c.intents.iter().map(|r| r.0).collect::<Vec<_>>())
        .bind(c.intents.iter().map(|r| r.1).collect::<Vec<_>>())
        .bind(c.intents.iter().map(|r| r.2).collect::<Vec<_>>())
        .bind(c.intents.iter().map(|r| r.3).collect::<Vec<_>>())
        .bind(c.intents.iter().map(|r| r.4).collect::<Vec<_>>())
        .bind(c.intents.iter().map(|r| r.5).collect::<Vec<_>>())
        .bind(effects.keys.keys().map(String::as_str).collect::<Vec<_>>())
        .bind(effects.keys.values().map(|w| w.0).collect::<Vec<_>>())
        .fetch_one(tx.conn())
        .await?;
    if usize::try_from(attached).ok() != Some(effects.keys.len()) {
        return Err(weir_pg::Error::Again.into());
    }
    Ok(())
}

fn lay_out(
    locked: &HashMap<WorkId, Locked>,
    effects: &Effects,
    mut positions: impl Iterator<Item = i64>,
) -> Columns {
    let mut c = Columns::default();
    let mut by_work: BTreeMap<WorkId, Vec<&NewInput>> = BTreeMap::new();
    for input in &effects.inputs {
        by_work.entry(input.work).or_default().push(input);
    }
    for new in &effects.works {
        let inputs = by_work.remove(&new.work).unwrap_or_default();
        let Some(first) = inputs.first() else {
            continue;
        };
        let Some(pos) = positions.next() else { break };
        let binding = first.queued.binding.0;
        let last = push_inputs(&mut c, &inputs, 0);
        c.new
            .push((new.work.0, binding, new.priority, pos, last, new.cause.0));
        c.ready
            .push((binding, new.priority, pos, new.work.0, 0, 0, 0, 1));
    }
    // Works that grow: by input, or by keys alone.
    for (work, held) in locked {
        let inputs = by_work.remove(work).unwrap_or_default();
        let keyed = effects.keys.values().any(|w| w == work);
        if inputs.is_empty() && !keyed {
            continue;
        }
        let before = held.work.last_input;
        let last = push_inputs(&mut c, &inputs, before);
        let claimable = held.work.state == WorkState::Ready && held.work.queue_pos.is_none();
        let first = inputs.first().filter(|_| claimable);
        let (binding, priority) = first.map_or_else(
            || (held.work.binding_id, held.work.priority),
            |i| (i.queued.binding, i.priority),
        );
        let pos = first.and_then(|_| positions.next());
        c.grown.push((work.0, binding.0, priority, pos, last));
        if let Some(pos) = pos {
            c.ready.push((
                binding.0,
                priority,
                pos,
                work.0,
                held.work.epoch,
                held.work.attempts,
                held.work.tries,
                before + 1,
            ));
        }
    }
    c
}

fn push_inputs(c: &mut Columns, inputs: &[&NewInput], before: i64) -> i64 {
    let mut n = before;
    for input in inputs {
        n += 1;
        let q = &input.queued;
        let BindingId(binding) = q.binding;
        c.inputs.push((
            input.work.0,
            n,
            q.uid.0,
            q.seq,
            q.accepted_at,
            q.bytes,
            binding,
        ));
        if let Some((kind, attempt, epoch)) = input.intent {
            c.intents
                .push((input.work.0, epoch, q.uid.0, kind.code(), n, attempt));
        }
    }
    n
}
