//! SendInput: an operator gives a Work input.

use prost::Message as _;
use serde::de::IgnoredAny;
use uuid::Uuid;
use weir_kernel::envelope::{Attribute, Envelope};
use weir_kernel::limits::{MAX_IDENTIFIER, identifier};
use weir_kernel::{TenantId, WorkId};
use weir_ledger::request::{self, RequestKey};
use weir_ledger::{
    Cause, Control, NewEvent, Outcome, ScopeLock, append, append_control, lock_scope,
};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_proto::lifecycle::v1 as pb;

use super::answered;
use crate::{Error, store};

/// Accepts an event that names the Work, source `core.manual` (rules l14, r14), with the control event that says
/// who sent it. What becomes of it is for routing to decide, as with any event.
#[derive(Debug, Clone)]
pub(crate) struct SendInput {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// Verified actor.
    pub(crate) actor: String,
    /// The Work.
    pub(crate) work: WorkId,
    /// Type of the event, none of Weir's own.
    pub(crate) kind: String,
    /// Payload.
    pub(crate) data: String,
    /// Makes a repeat safe.
    pub(crate) request: RequestKey,
}

impl SendInput {
    /// Makes the event: `<actor>/<request id>`, or a fresh id that no repeat meets (rule l14).
    fn event(&self, scope: &str) -> Result<NewEvent, Error> {
        let id = if self.request.request_id.is_empty() {
            format!("{}/{}", self.actor, Uuid::now_v7())
        } else {
            let id = format!("{}/{}", self.actor, self.request.request_id);
            identifier("request_id", &id, MAX_IDENTIFIER).map_err(|mut fault| {
                fault.description = format!("after the actor's name {}", fault.description);
                fault
            })?;
            id
        };
        let mut envelope = Envelope::json(id, "core.manual", &self.kind, self.data.clone());
        if serde_json::from_str::<IgnoredAny>(&self.data).is_err() {
            let text = Attribute::Text("text/plain; charset=utf-8".to_owned());
            envelope
                .attributes
                .insert("datacontenttype".to_owned(), text);
        }
        Ok(NewEvent {
            content: envelope.content(scope, &[], (Some(self.work), 0)),
            envelope,
            keys: Vec::new(),
            target_work: Some(self.work),
            actor: self.actor.clone(),
            cause: Cause::Root,
            routed: None,
        })
    }

    /// Says who sent it, in the same commit.
    async fn note(&self, tx: &mut Tx<'_>, lock: &ScopeLock, event: Uuid) -> Result<(), Error> {
        let payload = serde_json::json!({
            "work": self.work.to_string(), "actor": self.actor, "event": event.to_string(),
        });
        let control = Control {
            kind: "core.manual.send_input",
            actor: &self.actor,
            reason: "",
            request_id: &self.request.request_id,
            target: Some(self.work.0),
            payload: payload.to_string(),
            work: None,
            generation: weir_ledger::tenant::generation(tx, self.tenant).await?,
        };
        append_control(tx, lock, &control).await?;
        Ok(())
    }
}

impl Command for SendInput {
    const NAME: &'static str = "lifecycle.send_input";
    type Output = pb::SendInputResponse;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<pb::SendInputResponse, Error> {
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
        // Read without its lock: if it ends meanwhile, this is late input and is routed `terminal`.
        let (name, state) = store::read_place(tx, self.tenant, self.work).await?;
        if state.is_terminal() {
            return Err(Error::WorkTerminal {
                work: self.work,
                state,
            });
        }
        let event = self.event(&name)?;
        let uid = match append(tx, &lock, &[event]).await?.pop() {
            Some(Outcome::Accepted(accepted)) => {
                self.note(tx, &lock, accepted.uid.0).await?;
                accepted.uid
            }
            // The request's row was forgotten, the event was not (rule a01).
            Some(Outcome::Replay(accepted)) => accepted.uid,
            Some(Outcome::Conflict(event)) => return Err(Error::EventConflict(event)),
            Some(Outcome::TargetNotFound(work)) => {
                return Err(weir_work::Error::WorkNotFound(work).into());
            }
            // A root is never refused, and one event has one outcome.
            Some(Outcome::Refused(_)) | None => return Err(weir_pg::Error::Again.into()),
        };
        let response = pb::SendInputResponse {
            event: uid.to_string(),
        };
        request::remember(tx, &self.request, &response.encode_to_vec()).await?;
        Ok(response)
    }
}
