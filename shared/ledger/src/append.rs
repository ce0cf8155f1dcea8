//! The one INSERT of an accepted event.

use crate::charge::{Charged, charge};
use crate::{Error, UidSource, work_marker};
use chrono::{DateTime, Utc};
use sqlx::Row as _;
use std::collections::{BTreeSet, HashMap, HashSet};
use uuid::Uuid;
use weir_kernel::envelope::Envelope;
use weir_kernel::{BindingId, Disposition, EventUid, RefusalCode, ScopeId, TenantId, WorkId};
use weir_pg::Tx;
use weir_pg::locks::Mode;

/// Where an event stands in its causal tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A root: external input, or an operator's control event.
    Root,
    /// Derived from a parent that trusted code chose; charged.
    Derived {
        /// The parent.
        parent: EventUid,
    },
    /// A rerouted copy: a causal sibling of its original, not charged (rule r31).
    Copy {
        /// The first original.
        original: EventUid,
        /// Root of the original.
        root: EventUid,
        /// Parent of the original.
        parent: Option<EventUid>,
        /// Depth of the original.
        depth: i16,
    },
}

/// The record of an event that is accepted already routed (rule r27).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// What is done with it.
    pub disposition: Disposition,
    /// Its Work.
    pub work: Option<WorkId>,
    /// Binding of the queued input.
    pub binding: Option<BindingId>,
    /// Generation then current.
    pub generation: i64,
    /// Reason, lower_snake.
    pub reason: &'static str,
}

/// An event to accept. The caller has checked the written rules.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The envelope.
    pub envelope: Envelope,
    /// All keys, the producer's and the derived ones.
    pub keys: Vec<String>,
    /// Work that it names.
    pub target_work: Option<WorkId>,
    /// Content digest (rule a01).
    pub content: Uuid,
    /// Who gave it.
    pub actor: String,
    /// Where it stands in its tree.
    pub cause: Cause,
    /// Set when it is not for routing to decide.
    pub routed: Option<Routed>,
}

/// An acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The event.
    pub uid: EventUid,
    /// Scope that accepted it.
    pub scope: ScopeId,
    /// Its position.
    pub seq: i64,
    /// Database time of acceptance.
    pub accepted_at: DateTime<Utc>,
}

/// A refusal by the causal limits: a committed outcome, not an error (rule c05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which limit.
    pub code: RefusalCode,
    /// The root; the missing parent where there is no root.
    pub root: EventUid,
    /// Depth that the event would have.
    pub depth: i32,
    /// The limit.
    pub limit: i32,
    /// How long until the next minute, for a rate.
    pub retry_after: std::time::Duration,
    /// Database time at which the next minute begins and a rate is whole again (rule c06).
    pub next_minute: DateTime<Utc>,
}

/// What became of one event of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted now.
    Accepted(Accepted),
    /// Accepted before with the same content (rule a01).
    Replay(Accepted),
    /// Its identity is taken by other content.
    Conflict(EventUid),
    /// The causal limits refuse it; the diagnostic is written.
    Refused(Refusal),
    /// The Work that it names is not in the scope.
    TargetNotFound(WorkId),
}

/// Proof that this transaction holds a scope's order lock exclusively.
#[derive(Debug)]
pub struct ScopeLock {
    tenant: TenantId,
    scope: ScopeId,
}

impl ScopeLock {
    /// Returns the tenant.
    #[must_use]
    pub const fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Returns the scope.
    #[must_use]
    pub const fn scope(&self) -> ScopeId {
        self.scope
    }

    pub(crate) fn scope_name_for_digest(&self) -> String {
        format!("#{}", self.scope)
    }
}

/// Takes a scope's order lock, exclusively and until commit. Locks of several scopes are taken through
/// `weir_pg::locks` in one sorted call before; taking one again here costs nothing but the statement.
///
/// # Errors
/// The database's.
pub async fn lock_scope(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scope: ScopeId,
) -> Result<ScopeLock, Error> {
    weir_pg::locks::lock_scope_order(tx, tenant, &[(scope, Mode::Exclusive)]).await?;
    Ok(ScopeLock { tenant, scope })
}

