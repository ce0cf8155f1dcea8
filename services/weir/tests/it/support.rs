//! All of Weir in one process over a fresh database, spoken to through the gateway as a user does.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tonic::Status;
use weir_client::{Client, Identity};
use weir_gateway::Upstreams;
use weir_kernel::envelope::Envelope;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::gateway::v1 as gateway;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::routing::v1 as routing;
use weir_proto::routing::v1::routing_service_client::RoutingServiceClient;
use weir_proto::types::v1 as types;
use weir_routing::handler::{Failure, Handler, Input, Place, Registry, Sample, Verdict};
use weir_rpc::{Caller, Secret, Upstream};
use weir_runtime::{Component, DatabaseConfig, Environment, Running, ServeOptions};
use weir_testkit::TestDb;

use crate::routing::hostile::Echo;
use crate::routing::script::Script;

/// One replica of everything.
pub struct Weir {
    /// The database, with its clock.
    pub db: TestDb,
    /// A user of tenant `demo`.
    pub user: Client,
    /// The gateway's address.
    pub url: String,
    /// The health port's address.
    pub health: String,
    /// What test handlers did.
    pub handlers: Arc<Handlers>,
    routing: Upstream,
    running: Option<Running>,
}

/// Handlers that do what their name says.
#[derive(Default)]
pub struct Handlers {
    /// Calls so far, of all of them.
    pub calls: AtomicUsize,
    /// What the handler `scripted` is to do, and did.
    pub script: Arc<Script>,
    hung: Mutex<bool>,
    freed: Condvar,
}

struct Named(&'static str, Arc<Handlers>);

impl Handler for Named {
    fn decide(&self, input: &Input) -> Result<Verdict, Failure> {
        self.1.calls.fetch_add(1, Ordering::SeqCst);
        match self.0 {
            "panics" => panic!("the handler fell over"),
            "fails" => Err(Failure::Failed("upstream is away".to_owned())),
            "malformed" => Err(Failure::Invalid("no title".to_owned())),
            "hangs" => {
                let mut hung = self.1.hung.lock().expect("no holder panics");
                *hung = true;
                while *hung {
                    hung = self.1.freed.wait(hung).expect("no holder panics");
                }
                Ok(Verdict::Skip {
                    reason: "late".to_owned(),
                })
            }
            _ => Ok(Verdict::Match {
                reason: format!("dry run {}", input.dry_run),
                attach: Vec::new(),
            }),
        }
    }

    fn samples(&self, place: &Place, now: DateTime<Utc>) -> Vec<Sample> {
        if self.0 == "panics" {
            panic!("the handler fell over");
        }
        if self.0 != "takes" {
            return Vec::new();
        }
        let scope = place.scope();
        let bindings: Vec<&String> = scope.bindings.keys().collect();
        let data = serde_json::json!({ "at": now.to_rfc3339(), "bindings": bindings });
        let slot = &place.route().slot;
        let sample = |name: &str| Sample {
            name: name.to_owned(),
            event: Envelope::json(format!("{slot}/{name}"), "test", "x", data.to_string()),
            keys: vec![format!("{}/{slot}", scope.name)],
        };
        vec![sample("one"), sample("two")]
    }
}

impl Handlers {
    /// Ends all hung calls.
    pub fn free(&self) {
        self.script.open_all();
        *self.hung.lock().expect("no holder panics") = false;
        self.freed.notify_all();
    }

    /// Those with these names only.
    fn registry_of(self: &Arc<Self>, names: &[&str]) -> Registry {
        let all = self.registry();
        let entry = |name: &&str| ((*name).to_owned(), all.get(name).expect("it has one"));
        Registry::new(names.iter().map(entry).collect())
    }

    fn registry(self: &Arc<Self>) -> Registry {
        let names = ["panics", "fails", "malformed", "hangs", "takes"];
        let entry = |n: &'static str| {
            (
                n.to_owned(),
                Arc::new(Named(n, Arc::clone(self))) as Arc<dyn Handler>,
            )
        };
        let scripted = (
            "scripted".to_owned(),
            Arc::clone(&self.script) as Arc<dyn Handler>,
        );
        let choosy = (
            "choosy".to_owned(),
            Arc::new(crate::model::Choosy) as Arc<dyn Handler>,
        );
        let echo = ("echo".to_owned(), Arc::new(Echo) as Arc<dyn Handler>);
        Registry::new(
            names
                .into_iter()
                .map(entry)
                .chain([scripted, choosy, echo])
                .collect::<HashMap<_, _>>(),
        )
    }
}

impl Weir {
    /// Starts with the configuration that most tests need: scope `s`, binding `b`, see [`CONFIG`].
    pub async fn start() -> Self {
        Self::with(CONFIG).await
    }

