//! Bindings that a route's policy does not fit, in the scope where the route is asked (rules r02,
//! r26): an inherited route uses the target's binding, and may be fine in one leaf only.

use super::super::model::{Fallback, Policy};
use super::findings::{Findings, Text};
use super::{Group, path};

/// Warns of what fails, or falls back always, for want of a binding, an executor or a claim.
pub(super) fn check(group: &Group<'_, '_>, findings: &mut Findings<'_>) {
    for placed in group.routes() {
        let route = placed.route;
        let (Some(name), true) = (&route.binding, route.policy != Policy::Drop) else {
            continue;
        };
        let slot = &route.slot;
        let Some(binding) = group.binding(placed) else {
            let before = format!("slot `{slot}`: there is no binding `{name}`");
            let text = Text::new(
                format!("{}.binding", path(placed)),
                "binding_invalid",
                before,
            )
            .after(": events matched there fail `binding_invalid`");
            findings.add_in(text, &group.scopes);
            continue;
        };
        let Some(needed) = route.policy.capability() else {
            continue;
        };
        let policy = route.policy.as_str();
        // In the order of rule r26, (3) and (4).
        let (want, code) = if binding.executor.is_none() {
            ("has no executor", "binding_invalid")
        } else if !binding.capabilities.contains(&needed) {
            ("does not claim it", "policy_invalid")
        } else {
            continue;
        };
        let before = format!("slot `{slot}` can never apply `{policy}`: binding `{name}` {want}",);
        let (reason, after) = match route.fallback {
            None => (
                code,
                format!(", and there is no fallback: events for a running attempt fail `{code}`"),
            ),
            Some(fallback) => {
                let fallback = match fallback {
                    Fallback::Queue => "queue",
                    Fallback::Drop => "drop",
                };
                let after =
                    format!("; events for a running attempt always fall back to `{fallback}`");
                ("fallback_always", after)
            }
        };
        let text = Text::new(format!("{}.policy", path(placed)), reason, before).after(after);
        findings.add_in(text, &group.scopes);
    }
}