struct Planned<'a> {
    event: &'a NewEvent,
    index: usize,
    root: Option<EventUid>,
    parent: Option<EventUid>,
    depth: i16,
    copy_of: Option<EventUid>,
}

/// Accepts events in order under the scope's lock and answers each for itself.
///
/// Replays, conflicts and refusals accept nothing and harm no neighbour. Twins inside the batch are
/// folded: same content answers the first, other content is a conflict.
///
/// # Errors
/// `Again` when another scope took one of the identities meanwhile: the command starts over.
pub async fn append(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    events: &[NewEvent],
) -> Result<Vec<Outcome>, Error> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let head = sqlx::query(include_str!("sql/check.sql"))
        .bind(lock.tenant.0)
        .bind(lock.scope.0)
        .fetch_one(tx.conn())
        .await?;
    let last_seq: i64 = head.try_get(0)?;
    let at: DateTime<Utc> = head.try_get(1)?;
    let generation: i64 = head.try_get(2)?;

    let mut outcomes: Vec<Option<Outcome>> = vec![None; events.len()];
    known_identities(tx, lock, events, &mut outcomes).await?;
    let missing = missing_targets(tx, lock, events).await?;
    for (i, event) in events.iter().enumerate() {
        if let (None, Some(work)) = (&outcomes[i], event.target_work)
            && missing.contains(&work)
        {
            outcomes[i] = Some(Outcome::TargetNotFound(work));
        }
    }
    // After that: who is refused for himself is nobody's first.
    let twins = fold_twins(events, &outcomes);

    let candidates: Vec<usize> = (0..events.len())
        .filter(|i| outcomes[*i].is_none() && !twins.contains_key(i))
        .collect();
    let planned = plan(tx, lock, events, &candidates, at, generation, &mut outcomes).await?;
    write(tx, lock, &planned, last_seq, at, &mut outcomes).await?;

    for (index, twin) in twins {
        outcomes[index] = answer_twin(twin, &outcomes);
    }
    Ok(outcomes
        .into_iter()
        .map(|o| o.expect("each event was decided above"))
        .collect())
}

async fn known_identities(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    events: &[NewEvent],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    let ords: Vec<i64> = (0..).take(events.len()).collect();
    let sources: Vec<&str> = events.iter().map(|e| e.envelope.source.as_str()).collect();
    let ids: Vec<&str> = events.iter().map(|e| e.envelope.id.as_str()).collect();
    let rows = sqlx::query(include_str!("sql/find_identities.sql"))
        .bind(lock.tenant.0)
        .bind(&ords)
        .bind(&sources)
        .bind(&ids)
        .fetch_all(tx.conn())
        .await?;
    for row in rows {
        let index = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
        let uid = EventUid(row.try_get(1)?);
        let Some(event) = events.get(index) else {
            continue;
        };
        outcomes[index] = Some(if row.try_get::<Uuid, _>(2)? == event.content {
            Outcome::Replay(Accepted {
                uid,
                scope: ScopeId(row.try_get(3)?),
                seq: row.try_get(4)?,
                accepted_at: row.try_get(5)?,
            })
        } else {
            Outcome::Conflict(uid)
        });
    }
    Ok(())
}

/// How a later event of the batch stands to the first one of its identity.
#[derive(Clone, Copy)]
enum Twin {
    Same(usize),
    Differs(usize),
}

/// Maps each later event of one identity to the first one of the batch.
fn fold_twins(events: &[NewEvent], outcomes: &[Option<Outcome>]) -> HashMap<usize, Twin> {
    let mut first: HashMap<(&str, &str), usize> = HashMap::new();
    let mut twins = HashMap::new();
    for (i, event) in events
        .iter()
        .enumerate()
        .filter(|(i, _)| outcomes[*i].is_none())
    {
        let identity = (event.envelope.source.as_str(), event.envelope.id.as_str());
        let Some(earlier) = first.get(&identity).copied() else {
            first.insert(identity, i);
            continue;
        };
        let same = events[earlier].content == event.content;
        twins.insert(
            i,
            if same {
                Twin::Same(earlier)
            } else {
                Twin::Differs(earlier)
            },
        );
    }
    twins
}