    /// Starts and publishes a configuration as generation 1 of tenant `demo`.
    pub async fn with(document: &str) -> Self {
        let weir = Self::bare().await;
        weir.apply(document, 0).await;
        weir
    }

    /// The same with these Rust handlers only.
    pub async fn with_only(document: &str, names: &[&str]) -> Self {
        let handlers = Arc::new(Handlers::default());
        let registry = handlers.registry_of(names);
        let weir = Self::of(handlers, registry).await;
        weir.apply(document, 0).await;
        weir
    }

    /// Starts without any tenant.
    pub async fn bare() -> Self {
        let handlers = Arc::new(Handlers::default());
        let registry = handlers.registry();
        Self::of(handlers, registry).await
    }

    async fn of(handlers: Arc<Handlers>, registry: Registry) -> Self {
        let db = TestDb::new().await;
        let (running, routing) = replica_of(db.url(), registry, |_| ()).await;
        let url = format!("http://{}", running.addr());
        let health = format!("http://{}", running.health_addr().expect("asked for"));
        let user =
            Client::connect(&url, Identity::development("demo", "tester")).expect("an address");
        Self {
            db,
            user,
            url,
            health,
            handlers,
            routing,
            running: Some(running),
        }
    }

    /// Starts another replica over the same database.
    pub async fn another(&self) -> Replica {
        self.replica(self.handlers.registry()).await
    }

    /// Starts another replica that has these Rust handlers only.
    pub async fn another_with(&self, names: &[&str]) -> Replica {
        self.replica(self.handlers.registry_of(names)).await
    }

    async fn replica(&self, registry: Registry) -> Replica {
        let (running, _) = replica_of(self.db.url(), registry, |_| ()).await;
        let url = format!("http://{}", running.addr());
        let user =
            Client::connect(&url, Identity::development("demo", "tester")).expect("an address");
        Replica { user, running }
    }

    /// Returns a client of another tenant or actor.
    pub fn client(&self, tenant: &str, actor: &str) -> Client {
        Client::connect(&self.url, Identity::development(tenant, actor)).expect("an address")
    }

    /// Publishes a configuration on top of `expected`.
    pub async fn apply(&self, document: &str, expected: i64) -> i64 {
        let request = routing::PublishConfigRequest {
            document: document.to_owned(),
            expected_generation: Some(expected),
            request_id: String::new(),
        };
        let answer = self
            .user
            .config()
            .publish_config(request)
            .await
            .expect("the configuration is good");
        answer
            .into_inner()
            .generation
            .expect("always there")
            .generation
    }

    /// Publishes an event into scope `s` and returns its uid.
    pub async fn publish(&self, id: &str, kind: &str, keys: &[&str]) -> String {
        self.try_publish("s", event(id, kind, "{}"), keys)
            .await
            .expect("accepted")
            .uid
    }

    /// Publishes an event.
    pub async fn try_publish(
        &self,
        scope: &str,
        event: CloudEvent,
        keys: &[&str],
    ) -> Result<routing::PublishResponse, Status> {
        let request = routing::PublishRequest {
            scope: scope.to_owned(),
            event: Some(event),
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            targets: None,
        };
        self.user
            .events()
            .publish(request)
            .await
            .map(tonic::Response::into_inner)
    }

    /// Publishes an event and waits until it is decided.
    pub async fn routed(&self, id: &str, kind: &str, keys: &[&str]) -> types::RouteRecord {
        let uid = self.publish(id, kind, keys).await;
        self.record(&uid).await
    }

    /// Waits until an event is decided and returns its record.
    pub async fn record(&self, uid: &str) -> types::RouteRecord {
        let answer = self.route(uid).await;
        answer
            .record
            .unwrap_or_else(|| panic!("`{uid}` is undecided: {:?}", answer.pending))
    }

    /// Waits until an event is undecided for a reason and returns it.
    pub async fn pending(&self, uid: &str) -> types::Pending {
        let answer = self.route(uid).await;
        answer
            .pending
            .unwrap_or_else(|| panic!("`{uid}` is decided: {:?}", answer.record))
    }

    /// Decides an event now, as the internal `RouteEvent` does.
    pub async fn route(&self, uid: &str) -> routing::RouteEventResponse {
        self.route_of("demo", uid).await
    }

    /// Decides an event of a tenant now.
    pub async fn route_of(&self, tenant: &str, uid: &str) -> routing::RouteEventResponse {
        let request = routing::RouteEventRequest {
            event: uid.to_owned(),
            ..Default::default()
        };
        let request = Caller::new(tenant, "tester")
            .request(request)
            .expect("can be sent");
        RoutingServiceClient::new(self.routing.clone())
            .route_event(request)
            .await
            .expect("known")
            .into_inner()
    }

