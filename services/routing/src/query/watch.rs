//! Following events as they are accepted and decided (rule r19).
//!
//! Each event is sent at its position, with its record if it is decided; one that is not is sent once
//! more when it is. The resume token holds a position for each scope and the events sent undecided,
//! so whoever goes on with it, here or at another replica, gets every record exactly once. At most
//! [`MAX_UNDECIDED`] events are owed an update at a time; then the stream sends no new ones until some
//! are decided.
//!
//! The database is asked again and again, with jitter; a hint only makes it sooner.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_kernel::{EventUid, ScopeId, TenantId};
use weir_pg::{Db, Tx};

use super::event::{EventRecord, read_all};
use super::list::fitting;
use super::position::Vector;
use super::scan::{Bounds, Filter, Picked, heads, walk};
use super::token::{Reader, Writer};
use super::{Error, Seal};

/// Most events that a stream owes an update.
pub const MAX_UNDECIDED: usize = 1_000;

/// Most new events of one look.
const BATCH: usize = 100;

/// Most updates of one look, and most when payloads come along, which may be 1 MiB each.
const UPDATES: usize = 100;
const UPDATES_WITH_DATA: usize = 4;

/// How long a stream with nothing to send waits before it looks again, at most; at least half of it.
const POLL: Duration = Duration::from_millis(500);

/// Where a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// With what is accepted from now on.
    Now,
    /// With the oldest kept event.
    Oldest,
    /// After the message that had this token.
    Resume(&'a str),
}

/// One message.
#[derive(Debug)]
pub struct Message {
    /// The event.
    pub event: EventRecord,
    /// Says that it was sent before, undecided.
    pub update: bool,
    /// Goes on after this message.
    pub resume_token: String,
}

/// A stream of one caller.
#[derive(Debug)]
pub struct Watch {
    db: Db,
    tenant: TenantId,
    scope: Option<ScopeId>,
    with_data: bool,
    hint: Arc<Notify>,
    shutdown: CancellationToken,
    seal: Seal,
    seen: Seen,
    /// Scope that was read last: the next look starts behind it, so that a busy one starves no other.
    last: Option<ScopeId>,
    ready: VecDeque<Message>,
}

/// What was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    positions: Vector,
    /// Sent undecided, by scope and position.
    undecided: BTreeMap<(ScopeId, i64), EventUid>,
}

