//! ReleaseWork: an operator lets a held Work go on.

use prost::Message as _;
use weir_kernel::{Disposition, TenantId, WorkId, WorkState};
use weir_ledger::request::{self, RequestKey};
use weir_ledger::{Control, append_control, lock_scope};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_proto::lifecycle::v1 as pb;
use weir_work::{Locked, Queued, Resume};

use super::answered;
use crate::Error;
use crate::query::read_work;
use crate::rpc::convert;
use crate::store;

/// Releases a held Work (rule l14): back to `waiting` if a wait is open, else `ready`, its count of
/// attempts anew. A bridge that no attempt consumed is presented again. If nothing is queued, the control event is its input, so that it is claimable.
#[derive(Debug, Clone)]
pub(crate) struct ReleaseWork {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// Verified actor.
    pub(crate) actor: String,
    /// The Work.
    pub(crate) work: WorkId,
    /// Why.
    pub(crate) reason: String,
    /// Makes a repeat safe.
    pub(crate) request: RequestKey,
}

impl Command for ReleaseWork {
    const NAME: &'static str = "lifecycle.release_work";
    type Output = pb::ReleaseWorkResponse;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<pb::ReleaseWorkResponse, Error> {
        if let Some(answer) = answered(tx, &self.request).await? {
            return Ok(answer);
        }
        lock_config(tx, self.tenant, Mode::Shared).await?;
        let scope = store::read_scope_of(tx, self.tenant, self.work).await?;
        let lock = lock_scope(tx, self.tenant, scope).await?;
        // A twin may have committed while this one waited for the lock; its answer is this one's, too.
        if let Some(answer) = answered(tx, &self.request).await? {
            return Ok(answer);
        }
        let locked = weir_work::lock_one(tx, self.tenant, self.work).await?;
        check_held(&locked)?;
        let resume = weir_work::resume(tx, self.tenant, &locked.work).await?;
        let becomes_input = resume == Resume::Nothing;
        let payload = convert::control_payload(self.work, &self.actor, &self.reason);
        let bytes = i32::try_from(payload.len()).unwrap_or(i32::MAX);
        let binding = locked.work.binding_id;
        let control = Control {
            kind: "core.manual.release_work",
            actor: &self.actor,
            reason: &self.reason,
            request_id: &self.request.request_id,
            target: Some(self.work.0),
            payload,
            work: becomes_input.then_some((Disposition::Queue, self.work, binding)),
            generation: weir_ledger::tenant::generation(tx, self.tenant).await?,
        };
        let event = append_control(tx, &lock, &control).await?;
        let locked = weir_work::release_held(tx, self.tenant, locked, resume).await?;
        if becomes_input {
            let (seq, accepted_at) = (event.seq, event.accepted_at);
            let input = Queued {
                uid: event.uid,
                seq,
                accepted_at,
                bytes,
                binding,
            };
            weir_work::queue_input(tx, self.tenant, &locked, input).await?;
        }
        let view = read_work(tx.conn(), self.tenant, self.work).await?;
        let response = pb::ReleaseWorkResponse {
            work: Some(convert::work(view)),
            control_event: event.uid.to_string(),
        };
        request::remember(tx, &self.request, &response.encode_to_vec()).await?;
        Ok(response)
    }
}

fn check_held(locked: &Locked) -> Result<(), Error> {
    let (work, state) = (locked.work.work_id, locked.state());
    if state.is_terminal() {
        Err(Error::WorkTerminal { work, state })
    } else if state == WorkState::Held {
        Ok(())
    } else {
        Err(Error::WorkNotHeld { work, state })
    }
}