/// A twin answers what its first answered; one of other content conflicts with it.
fn answer_twin(twin: Twin, outcomes: &[Option<Outcome>]) -> Option<Outcome> {
    match twin {
        Twin::Same(first) => match &outcomes[first] {
            Some(Outcome::Accepted(a) | Outcome::Replay(a)) => Some(Outcome::Replay(a.clone())),
            other => other.clone(),
        },
        Twin::Differs(first) => match &outcomes[first] {
            Some(Outcome::Accepted(a) | Outcome::Replay(a)) => Some(Outcome::Conflict(a.uid)),
            other => other.clone(),
        },
    }
}

async fn missing_targets(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    events: &[NewEvent],
) -> Result<HashSet<WorkId>, Error> {
    // What is accepted already routed creates the Work it names in this very transaction.
    let mut missing: HashSet<WorkId> = events
        .iter()
        .filter(|e| e.routed.is_none())
        .filter_map(|e| e.target_work)
        .collect();
    if missing.is_empty() {
        return Ok(missing);
    }
    let ids: Vec<Uuid> = missing.iter().map(|w| w.0).collect();
    let found: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/find_targets.sql"))
        .bind(lock.tenant.0)
        .bind(lock.scope.0)
        .bind(&ids)
        .fetch_all(tx.conn())
        .await?;
    for id in found {
        missing.remove(&WorkId(id));
    }
    Ok(missing)
}

async fn plan<'a>(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    events: &'a [NewEvent],
    candidates: &[usize],
    at: DateTime<Utc>,
    generation: i64,
    outcomes: &mut [Option<Outcome>],
) -> Result<Vec<Planned<'a>>, Error> {
    let derived: Vec<(usize, EventUid, &str)> = candidates
        .iter()
        .filter_map(|i| match events[*i].cause {
            Cause::Derived { parent } => Some((*i, parent, events[*i].envelope.kind.as_str())),
            Cause::Root | Cause::Copy { .. } => None,
        })
        .collect();
    let mut charged = charge(tx, lock.tenant, generation, at, &derived).await?;
    let mut planned = Vec::with_capacity(candidates.len());
    for index in candidates.iter().copied() {
        let event = &events[index];
        let (root, parent, depth, copy_of) = match &event.cause {
            Cause::Root => (None, None, 0, None),
            Cause::Copy {
                original,
                root,
                parent,
                depth,
            } => (Some(*root), *parent, *depth, Some(*original)),
            Cause::Derived { parent } => match charged.remove(&index) {
                Some(Charged::Granted { root, depth }) => (Some(root), Some(*parent), depth, None),
                Some(Charged::Refused(refusal)) => {
                    outcomes[index] = Some(Outcome::Refused(refusal));
                    continue;
                }
                None => continue,
            },
        };
        planned.push(Planned {
            event,
            index,
            root,
            parent,
            depth,
            copy_of,
        });
    }
    Ok(planned)
}

