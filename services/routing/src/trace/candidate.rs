//! A trace against a configuration that is not published (rule r45).

use std::sync::Arc;

use weir_proto::routing::v1::{TraceCandidateRequest, TraceCandidateResponse};
use weir_rpc::Caller;

use super::{checked, dry_run};
use crate::Error;
use crate::command::publish_config::prepare;
use crate::generation::candidate;
use crate::route::evaluate::Context;

/// What the answer calls a generation that is not published.
const CANDIDATE: &str = "candidate";

/// Decides a hypothetical event as if `document` were published, on the state that is there. Before a tenant's first
/// publication there is none, and the trace is one on an empty state: an author tries a document before anybody can
/// publish an event.
///
/// # Errors
/// CONFIG_INVALID with every problem that `ValidateConfig` finds, line and column included; else as
/// [`super::trace`], but for TENANT_NOT_FOUND. Safe to repeat: nothing is written.
pub async fn trace_candidate(
    context: &Context,
    caller: &Caller,
    request: TraceCandidateRequest,
    max_payload: usize,
) -> Result<TraceCandidateResponse, Error> {
    let TraceCandidateRequest { trace, document } = request;
    let trace = trace.ok_or_else(|| Error::field("trace", "is required"))?;
    checked(&trace)?;
    // Before the transaction: a large document takes a while.
    let prepared = prepare(document).await?;
    let mut tx = context.reader.begin().await?;
    let tenant = match weir_ledger::tenant::resolve_on(tx.conn(), &caller.tenant).await {
        Ok((tenant, _)) => Some(tenant),
        Err(weir_ledger::Error::TenantNotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let generation = candidate(&mut tx, tenant, &caller.tenant, prepared.compiled).await?;
    let answer = dry_run(
        context,
        tx,
        &Arc::new(generation),
        caller,
        trace,
        max_payload,
        CANDIDATE.to_owned(),
    )
    .await?;
    Ok(TraceCandidateResponse {
        trace: Some(answer),
    })
}
