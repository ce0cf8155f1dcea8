//! What every surface of the gateway shares: the access table, the ways to the services, and the
//! check that stands before each call.

use crate::Error;
use crate::access::{Access, Owner};
use crate::guard::Guard;
use crate::identity::{Caller, Identity, Permissions};
use crate::webhook::{Secrets, Sources};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use weir_proto::routing::v1::config_service_client::ConfigServiceClient;
use weir_proto::routing::v1::event_service_client::EventServiceClient;
use weir_proto::routing::v1::routing_service_client::RoutingServiceClient;
use weir_rpc::headers::{ACTOR, PERMISSIONS, REQUEST_ID, TENANT};
use weir_rpc::{DEFAULT_DEADLINE, MAX_DECODED, Upstream};
use weir_runtime::{CancellationToken, Environment};

/// What travels from an HTTP request to the services, beside identity.
const CONTEXT: [&str; 3] = ["traceparent", "tracestate", "grpc-timeout"];

/// The services behind the gateway: channels in a fleet, the components' own routes in one process.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// Routing.
    pub routing: Upstream,
    /// Lifecycle.
    pub lifecycle: Upstream,
    /// Causal.
    pub causal: Upstream,
    /// Migration.
    pub migration: Upstream,
}

impl Upstreams {
    /// Does the same to each.
    pub(crate) fn try_map<E>(
        self,
        change: impl Fn(Upstream) -> Result<Upstream, E>,
    ) -> Result<Self, E> {
        let Self {
            routing,
            lifecycle,
            causal,
            migration,
        } = self;
        Ok(Self {
            routing: change(routing)?,
            lifecycle: change(lifecycle)?,
            causal: change(causal)?,
            migration: change(migration)?,
        })
    }
}

/// The state behind every surface.
pub(crate) struct Gateway {
    pub(crate) identity: Identity,
    pub(crate) environment: Environment,
    pub(crate) access: Access,
    pub(crate) upstreams: Upstreams,
    pub(crate) max_payload: usize,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) sources: Sources,
    pub(crate) stop: CancellationToken,
}

impl Gateway {
    /// Checks a call: identity, then permission (rule o04).
    ///
    /// # Errors
    /// Nobody calls, the method is not exposed, or the caller may not.
    pub(crate) fn admit(&self, path: &str, headers: &HeaderMap) -> Result<Call, Error> {
        let caller = self.identity.caller(headers)?;
        let Some(method) = self.access.method(path) else {
            return Err(Error::NotExposed(path.trim_start_matches('/').to_owned()));
        };
        if !caller.permissions.hold(&method.permission) {
            return Err(Error::PermissionDenied {
                actor: caller.actor,
                permission: method.permission.clone(),
            });
        }
        Ok(self.call(caller, headers))
    }

    /// Makes a call of the gateway's own, for a caller that proved itself in another way. It may only
    /// publish.
    pub(crate) fn webhook_call(&self, tenant: &str, actor: String, headers: &HeaderMap) -> Call {
        let permissions = Permissions::Listed([String::from("events.publish")].into());
        self.call(
            Caller {
                tenant: tenant.to_owned(),
                actor,
                permissions,
            },
            headers,
        )
    }

    fn call(&self, caller: Caller, headers: &HeaderMap) -> Call {
        let mut context = HeaderMap::new();
        for name in CONTEXT {
            if let Some(value) = headers.get(name) {
                context.insert(HeaderName::from_static(name), value.clone());
            }
        }
        Call {
            caller,
            request_id: weir_rpc::request_id(),
            context,
        }
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn environment(&self) -> Environment {
        self.environment
    }

    /// Returns the way to an owner's service; none for the gateway itself.
    pub(crate) fn guard(&self, owner: Owner) -> Option<Guard> {
        let upstream = match owner {
            Owner::Routing => &self.upstreams.routing,
            Owner::Lifecycle => &self.upstreams.lifecycle,
            Owner::Causal => &self.upstreams.causal,
            Owner::Migration => &self.upstreams.migration,
            Owner::Gateway => return None,
        };
        Some(Guard::new(owner, upstream.clone()))
    }

    fn to_routing(&self) -> Guard {
        Guard::new(Owner::Routing, self.upstreams.routing.clone())
    }

    pub(crate) fn routing(&self) -> RoutingServiceClient<Guard> {
        RoutingServiceClient::new(self.to_routing()).max_decoding_message_size(MAX_DECODED)
    }

    pub(crate) fn events(&self) -> EventServiceClient<Guard> {
        EventServiceClient::new(self.to_routing()).max_decoding_message_size(MAX_DECODED)
    }

    pub(crate) fn config(&self) -> ConfigServiceClient<Guard> {
        ConfigServiceClient::new(self.to_routing())
    }
}

/// A call that passed the check: who calls, and what goes along to the services.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    caller: Caller,
    request_id: Option<HeaderValue>,
    context: HeaderMap,
}

impl Call {
    /// Puts the verified identity and the request id in, over whatever is there.
    pub(crate) fn attach(&self, headers: &mut HeaderMap) {
        let verified = [
            (TENANT, self.caller.tenant.clone()),
            (ACTOR, self.caller.actor.clone()),
            (PERMISSIONS, self.caller.permissions.to_list()),
        ];
        for (name, value) in verified {
            let value =
                HeaderValue::try_from(value).expect("identifiers have no control characters");
            headers.insert(HeaderName::from_static(name), value);
        }
        if let Some(id) = &self.request_id {
            headers.insert(HeaderName::from_static(REQUEST_ID), id.clone());
        }
    }

    /// Wraps a message of the gateway's own clients.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut headers = self.context.clone();
        self.attach(&mut headers);
        let bounded = headers.contains_key("grpc-timeout");
        let metadata = MetadataMap::from_headers(headers);
        let mut request = tonic::Request::from_parts(metadata, http::Extensions::new(), message);
        if !bounded {
            request.set_timeout(DEFAULT_DEADLINE);
        }
        request
    }
}
