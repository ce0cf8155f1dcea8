//! From a routed event to its consumption by the running attempt (rules r09, l05).

use tonic::Status;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::types::v1::{Disposition, Input, InputState, WorkState};

use super::arrange::{ALL, SCRIPTED, publish, renew, running};
use crate::outside::refusal;
use crate::support::Weir;

async fn acknowledge(
    weir: &Weir,
    claimed: &lifecycle::ClaimedWork,
    events: &[&String],
) -> Result<Vec<String>, Status> {
    let request = lifecycle::AcknowledgeRequest {
        lease: claimed.lease.clone(),
        events: events.iter().map(|e| (*e).clone()).collect(),
    };
    let answer = weir.user.executor().acknowledge(request).await?;
    Ok(answer.into_inner().events)
}

async fn inputs(weir: &Weir, work: &str) -> Vec<Input> {
    let request = lifecycle::ListInputsRequest {
        work: work.to_owned(),
        ..Default::default()
    };
    let answer = weir.user.work().list_inputs(request).await.expect("known");
    answer.into_inner().inputs
}

/// State and attempt of each input.
async fn standing(weir: &Weir, work: &str) -> Vec<(InputState, i32)> {
    let all = inputs(weir, work).await;
    all.iter().map(|i| (i.state(), i.attempt)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn l05_a_routed_inject_is_taken_by_its_acknowledgement_and_by_nothing_else() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (work, claimed) = running(&weir, "start", "k").await;
    let mut uids = Vec::new();
    for id in ["taken", "also taken", "missed"] {
        let record = weir.routed(id, "inject", &["k"]).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (Disposition::Inject, &work)
        );
        uids.push(record.event);
    }
    let presented = (InputState::Presented, 1);
    let queued = (InputState::Queued, 0);
    let consumed = (InputState::Consumed, 1);
    assert_eq!(
        standing(&weir, &work).await,
        [presented, queued, queued, queued]
    );
    let all = inputs(&weir, &work).await;
    let intents: Vec<&str> = all.iter().map(|i| i.intent.as_str()).collect();
    assert_eq!(intents, ["", "inject", "inject", "inject"]);

    // It is offered until it is acknowledged; being offered consumes nothing.
    assert_eq!(renew(&weir, &claimed).await, (uids.clone(), Vec::new()));
    assert_eq!(renew(&weir, &claimed).await, (uids.clone(), Vec::new()));
    assert_eq!(standing(&weir, &work).await[1..], [queued; 3]);
    let taken = acknowledge(&weir, &claimed, &[&uids[0], &uids[1]]).await;
    assert_eq!(taken.expect("it has the lease"), uids[..2]);
    assert_eq!(renew(&weir, &claimed).await.0, uids[2..]);
    let now = [presented, consumed, consumed, queued];
    assert_eq!(standing(&weir, &work).await, now);
    // Again, and routed again: nothing comes back.
    acknowledge(&weir, &claimed, &[&uids[0]])
        .await
        .expect("a repeat answers the same");
    weir.route(&uids[0]).await;
    assert_eq!(standing(&weir, &work).await, now);
    let stranger = publish(&weir, "stranger", "x", "{}", &["z"]).await;
    weir.record(&stranger).await;
    assert_eq!(
        refusal(acknowledge(&weir, &claimed, &[&stranger]).await).1,
        "INTENT_NOT_FOUND"
    );

    // Completing consumes what the claim presented, and leaves what nobody acknowledged.
    let state = weir.complete(&claimed).await.expect("it has the lease");
    assert_eq!(state, WorkState::Ready);
    assert_eq!(
        standing(&weir, &work).await,
        [consumed, consumed, consumed, queued]
    );
    assert_eq!(
        refusal(acknowledge(&weir, &claimed, &[&uids[2]]).await).1,
        "LEASE_LOST"
    );
    let next = weir.claim().await.expect("input is left");
    let given: Vec<&str> = next.inputs.iter().map(|e| e.uid.as_str()).collect();
    assert_eq!(given, [&uids[2]]);
    let state = weir.complete(&next).await.expect("it has the lease");
    assert_eq!(state, WorkState::Completed);
    assert_eq!(standing(&weir, &work).await[3], (InputState::Consumed, 2));
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r09_an_attempt_that_is_lost_leaves_what_it_did_not_acknowledge_to_the_next() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (work, first) = running(&weir, "start", "k").await;
    let taken = weir.routed("taken", "inject", &["k"]).await.event;
    let missed = weir.routed("missed", "interrupt", &["k"]).await.event;
    assert_eq!(
        renew(&weir, &first).await,
        (vec![taken.clone()], vec![missed.clone()])
    );
    acknowledge(&weir, &first, &[&taken])
        .await
        .expect("it has the lease");
    weir.db.advance(std::time::Duration::from_secs(31)).await;
    assert_eq!(
        refusal(acknowledge(&weir, &first, &[&missed]).await).1,
        "LEASE_LOST",
        "an expired lease has no authority"
    );
    let second = weir.claim().await.expect("it is taken over");
    let given: Vec<String> = second.inputs.iter().map(|e| e.uid.clone()).collect();
    let start = inputs(&weir, &work).await[0].event.clone();
    assert_eq!(given, [start, missed], "what was taken never returns");
    assert_eq!(renew(&weir, &second).await, (Vec::new(), Vec::new()));
    let state = weir.complete(&second).await.expect("it has the lease");
    assert_eq!(state, WorkState::Completed);
    let consumed: Vec<i32> = standing(&weir, &work).await.iter().map(|s| s.1).collect();
    assert_eq!(consumed, [2, 1, 2]);
    weir.stop().await;
}
