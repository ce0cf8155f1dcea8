//! The causal limits: ancestry, pinned limits, one token per derived event, and diagnostics of refusals.

use crate::{Error, append::Refusal};
use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row as _};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use uuid::Uuid;
use weir_kernel::{EventUid, RefusalCode, TenantId};
use weir_pg::Tx;

/// What the limits said to one event.
pub(crate) enum Charged {
    Granted { root: EventUid, depth: i16 },
    Refused(Refusal),
}

#[derive(Clone, Copy)]
struct Limits {
    depth: i16,
    rate: i32,
    pinned: bool,
    braked: bool,
}

struct Parent {
    root: Uuid,
    depth: i16,
}

/// Charges derived events in order: `(index, parent, type)`. All of them are new: duplicates were
/// recognised before (rule c04).
///
/// Refusals write their diagnostics here, in the same transaction; nothing else of a refused event
/// exists (rule c05).
pub(crate) async fn charge(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
    at: DateTime<Utc>,
    events: &[(usize, EventUid, &str)],
) -> Result<HashMap<usize, Charged>, Error> {
    let mut out = HashMap::new();
    if events.is_empty() {
        return Ok(out);
    }
    let mut uids: Vec<Uuid> = events.iter().map(|(_, p, _)| p.0).collect();
    uids.sort_unstable();
    uids.dedup();
    let (parents, mut limits) = find_parents(tx.conn(), tenant, generation, &uids).await?;

    let mut refused = Refusals::new(at);
    // Depth and brake by what is known now, so that a refusal pins nothing (rule c03).
    let mut alive = admit(events, &parents, &limits, &mut refused, &mut out);
    pin(
        tx,
        tenant,
        generation,
        at,
        &uids,
        &parents,
        &mut limits,
        &alive,
    )
    .await?;
    // A twin may have pinned other limits meanwhile: look again with those that hold for ever.
    alive = admit(&alive, &parents, &limits, &mut refused, &mut out);
    spend(
        tx,
        tenant,
        at,
        &alive,
        &parents,
        &limits,
        &mut refused,
        &mut out,
    )
    .await?;
    refused.write(tx, tenant).await?;
    Ok(out)
}

/// Says, without writing or locking anything, whether the limits would refuse one event derived from `parent`
/// now. What is said holds for this moment only: the charge itself is exact.
///
/// # Errors
/// The database's.
pub async fn foresee(
    conn: &mut PgConnection,
    tenant: TenantId,
    generation: i64,
    parent: EventUid,
) -> Result<Option<RefusalCode>, Error> {
    let (parents, limits) = find_parents(conn, tenant, generation, &[parent.0]).await?;
    let Some(p) = parents.get(&parent.0) else {
        return Ok(Some(RefusalCode::MissingParent));
    };
    let limit = limits[&p.root];
    if limit.braked {
        return Ok(Some(RefusalCode::Braked));
    }
    if p.depth >= limit.depth {
        return Ok(Some(RefusalCode::Depth));
    }
    let spent: Option<i32> = sqlx::query_scalar(
        "SELECT spent FROM weir.causal_bucket WHERE tenant_id = $1 AND root_uid = $2 \
             AND minute = date_trunc('minute', weir.clock(), 'UTC')",
    )
    .bind(tenant.0)
    .bind(p.root)
    .fetch_optional(conn)
    .await?;
    Ok((spent.unwrap_or(0) >= limit.rate).then_some(RefusalCode::Rate))
}

async fn find_parents(
    conn: &mut PgConnection,
    tenant: TenantId,
    generation: i64,
    uids: &[Uuid],
) -> Result<(HashMap<Uuid, Parent>, BTreeMap<Uuid, Limits>), Error> {
    let rows = sqlx::query(include_str!("sql/find_parents.sql"))
        .bind(tenant.0)
        .bind(uids)
        .bind(generation)
        .fetch_all(conn)
        .await?;
    let mut parents = HashMap::new();
    let mut limits = BTreeMap::new();
    for row in rows {
        let root: Uuid = row.try_get("root")?;
        parents.insert(
            row.try_get("uid")?,
            Parent {
                root,
                depth: row.try_get("depth")?,
            },
        );
        let pinned: Option<i16> = row.try_get("pinned_depth")?;
        limits.insert(
            root,
            match pinned {
                Some(depth) => Limits {
                    depth,
                    rate: row.try_get("pinned_rate")?,
                    pinned: true,
                    braked: row.try_get("braked")?,
                },
                None => Limits {
                    depth: row.try_get("depth_limit")?,
                    rate: row.try_get("rate_limit")?,
                    pinned: false,
                    braked: false,
                },
            },
        );
    }
    Ok((parents, limits))
}

