//! What a trace reads, in its transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlx::Row as _;
use weir_kernel::{EventUid, ScopeId, TenantId, WorkId};
use weir_ledger::NewEvent;
use weir_pg::Tx;
use weir_proto::routing::v1::TraceRequest;
use weir_rpc::Caller;

use crate::Error;
use crate::generation::Generation;
use crate::publish::{Draft, prepare_traced};
use crate::route::policy::Proofs;
use crate::route::snapshot::Snapshot;
use crate::route::worker::proved;

/// The state that the decision is made on.
pub(super) struct State {
    /// The event's scope.
    pub(super) scope: ScopeId,
    /// The event as acceptance would store it.
    pub(super) event: NewEvent,
    /// The uid of an earlier acceptance of the same content.
    pub(super) accepted_as: Option<EventUid>,
    /// Owners of its keys, and their Works.
    pub(super) snapshot: Snapshot,
    /// What executors' registrations prove.
    pub(super) proofs: Proofs,
}

impl State {
    /// Reads it, or refuses what acceptance would refuse.
    pub(super) async fn read(
        tx: &mut Tx<'_>,
        generation: &Arc<Generation>,
        caller: &Caller,
        request: &TraceRequest,
        max_payload: usize,
    ) -> Result<Self, Error> {
        let scope = generation
            .scope_id(&request.scope)
            .ok_or_else(|| weir_ledger::Error::ScopeNotFound(request.scope.clone()))?;
        let event = prepared(generation, caller, request, max_payload).await?;
        let accepted_as = accepted_before(tx, generation.tenant, &event).await?;
        let keys: BTreeSet<&str> = event.keys.iter().map(String::as_str).collect();
        let targets: BTreeSet<WorkId> = event.target_work.into_iter().collect();
        let snapshot = Snapshot::load(tx.conn(), generation, scope, &keys, &targets).await?;
        if let Some(work) = event
            .target_work
            .filter(|w| !snapshot.works.contains_key(w))
        {
            return Err(Error::TargetNotFound(work));
        }
        let proofs = proved(tx, generation, scope).await?;
        Ok(Self {
            scope,
            event,
            accepted_as,
            snapshot,
            proofs,
        })
    }
}

async fn prepared(
    generation: &Arc<Generation>,
    caller: &Caller,
    request: &TraceRequest,
    max_payload: usize,
) -> Result<NewEvent, Error> {
    let draft = Draft {
        event: request.event.clone(),
        keys: request.keys.clone(),
        targets: request.targets.clone(),
    };
    let (generation, scope, actor) = (
        Arc::clone(generation),
        request.scope.clone(),
        caller.actor.clone(),
    );
    tokio::task::spawn_blocking(move || {
        prepare_traced(&generation, &scope, &actor, draft, max_payload)
    })
    .await
    .unwrap_or_else(|_| Err(Error::field("event", "its key rules cannot be evaluated")))
}

/// Returns the uid of an earlier acceptance of the same content.
async fn accepted_before(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    event: &NewEvent,
) -> Result<Option<EventUid>, Error> {
    let row = sqlx::query(
        "SELECT uid, content FROM weir.event WHERE tenant_id = $1 AND source = $2 AND id = $3",
    )
    .bind(tenant.0)
    .bind(&event.envelope.source)
    .bind(&event.envelope.id)
    .fetch_optional(tx.conn())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let uid = EventUid(row.try_get(0)?);
    if row.try_get::<uuid::Uuid, _>(1)? == event.content {
        return Ok(Some(uid));
    }
    Err(Error::EventConflict {
        source_name: event.envelope.source.clone(),
        id: event.envelope.id.clone(),
        uid,
    })
}
