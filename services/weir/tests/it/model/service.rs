//! The real service in the hands of the model test: what each action asks of it.

use std::time::Duration;

use tonic::Status;
use weir_client::{Client, Problem};
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::gateway::v1 as gateway;
use weir_proto::lifecycle::v1::{self as lifecycle, Capability, FailureKind};
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Input, Lease, Targets, Work, WorkState};

use super::plan::{Caps, Executor};
use crate::support::Weir;

/// An undecided event, as its row has it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Undecided {
    /// The event.
    pub(crate) uid: String,
    /// Why.
    pub(crate) state: i16,
    /// Failures counted.
    pub(crate) failures: i16,
    /// Work that it waits for.
    pub(crate) hold_work: Option<String>,
    /// The attempt of that Work.
    pub(crate) hold_attempt: Option<i32>,
    /// Generation that tried it last.
    pub(crate) tried_generation: i64,
    /// Works that it conflicts over.
    pub(crate) conflict_works: Vec<String>,
}

const UNDECIDED: &str = "SELECT p.uid::text, p.state, p.failures, p.hold_work::text, p.hold_attempt, p.tried_generation, \
            coalesce(p.conflict_works::text[], '{}') AS conflict_works \
       FROM weir.tenant AS t JOIN weir.pending AS p USING (tenant_id) WHERE t.name = $1 ORDER BY p.scope_id, p.seq";
/// Backoffs of events and of Works are over, and first failures lie four minutes further back.
const PASS_EVENTS: &str = "UPDATE weir.pending SET first_failed_at = first_failed_at - interval '4 minutes', \
            next_try = CASE state WHEN 2 THEN '-infinity' ELSE next_try END \
      WHERE tenant_id = (SELECT tenant_id FROM weir.tenant WHERE name = $1)";
const PASS_WORKS: &str = "UPDATE weir.ready SET lease_until = '-infinity' \
      WHERE owner = '' AND tenant_id = (SELECT tenant_id FROM weir.tenant WHERE name = $1)";

/// What is still undecided when a history ends would be looked at for ever.
const RETIRE: [&str; 2] = [
    "DELETE FROM weir.pending WHERE tenant_id = (SELECT tenant_id FROM weir.tenant WHERE name = $1)",
    "DELETE FROM weir.pending_key WHERE tenant_id = (SELECT tenant_id FROM weir.tenant WHERE name = $1)",
];

/// A tenant of the service.
pub(crate) struct Service<'a> {
    weir: &'a Weir,
    tenant: String,
    client: Client,
}

/// An event to publish.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The event.
    pub(crate) event: CloudEvent,
    /// Its keys.
    pub(crate) keys: Vec<String>,
    /// Work that it names.
    pub(crate) target: Option<String>,
}

impl Item {
    fn targets(&self) -> Option<Targets> {
        let work = self.target.clone()?;
        Some(Targets { work, attempt: 0 })
    }
}

/// Why a call was refused.
pub(crate) fn reason(status: &Status) -> String {
    Problem::from(status).reason
}

impl<'a> Service<'a> {
    /// A tenant that nobody used.
    pub(crate) fn of(weir: &'a Weir, tenant: &str) -> Self {
        Self {
            weir,
            tenant: tenant.to_owned(),
            client: weir.client(tenant, "model"),
        }
    }

    /// Publishes a generation.
    pub(crate) async fn configure(&self, document: String, expected: i64) -> Result<(), Status> {
        let request = routing::PublishConfigRequest {
            document,
            expected_generation: Some(expected),
            request_id: String::new(),
        };
        self.client.config().publish_config(request).await?;
        Ok(())
    }

    /// Registers an executor.
    pub(crate) async fn register(&self, executor: Executor, caps: Caps) -> Result<(), Status> {
        let both = [
            (caps.inject, Capability::Inject),
            (caps.interrupt, Capability::Interrupt),
        ];
        let request = lifecycle::RegisterExecutorRequest {
            executor: executor.name().to_owned(),
            capabilities: both
                .into_iter()
                .filter_map(|(has, capability)| has.then_some(capability.into()))
                .collect(),
            request_id: String::new(),
        };
        self.client.executor().register_executor(request).await?;
        Ok(())
    }

