//! CancelWork: a Work and everything it owns ends now.

use prost::Message as _;
use weir_kernel::{TenantId, WorkId, WorkState};
use weir_ledger::request::{self, RequestKey};
use weir_ledger::{Control, append_control, lock_scope};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_proto::lifecycle::v1 as pb;

use super::answered;
use crate::Error;
use crate::query::read_work;
use crate::rpc::convert;
use crate::store;

/// Cancels the active attempt, intents, waits and timers and ends the Work in one commit (rule l08). Its
/// process stops afterwards: a renewal says so.
#[derive(Debug, Clone)]
pub(crate) struct CancelWork {
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

impl Command for CancelWork {
    const NAME: &'static str = "lifecycle.cancel_work";
    type Output = pb::CancelWorkResponse;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<pb::CancelWorkResponse, Error> {
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
        if locked.work.state.is_terminal() {
            return Err(Error::WorkTerminal {
                work: self.work,
                state: locked.work.state,
            });
        }
        let control = Control {
            kind: "core.manual.cancel_work",
            actor: &self.actor,
            reason: &self.reason,
            request_id: &self.request.request_id,
            target: Some(self.work.0),
            payload: convert::control_payload(self.work, &self.actor, &self.reason),
            work: None,
            generation: weir_ledger::tenant::generation(tx, self.tenant).await?,
        };
        let event = append_control(tx, &lock, &control).await?;
        let consumed = locked.work.consumed;
        weir_work::terminate(tx, self.tenant, locked, WorkState::Cancelled, consumed).await?;
        let view = read_work(tx.conn(), self.tenant, self.work).await?;
        let response = pb::CancelWorkResponse {
            work: Some(convert::work(view)),
            control_event: event.uid.to_string(),
        };
        request::remember(tx, &self.request, &response.encode_to_vec()).await?;
        Ok(response)
    }
}
