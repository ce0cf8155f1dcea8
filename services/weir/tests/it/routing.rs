//! Routing rules, through the gateway.

mod analysis;
pub(crate) mod arrange;
mod candidate;
mod checks;
mod cited;
mod conflict;
mod counting;
mod crashes;
mod crowd;
mod data;
mod earlier;
mod failures;
mod fresh;
pub(crate) mod hostile;
mod inheritance;
mod moved;
mod operators;
mod order;
mod policies;
mod races;
mod records;
mod remote;
mod remote_python;
mod remote_server;
mod replicas;
mod samples;
pub(crate) mod script;
mod taking;
mod tracing;
mod tracing_effects;
mod tracing_role;
mod watching;

use weir_proto::types::v1::{Disposition, EffectKind, VerdictOutcome, WorkState};

use crate::support::Weir;

#[tokio::test(flavor = "multi_thread")]
async fn r03_the_first_match_wins_and_starts_work() {
    let weir = Weir::start().await;
    let record = weir.routed("1", "start", &["k/1"]).await;
    assert_eq!(record.disposition(), Disposition::Start);
    assert_eq!(
        (record.route.as_str(), record.binding.as_str()),
        ("start", "b")
    );
    let work = weir.work(&record.work).await;
    assert_eq!(work.state(), WorkState::Ready);
    assert_eq!(work.keys, ["k/1"]);
    let second = weir.routed("2", "start", &["k/1"]).await;
    assert_eq!(second.disposition(), Disposition::Queue);
    assert_eq!(second.work, record.work);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r40_a_trace_decides_as_routing_would_and_writes_nothing() {
    let weir = Weir::start().await;
    let before = (
        weir.count("event").await,
        weir.count("work").await,
        weir.count("pending").await,
    );
    let trace = weir.trace("start", "{}", &["k/1"]).await;
    let effect = trace.effect.expect("always there");
    assert_eq!(effect.kind(), EffectKind::Start);
    let outcome = |slot: &str| {
        trace
            .verdicts
            .iter()
            .find(|v| v.route == slot)
            .map(|v| v.outcome())
    };
    assert_eq!(outcome("drop"), Some(VerdictOutcome::Skip));
    assert_eq!(outcome("start"), Some(VerdictOutcome::Match));
    assert_eq!(outcome("attach"), Some(VerdictOutcome::NotReached));
    assert_eq!(
        before,
        (
            weir.count("event").await,
            weir.count("work").await,
            weir.count("pending").await
        )
    );
    weir.stop().await;
}
