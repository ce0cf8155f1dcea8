//! CreateWork: an operator starts a Work.

use std::collections::{BTreeSet, HashMap};

use prost::Message as _;
use weir_kernel::{Disposition, TenantId, WorkId};
use weir_ledger::request::{self, RequestKey};
use weir_ledger::{Control, UidSource, append_control, lock_scope};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_proto::lifecycle::v1 as pb;
use weir_work::Queued;
use weir_work::effects::{Effects, NewInput, NewWork};

use super::answered;
use crate::Error;
use crate::query::read_work;
use crate::rpc::convert;
use crate::store;

/// Creates a Work whose first input is the control event itself (rules l14, r27). The Work, its keys and
/// the event commit together.
#[derive(Debug, Clone)]
pub(crate) struct CreateWork {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// Verified actor.
    pub(crate) actor: String,
    /// Scope.
    pub(crate) scope: String,
    /// Binding.
    pub(crate) binding: String,
    /// Keys that it owns.
    pub(crate) keys: BTreeSet<String>,
    /// Payload of the first input.
    pub(crate) data: String,
    /// Why.
    pub(crate) reason: String,
    /// Makes a repeat safe.
    pub(crate) request: RequestKey,
}

impl Command for CreateWork {
    const NAME: &'static str = "lifecycle.create_work";
    type Output = pb::CreateWorkResponse;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<pb::CreateWorkResponse, Error> {
        if let Some(answer) = answered(tx, &self.request).await? {
            return Ok(answer);
        }
        lock_config(tx, self.tenant, Mode::Shared).await?;
        let scope = weir_ledger::tenant::scope(tx, self.tenant, &self.scope).await?;
        let binding = store::find_binding(tx, self.tenant, scope, &self.binding)
            .await?
            .ok_or_else(|| Error::BindingNotFound(self.binding.clone()))?;
        // Keys attach under the scope's order lock, as a publisher's do, so nobody takes one meanwhile.
        let lock = lock_scope(tx, self.tenant, scope).await?;
        // A twin may have committed while this one waited for the lock; its answer is this one's, too.
        if let Some(answer) = answered(tx, &self.request).await? {
            return Ok(answer);
        }
        if let Some((key, work)) = store::find_owned_key(tx, self.tenant, scope, &self.keys).await?
        {
            return Err(Error::KeyOwned { key, work });
        }
        let at = weir_work::clock(tx).await?;
        let work = WorkId(UidSource::at(at).next());
        let control = Control {
            kind: "core.manual.create_work",
            actor: &self.actor,
            reason: &self.reason,
            request_id: &self.request.request_id,
            target: Some(work.0),
            payload: self.data.clone(),
            work: Some((Disposition::Start, work, binding.binding)),
            generation: binding.generation,
        };
        let event = append_control(tx, &lock, &control).await?;
        let queued = Queued {
            uid: event.uid,
            seq: event.seq,
            accepted_at: event.accepted_at,
            bytes: i32::try_from(self.data.len()).unwrap_or(i32::MAX),
            binding: binding.binding,
        };
        let effects = Effects {
            works: vec![NewWork {
                work,
                priority: binding.priority,
                cause: event.uid,
            }],
            inputs: vec![NewInput {
                work,
                queued,
                priority: binding.priority,
                intent: None,
            }],
            keys: self.keys.iter().map(|key| (key.clone(), work)).collect(),
        };
        weir_work::effects::apply(tx, self.tenant, scope, at, &HashMap::new(), &effects).await?;
        let view = read_work(tx.conn(), self.tenant, work).await?;
        let response = pb::CreateWorkResponse {
            work: Some(convert::work(view)),
            control_event: event.uid.to_string(),
        };
        request::remember(tx, &self.request, &response.encode_to_vec()).await?;
        Ok(response)
    }
}
