//! Rerouting an event (rules r31, r32).

use prost::Message as _;
use sqlx::Row as _;
use uuid::Uuid;
use weir_kernel::envelope::{Envelope, Payload};
use weir_kernel::{Disposition, EventUid, TenantId, WorkId};
use weir_ledger::request::{self, RequestKey};
use weir_ledger::{
    Cause, Control, NewEvent, Outcome, ScopeLock, append, append_control, lock_scope,
};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_proto::routing::v1::RerouteEventResponse;

use super::event::{EventRef, EventRow, find_event, free_behind, lock_pending};
use crate::Error;

/// Forgets an unrouted event's failures, so that the next pass tries it at once; or accepts a copy of a failed,
/// skipped or unmatched one, which is routed like new input.
#[derive(Debug)]
pub struct RerouteEvent {
    /// The tenant.
    pub tenant: TenantId,
    /// The event.
    pub event: EventRef,
    /// Verified actor.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// For a safe repeat (rule o08).
    pub request: RequestKey,
}

impl RerouteEvent {
    /// Returns the answer of an earlier request with this id (rule o08).
    async fn answered(&self, tx: &mut Tx<'_>) -> Result<Option<RerouteEventResponse>, Error> {
        let stored = request::find(tx, &self.request).await?;
        stored
            .map(|stored| RerouteEventResponse::decode(stored.as_slice()))
            .transpose()
            .map_err(|e| Error::field("request_id", e.to_string()))
    }
}

impl Command for RerouteEvent {
    const NAME: &'static str = "routing.reroute_event";
    type Output = RerouteEventResponse;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<RerouteEventResponse, Error> {
        if let Some(answer) = self.answered(tx).await? {
            return Ok(answer);
        }
        let tenant = self.tenant;
        let event = find_event(tx, tenant, &self.event).await?;
        lock_config(tx, tenant, Mode::Shared).await?;
        let generation = weir_ledger::tenant::generation(tx, tenant).await?;
        let lock = lock_scope(tx, tenant, event.scope).await?;
        // A twin may have committed while this one waited for the lock; its answer is this one's, too.
        if let Some(answer) = self.answered(tx).await? {
            return Ok(answer);
        }
        let (tried, copied) = if lock_pending(tx, tenant, &event).await?.is_some() {
            sqlx::query(include_str!("sql/forget_failures.sql"))
                .bind(tenant.0)
                .bind(event.scope.0)
                .bind(event.seq)
                .execute(tx.conn())
                .await?;
            free_behind(tx, tenant, &event).await?;
            (event.uid, false)
        } else {
            // Read again: it was decided at the latest when its pending row was gone.
            let decided = find_event(tx, tenant, &EventRef::Uid(event.uid)).await?;
            (self.copy(tx, &lock, &decided).await?, true)
        };
        let payload = serde_json::json!({
            "event": event.uid.to_string(),
            "copy": copied.then(|| tried.to_string()),
            "reason": self.reason,
        });
        let control = Control {
            kind: "core.manual.reroute_event",
            actor: &self.actor,
            reason: &self.reason,
            request_id: &self.request.request_id,
            target: Some(event.uid.0),
            payload: payload.to_string(),
            work: None,
            generation,
        };
        let accepted = append_control(tx, &lock, &control).await?;
        let response = RerouteEventResponse {
            event: tried.to_string(),
            copied,
            control_event: accepted.uid.to_string(),
        };
        request::remember(tx, &self.request, &response.encode_to_vec()).await?;
        Ok(response)
    }
}

impl RerouteEvent {
    /// Accepts the copy. The scope's lock keeps a second reroute out until this one is committed.
    async fn copy(
        &self,
        tx: &mut Tx<'_>,
        lock: &ScopeLock,
        event: &EventRow,
    ) -> Result<EventUid, Error> {
        let disposition = event.disposition.unwrap_or(Disposition::Drop);
        if !can_be_copied(disposition) {
            return Err(Error::AlreadyRouted {
                uid: event.uid,
                disposition,
            });
        }
        let original = event.copy_of.unwrap_or(event.uid);
        let copies = sqlx::query(
            "SELECT uid, disposition FROM weir.event WHERE tenant_id = $1 AND copy_of = $2 ORDER BY uid",
        )
        .bind(self.tenant.0)
        .bind(original.0)
        .fetch_all(tx.conn())
        .await?;
        for row in &copies {
            let decided: Option<i16> = row.try_get(1)?;
            let over = decided
                .map(Disposition::from_code)
                .transpose()?
                .is_some_and(can_be_copied);
            if !over {
                let copy = EventUid(row.try_get(0)?);
                return Err(Error::AlreadyRerouted {
                    uid: event.uid,
                    copy,
                });
            }
        }
        let mut copy = self.body(tx, event).await?;
        copy.envelope.id = format!("reroute/{original}/{}", copies.len() + 1);
        copy.cause = Cause::Copy {
            original,
            root: event.root.unwrap_or(event.uid),
            parent: event.parent,
            depth: event.depth,
        };
        match append(tx, lock, std::slice::from_ref(&copy)).await?.pop() {
            Some(Outcome::Accepted(accepted)) => Ok(accepted.uid),
            // The id is taken by a copy committed meanwhile: look again.
            _ => Err(weir_pg::Error::Again.into()),
        }
    }

    async fn body(&self, tx: &mut Tx<'_>, event: &EventRow) -> Result<NewEvent, Error> {
        let row = sqlx::query(
            "SELECT attributes, keys, target_work, payload, is_text FROM weir.event_body \
             WHERE tenant_id = $1 AND scope_id = $2 AND accepted_at = $3 AND seq = $4",
        )
        .bind(self.tenant.0)
        .bind(event.scope.0)
        .bind(event.accepted_at)
        .bind(event.seq)
        .fetch_optional(tx.conn())
        .await?
        .ok_or(Error::PayloadGone(event.uid))?;
        let bytes: Option<Vec<u8>> = row.try_get("payload")?;
        let is_text = row.try_get("is_text")?;
        let attributes: Vec<u8> = row.try_get("attributes")?;
        let envelope = Envelope::decode(
            event.id.clone(),
            event.source.clone(),
            event.kind.clone(),
            &attributes,
            bytes.map(|bytes| Payload { bytes, is_text }),
        )?;
        let keys: Vec<String> = row.try_get("keys")?;
        let target_work = row.try_get::<Option<Uuid>, _>("target_work")?.map(WorkId);
        let content = envelope.content(&format!("#{}", event.scope), &keys, (target_work, 0));
        Ok(NewEvent {
            envelope,
            keys,
            target_work,
            content,
            actor: self.actor.clone(),
            cause: Cause::Root,
            routed: None,
        })
    }
}

const fn can_be_copied(disposition: Disposition) -> bool {
    matches!(
        disposition,
        Disposition::Failed | Disposition::Skipped | Disposition::Unmatched
    )
}
