//! Waking a Work whose wait is won, and holding one whose wake the causal limits refuse.

use chrono::{DateTime, Utc};
use weir_kernel::envelope::Envelope;
use weir_kernel::{Disposition, EventUid, RefusalCode, ScopeId, TenantId, WorkId, WorkState};
use weir_ledger::{Accepted, Cause, NewEvent, Outcome, Routed, append, lock_scope};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_work::{Locked, OpenWait, Queued, Won, open_wait};

use crate::Error;
use crate::generation::Generation;
use crate::wait::check::{Check, Look, Own, What, Winner};

/// Type of a bridge.
pub const WOKEN: &str = "core.wait.woken";
/// Source of bridges.
const SOURCE: &str = "core.wait";
/// Pages of new events that a wake looks at under its locks.
const LAST_LOOK: u32 = 4;

/// Wakes the Work of a wait, if somebody has won it.
pub struct WakeWork<'a> {
    /// The configuration, for names.
    pub generation: &'a Generation,
    /// Scope of the Work.
    pub scope: ScopeId,
    /// What the check has seen so far.
    pub check: &'a Check,
}

/// What a wake came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Woken {
    /// The Work is ready.
    Woken(Winner),
    /// The causal limits refuse it; the Work is held.
    Held(RefusalCode),
    /// Nothing is to be done, or not by this way: the wait is closed, nobody wins, or routing will decide.
    Nothing,
}

impl Command for WakeWork<'_> {
    const NAME: &'static str = "routing.wake_work";
    type Output = Woken;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Woken, Error> {
        let tenant = self.generation.tenant;
        let wait = &self.check.wait;
        lock_config(tx, tenant, Mode::Shared).await?;
        let lock = lock_scope(tx, tenant, self.scope).await?;
        let locked = weir_work::lock_one(tx, tenant, wait.work).await?;
        if locked.work.state != WorkState::Waiting || !is_open(tx, tenant, wait).await? {
            return Ok(Woken::Nothing);
        }
        // What was committed since: the winner is the least of those visible now.
        let mut check = self.check.clone();
        let look = check
            .look(
                tx.conn(),
                self.generation,
                self.scope,
                Own::Stored,
                None,
                LAST_LOOK,
            )
            .await?;
        let Look::Won(winner) = look else {
            return Ok(Woken::Nothing);
        };
        let won = match winner.what {
            What::Unrouted(_) | What::This(_) => return Ok(Woken::Nothing),
            What::Queued(uid) => Won::Queued(uid),
            What::Event(uid) => Won::Foreign(uid),
            What::Ended(_) => Won::Ended,
            What::Timeout => Won::TimedOut,
        };
        let current = weir_ledger::tenant::generation(tx, tenant).await?;
        let scope = self
            .generation
            .scope_name(self.scope)
            .unwrap_or_default()
            .to_owned();
        let bridge = bridge(&locked, wait, &winner, &scope, current);
        let bytes = bridge.envelope.payload_len();
        match append(tx, &lock, std::slice::from_ref(&bridge))
            .await?
            .pop()
        {
            Some(Outcome::Accepted(accepted)) => {
                let queued = queued(&accepted, bytes, &locked);
                weir_work::wake(tx, tenant, &locked, wait.n, won, queued).await?;
                Ok(Woken::Woken(winner))
            }
            Some(Outcome::Refused(refusal)) => {
                weir_work::hold_refused(tx, tenant, &locked, wait.n, refusal.code).await?;
                Ok(Woken::Held(refusal.code))
            }
            _ => Err(woken_before(wait.work)),
        }
    }
}

async fn is_open(tx: &mut Tx<'_>, tenant: TenantId, wait: &OpenWait) -> Result<bool, Error> {
    let open = open_wait(tx.conn(), tenant, wait.work).await?;
    Ok(open.is_some_and(|open| open.n == wait.n))
}

/// A bridge's identity is its wait's, so it exists once; an open wait whose bridge exists contradicts itself.
pub(crate) fn woken_before(work: WorkId) -> Error {
    weir_work::Error::Inconsistent {
        work,
        what: "its open wait has a bridge already",
    }
    .into()
}

/// Returns the input that an accepted bridge is: it runs where the Work runs next.
pub(crate) fn queued(accepted: &Accepted, bytes: usize, locked: &Locked) -> Queued {
    Queued {
        uid: accepted.uid,
        seq: accepted.seq,
        accepted_at: accepted.accepted_at,
        bytes: i32::try_from(bytes).unwrap_or(i32::MAX),
        binding: locked.work.binding_id,
    }
}

/// Returns the event that a bridge derives from: the winner; where no event won, what triggered the attempt
/// that parked, so that a Work that keeps waking itself stays within the rate of its tree.
pub(crate) fn parent(wait: &OpenWait, what: What) -> EventUid {
    what.event().unwrap_or(wait.trigger)
}

/// Makes the bridge: the input by which a woken attempt learns why. Accepted already routed, `queue` on its Work
/// (rule r27).
pub(crate) fn bridge(
    locked: &Locked,
    wait: &OpenWait,
    winner: &Winner,
    scope: &str,
    generation: i64,
) -> NewEvent {
    let work = locked.work.work_id;
    let envelope = Envelope::json(wait.name(), SOURCE, WOKEN, payload(wait, winner));
    NewEvent {
        content: envelope.content(scope, &[], (Some(work), 0)),
        envelope,
        keys: Vec::new(),
        target_work: Some(work),
        actor: "weir".to_owned(),
        cause: Cause::Derived {
            parent: parent(wait, winner.what),
        },
        routed: Some(Routed {
            disposition: Disposition::Queue,
            work: Some(work),
            binding: Some(locked.work.binding_id),
            generation,
            reason: "wait_won",
        }),
    }
}

fn payload(wait: &OpenWait, winner: &Winner) -> String {
    let (kind, event, ended) = match winner.what {
        What::This(uid) | What::Queued(uid) | What::Unrouted(uid) => ("own_input", Some(uid), None),
        What::Event(uid) => ("event", Some(uid), None),
        What::Ended(work) => ("ended_work", None, Some(work)),
        What::Timeout => ("timeout", None, None),
    };
    let at: DateTime<Utc> = winner.at;
    serde_json::json!({
        "wait": wait.name(),
        "attempt": wait.attempt,
        "won_by": kind,
        "event": event.map(|uid| uid.to_string()),
        "ended_work": ended.map(|work| work.to_string()),
        "at": at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true),
    })
    .to_string()
}
