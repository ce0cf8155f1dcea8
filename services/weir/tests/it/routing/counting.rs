//! Failures that are counted while others count or forget them.

use std::time::Duration;

use weir_proto::types::v1::PendingState;

use super::arrange::{hanging_in, patient, publish, read, stands};
use super::script::Say;
use crate::support::Weir;

/// A decision made before another replica counted a failure says nothing about the count (rules r01, r21).
#[tokio::test(flavor = "multi_thread")]
async fn r21_a_late_failure_of_another_replica_takes_no_count_back() {
    let weir = Weir::with(&patient()).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    script.say("e", [Say::Fail]);
    script.close("e");
    let uid = publish(&weir, "e", "x", "{}", &["k"]).await;
    hanging_in(&weir, 2, "e").await;
    script.pass("e", 0);
    stands(&weir, &uid, PendingState::Backoff).await;
    for (nth, wait) in [(2, 3), (3, 6)] {
        weir.db.advance(Duration::from_secs(wait)).await;
        hanging_in(&weir, 2, "e").await;
        script.pass("e", nth);
        weir.db
            .wait_until("it is counted", async |_| {
                let pending = read(&weir, &uid).await.pending.expect("it backs off");
                usize::try_from(pending.failures).expect("small") == nth
            })
            .await;
    }
    let before = read(&weir, &uid).await.pending.expect("it backs off");
    assert_eq!(before.failures, 3);
    script.open("e");
    super::races::both_went_on(&weir, "settled").await;
    let after = read(&weir, &uid).await.pending.expect("it backs off");
    assert_eq!(
        (after.failures, after.next_try),
        (before.failures, before.next_try)
    );
    second.stop().await;
    weir.stop().await;
}

/// The same where an operator forgot the failures meanwhile (rule r31).
#[tokio::test(flavor = "multi_thread")]
async fn r31_a_late_failure_brings_forgotten_ones_not_back() {
    let weir = Weir::with(&patient()).await;
    let script = &weir.handlers.script;
    script.say("e", [Say::Fail]);
    let uid = publish(&weir, "e", "x", "{}", &["k"]).await;
    for wait in [3, 6, 12] {
        stands(&weir, &uid, PendingState::Backoff).await;
        weir.db.advance(Duration::from_secs(wait)).await;
        weir.pending(&uid).await;
    }
    assert_eq!(weir.pending(&uid).await.failures, 4);
    script.close("e");
    weir.db.advance(Duration::from_secs(30)).await;
    super::arrange::hanging(&weir, "e").await;
    weir.reroute(&uid).await.expect("unrouted");
    script.open("e");
    stands(&weir, &uid, PendingState::Backoff).await;
    assert_eq!(
        read(&weir, &uid)
            .await
            .pending
            .expect("it backs off")
            .failures,
        1
    );
    weir.stop().await;
}