async fn write(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    planned: &[Planned<'_>],
    last_seq: i64,
    at: DateTime<Utc>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Error> {
    if planned.is_empty() {
        return Ok(());
    }
    let uids = UidSource::at(at);
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for p in planned {
        if p.event.routed.is_none() {
            keys.extend(p.event.keys.iter().map(String::as_str));
        }
    }
    let owners = owners(tx, lock, &keys).await?;

    let n = planned.len();
    let mut uid = Vec::with_capacity(n);
    let mut seq = Vec::with_capacity(n);
    let (mut pending_keys, mut pending_seqs) = (Vec::new(), Vec::new());
    for (offset, p) in (1_i64..).zip(planned) {
        let (this, number) = (EventUid(uids.next()), last_seq + offset);
        outcomes[p.index] = Some(Outcome::Accepted(Accepted {
            uid: this,
            scope: lock.scope,
            seq: number,
            accepted_at: at,
        }));
        uid.push(this.0);
        seq.push(number);
        if p.event.routed.is_some() {
            continue;
        }
        let named = p.event.target_work.into_iter();
        let owned = p
            .event
            .keys
            .iter()
            .filter_map(|k| owners.get(k.as_str()).copied());
        let marks = named.chain(owned).map(work_marker);
        for key in p.event.keys.iter().cloned().chain(marks) {
            pending_keys.push(key);
            pending_seqs.push(number);
        }
    }
    let of = |f: fn(&Planned<'_>) -> Option<Uuid>| planned.iter().map(f).collect::<Vec<_>>();
    let text =
        |f: for<'p> fn(&'p Planned<'_>) -> &'p str| planned.iter().map(f).collect::<Vec<_>>();
    let routed = |p: &Planned<'_>| p.event.routed.clone();
    let inserted: i64 = sqlx::query_scalar(include_str!("sql/write.sql"))
        .bind(lock.tenant.0)
        .bind(lock.scope.0)
        .bind(&uid)
        .bind(text(|p| &p.event.envelope.source))
        .bind(text(|p| &p.event.envelope.id))
        .bind(text(|p| &p.event.envelope.kind))
        .bind(planned.iter().map(|p| p.event.content).collect::<Vec<_>>())
        .bind(&seq)
        .bind(text(|p| &p.event.actor))
        .bind(of(|p| p.copy_of.map(|u| u.0)))
        .bind(of(|p| p.root.map(|u| u.0)))
        .bind(of(|p| p.parent.map(|u| u.0)))
        .bind(planned.iter().map(|p| p.depth).collect::<Vec<i16>>())
        .bind(
            planned
                .iter()
                .map(|p| routed(p).map(|r| r.disposition.code()))
                .collect::<Vec<Option<i16>>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| routed(p).and_then(|r| r.work).map(|w| w.0))
                .collect::<Vec<Option<Uuid>>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| routed(p).and_then(|r| r.binding).map(|b| b.0))
                .collect::<Vec<Option<i32>>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| routed(p).map(|r| r.generation))
                .collect::<Vec<Option<i64>>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| routed(p).map(|r| r.reason))
                .collect::<Vec<Option<&str>>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| p.event.envelope.encode_attributes())
                .collect::<Vec<_>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| p.event.keys.join("\u{1f}"))
                .collect::<Vec<_>>(),
        )
        .bind(of(|p| p.event.target_work.map(|w| w.0)))
        .bind(
            planned
                .iter()
                .map(|p| {
                    p.event
                        .envelope
                        .payload
                        .as_ref()
                        .map(|d| d.bytes.as_slice())
                })
                .collect::<Vec<Option<&[u8]>>>(),
        )
        .bind(
            planned
                .iter()
                .map(|p| p.event.envelope.payload.as_ref().is_some_and(|d| d.is_text))
                .collect::<Vec<bool>>(),
        )
        .bind(at)
        .bind(last_seq + 1)
        .bind(last_seq + i64::try_from(n).unwrap_or(i64::MAX))
        .bind(&pending_keys)
        .bind(&pending_seqs)
        .fetch_one(tx.conn())
        .await?;
    if usize::try_from(inserted).ok() != Some(n) {
        return Err(weir_pg::Error::Again.into());
    }
    Ok(())
}

async fn owners(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    keys: &BTreeSet<&str>,
) -> Result<HashMap<String, WorkId>, Error> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: Vec<&str> = keys.iter().copied().collect();
    let rows = sqlx::query(include_str!("sql/find_owners.sql"))
        .bind(lock.tenant.0)
        .bind(lock.scope.0)
        .bind(&keys)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| Ok((row.try_get(0)?, WorkId(row.try_get(1)?))))
        .collect()
}
