//! Which crate may use which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Every crate of the workspace and what it may use of the workspace, in the code that ships. Services
/// never use services: they talk through contracts, but for `weir`, which runs them all in one process.
const ALLOWED: &[(&str, &[&str])] = &[
    ("weir-kernel", &[]),
    ("weir-proto", &[]),
    ("weir-cel", &["weir-kernel"]),
    ("weir-pg", &["weir-kernel"]),
    ("weir-rpc", &["weir-kernel", "weir-proto"]),
    ("weir-ledger", &["weir-kernel", "weir-pg"]),
    ("weir-work", &["weir-kernel", "weir-ledger", "weir-pg"]),
    (
        "weir-runtime",
        &["weir-kernel", "weir-pg", "weir-proto", "weir-rpc"],
    ),
    ("weir-client", &["weir-kernel", "weir-proto", "weir-rpc"]),
    (
        "weir-testkit",
        &["weir-kernel", "weir-pg", "weir-proto", "weir-rpc"],
    ),
    ("weir-routing", SERVICE),
    ("weir-lifecycle", SERVICE),
    ("weir-causal", SERVICE),
    (
        "weir-migration",
        &[
            "weir-kernel",
            "weir-pg",
            "weir-proto",
            "weir-rpc",
            "weir-runtime",
        ],
    ),
    // It holds no SQL and no state.
    (
        "weir-gateway",
        &["weir-kernel", "weir-proto", "weir-rpc", "weir-runtime"],
    ),
    (
        "weir",
        &[
            "weir-causal",
            "weir-client",
            "weir-gateway",
            "weir-kernel",
            "weir-lifecycle",
            "weir-migration",
            "weir-pg",
            "weir-proto",
            "weir-routing",
            "weir-rpc",
            "weir-runtime",
        ],
    ),
];

/// What a service over the schema uses.
const SERVICE: &[&str] = &[
    "weir-cel",
    "weir-kernel",
    "weir-ledger",
    "weir-pg",
    "weir-proto",
    "weir-rpc",
    "weir-runtime",
    "weir-work",
];

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(root)
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo knows its workspace");
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ALLOWED
        .iter()
        .map(|(name, uses)| (*name, uses.iter().copied().collect()))
        .collect();
    let members: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    let listed: BTreeSet<&str> = allowed
        .keys()
        .copied()
        .filter(|name| members.contains(name))
        .collect();
    assert_eq!(members, listed, "every crate is in the table");
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            let ours = members.contains(dependency.name.as_str());
            let ships = matches!(
                dependency.kind,
                DependencyKind::Normal | DependencyKind::Build
            );
            if ours && ships && !allowed[package.name.as_str()].contains(dependency.name.as_str()) {
                wrong.push(format!("`{}` uses `{}`", package.name, dependency.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_table_has_no_service_that_uses_a_service_and_no_circle() {
    let services = [
        "weir-routing",
        "weir-lifecycle",
        "weir-causal",
        "weir-migration",
        "weir-gateway",
    ];
    let mut level: BTreeMap<&str, usize> = BTreeMap::new();
    // Everything stands above what it uses, or the loop would not end.
    while level.len() < ALLOWED.len() {
        let before = level.len();
        for (name, uses) in ALLOWED {
            if let Some(levels) = uses
                .iter()
                .map(|u| level.get(u).copied())
                .collect::<Option<Vec<_>>>()
            {
                level.insert(name, levels.into_iter().max().map_or(0, |l| l + 1));
            }
        }
        assert!(
            level.len() > before,
            "a circle among what is not in {level:?}"
        );
    }
    for (name, uses) in ALLOWED.iter().filter(|(name, _)| *name != "weir") {
        let used: Vec<_> = uses
            .iter()
            .filter(|u| services.contains(u) || **u == "weir")
            .collect();
        assert!(used.is_empty(), "`{name}` may use {used:?}");
    }
}