    /// Publishes one event and returns its uid.
    pub(crate) async fn publish(&self, scope: &str, item: Item) -> Result<String, Status> {
        let request = routing::PublishRequest {
            scope: scope.to_owned(),
            targets: item.targets(),
            event: Some(item.event),
            keys: item.keys,
        };
        let answer = self.client.events().publish(request).await?;
        Ok(answer.into_inner().uid)
    }

    /// Publishes events, all or none, and returns their uids.
    pub(crate) async fn publish_all(
        &self,
        scope: &str,
        items: Vec<Item>,
    ) -> Result<Vec<String>, Status> {
        let item = |item: Item| routing::PublishItem {
            targets: item.targets(),
            event: Some(item.event),
            keys: item.keys,
        };
        let request = routing::PublishBatchRequest {
            scope: scope.to_owned(),
            events: items.into_iter().map(item).collect(),
            atomic: true,
        };
        let answer = self.client.events().publish_batch(request).await?;
        let uid = |r: weir_proto::types::v1::ItemResult| {
            r.accepted
                .map(|a| a.uid)
                .ok_or_else(|| Status::unknown("one of an atomic batch was not accepted"))
        };
        answer.into_inner().results.into_iter().map(uid).collect()
    }

    /// Traces an event.
    pub(crate) async fn trace(
        &self,
        scope: &str,
        item: &Item,
    ) -> Result<gateway::TraceEventResponse, Status> {
        let request = gateway::TraceEventRequest {
            scope: scope.to_owned(),
            event: Some(item.event.clone()),
            keys: item.keys.clone(),
            targets: item.targets(),
            filter: String::new(),
        };
        let answer = self.client.control().trace_event(request).await?;
        Ok(answer.into_inner())
    }

    /// Claims at most one Work.
    pub(crate) async fn claim(
        &self,
        scope: &str,
        binding: &str,
    ) -> Result<Option<lifecycle::ClaimedWork>, Status> {
        let spec = lifecycle::ClaimSpec {
            binding: binding.to_owned(),
            scope: scope.to_owned(),
            owner: "model".to_owned(),
            ..Default::default()
        };
        let request = lifecycle::ClaimOnceRequest {
            spec: Some(spec),
            max_works: 1,
            wait: None,
        };
        let answer = self.client.executor().claim_once(request).await?;
        Ok(answer.into_inner().works.pop())
    }

    /// Completes an attempt.
    pub(crate) async fn complete(&self, lease: &Lease) -> Result<WorkState, Status> {
        let request = lifecycle::CompleteRequest {
            lease: Some(lease.clone()),
            result: String::new(),
        };
        let answer = self.client.executor().complete(request).await?;
        Ok(answer.into_inner().state())
    }

    /// Fails an attempt.
    pub(crate) async fn fail(&self, lease: &Lease, permanent: bool) -> Result<WorkState, Status> {
        let kind = if permanent {
            FailureKind::Permanent
        } else {
            FailureKind::Retryable
        };
        let request = lifecycle::FailRequest {
            lease: Some(lease.clone()),
            kind: kind.into(),
            error: "model".to_owned(),
            retry_after: None,
        };
        let answer = self.client.executor().fail(request).await?;
        Ok(answer.into_inner().state())
    }

    /// Gives a Work back.
    pub(crate) async fn release(&self, lease: &Lease) -> Result<WorkState, Status> {
        let request = lifecycle::ReleaseRequest {
            lease: Some(lease.clone()),
        };
        let answer = self.client.executor().release(request).await?;
        Ok(answer.into_inner().state())
    }

    /// Acknowledges injected events.
    pub(crate) async fn acknowledge(
        &self,
        lease: &Lease,
        events: Vec<String>,
    ) -> Result<Vec<String>, Status> {
        let request = lifecycle::AcknowledgeRequest {
            lease: Some(lease.clone()),
            events,
        };
        let answer = self.client.executor().acknowledge(request).await?;
        Ok(answer.into_inner().events)
    }

