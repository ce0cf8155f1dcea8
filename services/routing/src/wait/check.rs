//! Who wins a wait, among what can be seen (rule l10).

use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;
use weir_cel::{Facts, Program};
use weir_kernel::{EventUid, ScopeId, WorkId};
use weir_ledger::work_marker;
use weir_work::{Condition, OpenWait};

use crate::Error;
use crate::generation::Generation;
use crate::route::snapshot::event_view;
use crate::route::view::EventView;
use crate::wait::wake::WOKEN;

/// Events of one read of a scope: what it holds in memory.
const WINDOW: i64 = 50;

/// What won, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Winner {
    /// When it was accepted, ended or due.
    pub at: DateTime<Utc>,
    /// What it is.
    pub what: What,
}

/// What a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The own event that is being decided.
    This(EventUid),
    /// An own input that is queued.
    Queued(EventUid),
    /// An own event that is unrouted.
    Unrouted(EventUid),
    /// An event of a subscription.
    Event(EventUid),
    /// The end of a Work.
    Ended(WorkId),
    /// The timeout.
    Timeout,
}

impl What {
    /// Returns the event, if it is one.
    #[must_use]
    pub const fn event(self) -> Option<EventUid> {
        match self {
            Self::This(uid) | Self::Queued(uid) | Self::Unrouted(uid) | Self::Event(uid) => {
                Some(uid)
            }
            Self::Ended(_) | Self::Timeout => None,
        }
    }

    fn tie(self) -> Uuid {
        match self {
            Self::Ended(work) => work.0,
            other => other.event().map_or(Uuid::max(), |uid| uid.0),
        }
    }
}

/// Whether own unrouted events are looked up, or the one that is being decided is given: what was accepted
/// before it is decided already.
#[derive(Debug, Clone, Copy)]
pub enum Own {
    /// Looks them up.
    Stored,
    /// This one, accepted then: it is known to match, and what was accepted before it is decided.
    Deciding(EventUid, DateTime<Utc>),
    /// This one, which nobody accepted: what was accepted before it may be undecided.
    Tracing(DateTime<Utc>),
}

/// A subscription to the events of a scope, and how far it has seen.
#[derive(Debug, Clone)]
struct Subscription {
    item: i16,
    scope: ScopeId,
    /// `None`: any event; an expression that does not compile in this version matches none.
    filter: Option<Result<Program, ()>>,
    emitter: Option<WorkId>,
    seen_seq: i64,
    seen_at: DateTime<Utc>,
    found: Option<(DateTime<Utc>, EventUid)>,
}

/// A check of one wait: it can be taken up again, and then looks at what is new only.
#[derive(Debug, Clone)]
pub struct Check {
    /// The wait.
    pub wait: OpenWait,
    subscriptions: Vec<Subscription>,
}

/// What a look came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// This one wins.
    Won(Winner),
    /// Nobody yet.
    Open,
    /// There was more to see than the look may take.
    More,
}

impl Check {
    /// Begins a check.
    #[must_use]
    pub fn new(wait: OpenWait) -> Self {
        let subscriptions = wait
            .conditions
            .iter()
            .filter_map(|(item, condition)| match condition {
                Condition::Event {
                    scope,
                    filter,
                    emitter,
                    seen_seq,
                    seen_at,
                } => Some(Subscription {
                    item: *item,
                    scope: *scope,
                    filter: (!filter.is_empty()).then(|| Program::compile(filter).map_err(|_| ())),
                    emitter: *emitter,
                    seen_seq: *seen_seq,
                    seen_at: seen_at.unwrap_or(wait.since).max(wait.since),
                    found: None,
                }),
                Condition::Own | Condition::Ended(_) => None,
            })
            .collect();
        Self {
            wait,
            subscriptions,
        }
    }

