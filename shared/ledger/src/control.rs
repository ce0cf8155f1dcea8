//! Control events: what operators did, accepted in the transaction of its effect (rules r27, r32, l14).

use crate::{Cause, Error, NewEvent, Outcome, Routed, ScopeLock, append};
use uuid::Uuid;
use weir_kernel::envelope::Envelope;
use weir_kernel::{BindingId, Disposition, WorkId};
use weir_pg::Tx;

/// An operator's action.
#[derive(Debug)]
pub struct Control<'a> {
    /// Type of the event: `core.manual.skip_event` and others.
    pub kind: &'static str,
    /// Verified actor.
    pub actor: &'a str,
    /// Why.
    pub reason: &'a str,
    /// The caller's request id, or empty.
    pub request_id: &'a str,
    /// Event or Work concerned.
    pub target: Option<Uuid>,
    /// Payload, a JSON object.
    pub payload: String,
    /// Work that the control event starts or is queued on, with the binding: `core.manual.create_work`.
    pub work: Option<(Disposition, WorkId, BindingId)>,
    /// Generation then current.
    pub generation: i64,
}

/// Appends a control event, already routed, as a root of depth 0, and writes the audit row. It needs no
/// causal token (rule c08).
///
/// # Errors
/// The database's.
pub async fn append_control(
    tx: &mut Tx<'_>,
    lock: &ScopeLock,
    control: &Control<'_>,
) -> Result<crate::Accepted, Error> {
    // A fresh id: the request's own replay (rule o08) is what makes a repeat safe, not this identity.
    let id = Uuid::now_v7();
    let envelope = Envelope::json(
        format!("{}/{id}", control.actor),
        "core.manual",
        control.kind,
        control.payload.clone(),
    );
    let content = envelope.content(&lock.scope_name_for_digest(), &[], (None, 0));
    let (disposition, work, binding) = match control.work {
        Some((d, w, b)) => (d, Some(w), Some(b)),
        None => (Disposition::Drop, None, None),
    };
    let event = NewEvent {
        envelope,
        keys: Vec::new(),
        target_work: work,
        content,
        actor: control.actor.to_owned(),
        cause: Cause::Root,
        routed: Some(Routed {
            disposition,
            work,
            binding,
            generation: control.generation,
            reason: "control",
        }),
    };
    let outcome = append(tx, lock, std::slice::from_ref(&event)).await?;
    let Some(Outcome::Accepted(accepted)) = outcome.into_iter().next() else {
        // A random id was taken: start over with another.
        return Err(weir_pg::Error::Again.into());
    };
    sqlx::query(
        "INSERT INTO weir.audit (tenant_id, uid, action, actor, target, reason, request_id, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(lock.tenant().0)
    .bind(accepted.uid.0)
    .bind(control.kind)
    .bind(control.actor)
    .bind(control.target)
    .bind(control.reason)
    .bind(control.request_id)
    .bind(accepted.accepted_at)
    .execute(tx.conn())
    .await?;
    Ok(accepted)
}
