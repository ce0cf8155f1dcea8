//! Skipping an unrouted event (rules r30, r32).

use std::collections::BTreeSet;

use prost::Message as _;
use weir_kernel::{Disposition, TenantId, WorkId};
use weir_ledger::request::{self, RequestKey};
use weir_ledger::{Control, append_control, lock_scope, work_marker};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};
use weir_proto::routing::v1::SkipEventResponse;
use weir_proto::types::v1::{self, RouteRecord};

use super::event::{EventRef, find_event, free_behind, lock_pending};
use crate::Error;
use crate::route::snapshot::owners;

/// Routes an unrouted event `skipped` without asking its routes, in any order: deferred, conflicting and backed-off
/// events included. It leaves every batch with the same commit.
#[derive(Debug)]
pub struct SkipEvent {
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

impl SkipEvent {
    /// Returns the answer of an earlier request with this id (rule o08).
    async fn answered(&self, tx: &mut Tx<'_>) -> Result<Option<SkipEventResponse>, Error> {
        let stored = request::find(tx, &self.request).await?;
        stored
            .map(|stored| SkipEventResponse::decode(stored.as_slice()))
            .transpose()
            .map_err(|e| Error::field("request_id", e.to_string()))
    }
}

impl Command for SkipEvent {
    const NAME: &'static str = "routing.skip_event";
    type Output = SkipEventResponse;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<SkipEventResponse, Error> {
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
        let Some((keys, target)) = lock_pending(tx, tenant, &event).await? else {
            let now = find_event(tx, tenant, &self.event).await?;
            let disposition = now.disposition.unwrap_or(Disposition::Drop);
            return Err(Error::AlreadyRouted {
                uid: event.uid,
                disposition,
            });
        };
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let owned = owners(tx.conn(), tenant, event.scope, &names).await?;
        let works: BTreeSet<WorkId> = owned.values().flatten().copied().chain(target).collect();
        let works: Vec<WorkId> = works.into_iter().collect();
        weir_work::lock_works(tx, tenant, &works).await?;
        // On the Work it targets, if that is unambiguous.
        let work = if let [one] = works[..] {
            Some(one)
        } else {
            None
        };
        let payload = serde_json::json!({ "event": event.uid.to_string(), "reason": self.reason });
        let control = Control {
            kind: "core.manual.skip_event",
            actor: &self.actor,
            reason: &self.reason,
            request_id: &self.request.request_id,
            target: Some(event.uid.0),
            payload: payload.to_string(),
            work: None,
            generation,
        };
        let accepted = append_control(tx, &lock, &control).await?;
        let gone: Vec<String> = keys
            .iter()
            .cloned()
            .chain(works.iter().copied().map(work_marker))
            .collect();
        sqlx::query(include_str!("sql/skip_event.sql"))
            .bind(tenant.0)
            .bind(event.scope.0)
            .bind(event.seq)
            .bind(event.uid.0)
            .bind(work.map(|w| w.0))
            .bind(generation)
            .bind(&self.reason)
            .bind(&gone)
            .execute(tx.conn())
            .await?;
        free_behind(tx, tenant, &event).await?;
        // What was its last unrouted input may be done now (rule l06).
        weir_work::complete_if_drained(tx, tenant, &works).await?;
        let scope: Option<String> = sqlx::query_scalar(
            "SELECT name FROM weir.scope WHERE tenant_id = $1 AND scope_id = $2",
        )
        .bind(tenant.0)
        .bind(event.scope.0)
        .fetch_optional(tx.conn())
        .await?;
        let record = RouteRecord {
            event: event.uid.to_string(),
            scope: scope.unwrap_or_default(),
            work: work.map(|w| w.to_string()).unwrap_or_default(),
            generation,
            disposition: v1::Disposition::Skipped.into(),
            reason: self.reason.clone(),
            ..RouteRecord::default()
        };
        let response = SkipEventResponse {
            record: Some(record),
            control_event: accepted.uid.to_string(),
        };
        request::remember(tx, &self.request, &response.encode_to_vec()).await?;
        Ok(response)
    }
}
