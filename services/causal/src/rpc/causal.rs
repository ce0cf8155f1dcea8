//! `weir.causal.v1.CausalService`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tonic::{Request, Response, Status};
use weir_kernel::limits::{
    MAX_BATCH_BYTES, MAX_BATCH_EVENTS, MAX_IDENTIFIER, identifier, optional_identifier,
};
use weir_kernel::{EventUid, ParseIdError, TenantId, Violation};
use weir_ledger::Outcome;
use weir_pg::Db;
use weir_proto::causal::v1 as pb;
use weir_proto::causal::v1::causal_service_server::CausalService;
use weir_proto::types::v1::{self as types, ItemResult};
use weir_rpc::{Caller, status, unimplemented};
use weir_work::Lease;

use super::answer;
use crate::command::{Appended, Derive, Emit};
use crate::draft::Draft;
use crate::{Error, Hints, query};

/// What lineage and the brake wait for.
const LATER: &str = "lineage, the brake and the end of a whole tree come with the next version";

/// The causal service.
#[derive(Debug, Clone)]
pub(crate) struct Causal {
    db: Db,
    max_payload: usize,
    hints: Hints,
    /// A tenant's number never changes, and only tenants that exist are kept.
    tenants: Arc<RwLock<HashMap<String, TenantId>>>,
}

impl Causal {
    pub(crate) fn new(db: Db, max_payload: usize, hints: Hints) -> Self {
        Self {
            db,
            max_payload,
            hints,
            tenants: Arc::default(),
        }
    }

    async fn tenant(&self, name: &str) -> Result<TenantId, Error> {
        let known = self
            .tenants
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .copied();
        if let Some(tenant) = known {
            return Ok(tenant);
        }
        let (tenant, _) = weir_ledger::tenant::resolve(&self.db, name).await?;
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        tenants.insert(name.to_owned(), tenant);
        Ok(tenant)
    }

    async fn emitted(
        &self,
        caller: &Caller,
        request: pb::EmitRequest,
    ) -> Result<pb::EmitResponse, Error> {
        let tenant = self.tenant(&caller.tenant).await?;
        bounded(&request)?;
        let lease = lease(request.lease)?;
        optional_identifier("scope", &request.scope, MAX_IDENTIFIER)?;
        let parent = match request.parent.as_str() {
            "" => None,
            text => Some(event("parent", text)?),
        };
        let alone = request.events.len() == 1;
        let draft = |given: pb::Emission| {
            let targets = given.targets.as_ref();
            Draft::emitted(
                lease.work,
                given.event,
                given.keys,
                targets,
                self.max_payload,
            )
        };
        let drafts: Vec<Result<Draft, Error>> = request.events.into_iter().map(draft).collect();
        let mut good = Vec::with_capacity(drafts.len());
        let mut checked = Vec::with_capacity(drafts.len());
        for draft in drafts {
            match draft {
                Err(error) if alone => return Err(error),
                Err(error) => checked.push(Err(error)),
                Ok(draft) => {
                    checked.push(Ok(good.len()));
                    good.push(draft);
                }
            }
        }
        let command = Emit {
            tenant,
            actor: &caller.actor,
            lease,
            scope: Some(request.scope.as_str()).filter(|scope| !scope.is_empty()),
            parent,
            drafts: &good.iter().collect::<Vec<_>>(),
        };
        let appended = self.db.run(&command).await?;
        self.tell(caller, "emit", &appended);
        let Appended { scope, outcomes } = appended;
        let mut answers: Vec<Option<Result<types::Acceptance, Error>>> = good
            .iter()
            .zip(outcomes)
            .map(|(draft, outcome)| Some(answer::acceptance(&scope, draft, outcome)))
            .collect();
        let mut results: Vec<ItemResult> = Vec::with_capacity(checked.len());
        for item in checked {
            let answer = match item {
                Ok(index) => answers
                    .get_mut(index)
                    .and_then(Option::take)
                    .expect("append answers each event once"),
                Err(error) => Err(error),
            };
            if alone {
                results.push(answer::item(Ok(answer?)));
            } else {
                results.push(answer::item(answer));
            }
        }
        Ok(pb::EmitResponse { results })
    }

    async fn derived(
        &self,
        caller: &Caller,
        request: pb::DeriveRequest,
    ) -> Result<pb::DeriveResponse, Error> {
        let tenant = self.tenant(&caller.tenant).await?;
        let parent = event("parent", &request.parent)?;
        identifier("scope", &request.scope, MAX_IDENTIFIER)?;
        let targets = request.targets.as_ref();
        let draft = Draft::derived(request.event, request.keys, targets, self.max_payload)?;
        let command = Derive {
            tenant,
            actor: &caller.actor,
            scope: &request.scope,
            parent,
            draft: &draft,
        };
        let mut appended = self.db.run(&command).await?;
        self.tell(caller, "derive", &appended);
        let outcome = appended
            .outcomes
            .pop()
            .expect("append answers each event once");
        let acceptance = answer::acceptance(&appended.scope, &draft, outcome)?;
        Ok(pb::DeriveResponse {
            acceptance: Some(acceptance),
        })
    }

