//! What a service hands to the runtime.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::Task;

/// A question about readiness: an error is the reason, one line for the operator, without secrets.
pub type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A service as the runtime sees it. Any list of components makes a process.
pub struct Component {
    /// The service's name, in logs and in the answer of `/health/ready`.
    pub name: &'static str,
    /// The gRPC side. Guarded by the internal token unless the component is an edge.
    pub routes: Routes,
    /// The names under which gRPC health reports this component.
    pub grpc_services: Vec<String>,
    /// Loops.
    pub tasks: Vec<Task>,
    /// What must hold for the component to be ready, by name (rule m04).
    pub readiness: Vec<(&'static str, Check)>,
    /// What decides the health of single gRPC names and never the component's readiness: a gateway
    /// stays ready while a service behind it is away.
    pub service_health: Vec<(Vec<String>, Check)>,
    /// The component's own HTTP, on the same port. Its fallback becomes the port's.
    pub http: Option<Router>,
    /// Further routes of the health port, for instance `/health/handlers` (rule o07). They must show
    /// no tenant's data (rule o01). In a process without that port an edge answers them on its own.
    pub health_http: Option<Router>,
    /// Whether the component authenticates its callers by itself, as the gateway does.
    pub edge: bool,
    shutdown: CancellationToken,
}

impl Component {
    /// Makes a component that does nothing yet.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            routes: Routes::default(),
            grpc_services: Vec::new(),
            tasks: Vec::new(),
            readiness: Vec::new(),
            service_health: Vec::new(),
            http: None,
            health_http: None,
            edge: false,
            shutdown: CancellationToken::new(),
        }
    }

    /// Returns the token that is cancelled when the process drains, before its tasks are awaited: a
    /// stream that goes on until its caller leaves must end on it, or it holds the process open.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Adds gRPC routes and the names of their services, for health.
    #[must_use]
    pub fn serving<N: Into<String>>(
        mut self,
        routes: Routes,
        services: impl IntoIterator<Item = N>,
    ) -> Self {
        self.routes = routes;
        self.grpc_services
            .extend(services.into_iter().map(Into::into));
        self
    }

    /// Sets the HTTP side.
    #[must_use]
    pub fn http(mut self, router: Router) -> Self {
        self.http = Some(router);
        self
    }

    /// Sets further routes of the health port.
    #[must_use]
    pub fn health_http(mut self, router: Router) -> Self {
        self.health_http = Some(router);
        self
    }

    /// Adds a loop.
    #[must_use]
    pub fn task(mut self, task: Task) -> Self {
        self.tasks.push(task);
        self
    }

    /// Adds a condition of readiness. It is asked every two seconds and given two.
    #[must_use]
    pub fn ready_when<F, A>(mut self, name: &'static str, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.readiness.push((name, check(ask)));
        self
    }

    /// Lets a condition decide the gRPC health of these names and nothing else.
    #[must_use]
    pub fn service_serving_when<N, F, A>(
        mut self,
        services: impl IntoIterator<Item = N>,
        ask: F,
    ) -> Self
    where
        N: Into<String>,
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        let services = services.into_iter().map(Into::into).collect();
        self.service_health.push((services, check(ask)));
        self
    }

    /// Declares that the component authenticates its callers by itself.
    #[must_use]
    pub fn edge(mut self) -> Self {
        self.edge = true;
        self
    }
}

fn check<F, A>(ask: F) -> Check
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), String>> + Send + 'static,
{
    Arc::new(move || Box::pin(ask()))
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component")
            .field("name", &self.name)
            .field("grpc_services", &self.grpc_services)
            .field("tasks", &self.tasks)
            .finish_non_exhaustive()
    }
}