impl Seen {
    fn write(&self, out: &mut Writer) {
        self.positions.write(out);
        out.number(self.undecided.len() as u64);
        for ((scope, seq), uid) in &self.undecided {
            out.number(u64::from(scope.0.cast_unsigned()));
            out.number(seq.cast_unsigned());
            out.uuid(uid.0);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Error> {
        let positions = Vector::read(from)?;
        let count = from.number()?;
        if count > MAX_UNDECIDED as u64 {
            return Err(from.refuse());
        }
        let mut undecided = BTreeMap::new();
        for _ in 0..count {
            let place = (ScopeId(from.int4()?), from.int8()?);
            undecided.insert(place, EventUid(from.uuid()?));
        }
        Ok(Self {
            positions,
            undecided,
        })
    }
}

impl Watch {
    /// Starts a stream. `hint` is told when something was accepted or decided; `shutdown` ends the
    /// stream.
    ///
    /// # Errors
    /// PAGE_TOKEN_INVALID; the database's.
    pub async fn start(
        db: Db,
        tenant: TenantId,
        scope: Option<ScopeId>,
        start: Start<'_>,
        with_data: bool,
        hint: Arc<Notify>,
        shutdown: CancellationToken,
    ) -> Result<Self, Error> {
        let filter = scope.map(|s| s.to_string()).unwrap_or_default();
        let seal = Seal::new("watch_events", "resume_token", tenant, &[&filter]);
        let mut seen = Seen::default();
        match start {
            Start::Oldest => {}
            Start::Resume(token) => seen = seal.open(token, Seen::read)?,
            Start::Now => {
                let mut tx = db.snapshot().await?;
                for (scope, head) in heads(&mut tx, tenant, scope).await? {
                    seen.positions.set(scope, head);
                }
            }
        }
        Ok(Self {
            db,
            tenant,
            scope,
            with_data,
            hint,
            shutdown,
            seal,
            seen,
            last: None,
            ready: VecDeque::new(),
        })
    }

    /// Returns the next message, as soon as there is one.
    ///
    /// # Errors
    /// `SHUTTING_DOWN` when the server ends; the database's. The stream is over then, and goes on
    /// elsewhere with the last resume token.
    pub async fn next(&mut self) -> Result<Message, Error> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(message);
            }
            if self.shutdown.is_cancelled() {
                return Err(Error::ShuttingDown);
            }
            // Registered before the look, so that what happens during it is not slept over.
            let hint = Arc::clone(&self.hint);
            let mut told = std::pin::pin!(hint.notified());
            told.as_mut().enable();
            self.look().await?;
            if !self.ready.is_empty() {
                continue;
            }
            let pause = POLL.mul_f64(rand::random_range(0.5..=1.0));
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = told => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One look at the database: first what is owed, then what is new, from one snapshot.
    async fn look(&mut self) -> Result<(), Error> {
        let mut tx = self.db.snapshot().await?;
        self.updates(&mut tx).await?;
        let free = MAX_UNDECIDED.saturating_sub(self.seen.undecided.len());
        if free > 0 && self.ready.len() < BATCH {
            self.news(&mut tx, free.min(BATCH)).await?;
        }
        Ok(())
    }

    async fn updates(&mut self, tx: &mut Tx<'_>) -> Result<(), Error> {
        if self.seen.undecided.is_empty() {
            return Ok(());
        }
        let owed: Vec<Uuid> = self.seen.undecided.values().map(|uid| uid.0).collect();
        let limit = if self.with_data {
            UPDATES_WITH_DATA
        } else {
            UPDATES
        };
        let decided: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/read_decided.sql"))
            .bind(self.tenant.0)
            .bind(&owed)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(tx.conn())
            .await?;
        let decided: Vec<EventUid> = decided.into_iter().map(EventUid).collect();
        for event in read_all(tx, self.tenant, &decided, self.with_data).await? {
            self.seen.undecided.remove(&(event.scope_id, event.seq));
            self.push(event, true);
        }
        Ok(())
    }

    async fn news(&mut self, tx: &mut Tx<'_>, count: usize) -> Result<(), Error> {
        let mut heads = heads(tx, self.tenant, self.scope).await?;
        let behind = heads.partition_point(|(scope, _)| Some(*scope) <= self.last);
        heads.rotate_left(behind);
        let bounds = Bounds {
            count,
            with_data: self.with_data,
        };
        let from = self.seen.positions.clone();
        let walked = walk(tx, self.tenant, &heads, from, &Filter::default(), bounds).await?;
        let uids: Vec<EventUid> = walked.picked.iter().map(|p| p.uid).collect();
        let events = read_all(tx, self.tenant, &uids, self.with_data).await?;
        let fitting = fitting(&events);
        let all = fitting == walked.picked.len();
        for (
            event,
            Picked {
                scope, position, ..
            },
        ) in events.into_iter().take(fitting).zip(&walked.picked)
        {
            self.seen.positions.set(*scope, *position);
            if event.is_pending() {
                self.seen.undecided.insert((*scope, event.seq), event.uid);
            }
            self.last = Some(*scope);
            self.push(event, false);
        }
        if all {
            // Also past what retention dropped.
            self.seen.positions = walked.after;
        }
        Ok(())
    }

    fn push(&mut self, event: EventRecord, update: bool) {
        let mut body = Writer::default();
        self.seen.write(&mut body);
        self.ready.push_back(Message {
            event,
            update,
            resume_token: self.seal.close(&body),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::position::Position;

    #[test]
    fn r19_a_resume_token_holds_positions_and_what_is_undecided() {
        let seal = Seal::new("watch_events", "resume_token", TenantId(1), &[""]);
        let mut seen = Seen::default();
        seen.positions.set(
            ScopeId(3),
            Position {
                seq: 2_000,
                at: chrono::DateTime::UNIX_EPOCH,
            },
        );
        for seq in 1..=1_000 {
            seen.undecided.insert(
                (ScopeId(3), seq),
                EventUid(Uuid::from_u128(u128::from(seq.unsigned_abs()))),
            );
        }
        let mut body = Writer::default();
        seen.write(&mut body);
        let token = seal.close(&body);
        assert!(token.len() < 32 << 10, "{}", token.len());
        assert_eq!(
            seal.open(&token, Seen::read).expect("it was made here"),
            seen
        );
        seen.undecided
            .insert((ScopeId(4), 1), EventUid(Uuid::nil()));
        let mut body = Writer::default();
        seen.write(&mut body);
        assert!(
            seal.open(&seal.close(&body), Seen::read).is_err(),
            "more than a stream ever owes"
        );
    }
}