    /// After the commit: counts what became of the events, and hints if there is something to decide.
    fn tell(&self, caller: &Caller, call: &'static str, appended: &Appended) {
        for outcome in &appended.outcomes {
            let labels = [("call", call), ("outcome", answer::word(outcome))];
            metrics::counter!("weir_causal_events_total", &labels).increment(1);
        }
        if appended
            .outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Accepted(_)))
        {
            self.hints.accepted(&caller.tenant);
        }
    }

    async fn root(
        &self,
        caller: &Caller,
        request: &pb::GetRootRequest,
    ) -> Result<pb::GetRootResponse, Error> {
        let tenant = self.tenant(&caller.tenant).await?;
        let event = event("event", &request.event)?;
        let mut conn = self.db.acquire().await?;
        Ok(answer::root(
            query::read_root(&mut conn, tenant, event).await?,
        ))
    }

    async fn diagnostics(
        &self,
        caller: &Caller,
        request: &pb::ListDiagnosticsRequest,
    ) -> Result<pb::ListDiagnosticsResponse, Error> {
        let tenant = self.tenant(&caller.tenant).await?;
        let root = match request.root.as_str() {
            "" => None,
            text => Some(event("root", text)?),
        };
        let mut conn = self.db.acquire().await?;
        let (size, token) = (request.page_size, &request.page_token);
        let (rows, next_page_token) =
            query::list_diagnostics(&mut conn, tenant, root, size, token).await?;
        let diagnostics = rows
            .into_iter()
            .map(answer::diagnostic)
            .collect::<Result<_, _>>()?;
        Ok(pb::ListDiagnosticsResponse {
            diagnostics,
            next_page_token,
        })
    }
}

/// Checks the size of a call (rule a05).
fn bounded(request: &pb::EmitRequest) -> Result<(), Error> {
    let n = request.events.len();
    if n == 0 {
        return Err(Error::field("events", "is empty; give 1 to 1000 events"));
    }
    if n > MAX_BATCH_EVENTS {
        let text = format!("has {n} events, the limit is {MAX_BATCH_EVENTS}");
        return Err(Error::field("events", text));
    }
    let bytes: usize = request.events.iter().map(prost::Message::encoded_len).sum();
    if bytes > MAX_BATCH_BYTES {
        let text = format!("is {bytes} bytes, the limit of a batch is {MAX_BATCH_BYTES}");
        return Err(Error::field("events", text));
    }
    Ok(())
}

fn event(field: &str, text: &str) -> Result<EventUid, Error> {
    if text.is_empty() {
        return Err(Error::field(field, "is required"));
    }
    text.parse()
        .map_err(|error: ParseIdError| Error::field(field, error.to_string()))
}

fn lease(lease: Option<types::Lease>) -> Result<Lease, Error> {
    let lease = lease.ok_or_else(|| Violation::new("lease", "is required"))?;
    let refuse = |error: ParseIdError| Error::field("lease.work", error.to_string());
    let work = lease.work.parse().map_err(refuse)?;
    if lease.attempt < 1 {
        return Err(Error::field("lease.attempt", "is not a number from 1"));
    }
    if lease.epoch < 1 {
        return Err(Error::field("lease.epoch", "is not a number from 1"));
    }
    Ok(Lease {
        work,
        attempt: lease.attempt,
        epoch: lease.epoch,
    })
}

#[tonic::async_trait]
impl CausalService for Causal {
    async fn emit(
        &self,
        request: Request<pb::EmitRequest>,
    ) -> Result<Response<pb::EmitResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let answer = self
            .emitted(&caller, request.into_inner())
            .await
            .map_err(status)?;
        Ok(Response::new(answer))
    }

    async fn derive(
        &self,
        request: Request<pb::DeriveRequest>,
    ) -> Result<Response<pb::DeriveResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let answer = self
            .derived(&caller, request.into_inner())
            .await
            .map_err(status)?;
        Ok(Response::new(answer))
    }

    async fn get_root(
        &self,
        request: Request<pb::GetRootRequest>,
    ) -> Result<Response<pb::GetRootResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let answer = self
            .root(&caller, request.get_ref())
            .await
            .map_err(status)?;
        Ok(Response::new(answer))
    }

    async fn list_diagnostics(
        &self,
        request: Request<pb::ListDiagnosticsRequest>,
    ) -> Result<Response<pb::ListDiagnosticsResponse>, Status> {
        let caller = Caller::from_request(&request)?;
        let answer = self
            .diagnostics(&caller, request.get_ref())
            .await
            .map_err(status)?;
        Ok(Response::new(answer))
    }

    async fn get_lineage(
        &self,
        _: Request<pb::GetLineageRequest>,
    ) -> Result<Response<pb::GetLineageResponse>, Status> {
        Err(unimplemented("GetLineage", LATER))
    }

    async fn brake_root(
        &self,
        _: Request<pb::BrakeRootRequest>,
    ) -> Result<Response<pb::BrakeRootResponse>, Status> {
        Err(unimplemented("BrakeRoot", LATER))
    }

    async fn release_root(
        &self,
        _: Request<pb::ReleaseRootRequest>,
    ) -> Result<Response<pb::ReleaseRootResponse>, Status> {
        Err(unimplemented("ReleaseRoot", LATER))
    }

    async fn cancel_tree(
        &self,
        _: Request<pb::CancelTreeRequest>,
    ) -> Result<Response<pb::CancelTreeResponse>, Status> {
        Err(unimplemented("CancelTree", LATER))
    }
}
