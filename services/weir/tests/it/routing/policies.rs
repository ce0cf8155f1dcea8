//! What a matched route does with a running attempt (rules r09, r10).

use weir_proto::types::v1::{Disposition, PendingState, Policy, WorkState};

use super::arrange::{ALL, SCRIPTED, decided, publish, renew, stands};
use super::script::Say;
use crate::support::Weir;

#[tokio::test(flavor = "multi_thread")]
async fn r09_a_running_attempt_is_asked_and_the_input_is_kept() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    // Nobody runs: all that can be queued is queued, and no intent is left behind.
    let ready = weir.routed("ready", "inject", &["k"]).await;
    assert_eq!(
        (ready.disposition(), ready.policy()),
        (Disposition::Start, Policy::Queue)
    );
    let also = weir.routed("ready 2", "interrupt", &["k"]).await;
    assert_eq!(
        (also.disposition(), also.policy()),
        (Disposition::Queue, Policy::Queue)
    );
    assert_eq!(
        weir.routed("ready 3", "drop", &["k"]).await.disposition(),
        Disposition::Drop
    );
    assert_eq!(weir.count("intent").await, 0);

    let claimed = weir.claim().await.expect("ready");
    let work = &ready.work;
    let mut uids = Vec::new();
    for (id, disposition) in [
        ("inject", Disposition::Inject),
        ("interrupt", Disposition::Interrupt),
        ("start", Disposition::Queue),
        ("drop", Disposition::Drop),
    ] {
        let record = weir.routed(id, id, &["k"]).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (disposition, work),
            "{id}"
        );
        uids.push(record.event);
    }
    assert_eq!(weir.count("intent").await, 2);
    assert_eq!(
        weir.inputs(work).await[2..],
        uids[..3],
        "kept until consumed; the dropped one is no input"
    );
    let offered = renew(&weir, &claimed).await;
    assert_eq!(offered, (vec![uids[0].clone()], vec![uids[1].clone()]));
    // Deciding twice is deciding once.
    weir.route(&uids[0]).await;
    assert_eq!(weir.count("intent").await, 2);

    // The attempt did not take them: the next one gets them, as plain input.
    assert_eq!(
        weir.complete(&claimed).await.expect("it has the lease"),
        WorkState::Ready
    );
    let again = weir.claim().await.expect("input is left");
    assert_eq!(
        again
            .inputs
            .iter()
            .map(|e| e.uid.clone())
            .collect::<Vec<_>>(),
        uids[..3]
    );
    assert_eq!(
        renew(&weir, &again).await,
        (Vec::new(), Vec::new()),
        "a new epoch voids intents"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_what_the_running_attempt_cannot_take_waits_for_its_end_with_all_behind_it() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "other", &["k"]).await.work;
    let claimed = weir.claim_of("other").await.expect("ready");
    script.say("deferred", [Say::Match]);
    let deferred = publish(&weir, "deferred", "x", "{}", &["k"]).await;
    stands(&weir, &deferred, PendingState::Deferred).await;
    let pending = weir.pending(&deferred).await;
    assert_eq!((pending.works, pending.failures), (vec![work.clone()], 0));
    assert_eq!(pending.reason, "attempt 1 runs under another binding");
    let behind = publish(&weir, "behind", "start", "{}", &["k"]).await;
    stands(&weir, &behind, PendingState::Deferred).await;
    let pending = weir.pending(&behind).await;
    assert_eq!(
        (pending.works, pending.reason),
        (vec![work.clone()], format!("behind {deferred}"))
    );
    // Others do not care, and nobody asks about it again.
    weir.routed("unrelated", "start", &["u"]).await;
    assert_eq!(script.calls("deferred").len(), 1);

    assert_eq!(
        weir.complete(&claimed)
            .await
            .expect("deferred input does not refuse it"),
        WorkState::Ready
    );
    let (first, second) = (
        decided(&weir, &deferred).await,
        decided(&weir, &behind).await,
    );
    assert_eq!(
        (first.disposition(), first.binding.as_str()),
        (Disposition::Queue, "b")
    );
    assert_eq!(
        (second.disposition(), &second.work),
        (Disposition::Queue, &work)
    );
    assert_eq!(weir.inputs(&work).await[1..], [deferred, behind]);
    assert_eq!(script.calls("deferred").len(), 2);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_new_generation_frees_what_is_deferred() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let work = weir.routed("w", "other", &["k"]).await.work;
    weir.claim_of("other").await.expect("ready");
    let deferred = publish(&weir, "deferred", "inject", "{}", &["k"]).await;
    stands(&weir, &deferred, PendingState::Deferred).await;
    let behind = publish(&weir, "behind", "start", "{}", &["k"]).await;
    stands(&weir, &behind, PendingState::Deferred).await;
    weir.apply(
        &SCRIPTED.replace("policy: inject }", "policy: inject, fallback: queue }"),
        1,
    )
    .await;
    let record = decided(&weir, &deferred).await;
    assert_eq!(
        (record.disposition(), record.policy(), record.generation),
        (Disposition::Queue, Policy::Queue, 2)
    );
    assert_eq!(
        record.reason,
        "fallback: attempt 1 runs under another binding"
    );
    assert_eq!(decided(&weir, &behind).await.work, work);
    assert_eq!(weir.work(&work).await.state(), WorkState::Running);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_lost_lease_frees_what_is_deferred_and_a_later_attempt_defers_it_anew() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let work = weir.routed("w", "other", &["k"]).await.work;
    weir.claim_of("other").await.expect("ready");
    let freed = publish(&weir, "freed", "inject", "{}", &["k"]).await;
    stands(&weir, &freed, PendingState::Deferred).await;
    weir.db.advance(std::time::Duration::from_secs(31)).await;
    assert_eq!(
        weir.record(&freed).await.disposition(),
        Disposition::Queue,
        "nobody runs any more"
    );

    weir.claim_of("other").await.expect("it is taken over");
    let again = publish(&weir, "again", "inject", "{}", &["k"]).await;
    stands(&weir, &again, PendingState::Deferred).await;
    assert_eq!(
        weir.pending(&again).await.reason,
        "attempt 2 runs under another binding"
    );
    assert_eq!(weir.inputs(&work).await.len(), 2);
    weir.stop().await;
}
