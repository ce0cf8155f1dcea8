//! Walking the events of scopes in order, from a position, within bounds.
//!
//! A scope's order is its visibility, so walking up to the head that a snapshot shows misses nothing
//! that was committed before it, and what is committed later stands behind the head and comes next
//! time. A filter cannot make an answer arbitrarily slow: a walk looks at so many rows and no more,
//! and says where it stopped.

use sqlx::Row as _;
use weir_kernel::{Disposition, EventUid, ScopeId, TenantId, WorkId};
use weir_pg::Tx;

use super::Error;
use super::position::{Position, Vector};

/// Most bytes of one answer. Clients refuse a message of more than 4 MiB by default, and what is not
/// counted here (names, framing) has the rest. One event is answered however large it is.
pub(super) const MAX_BYTES: usize = 3 << 20;

/// Most rows that one walk looks at: a few tens of milliseconds.
const MAX_ROWS: usize = 10_000;

/// Rows that one statement looks at when there is a filter.
const CHUNK: usize = 1_000;

/// Which events are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this type.
    pub kind: Option<String>,
    /// With this disposition.
    pub disposition: Option<Disposition>,
    /// Of this Work.
    pub work: Option<WorkId>,
    /// Not decided yet.
    pub unrouted: bool,
}

impl Filter {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The statement that reads fewest rows: undecided events have a small table of their own, rare
    /// dispositions an index; all else walks what is kept.
    fn statement(&self) -> &'static str {
        match self.disposition {
            _ if self.unrouted => include_str!("sql/scan_pending.sql"),
            Some(disposition) if disposition.code() >= Disposition::Drop.code() => {
                include_str!("sql/scan_decided.sql")
            }
            _ => include_str!("sql/scan_kept.sql"),
        }
    }
}

/// A wanted event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picked {
    pub(super) uid: EventUid,
    pub(super) scope: ScopeId,
    /// Where its scope stood before it.
    pub(super) before: Position,
    pub(super) position: Position,
}

/// Where a walk ended.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) picked: Vec<Picked>,
    pub(super) after: Vector,
}

/// How much one walk may bring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Events.
    pub(super) count: usize,
    /// Whether payloads count towards [`MAX_BYTES`].
    pub(super) with_data: bool,
}

/// Returns the last position of each scope that has events, or of one.
pub(super) async fn heads(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scope: Option<ScopeId>,
) -> Result<Vec<(ScopeId, Position)>, Error> {
    let rows = sqlx::query(include_str!("sql/read_heads.sql"))
        .bind(tenant.0)
        .bind(scope.map(|s| s.0))
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| {
            Ok((
                ScopeId(row.try_get(0)?),
                Position {
                    seq: row.try_get(1)?,
                    at: row.try_get(2)?,
                },
            ))
        })
        .collect()
}

/// Walks the scopes one after the other, each from its position to its head.
pub(super) async fn walk(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    heads: &[(ScopeId, Position)],
    from: Vector,
    filter: &Filter,
    bounds: Bounds,
) -> Result<Walked, Error> {
    let mut walked = Walked {
        picked: Vec::new(),
        after: from,
    };
    let (mut bytes, mut rows_left) = (0, MAX_ROWS);
    for (scope, head) in heads {
        while walked.after.get(*scope).seq < head.seq {
            let wanted = bounds.count - walked.picked.len();
            let limit = if filter.is_empty() { wanted } else { CHUNK }.min(rows_left);
            if wanted == 0 || limit == 0 {
                return Ok(walked);
            }
            let rows = chunk(
                tx,
                tenant,
                *scope,
                walked.after.get(*scope),
                filter,
                bounds,
                limit,
            )
            .await?;
            rows_left -= rows.len().min(rows_left);
            let exhausted = rows.len() < limit;
            for row in rows {
                if row.keep {
                    bytes += row.bytes;
                    if walked.picked.len() == bounds.count
                        || (bytes > MAX_BYTES && !walked.picked.is_empty())
                    {
                        return Ok(walked);
                    }
                    let before = walked.after.get(*scope);
                    walked.picked.push(Picked {
                        uid: row.uid,
                        scope: *scope,
                        before,
                        position: row.position,
                    });
                }
                walked.after.set(*scope, row.position);
            }
            if exhausted {
                // The snapshot shows no more, be it that retention dropped what stood before the head.
                walked.after.set(*scope, *head);
            }
        }
    }
    Ok(walked)
}

struct Row {
    position: Position,
    uid: EventUid,
    bytes: usize,
    keep: bool,
}

async fn chunk(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    scope: ScopeId,
    from: Position,
    filter: &Filter,
    bounds: Bounds,
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let rows = sqlx::query(filter.statement())
        .bind(tenant.0)
        .bind(scope.0)
        .bind(from.at)
        .bind(from.seq)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(filter.kind.as_deref())
        .bind(filter.disposition.map(Disposition::code))
        .bind(filter.work.map(|w| w.0))
        .bind(filter.unrouted)
        .bind(bounds.with_data)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Row {
                position: Position {
                    seq: row.try_get(0)?,
                    at: row.try_get(1)?,
                },
                uid: EventUid(row.try_get(2)?),
                bytes: usize::try_from(row.try_get::<i32, _>(3)?).unwrap_or(0),
                keep: row.try_get(4)?,
            })
        })
        .collect()
}