    /// Lists the samples of a scope's handlers, as the internal `ListSamples` does.
    pub async fn samples(&self, scope: &str) -> Result<Vec<routing::Sample>, Status> {
        let request = routing::ListSamplesRequest {
            scope: scope.to_owned(),
        };
        let request = Caller::new("demo", "tester")
            .request(request)
            .expect("can be sent");
        RoutingServiceClient::new(self.routing.clone())
            .list_samples(request)
            .await
            .map(|answer| answer.into_inner().samples)
    }

    /// Traces an event.
    pub async fn trace(
        &self,
        kind: &str,
        data: &str,
        keys: &[&str],
    ) -> gateway::TraceEventResponse {
        let request = gateway::TraceEventRequest {
            scope: "s".to_owned(),
            event: Some(event("traced", kind, data)),
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            ..Default::default()
        };
        self.user
            .control()
            .trace_event(request)
            .await
            .expect("traceable")
            .into_inner()
    }

    /// Skips an event.
    pub async fn skip(&self, uid: &str) -> Result<gateway::SkipEventResponse, Status> {
        let request = gateway::SkipEventRequest {
            event: uid.to_owned(),
            reason: "test".to_owned(),
            ..Default::default()
        };
        self.user
            .control()
            .skip_event(request)
            .await
            .map(tonic::Response::into_inner)
    }

    /// Reroutes an event.
    pub async fn reroute(&self, uid: &str) -> Result<gateway::RerouteEventResponse, Status> {
        let request = gateway::RerouteEventRequest {
            event: uid.to_owned(),
            reason: "test".to_owned(),
            ..Default::default()
        };
        self.user
            .control()
            .reroute_event(request)
            .await
            .map(tonic::Response::into_inner)
    }

    /// Registers the executor `e` with capabilities.
    pub async fn register(&self, capabilities: &[lifecycle::Capability]) -> i64 {
        let request = lifecycle::RegisterExecutorRequest {
            executor: "e".to_owned(),
            capabilities: capabilities.iter().map(|c| i32::from(*c)).collect(),
            request_id: String::new(),
        };
        self.user
            .executor()
            .register_executor(request)
            .await
            .expect("registered")
            .into_inner()
            .revision
    }

    /// Claims at most one Work of binding `b`.
    pub async fn claim(&self) -> Option<lifecycle::ClaimedWork> {
        self.claim_of("b").await
    }

    /// Claims at most one Work of a binding.
    pub async fn claim_of(&self, binding: &str) -> Option<lifecycle::ClaimedWork> {
        let spec = lifecycle::ClaimSpec {
            binding: binding.to_owned(),
            owner: "worker".to_owned(),
            ..Default::default()
        };
        let request = lifecycle::ClaimOnceRequest {
            spec: Some(spec),
            max_works: 1,
            wait: None,
        };
        let answer = self
            .user
            .executor()
            .claim_once(request)
            .await
            .expect("claimable");
        answer.into_inner().works.into_iter().next()
    }

    /// Completes an attempt.
    pub async fn complete(
        &self,
        work: &lifecycle::ClaimedWork,
    ) -> Result<types::WorkState, Status> {
        let request = lifecycle::CompleteRequest {
            lease: work.lease.clone(),
            result: String::new(),
        };
        self.user
            .executor()
            .complete(request)
            .await
            .map(|r| r.into_inner().state())
    }

    /// Reads a Work.
    pub async fn work(&self, work: &str) -> types::Work {
        let request = lifecycle::GetWorkRequest {
            work: work.to_owned(),
            ..Default::default()
        };
        self.user
            .work()
            .get_work(request)
            .await
            .expect("known")
            .into_inner()
            .work
            .expect("always there")
    }

    /// Reads a Work's inputs, as their events.
    pub async fn inputs(&self, work: &str) -> Vec<String> {
        let request = lifecycle::ListInputsRequest {
            work: work.to_owned(),
            page_size: 1_000,
            ..Default::default()
        };
        let answer = self
            .user
            .work()
            .list_inputs(request)
            .await
            .expect("known")
            .into_inner();
        answer.inputs.into_iter().map(|i| i.event).collect()
    }

    /// Counts rows of a table of the schema.
    pub async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM weir.{table}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_one(self.db.pool())
            .await
            .expect("a table")
    }

    /// Takes the process out, for a test that stops it in its own way.
    pub fn take_running(&mut self) -> Running {
        self.running.take().expect("it was not stopped")
    }

    /// Stops the process and waits for it.
    pub async fn stop(mut self) {
        self.handlers.free();
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}