/// Refuses what has no parent, is too deep or is braked, and returns the rest.
fn admit<'a>(
    events: &[(usize, EventUid, &'a str)],
    parents: &HashMap<Uuid, Parent>,
    limits: &BTreeMap<Uuid, Limits>,
    refused: &mut Refusals,
    out: &mut HashMap<usize, Charged>,
) -> Vec<(usize, EventUid, &'a str)> {
    let mut alive = Vec::with_capacity(events.len());
    for (index, parent, kind) in events.iter().copied() {
        let Some(p) = parents.get(&parent.0) else {
            let refusal = refused.note(RefusalCode::MissingParent, parent.0, parent, 0, 0, kind);
            out.insert(index, Charged::Refused(refusal));
            continue;
        };
        let limit = limits[&p.root];
        let depth = i32::from(p.depth) + 1;
        let code = if limit.braked {
            Some((RefusalCode::Braked, 0))
        } else if depth > i32::from(limit.depth) {
            Some((RefusalCode::Depth, i32::from(limit.depth)))
        } else {
            None
        };
        match code {
            Some((code, max)) => {
                let refusal = refused.note(code, p.root, parent, depth, max, kind);
                out.insert(index, Charged::Refused(refusal));
            }
            None => alive.push((index, parent, kind)),
        }
    }
    alive
}

#[expect(
    clippy::too_many_arguments,
    reason = "the accounting of one charge, split for reading"
)]
async fn pin(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
    at: DateTime<Utc>,
    uids: &[Uuid],
    parents: &HashMap<Uuid, Parent>,
    limits: &mut BTreeMap<Uuid, Limits>,
    alive: &[(usize, EventUid, &str)],
) -> Result<(), Error> {
    let roots: BTreeSet<Uuid> = alive.iter().map(|(_, p, _)| parents[&p.0].root).collect();
    // A rate of nothing can only refuse, and a refusal pins nothing.
    let new: Vec<(Uuid, Limits)> = roots
        .into_iter()
        .map(|r| (r, limits[&r]))
        .filter(|(_, l)| !l.pinned && l.rate > 0)
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    let pinned: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/pin_roots.sql"))
        .bind(tenant.0)
        .bind(new.iter().map(|(r, _)| *r).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, l)| l.depth).collect::<Vec<_>>())
        .bind(new.iter().map(|(_, l)| l.rate).collect::<Vec<_>>())
        .bind(at)
        .fetch_all(tx.conn())
        .await?;
    if pinned.len() < new.len() {
        *limits = find_parents(tx.conn(), tenant, generation, uids).await?.1;
    }
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "the accounting of one charge, split for reading"
)]
async fn spend(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    alive: &[(usize, EventUid, &str)],
    parents: &HashMap<Uuid, Parent>,
    limits: &BTreeMap<Uuid, Limits>,
    refused: &mut Refusals,
    out: &mut HashMap<usize, Charged>,
) -> Result<(), Error> {
    if alive.is_empty() {
        return Ok(());
    }
    let mut wanted: BTreeMap<Uuid, i32> = BTreeMap::new();
    for (_, parent, _) in alive {
        *wanted.entry(parents[&parent.0].root).or_default() += 1;
    }
    let rows = sqlx::query(include_str!("sql/spend.sql"))
        .bind(tenant.0)
        .bind(wanted.keys().copied().collect::<Vec<_>>())
        .bind(wanted.values().copied().collect::<Vec<_>>())
        .bind(wanted.keys().map(|r| limits[r].rate).collect::<Vec<_>>())
        .bind(at)
        .fetch_all(tx.conn())
        .await?;
    let mut granted: HashMap<Uuid, i32> = HashMap::new();
    for row in rows {
        granted.insert(row.try_get(0)?, row.try_get(1)?);
    }
    for (index, parent, kind) in alive.iter().copied() {
        let p = &parents[&parent.0];
        let depth = p.depth + 1;
        let left = granted.entry(p.root).or_default();
        if *left > 0 {
            *left -= 1;
            out.insert(
                index,
                Charged::Granted {
                    root: EventUid(p.root),
                    depth,
                },
            );
        } else {
            let rate = limits[&p.root].rate;
            let refusal = refused.note(RefusalCode::Rate, p.root, parent, depth.into(), rate, kind);
            out.insert(index, Charged::Refused(refusal));
        }
    }
    Ok(())
}

/// How many, the limit, and of the first refused event: parent, depth and type.
type Refused = (i64, i32, Uuid, i32, String);

/// Refusals of one append, coalesced by root and cause.
struct Refusals {
    at: DateTime<Utc>,
    rows: BTreeMap<(Uuid, i16), Refused>,
}

impl Refusals {
    fn new(at: DateTime<Utc>) -> Self {
        Self {
            at,
            rows: BTreeMap::new(),
        }
    }

    fn note(
        &mut self,
        code: RefusalCode,
        root: Uuid,
        parent: EventUid,
        depth: i32,
        limit: i32,
        kind: &str,
    ) -> Refusal {
        self.rows
            .entry((root, code.code()))
            .or_insert_with(|| (0, limit, parent.0, depth, kind.to_owned()))
            .0 += 1;
        let into_minute = self.at.timestamp_millis().rem_euclid(60_000);
        let left = u64::try_from(60_000 - into_minute).unwrap_or(60_000);
        let retry_after = Duration::from_millis(left);
        let seconds = (self.at.timestamp().div_euclid(60) + 1) * 60;
        let next_minute = DateTime::from_timestamp(seconds, 0).unwrap_or(self.at);
        Refusal {
            code,
            root: EventUid(root),
            depth,
            limit,
            retry_after,
            next_minute,
        }
    }

    async fn write(self, tx: &mut Tx<'_>, tenant: TenantId) -> Result<(), Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let keys: Vec<(Uuid, i16)> = self.rows.keys().copied().collect();
        let rows: Vec<Refused> = self.rows.into_values().collect();
        sqlx::query(include_str!("sql/note_refusals.sql"))
            .bind(tenant.0)
            .bind(keys.iter().map(|k| k.0).collect::<Vec<_>>())
            .bind(keys.iter().map(|k| k.1).collect::<Vec<_>>())
            .bind(rows.iter().map(|r| r.0).collect::<Vec<_>>())
            .bind(rows.iter().map(|r| r.1).collect::<Vec<_>>())
            .bind(rows.iter().map(|r| r.2).collect::<Vec<_>>())
            .bind(rows.iter().map(|r| r.3).collect::<Vec<_>>())
            .bind(rows.iter().map(|r| r.4.as_str()).collect::<Vec<_>>())
            .bind(self.at)
            .execute(tx.conn())
            .await?;
        Ok(())
    }
}
