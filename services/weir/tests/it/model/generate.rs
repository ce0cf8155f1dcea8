//! Random histories.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use super::plan::{
    Action, Asks, Attach, Binding, Caps, Case, Cond, Config, Datum, Draft, Executor, Fallback,
    Kind, Policy, Route, Scope, Seen, Source,
};

/// Slot of a route that takes whatever is left.
const REST: u8 = 9;

/// A history.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let registered = prop_oneof![1 => Just(None), 9 => caps().prop_map(Some)];
    (
        1..=3_usize,
        any::<bool>(),
        config(),
        registered,
        vec(action(), 10..=30),
    )
        .prop_map(|(scopes, deep, config, registered, actions)| Case {
            scopes,
            deep,
            config,
            registered,
            actions,
        })
}

fn config() -> impl Strategy<Value = Config> {
    let root = (scope(4), weighted(0.7, route(Just(REST)))).prop_map(|(mut scope, rest)| {
        // Two that take everything, so that attempts of one meet input for the other.
        for name in [0, 1] {
            scope.bindings.entry(name).or_insert(Binding {
                executor: Some(Executor::E),
                claims: Caps {
                    inject: true,
                    interrupt: true,
                },
                max_attempts: 2,
            });
        }
        scope.routes.extend(rest.map(|route| Route {
            disabled: false,
            asks: Asks::When(Cond::Always),
            binding: 0,
            ..route
        }));
        scope
    });
    (root, scope(3), scope(3)).prop_map(|(root, s, t)| Config {
        scopes: [root, s, t],
    })
}

fn scope(routes: usize) -> impl Strategy<Value = Scope> {
    let bindings = vec((0..3_u8, binding()), 0..=2);
    (
        bindings,
        vec(route(0..5_u8), 0..=routes),
        weighted(0.25, source()),
    )
        .prop_map(|(bindings, routes, source)| Scope {
            bindings: bindings.into_iter().collect::<BTreeMap<_, _>>(),
            routes,
            source,
        })
}

fn binding() -> impl Strategy<Value = Binding> {
    let executor = prop_oneof![
        6 => Just(Some(Executor::E)),
        1 => Just(Some(Executor::F)),
        1 => Just(None),
    ];
    (executor, caps(), 1..=3_u8).prop_map(|(executor, claims, max_attempts)| Binding {
        executor,
        claims,
        max_attempts,
    })
}

fn caps() -> impl Strategy<Value = Caps> {
    (weighted(0.85, Just(())), weighted(0.85, Just(()))).prop_map(|(inject, interrupt)| Caps {
        inject: inject.is_some(),
        interrupt: interrupt.is_some(),
    })
}

fn source() -> impl Strategy<Value = Source> {
    (of(kind()), attach()).prop_map(|(kind, key)| Source { kind, key })
}

fn route(slot: impl Strategy<Value = u8>) -> impl Strategy<Value = Route> {
    let asks = prop_oneof![
        30 => cond().prop_map(Asks::When),
        5 => Just(Asks::Choosy),
        1 => Just(Asks::Absent),
    ];
    let policy = prop_oneof![
        3 => Just(Policy::Queue),
        4 => Just(Policy::Inject),
        3 => Just(Policy::Interrupt),
        1 => Just(Policy::Drop),
    ];
    let fallback = weighted(
        0.4,
        prop_oneof![3 => Just(Fallback::Queue), 1 => Just(Fallback::Drop)],
    );
    let binding = prop_oneof![4 => Just(0_u8), 3 => Just(1_u8), 1 => Just(2_u8)];
    (
        slot,
        weighted(0.1, Just(())),
        asks,
        binding,
        policy,
        fallback,
        weighted(0.3, attach()),
    )
        .prop_map(
            |(slot, disabled, asks, binding, policy, fallback, attach)| Route {
                slot,
                disabled: disabled.is_some(),
                asks,
                binding,
                policy,
                fallback,
                attach,
            },
        )
}

fn attach() -> impl Strategy<Value = Attach> {
    prop_oneof![3 => Just(Attach::OfData), 1 => number().prop_map(Attach::Fixed)]
}

fn cond() -> impl Strategy<Value = Cond> {
    let seen = prop_oneof![Just(Seen::Ready), Just(Seen::Running), Just(Seen::Held)];
    let leaf = prop_oneof![
        1 => Just(Cond::Always),
        1 => Just(Cond::Never),
        12 => kind().prop_map(Cond::IsType),
        4 => Just(Cond::Big),
        1 => Just(Cond::Number),
        1 => Just(Cond::Sum),
        1 => Just(Cond::Missing),
        4 => Just(Cond::HasWork),
        4 => seen.prop_map(Cond::InState),
    ];
    leaf.prop_recursive(2, 5, 2, |inner| {
        let both = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|a| Cond::Not(Box::new(a))),
            both.clone()
                .prop_map(|(a, b)| Cond::And(Box::new(a), Box::new(b))),
            both.prop_map(|(a, b)| Cond::Or(Box::new(a), Box::new(b))),
        ]
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        8 => Just(Kind::A),
        6 => Just(Kind::B),
        4 => Just(Kind::Taken),
        3 => Just(Kind::Flaky),
        2 => Just(Kind::Bad),
        1 => Just(Kind::Boom),
    ]
}

/// The number of a key: so few, and some so common, that they collide.
fn number() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0_u8), 2 => Just(1_u8), 3 => 2..5_u8]
}

fn draft() -> impl Strategy<Value = Draft> {
    let k = weighted(
        0.5,
        prop_oneof![8 => number().prop_map(Datum::Text), 1 => (0..3_i64).prop_map(Datum::Number)],
    );
    let keys = prop_oneof![1 => vec(number(), 0..=3), 5 => vec(number(), 1)];
    (kind(), of(0..3_i64), k, keys, weighted(0.1, 0..9_u8)).prop_map(
        |(kind, n, k, keys, target)| Draft {
            kind,
            n,
            k,
            keys,
            target,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let scope = prop_oneof![3 => Just(0_u8), 2 => 0..3_u8];
    let pick = any::<u8>();
    prop_oneof![
        30 => (scope.clone(), draft()).prop_map(|(scope, event)| Action::Publish { scope, event }),
        6 => (scope.clone(), vec(draft(), 2..=4))
            .prop_map(|(scope, events)| Action::Batch { scope, events }),
        14 => (scope, prop_oneof![3 => Just(0_u8), 1 => 1..3_u8])
            .prop_map(|(scope, binding)| Action::Claim { scope, binding }),
        5 => pick.prop_map(|pick| Action::Complete { pick }),
        3 => (pick, weighted(0.3, Just(())))
            .prop_map(|(pick, permanent)| Action::Fail { pick, permanent: permanent.is_some() }),
        1 => pick.prop_map(|pick| Action::Release { pick }),
        2 => pick.prop_map(|pick| Action::Acknowledge { pick }),
        1 => pick.prop_map(|pick| Action::Cancel { pick }),
        1 => pick.prop_map(|pick| Action::LetGo { pick }),
        2 => pick.prop_map(|pick| Action::Skip { pick }),
        2 => pick.prop_map(|pick| Action::Reroute { pick }),
        1 => pick.prop_map(|pick| Action::RouteAgain { pick }),
        1 => config().prop_map(|config| Action::Configure(Box::new(config))),
        1 => (prop_oneof![2 => Just(Executor::E), 1 => Just(Executor::F)], caps())
            .prop_map(|(executor, caps)| Action::Register { executor, caps }),
        2 => prop_oneof![3 => Just(1_u8), 1 => Just(5_u8)]
            .prop_map(|times| Action::PassTime { times }),
    ]
}