    /// Looks for the winner. Reads at most `windows` pages of events for each subscription; candidates after
    /// `until` do not matter.
    ///
    /// # Errors
    /// The database's.
    pub async fn look(
        &mut self,
        conn: &mut PgConnection,
        generation: &Generation,
        scope: ScopeId,
        own: Own,
        until: Option<DateTime<Utc>>,
        windows: u32,
    ) -> Result<Look, Error> {
        let now: DateTime<Utc> = sqlx::query_scalar("SELECT weir.clock()")
            .fetch_one(&mut *conn)
            .await?;
        let mut best: Option<Winner> = None;
        self.own(conn, generation, scope, own, &mut best).await?;
        self.ended(conn, generation, &mut best).await?;
        for subscription in &self.subscriptions {
            if let Some((at, uid)) = subscription.found {
                consider(&mut best, at, What::Event(uid));
            }
        }
        for subscription in &mut self.subscriptions {
            let bound = best.as_ref().map(|w| w.at).into_iter().chain(until).min();
            let seen = subscription.scan(conn, generation, bound, windows).await?;
            if !seen {
                return Ok(Look::More);
            }
            if let Some((at, uid)) = subscription.found {
                consider(&mut best, at, What::Event(uid));
            }
        }
        if let Some(due) = self.wait.due_at.filter(|due| *due <= now)
            && best.as_ref().is_none_or(|w| due < w.at)
        {
            best = Some(Winner {
                at: due,
                what: What::Timeout,
            });
        }
        if let (Some(winner), Own::Stored) = (&mut best, own)
            && let What::Event(uid) = winner.what
            && self.is_own_pending(conn, generation, scope, uid).await?
        {
            winner.what = What::Unrouted(uid);
        }
        Ok(best.map_or(Look::Open, Look::Won))
    }

    /// Says whether an event of the Work's own scope, accepted at `at`, wins by itself: any own input does, or it
    /// matches a subscription.
    #[must_use]
    pub fn takes(&self, scope: ScopeId, event: &EventView, at: DateTime<Utc>) -> bool {
        self.wait.is_own() || at >= self.wait.since && self.matches(scope, event)
    }

    async fn is_own_pending(
        &self,
        conn: &mut PgConnection,
        generation: &Generation,
        scope: ScopeId,
        uid: EventUid,
    ) -> Result<bool, Error> {
        Ok(sqlx::query_scalar(include_str!("sql/own_pending.sql"))
            .bind(generation.tenant.0)
            .bind(scope.0)
            .bind(work_marker(self.wait.work))
            .bind(uid.0)
            .fetch_one(conn)
            .await?)
    }

    /// Says whether an event would match one of the subscriptions; for a trace of one that nobody published.
    #[must_use]
    pub fn matches(&self, scope: ScopeId, event: &EventView) -> bool {
        let facts = Facts::new(event.facts(), None);
        self.subscriptions
            .iter()
            .any(|s| s.scope == scope && s.matches(event, &facts))
    }

    /// Returns how far the subscriptions have seen without finding a match: items, positions and times.
    #[must_use]
    pub fn progress(&self) -> (Vec<i16>, Vec<i64>, Vec<DateTime<Utc>>) {
        let mut out = (Vec::new(), Vec::new(), Vec::new());
        for s in &self.subscriptions {
            out.0.push(s.item);
            out.1.push(s.seen_seq);
            out.2.push(s.seen_at);
        }
        out
    }

    async fn own(
        &self,
        conn: &mut PgConnection,
        generation: &Generation,
        scope: ScopeId,
        own: Own,
        best: &mut Option<Winner>,
    ) -> Result<(), Error> {
        match own {
            Own::Deciding(uid, at) => consider(best, at, What::This(uid)),
            Own::Tracing(at) => consider(best, at, What::This(EventUid(Uuid::max()))),
            Own::Stored => {}
        }
        if !self.wait.is_own() {
            return Ok(());
        }
        let queued = sqlx::query(include_str!("sql/own_queued.sql"))
            .bind(generation.tenant.0)
            .bind(self.wait.work.0)
            .fetch_optional(&mut *conn)
            .await?;
        if let Some(row) = queued {
            let uid = EventUid(row.try_get("uid")?);
            consider(best, row.try_get("accepted_at")?, What::Queued(uid));
        }
        match own {
            Own::Deciding(..) => {}
            Own::Stored | Own::Tracing(_) => {
                let unrouted = sqlx::query(include_str!("sql/own_unrouted.sql"))
                    .bind(generation.tenant.0)
                    .bind(scope.0)
                    .bind(work_marker(self.wait.work))
                    .bind(self.wait.work.0)
                    .fetch_optional(conn)
                    .await?;
                if let Some(row) = unrouted {
                    let uid = EventUid(row.try_get("uid")?);
                    consider(best, row.try_get("accepted_at")?, What::Unrouted(uid));
                }
            }
        }
        Ok(())
    }

