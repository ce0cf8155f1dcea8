//! Making a history that shows a difference smaller.

use super::plan::{Action, Asks, Case, Cond, Config, Draft};

/// Smaller histories, the most promising first: each leaves one thing out.
pub(crate) fn smaller(case: &Case) -> Vec<Case> {
    let mut found = Vec::new();
    let with = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        smaller
    };
    let count = case.actions.len();
    for size in [count / 2, count / 4, 2, 1] {
        for at in (0..count).step_by(size.max(1)) {
            if size > 0 {
                found.push(with(&|c| {
                    c.actions.drain(at..(at + size).min(count));
                }));
            }
        }
    }
    for scopes in 1..case.scopes {
        found.push(with(&|c| c.scopes = scopes));
    }
    found.extend(
        configs(&case.config)
            .into_iter()
            .map(|config| with(&|c| c.config = config.clone())),
    );
    for (at, action) in case.actions.iter().enumerate() {
        let actions = smaller_actions(action).into_iter();
        found.extend(actions.map(|a| with(&|c| c.actions[at] = a.clone())));
    }
    found.retain(|smaller| smaller != case);
    found
}

fn configs(config: &Config) -> Vec<Config> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Config)| {
        let mut smaller = config.clone();
        change(&mut smaller);
        found.push(smaller);
    };
    for at in 0..config.scopes.len() {
        let scope = &config.scopes[at];
        if scope.source.is_some() {
            with(&|c| c.scopes[at].source = None);
        }
        for number in scope.bindings.keys() {
            with(&|c| {
                c.scopes[at].bindings.remove(number);
            });
        }
        for (n, route) in scope.routes.iter().enumerate() {
            with(&|c| {
                c.scopes[at].routes.remove(n);
            });
            if route.attach.is_some() {
                with(&|c| c.scopes[at].routes[n].attach = None);
            }
            if route.fallback.is_some() {
                with(&|c| c.scopes[at].routes[n].fallback = None);
            }
            if route.policy != super::plan::Policy::Queue {
                with(&|c| c.scopes[at].routes[n].policy = super::plan::Policy::Queue);
            }
            if let Asks::When(cond) = &route.asks {
                for simpler in conditions(cond) {
                    with(&|c| c.scopes[at].routes[n].asks = Asks::When(simpler.clone()));
                }
            }
        }
    }
    found
}

fn conditions(cond: &Cond) -> Vec<Cond> {
    match cond {
        Cond::Not(inner) => vec![(**inner).clone()],
        Cond::And(a, b) | Cond::Or(a, b) => vec![(**a).clone(), (**b).clone()],
        Cond::Always => Vec::new(),
        _ => vec![Cond::Always],
    }
}

fn smaller_actions(action: &Action) -> Vec<Action> {
    match action {
        Action::Publish { scope, event } => drafts(event)
            .into_iter()
            .map(|event| Action::Publish {
                scope: *scope,
                event,
            })
            .collect(),
        Action::Batch { scope, events } => batches(*scope, events),
        Action::Configure(config) => configs(config)
            .into_iter()
            .map(|c| Action::Configure(Box::new(c)))
            .collect(),
        Action::PassTime { times } if *times > 1 => vec![Action::PassTime { times: times - 1 }],
        _ => Vec::new(),
    }
}

fn batches(scope: u8, events: &[Draft]) -> Vec<Action> {
    let mut found = Vec::new();
    for at in 0..events.len() {
        let mut fewer = events.to_vec();
        let event = fewer.remove(at);
        if !fewer.is_empty() {
            found.push(Action::Batch {
                scope,
                events: fewer,
            });
        }
        for simpler in drafts(&event) {
            let mut events = events.to_vec();
            events[at] = simpler;
            found.push(Action::Batch { scope, events });
        }
    }
    if let [event] = events {
        found.push(Action::Publish {
            scope,
            event: event.clone(),
        });
    }
    found
}

fn drafts(draft: &Draft) -> Vec<Draft> {
    let mut found = Vec::new();
    for at in 0..draft.keys.len() {
        let mut fewer = draft.clone();
        fewer.keys.remove(at);
        found.push(fewer);
    }
    let without = [
        Draft {
            n: None,
            ..draft.clone()
        },
        Draft {
            k: None,
            ..draft.clone()
        },
        Draft {
            target: None,
            ..draft.clone()
        },
    ];
    found.extend(without.into_iter().filter(|d| d != draft));
    found
}
