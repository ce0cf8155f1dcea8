//! Who may call what, read from the contracts (rule o04).
//!
//! The table is built once from the descriptor set. A method is in it only if its contract names a
//! permission with the option `(weir.auth.v1.access)`; everything else is not exposed, so that a new
//! internal method is closed until somebody decides otherwise.

use prost_reflect::{DescriptorPool, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Name of the method option that says which permission a caller needs.
const OPTION: &str = "weir.auth.v1.access";

/// The service that answers a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// `weir.routing.*`
    Routing,
    /// `weir.lifecycle.*`
    Lifecycle,
    /// `weir.causal.*`
    Causal,
    /// `weir.migration.*`
    Migration,
    /// `weir.gateway.*`: answered here.
    Gateway,
}

impl Owner {
    /// Every owner behind the gateway.
    pub const UPSTREAMS: [Self; 4] = [
        Self::Routing,
        Self::Lifecycle,
        Self::Causal,
        Self::Migration,
    ];

    fn of_package(package: &str) -> Option<Self> {
        match package.strip_prefix("weir.")?.split('.').next()? {
            "routing" => Some(Self::Routing),
            "lifecycle" => Some(Self::Lifecycle),
            "causal" => Some(Self::Causal),
            "migration" => Some(Self::Migration),
            "gateway" => Some(Self::Gateway),
            _ => None,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Routing => "routing",
            Self::Lifecycle => "lifecycle",
            Self::Causal => "causal",
            Self::Migration => "migration",
            Self::Gateway => "gateway",
        })
    }
}

/// One exposed method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// `/package.Service/Method`.
    pub path: String,
    /// `package.Service`.
    pub service: String,
    /// Permission that a caller needs.
    pub permission: String,
    /// Who answers it.
    pub owner: Owner,
    /// Whether its answer is a stream, which may go on for as long as the caller listens.
    pub streams: bool,
}

/// A contract that cannot be served.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ContractError {
    /// The option itself is not in the descriptor set: nothing could be exposed.
    #[error("the descriptor set has no method option `{OPTION}`")]
    NoOption,
    /// A method asks to be exposed and no service answers its package.
    #[error("method `{0}` is exposed and no service answers its package")]
    NoOwner(String),
}

/// All exposed methods, by path.
#[derive(Debug, Clone)]
pub struct Access(Arc<BTreeMap<String, Method>>);

impl Access {
    /// Reads the table from a descriptor set.
    ///
    /// # Errors
    /// The contracts have no access option, or expose a method that nobody answers.
    pub fn from_descriptors(pool: &DescriptorPool) -> Result<Self, ContractError> {
        let option = pool
            .get_extension_by_name(OPTION)
            .ok_or(ContractError::NoOption)?;
        let mut table = BTreeMap::new();
        for service in pool.services() {
            for method in service.methods() {
                let options = method.options();
                let value = options.get_extension(&option);
                let Value::String(permission) = value.as_ref() else {
                    continue;
                };
                if permission.is_empty() {
                    continue;
                }
                let path = format!("/{}/{}", service.full_name(), method.name());
                let owner = Owner::of_package(service.parent_file().package_name())
                    .ok_or_else(|| ContractError::NoOwner(path.clone()))?;
                let method = Method {
                    path: path.clone(),
                    service: service.full_name().to_owned(),
                    permission: permission.clone(),
                    owner,
                    streams: method.is_server_streaming(),
                };
                table.insert(path, method);
            }
        }
        Ok(Self(Arc::new(table)))
    }

    /// Returns the exposed method at a path.
    #[must_use]
    pub fn method(&self, path: &str) -> Option<&Method> {
        self.0.get(path)
    }

    /// Returns every exposed method, sorted by path.
    pub fn methods(&self) -> impl Iterator<Item = &Method> {
        self.0.values()
    }

    /// Returns the names of one owner's exposed services, sorted.
    #[must_use]
    pub fn services_of(&self, owner: Owner) -> Vec<String> {
        let mut names: Vec<_> = self
            .methods()
            .filter(|m| m.owner == owner)
            .map(|m| m.service.clone())
            .collect();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o04_a_method_without_the_option_is_not_exposed() {
        let access = Access::from_descriptors(&weir_proto::DESCRIPTORS).expect("contracts serve");
        let publish = access
            .method("/weir.routing.v1.EventService/Publish")
            .expect("exposed");
        assert_eq!(
            (publish.permission.as_str(), publish.owner),
            ("events.publish", Owner::Routing)
        );
        for internal in [
            "/weir.routing.v1.ConfigService/ResolveSource",
            "/weir.routing.v1.RoutingService/SkipEvent",
            "/weir.routing.v1.RoutingService/Hint",
            "/weir.lifecycle.v1.InspectService/Diagnose",
            "/weir.extension.v1.RouteHandler/Match",
        ] {
            assert_eq!(access.method(internal), None, "{internal}");
        }
    }

    #[test]
    fn o04_every_exposed_method_has_a_permission_and_an_owner() {
        let access = Access::from_descriptors(&weir_proto::DESCRIPTORS).expect("contracts serve");
        assert!(access.methods().count() > 40);
        assert!(access.methods().all(|m| m.permission.contains('.')));
        assert_eq!(
            access.services_of(Owner::Gateway),
            ["weir.gateway.v1.ControlService"]
        );
        assert_eq!(
            access.services_of(Owner::Lifecycle),
            [
                "weir.lifecycle.v1.ExecutorService",
                "weir.lifecycle.v1.WorkService"
            ]
        );
    }
}
