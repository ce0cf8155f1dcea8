//! What a matched route does: the order of checks of rule r26, with the fallbacks of rule r09.

use std::collections::HashMap;

use weir_kernel::{BindingId, FailureCode, Policy};

use crate::route::view::{Running, WorkView};
use crate::tenant::{self, Binding, Capability, Fallback};

/// What registrations prove: executor to capability bits.
pub type Proofs = HashMap<String, i16>;

/// The effective policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It is carried out.
    Policy {
        /// The policy after fallbacks.
        policy: Policy,
        /// Why the fallback was taken, if it was.
        fallback: Option<String>,
    },
    /// The running attempt cannot take it and there is no fallback: it waits (rule r10).
    Deferred {
        /// The attempt waited for.
        attempt: i32,
        /// Why.
        reason: String,
    },
    /// It cannot be carried out.
    Failed {
        /// The code.
        code: FailureCode,
        /// Why.
        error: String,
    },
}

/// What the checks look at.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'a> {
    /// Policy of the route.
    pub policy: tenant::Policy,
    /// Fallback of the route.
    pub fallback: Option<Fallback>,
    /// Name of its binding.
    pub binding_name: Option<&'a str>,
    /// The target scope's effective binding of that name, with its id.
    pub binding: Option<(BindingId, &'a Binding)>,
}

/// Returns the bits of capabilities.
#[must_use]
pub fn bits<'a>(capabilities: impl IntoIterator<Item = &'a Capability>) -> i16 {
    capabilities.into_iter().fold(0, |bits, c| bits | bit(*c))
}

const fn bit(capability: Capability) -> i16 {
    match capability {
        Capability::Inject => 1,
        Capability::Interrupt => 2,
    }
}

/// Decides what a matched route does, in the order of rule r26.
#[must_use]
pub fn apply(route: &Matched<'_>, work: Option<&WorkView>, proofs: &Proofs) -> Applied {
    let policy = match route.policy {
        tenant::Policy::Drop => return carried(Policy::Drop),
        tenant::Policy::Queue => Policy::Queue,
        tenant::Policy::Inject => Policy::Inject,
        tenant::Policy::Interrupt => Policy::Interrupt,
    };
    // (1) the binding is in the target scope. (2), a word outside the vocabulary, cannot be published.
    let Some((id, binding)) = route.binding else {
        let name = route.binding_name.unwrap_or_default();
        return Applied::Failed {
            code: FailureCode::BindingInvalid,
            error: format!("binding `{name}` is not in the scope"),
        };
    };
    let running = work.and_then(|w| w.running.as_ref());
    let (Some(running), Some(needed)) = (running, route.policy.capability()) else {
        // Ready, waiting, held and new Work queues: no control is applied to it (rule r09).
        return carried(Policy::Queue);
    };
    let name = route.binding_name.unwrap_or_default();
    control(
        route.fallback,
        policy,
        needed,
        (id, name, binding),
        running,
        proofs,
    )
}

fn control(
    fallback: Option<Fallback>,
    policy: Policy,
    needed: Capability,
    (id, name, binding): (BindingId, &str, &Binding),
    running: &Running,
    proofs: &Proofs,
) -> Applied {
    let claimed = bits(&binding.capabilities);
    let proved = binding
        .executor
        .as_ref()
        .and_then(|e| proofs.get(e))
        .copied();
    // (3) an executor whose registration proves what the binding claims.
    let unproved = match (&binding.executor, proved) {
        (None, _) => Some(format!("binding `{name}` has no executor")),
        (Some(e), None) => Some(format!(
            "executor `{e}` of binding `{name}` is not registered"
        )),
        (Some(e), Some(proved)) if claimed & !proved != 0 => Some(format!(
            "executor `{e}` does not prove what binding `{name}` claims"
        )),
        (Some(_), Some(_)) => None,
    };
    if let Some(why) = unproved {
        return fall_back(fallback, FailureCode::BindingInvalid, why);
    }
    // (4) the binding claims the policy.
    if claimed & bit(needed) == 0 {
        return fall_back(
            fallback,
            FailureCode::PolicyInvalid,
            format!("binding `{name}` does not claim `{policy}`"),
        );
    }
    // (5) the running attempt can take it.
    let why = if running.binding != id {
        format!("attempt {} runs under another binding", running.attempt)
    } else if running.capabilities & bit(needed) == 0 {
        format!("attempt {} was claimed without `{policy}`", running.attempt)
    } else {
        return carried(policy);
    };
    match fallback {
        Some(fallback) => fallen(fallback, why),
        None => Applied::Deferred {
            attempt: running.attempt,
            reason: why,
        },
    }
}

const fn carried(policy: Policy) -> Applied {
    Applied::Policy {
        policy,
        fallback: None,
    }
}

fn fallen(fallback: Fallback, why: String) -> Applied {
    let policy = match fallback {
        Fallback::Queue => Policy::Queue,
        Fallback::Drop => Policy::Drop,
    };
    Applied::Policy {
        policy,
        fallback: Some(why),
    }
}

fn fall_back(fallback: Option<Fallback>, code: FailureCode, why: String) -> Applied {
    match fallback {
        Some(fallback) => fallen(fallback, why),
        None => Applied::Failed { code, error: why },
    }
}
