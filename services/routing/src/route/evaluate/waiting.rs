//! How an event stands to the wait of its Work (rule r17).

use std::sync::Arc;

use sqlx::PgConnection;
use weir_kernel::{Policy, RefusalCode, ScopeId, WorkId, WorkState};

use super::{Context, Fate, Overlay, Wins};
use crate::Error;
use crate::generation::Generation;
use crate::route::decide::{Effect, Selected};
use crate::route::view::{EventView, PendingRow, WorkView};
use crate::wait::check::{Check, Look, Own, What};
use crate::wait::wake::parent;

/// Pages of events for each subscription of a wait that an own event may win; the loop keeps them read.
const WINDOWS: u32 = 20;
/// The same for a trace, which cannot come back later.
const TRACED: u32 = 200;

/// How an event stands to the wait of its Work.
pub(super) enum Standing {
    /// The routes decide.
    Routes,
    /// The routes decide; it is context also when none takes it, since the wait it would win is kept from waking.
    Context,
    /// It wins.
    Wins(Box<Check>),
    /// Another candidate has won; the Work will be ready.
    Behind(i32),
}

/// Says whether the limits of a scope refuse everything that derives from a root that it accepts.
pub(crate) fn root_refusal(generation: &Generation, scope: ScopeId) -> Option<RefusalCode> {
    let name = generation.scope_name(scope)?;
    let limits = generation.compiled.scope(name)?.limits;
    if limits.depth < 1 {
        Some(RefusalCode::Depth)
    } else if limits.derived_per_minute < 1 {
        Some(RefusalCode::Rate)
    } else {
        None
    }
}

impl Overlay {
    /// Says how an event stands to the wait of its Work (rule r17).
    pub(super) async fn standing(
        &mut self,
        context: &Context,
        generation: &Arc<Generation>,
        scope: ScopeId,
        row: &PendingRow,
        event: &EventView,
        work: WorkId,
    ) -> Result<Standing, Error> {
        let waits = |view: &WorkView| view.state == WorkState::Waiting;
        if !self.snapshot.works.get(&work).is_some_and(waits) {
            return Ok(Standing::Routes);
        }
        if self.held_up.contains(&work) {
            // An earlier member was accepted first and cannot wake it.
            return Ok(Standing::Context);
        }
        let mut lookup = context.look_up(self.dry_run).await?;
        self.stands(lookup.conn(), generation, scope, row, event, work)
            .await
    }

    async fn stands(
        &mut self,
        conn: &mut PgConnection,
        generation: &Arc<Generation>,
        scope: ScopeId,
        row: &PendingRow,
        event: &EventView,
        work: WorkId,
    ) -> Result<Standing, Error> {
        let Some(wait) = weir_work::open_wait(conn, generation.tenant, work).await? else {
            return Ok(Standing::Routes);
        };
        let mut check = Check::new(wait);
        let takes = check.takes(scope, event, row.accepted_at);
        let own = match (takes, self.dry_run) {
            (true, true) => Own::Tracing(row.accepted_at),
            (true, false) => Own::Deciding(row.uid, row.accepted_at),
            (false, _) => Own::Stored,
        };
        let windows = if self.dry_run { TRACED } else { WINDOWS };
        let until = Some(row.accepted_at);
        let look = check
            .look(conn, generation, scope, own, until, windows)
            .await?;
        let winner = match look {
            Look::Open => return Ok(Standing::Routes),
            Look::More => return Ok(Standing::Behind(check.wait.n)),
            Look::Won(winner) => winner,
        };
        let is_this = matches!(winner.what, What::This(_));
        // What was accepted later than this event, or is due later, has not won when it is decided.
        if !is_this && winner.at > row.accepted_at {
            return Ok(Standing::Routes);
        }
        // A traced event is a root that nobody accepted: only limits that let nothing derive refuse its wake
        // (rule r42).
        let refused = if is_this && self.dry_run {
            root_refusal(generation, scope)
        } else {
            let parent = parent(&check.wait, winner.what);
            weir_ledger::foresee(conn, generation.tenant, generation.number, parent).await?
        };
        Ok(match (refused, is_this) {
            (None, true) => Standing::Wins(Box::new(check)),
            (None, false) => Standing::Behind(check.wait.n),
            (Some(_), _) if takes => {
                self.held_up.insert(work);
                Standing::Context
            }
            (Some(_), _) => Standing::Routes,
        })
    }

    /// The event wins: it is input of its Work with all its keys, and what follows finds the Work ready.
    pub(super) async fn wake(
        &mut self,
        context: &Context,
        generation: &Arc<Generation>,
        scope: ScopeId,
        row: &PendingRow,
        work: WorkId,
        check: Check,
    ) -> Result<Fate, Error> {
        let selected = Selected {
            slot: String::new(),
            binding: None,
            policy: Policy::Queue,
            reason: String::new(),
            attach: Vec::new(),
        };
        if let Some(conflict) = self
            .attach(context, generation, scope, row, work, &selected)
            .await?
        {
            return Ok(conflict);
        }
        self.wins = Some(Wins {
            seq: row.seq,
            check,
        });
        if let Some(view) = self.snapshot.works.get_mut(&work) {
            view.state = WorkState::Ready;
            view.add_keys(&row.keys);
        }
        Ok(Fate::Decided {
            effect: Effect::Wake(work),
            starts: None,
            refusals: Vec::new(),
            attempts: 0,
        })
    }
}