    /// Cancels a Work.
    pub(crate) async fn cancel(&self, work: &str) -> Result<(), Status> {
        let request = lifecycle::CancelWorkRequest {
            work: work.to_owned(),
            reason: "test".to_owned(),
            request_id: String::new(),
        };
        self.client.work().cancel_work(request).await?;
        Ok(())
    }

    /// Lets a held Work go on.
    pub(crate) async fn let_go(&self, work: &str) -> Result<(), Status> {
        let request = lifecycle::ReleaseWorkRequest {
            work: work.to_owned(),
            reason: "test".to_owned(),
            request_id: String::new(),
        };
        self.client.work().release_work(request).await?;
        Ok(())
    }

    /// Skips an event.
    pub(crate) async fn skip(&self, event: &str) -> Result<(), Status> {
        let request = gateway::SkipEventRequest {
            event: event.to_owned(),
            reason: "test".to_owned(),
            ..Default::default()
        };
        self.client.control().skip_event(request).await?;
        Ok(())
    }

    /// Reroutes an event and returns the one that is tried.
    pub(crate) async fn reroute(&self, event: &str) -> Result<String, Status> {
        let request = gateway::RerouteEventRequest {
            event: event.to_owned(),
            reason: "test".to_owned(),
            ..Default::default()
        };
        let answer = self.client.control().reroute_event(request).await?;
        Ok(answer.into_inner().event)
    }

    /// Decides an event now, as the internal `RouteEvent` does.
    pub(crate) async fn route(&self, event: &str) -> routing::RouteEventResponse {
        self.weir.route_of(&self.tenant, event).await
    }

    /// Reads what became of an event.
    pub(crate) async fn standing(&self, event: &str) -> Result<routing::GetRouteResponse, Status> {
        let request = routing::GetRouteRequest {
            event: event.to_owned(),
            ..Default::default()
        };
        let answer = self.client.events().get_route(request).await?;
        Ok(answer.into_inner())
    }

    /// Reads all Works.
    pub(crate) async fn works(&self) -> Result<Vec<Work>, Status> {
        let request = lifecycle::ListWorksRequest {
            page_size: 1_000,
            ..Default::default()
        };
        let answer = self.client.work().list_works(request).await?;
        Ok(answer.into_inner().works)
    }

    /// Reads a Work's inputs.
    pub(crate) async fn inputs(&self, work: &str) -> Result<Vec<Input>, Status> {
        let request = lifecycle::ListInputsRequest {
            work: work.to_owned(),
            page_size: 1_000,
            ..Default::default()
        };
        let answer = self.client.work().list_inputs(request).await?;
        Ok(answer.into_inner().inputs)
    }

    /// Reads the undecided events.
    pub(crate) async fn undecided(&self) -> Vec<Undecided> {
        sqlx::query_as(UNDECIDED)
            .bind(&self.tenant)
            .fetch_all(self.weir.db.pool())
            .await
            .expect("the rows have these columns")
    }

    /// Lets four minutes pass for what this tenant waits for.
    pub(crate) async fn pass_time(&self) {
        self.execute([PASS_EVENTS, PASS_WORKS]).await;
    }

    /// Leaves nothing to do for this tenant.
    pub(crate) async fn retire(&self) {
        self.execute(RETIRE).await;
    }

    async fn execute(&self, statements: [&'static str; 2]) {
        for statement in statements {
            sqlx::query(statement)
                .bind(&self.tenant)
                .execute(self.weir.db.pool())
                .await
                .expect("the rows have these columns");
        }
    }

    /// Asks again and again until it is so, for as long as `patience` lasts, and says whether it is.
    pub(crate) async fn until(
        &self,
        patience: Duration,
        mut condition: impl AsyncFnMut() -> bool,
    ) -> bool {
        let began = std::time::Instant::now();
        let mut met = false;
        self.weir
            .db
            .wait_until("the model agrees", async |_| {
                met = condition().await;
                met || began.elapsed() > patience
            })
            .await;
        met
    }
}