impl Drop for Weir {
    /// A hung handler would hold the test's process.
    fn drop(&mut self) {
        self.handlers.free();
    }
}

/// A second replica.
pub struct Replica {
    /// A user of tenant `demo` who talks to it.
    pub user: Client,
    running: Running,
}

impl Replica {
    /// Stops it and says whether everything ended by itself.
    pub async fn drain(self) -> weir_runtime::Drained {
        self.running.stop().await
    }

    /// Stops it.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// One process's worth of everything. It says that it lives often, and is dead after 30 s of the database's time.
pub(crate) async fn replica_of(
    url: &str,
    registry: Registry,
    tune: impl FnOnce(&mut weir_routing::Config),
) -> (Running, Upstream) {
    let database = DatabaseConfig {
        url: Secret::new(url),
        max_connections: 8,
        ..DatabaseConfig::default()
    };
    let db = database.open("weir-test").expect("a URL");
    let mut config = weir_routing::Config {
        database: database.clone(),
        poll_interval: Duration::from_millis(40),
        handler_probe_interval: Duration::from_millis(40),
        replica_interval: Duration::from_millis(50),
        replica_dead_after: Duration::from_secs(30),
        ..Default::default()
    };
    tune(&mut config);
    let mut routing = weir_routing::component(
        db.clone(),
        &config,
        registry,
        weir_routing::Hints::default(),
    );
    let config = weir_lifecycle::Config {
        database: database.clone(),
        ..Default::default()
    };
    let mut lifecycle =
        weir_lifecycle::component(db.clone(), &config, weir_lifecycle::Hints::default());
    let config = weir_migration::Config {
        database: database.clone(),
        ..Default::default()
    };
    let mut migration = weir_migration::component(&config).expect("a URL");
    let mut causal = causal(db, database.clone());
    let upstreams = Upstreams {
        routing: inward(&mut routing),
        lifecycle: inward(&mut lifecycle),
        causal: inward(&mut causal),
        migration: inward(&mut migration),
    };
    let to_routing = upstreams.routing.clone();
    let gateway = weir_gateway::component(
        &weir_gateway::Config::default(),
        Environment::Development,
        &Secret::default(),
        upstreams,
        Arc::new(|_: &str| None),
    )
    .expect("development may");
    let components = vec![routing, lifecycle, causal, migration, gateway];
    let running = Running::start(components, ServeOptions::local())
        .await
        .expect("free ports");
    running.ready().await;
    (running, to_routing)
}

fn causal(db: weir_pg::Db, database: DatabaseConfig) -> Component {
    let config = weir_causal::Config {
        database,
        ..Default::default()
    };
    weir_causal::component(db, &config, weir_causal::Hints::default())
}

fn inward(component: &mut Component) -> Upstream {
    component.grpc_services.clear();
    let routes = mem::take(&mut component.routes);
    weir_rpc::local(weir_rpc::layered(routes, None))
}

/// Makes an event of source `test`.
pub fn event(id: &str, kind: &str, data: &str) -> CloudEvent {
    CloudEvent {
        id: id.to_owned(),
        source: "test".to_owned(),
        spec_version: "1.0".to_owned(),
        r#type: kind.to_owned(),
        attributes: HashMap::new(),
        data: Some(Data::TextData(data.to_owned())),
    }
}

/// Scope `s` with a route for each thing that routing does, told by the event's type.
pub const CONFIG: &str = r#"
scopes:
  - name: root
    bindings:
      b: { executor: e, capabilities: [inject, interrupt], max_attempts: 2, lease: 30s }
      other: { executor: e }
      plain: {}
    routes:
      - { slot: drop, when: 'event.type == "drop"', policy: drop }
      - { slot: panics, when: 'event.type == "none"', binding: b }
  - name: s
    parent: root
    sources:
      - name: derived
        match: { source: 'derive/*' }
        keys:
          - { when: 'has(event.data.n)', key: '"n/" + string(event.data.n)' }
    routes:
      - { slot: panics, handler: { rust: panics }, binding: b, disabled: true }
      - { slot: start, when: 'event.type == "start"', binding: b }
      - { slot: attach, when: 'event.type == "attach"', binding: b, attach: ['event.data.key'] }
      - { slot: inject, when: 'event.type == "inject"', binding: b, policy: inject, fallback: queue }
      - { slot: other, when: 'event.type == "other"', binding: other }
      - { slot: typed, when: 'event.type == "typed" && event.data.n > 1', binding: b }
  - name: t
    parent: root
    routes:
      - { slot: all, when: 'true', binding: b }
"#;
