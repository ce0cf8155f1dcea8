//! The configuration that decides now: a published document, compiled, with the numbers that stand
//! for its names in rows.
//!
//! Names keep their numbers over generations, so that hot rows carry four bytes and a record stays
//! readable when its scope is gone; a [`Generation`] knows the numbers both ways. [`Generations`]
//! keeps the newest one of each tenant and asks the database at most once a second whether there is
//! a newer; that it may be a second late harms nothing, as every commit that relies on a generation
//! compares its number under the tenant's configuration lock.
//!
//! A stored document was checked when it was published, but perhaps by an older version. One that
//! does not compile any more is [`Error::Unusable`], logged once, and touches no other tenant.

mod cache;
mod candidate;
mod error;
mod load;
mod registration;

use std::collections::HashMap;
use std::time::Duration;

use weir_kernel::{BindingId, RouteId, ScopeId, TenantId};

use crate::tenant::{Binding, Capability, Compiled};

pub use cache::Generations;
pub use candidate::{UNPUBLISHED, candidate};
pub use error::Error;
pub use registration::{Registration, registrations};

/// Bit of the capability to take input while running, in the columns that hold capabilities.
pub const INJECT: i16 = 1;
/// Bit of the capability to be interrupted.
pub const INTERRUPT: i16 = 2;

/// One published configuration of a tenant, ready for use. Immutable.
#[derive(Debug)]
pub struct Generation {
    /// The tenant's number.
    pub tenant: TenantId,
    /// The tenant's name.
    pub tenant_name: String,
    /// Which publication it is: 1, 2, 3 and so on; [`UNPUBLISHED`] for a candidate.
    pub number: i64,
    /// The document, inheritance resolved and expressions compiled.
    pub compiled: Compiled,
    /// What it contains, by number.
    scopes: HashMap<ScopeId, ScopeEntry>,
    scope_ids: HashMap<String, ScopeId>,
    names: Names,
}

/// A scope of this generation.
#[derive(Debug, Default)]
struct ScopeEntry {
    bindings: HashMap<String, (BindingId, BindingSettings)>,
    routes: HashMap<String, RouteId>,
}

/// Every name that the tenant ever had, also of scopes that are gone.
#[derive(Debug, Default)]
struct Names {
    scopes: HashMap<ScopeId, String>,
    bindings: HashMap<BindingId, (ScopeId, String)>,
    routes: HashMap<RouteId, (ScopeId, String)>,
}

/// What routing asks of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingSettings {
    /// The executor; `None` for a binding that only queues (rule r11).
    pub executor: Option<String>,
    /// What the binding claims: [`INJECT`] and [`INTERRUPT`]. It counts when the executor's
    /// registration proves it (rule r26).
    pub capabilities: i16,
    /// How long a claim holds without renewal.
    pub lease: Duration,
    /// Consecutive attempts before the Work is held.
    pub max_attempts: i16,
    /// Higher is claimed first.
    pub priority: i16,
}

impl BindingSettings {
    /// Reads the settings of a binding as the document has it.
    #[must_use]
    pub fn of(binding: &Binding) -> Self {
        Self {
            executor: binding.executor.clone(),
            capabilities: binding.capabilities.iter().map(|c| bit(*c)).sum(),
            lease: binding.lease,
            // The check of a document bounds both to a few thousand.
            max_attempts: i16::try_from(binding.max_attempts).unwrap_or(i16::MAX),
            priority: i16::try_from(binding.priority).unwrap_or(0),
        }
    }
}

/// Returns the bit of a capability, as columns hold it.
#[must_use]
pub const fn bit(capability: Capability) -> i16 {
    match capability {
        Capability::Inject => INJECT,
        Capability::Interrupt => INTERRUPT,
    }
}

impl Generation {
    /// Returns the number of a scope of this generation.
    #[must_use]
    pub fn scope_id(&self, name: &str) -> Option<ScopeId> {
        self.scope_ids.get(name).copied()
    }

    /// Returns the name of a scope, also of one that this generation does not have any more.
    #[must_use]
    pub fn scope_name(&self, scope: ScopeId) -> Option<&str> {
        self.names.scopes.get(&scope).map(String::as_str)
    }

    /// Returns the number of a scope's effective binding (rule r02).
    #[must_use]
    pub fn binding_id(&self, scope: ScopeId, name: &str) -> Option<BindingId> {
        Some(self.scopes.get(&scope)?.bindings.get(name)?.0)
    }

    /// Returns the scope and name of a binding, also of one that is gone.
    #[must_use]
    pub fn binding_name(&self, binding: BindingId) -> Option<(ScopeId, &str)> {
        self.names
            .bindings
            .get(&binding)
            .map(|(scope, name)| (*scope, name.as_str()))
    }

    /// Returns the number of a scope's effective route.
    #[must_use]
    pub fn route_id(&self, scope: ScopeId, slot: &str) -> Option<RouteId> {
        self.scopes.get(&scope)?.routes.get(slot).copied()
    }

    /// Returns the scope and slot of a route, also of one that is gone.
    #[must_use]
    pub fn route_slot(&self, route: RouteId) -> Option<(ScopeId, &str)> {
        self.names
            .routes
            .get(&route)
            .map(|(scope, slot)| (*scope, slot.as_str()))
    }

    /// Returns the settings of a scope's effective binding.
    #[must_use]
    pub fn settings(&self, scope: ScopeId, binding: &str) -> Option<&BindingSettings> {
        Some(&self.scopes.get(&scope)?.bindings.get(binding)?.1)
    }
}
