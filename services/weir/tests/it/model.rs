//! A small, slow, obviously correct model of the rules, and random histories of configurations and events that are
//! run through it and through the real service alike. After each action everything that the service shows is compared
//! with the model: dispositions, Works, keys, the order of inputs.
//!
//! Each history is a tenant of its own on one instance. `WEIR_MODEL_CASES` says how many there are and
//! `WEIR_MODEL_SEED` which one is the first; each has a seed of its own, so that one seed and one case repeat it.

mod check;
mod config;
mod decide;
mod expr;
mod foresee;
mod generate;
mod oracle;
mod plan;
mod regressions;
mod run;
mod service;
mod settle;
mod shrink;
mod works;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config as Settings, RngAlgorithm, TestRng, TestRunner};
use weir_routing::handler::{Failure, Handler, Input, Verdict};

use self::plan::Case;
use self::run::Tally;
use crate::support::Weir;

/// Histories of a run that nobody asked more of.
const CASES: u64 = 300;
/// Triples of (configuration, state, event) that so many histories trace and then decide, at least.
const TRIPLES: usize = 2_000;
/// Ways to stand, decided or not, that so many histories come across at least.
const STANDINGS: usize = 11;
/// Histories at once.
const AT_ONCE: usize = 4;
/// Histories that differ, after which no more are tried.
const ENOUGH: usize = 8;
/// How long the service may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(15);
/// The same while a difference is made smaller: what takes longer counts as one.
const IMPATIENCE: Duration = Duration::from_secs(2);
/// How long that may go on.
const SHRINKING: Duration = Duration::from_secs(240);

/// A handler that goes by the event's type.
pub(crate) struct Choosy;

impl Handler for Choosy {
    fn decide(&self, input: &Input) -> Result<Verdict, Failure> {
        match input.event.kind.as_str() {
            "taken" => Ok(Verdict::Match {
                reason: "wanted".to_owned(),
                attach: Vec::new(),
            }),
            "flaky" => Err(Failure::Failed("upstream is away".to_owned())),
            "bad" => Err(Failure::Invalid("malformed".to_owned())),
            "boom" => panic!("the choosy handler fell over"),
            _ => Ok(Verdict::Skip {
                reason: "not wanted".to_owned(),
            }),
        }
    }
}

/// Rules r40–r42 are compared on the way: each event that is published alone is traced before, and the trace says what
/// is done with it then.
#[tokio::test(flavor = "multi_thread")]
async fn r01_to_r31_the_service_agrees_with_the_model_on_generated_histories() {
    let (first, cases) = (
        setting("WEIR_MODEL_SEED", 1),
        setting("WEIR_MODEL_CASES", CASES),
    );
    let weir = slow().await;
    let began = Instant::now();
    let mut runs = futures::stream::iter(first..first + cases)
        .map(async |seed| {
            let case = generated(seed);
            let result = run::run(&weir, &format!("m{seed}"), &case, PATIENCE).await;
            (seed, case, result)
        })
        .buffer_unordered(AT_ONCE);
    let (mut tally, mut differ) = (Tally::default(), Vec::new());
    while let Some((seed, case, result)) = runs.next().await {
        match result {
            Ok(more) => tally.add(more),
            Err(difference) => {
                println!("seed {seed}: {difference}\n");
                differ.push((seed, case, difference));
            }
        }
        if differ.len() == ENOUGH {
            break;
        }
    }
    drop(runs);
    println!(
        "{cases} histories from seed {first} in {:.1?}: {tally:#?}",
        began.elapsed()
    );
    if let Some((seed, case, difference)) = differ.into_iter().next() {
        println!("making seed {seed} smaller");
        let (case, difference) = shrunk(&weir, case, difference).await;
        panic!("{}", report(seed, &case, &difference));
    }
    if cases >= CASES {
        assert!(tally.triples >= TRIPLES, "too few traces: {tally:?}");
        let seen = tally.standings.len();
        assert!(seen >= STANDINGS, "some never happened: {tally:?}");
    }
    weir.stop().await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no configuration but the environment"
)]
fn setting(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok().filter(|v| !v.is_empty());
    value.map_or(otherwise, |v| v.parse().expect("it is a number"))
}

/// Weir with a clock that goes a hundred times slower: nothing runs out or is due unless a history says so.
async fn slow() -> Weir {
    let weir = Weir::bare().await;
    let base = weir.db.now().await.to_rfc3339();
    let clock = format!(
        "CREATE OR REPLACE FUNCTION weir.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE \
         AS $$SELECT timestamptz '{base}' + (clock_timestamp() - timestamptz '{base}') / 100$$"
    );
    sqlx::query(sqlx::AssertSqlSafe(clock))
        .execute(weir.db.pool())
        .await
        .expect("the test owns its database");
    weir
}

/// The history of a seed.
fn generated(seed: u64) -> Case {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Settings::default(), rng);
    generate::case()
        .new_tree(&mut runner)
        .expect("nothing is filtered")
        .current()
}

/// Makes a history smaller for as long as it shows a difference.
async fn shrunk(weir: &Weir, mut case: Case, mut difference: String) -> (Case, String) {
    let (began, tries) = (Instant::now(), AtomicUsize::new(0));
    'smaller: loop {
        let mut runs = futures::stream::iter(shrink::smaller(&case))
            .map(async |smaller| {
                let tenant = format!("shrink{}", tries.fetch_add(1, Ordering::Relaxed));
                let result = run::run(weir, &tenant, &smaller, IMPATIENCE).await;
                (smaller, result)
            })
            .buffered(AT_ONCE);
        while let Some((smaller, result)) = runs.next().await {
            if began.elapsed() > SHRINKING {
                break;
            }
            if let Err(other) = result {
                drop(runs);
                (case, difference) = (smaller, other);
                continue 'smaller;
            }
        }
        drop(runs);
        return (case, difference);
    }
}

fn report(seed: u64, case: &Case, difference: &str) -> String {
    let tree = config::Tree {
        scopes: case.scopes,
        deep: case.deep,
    };
    let json = serde_json::to_string(case).expect("plain data");
    format!(
        "service and model differ: {difference}\n\nseed {seed}; repeat it with \
         WEIR_MODEL_SEED={seed} WEIR_MODEL_CASES=1\n\n{}\n{:#?}\n\nfor `model/regressions.rs`:\n{json}\n",
        case.config.document(tree),
        case.actions,
    )
}

/// Runs a history that once showed a difference.
async fn replay(json: &str) {
    let case: Case = serde_json::from_str(json).expect("a history");
    let weir = slow().await;
    let result = run::run(&weir, "replayed", &case, PATIENCE).await;
    if let Err(difference) = result {
        panic!("{}", report(0, &case, &difference));
    }
    weir.stop().await;
}