    async fn ended(
        &self,
        conn: &mut PgConnection,
        generation: &Generation,
        best: &mut Option<Winner>,
    ) -> Result<(), Error> {
        let works: Vec<Uuid> = self
            .wait
            .conditions
            .iter()
            .filter_map(|(_, c)| match c {
                Condition::Ended(work) => Some(work.0),
                Condition::Own | Condition::Event { .. } => None,
            })
            .collect();
        if works.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query(
            "SELECT w.work_id, w.ended_at FROM unnest($2::uuid[]) AS u(work_id) \
             CROSS JOIN LATERAL (SELECT work_id, ended_at FROM weir.work \
                 WHERE tenant_id = $1 AND work_id = u.work_id AND state >= 5 LIMIT 1) w",
        )
        .bind(generation.tenant.0)
        .bind(&works)
        .fetch_all(conn)
        .await?;
        for row in rows {
            let work = WorkId(row.try_get("work_id")?);
            consider(best, row.try_get("ended_at")?, What::Ended(work));
        }
        Ok(())
    }
}

fn consider(best: &mut Option<Winner>, at: DateTime<Utc>, what: What) {
    if best
        .as_ref()
        .is_none_or(|w| (at, what.tie()) < (w.at, w.what.tie()))
    {
        *best = Some(Winner { at, what });
    }
}

impl Subscription {
    fn matches(&self, event: &EventView, facts: &Facts) -> bool {
        // Bridges are what wakes come to: waking for them would let two waits drive each other.
        event.envelope.kind != WOKEN
            && self.emitter.is_none_or(|w| event.emitter() == Some(w))
            && match &self.filter {
                None => true,
                Some(Ok(program)) => program.as_condition(facts).unwrap_or(false),
                Some(Err(())) => false,
            }
    }

    /// Reads on until a match, the end, or past `bound`. Says whether it got there.
    async fn scan(
        &mut self,
        conn: &mut PgConnection,
        generation: &Generation,
        bound: Option<DateTime<Utc>>,
        windows: u32,
    ) -> Result<bool, Error> {
        if self.found.is_some() {
            return Ok(true);
        }
        let name: Arc<str> = Arc::from(generation.scope_name(self.scope).unwrap_or_default());
        for _ in 0..windows {
            // Read before the events, so all of them up to it are there: positions commit in order (rule a03).
            let head: i64 = sqlx::query_scalar(
                "SELECT coalesce((SELECT last_seq FROM weir.scope_head \
                 WHERE tenant_id = $1 AND scope_id = $2 ORDER BY first_seq DESC LIMIT 1), 0)",
            )
            .bind(generation.tenant.0)
            .bind(self.scope.0)
            .fetch_one(&mut *conn)
            .await?;
            let rows = sqlx::query(include_str!("sql/scan_events.sql"))
                .bind(generation.tenant.0)
                .bind(self.scope.0)
                .bind(self.seen_at)
                .bind(self.seen_seq)
                .bind(WINDOW)
                .fetch_all(&mut *conn)
                .await?;
            let full = i64::try_from(rows.len()).unwrap_or(0) == WINDOW;
            let mut events = Vec::with_capacity(rows.len());
            for row in rows {
                // An unreadable one matches nothing.
                let view = event_view(&row, &name)?;
                events.push((
                    row.try_get::<i64, _>("seq")?,
                    row.try_get::<DateTime<Utc>, _>("accepted_at")?,
                    EventUid(row.try_get("uid")?),
                    view,
                ));
            }
            let this = self.clone();
            // Expressions are bounded, and still no work for a thread that serves others.
            let (events, matched) = tokio::task::spawn_blocking(move || {
                let matched = events.iter().position(|(.., view)| {
                    view.as_ref()
                        .is_some_and(|v| this.matches(v, &Facts::new(v.facts(), None)))
                });
                (events, matched)
            })
            .await
            .map_err(|_| Error::ShuttingDown)?;
            let seen = matched.unwrap_or(events.len());
            if let Some((seq, at, ..)) = events[..seen].last() {
                (self.seen_seq, self.seen_at) = (*seq, *at);
            }
            if let Some((_, at, uid, _)) = matched.and_then(|i| events.get(i)) {
                self.found = Some((*at, *uid));
                return Ok(true);
            }
            if !full {
                // Also what the lookback leaves out was seen.
                self.seen_seq = self.seen_seq.max(head);
            }
            if !full || bound.is_some_and(|bound| self.seen_at > bound) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
