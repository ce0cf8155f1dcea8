//! Who wakes when several could, forced by held locks (rule l10).

use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::lifecycle::v1::wait_condition::Condition;
use weir_proto::types::v1::{Disposition, WorkState};

use super::arrange::{
    WAITING, checked, claimed, hold_work, lease, of, own, parked, publish_into, try_park, woken,
};
use crate::routing::arrange::numbers;
use crate::support::Weir;

async fn bridges(weir: &Weir) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM weir.event WHERE type = 'core.wait.woken'")
        .fetch_one(weir.db.pool())
        .await
        .expect("readable")
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_two_replicas_wake_a_work_once() {
    let weir = Weir::with(WAITING).await;
    let second = weir.another().await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[of("t", "")]).await;
    checked(&weir).await;
    let hold = hold_work(&weir, &work).await;
    let first = publish_into(&weir, "t", "2", "go", &[]).await;
    publish_into(&weir, "t", "3", "go", &[]).await;
    // One holds the scope's order and waits for the Work, the other waits for the scope.
    weir.db.wait_until_blocked(2).await;
    hold.release().await;
    let attempt = woken(&weir, &work).await;
    assert_eq!(attempt.inputs[1].uid, first);
    assert_eq!(bridges(&weir).await, 1);
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_an_own_event_and_one_of_another_scope_have_one_winner_the_one_accepted_first() {
    for own_first in [true, false] {
        let weir = Weir::with(WAITING).await;
        let second = weir.another().await;
        weir.register(&[]).await;
        let (work, _) = parked(&weir, "1", "k", &[own(), of("t", "")]).await;
        checked(&weir).await;
        let hold = hold_work(&weir, &work).await;
        let mut winners = Vec::new();
        for is_own in [own_first, !own_first] {
            winners.push(if is_own {
                weir.publish("2", "context", &["k"]).await
            } else {
                publish_into(&weir, "t", "3", "go", &[]).await
            });
        }
        weir.db.wait_until_blocked(2).await;
        hold.release().await;
        let attempt = woken(&weir, &work).await;
        assert_eq!(attempt.inputs[1].uid, winners[0], "own first: {own_first}");
        assert_eq!(bridges(&weir).await, 1);
        let own = weir.record(&winners[usize::from(!own_first)]).await;
        let expected = if own_first {
            Disposition::Wake
        } else {
            Disposition::Queue
        };
        assert_eq!(own.disposition(), expected);
        let other = weir.record(&winners[usize::from(own_first)]).await;
        assert_eq!(other.also.len(), usize::from(!own_first));
        second.stop().await;
        weir.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l08_a_cancel_beside_a_wake_leaves_nothing_behind() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[of("t", "")]).await;
    checked(&weir).await;
    let hold = hold_work(&weir, &work).await;
    publish_into(&weir, "t", "2", "go", &[]).await;
    weir.db.wait_until_blocked(1).await;
    let request = lifecycle::CancelWorkRequest {
        work: work.clone(),
        reason: "test".to_owned(),
        ..Default::default()
    };
    let (cancelled, ()) = tokio::join!(
        async { weir.user.work().cancel_work(request).await },
        async {
            weir.db.wait_until_blocked(2).await;
            hold.release().await;
        }
    );
    cancelled.expect("cancelled");
    assert_eq!(weir.work(&work).await.state(), WorkState::Cancelled);
    for table in ["ready", "wait_sub"] {
        assert_eq!(weir.count(table).await, 0, "{table}");
    }
    let open: i64 = sqlx::query_scalar("SELECT count(*) FROM weir.wait WHERE state = 1")
        .fetch_one(weir.db.pool())
        .await
        .expect("readable");
    assert_eq!(open, 0);
    assert!(bridges(&weir).await <= 1);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_a_work_that_ends_beside_the_parking_on_it_wakes() {
    for park_first in [true, false] {
        let weir = Weir::with(WAITING).await;
        weir.register(&[]).await;
        let other = claimed(&weir, "o", "o").await;
        let waiting = claimed(&weir, "w", "w").await;
        let hold = hold_work(&weir, &lease(&other).work).await;
        let (client, ending) = (weir.user.clone(), other.lease.clone());
        let complete = async move {
            let request = lifecycle::CompleteRequest {
                lease: ending,
                result: String::new(),
            };
            client.executor().complete(request).await.map(|_| ())
        };
        let ended = Condition::EndedWork(lease(&other).work.clone());
        let parking = async { try_park(&weir, &waiting, &[ended], None).await.map(|_| ()) };
        let (parked, completed) = if park_first {
            let all = async {
                let complete = async {
                    weir.db.wait_until_blocked(1).await;
                    complete.await
                };
                tokio::join!(parking, complete, async {
                    weir.db.wait_until_blocked(2).await;
                    hold.release().await;
                })
            };
            let (p, c, ()) = all.await;
            (p, c)
        } else {
            let all = async {
                let parking = async {
                    weir.db.wait_until_blocked(1).await;
                    parking.await
                };
                tokio::join!(parking, complete, async {
                    weir.db.wait_until_blocked(2).await;
                    hold.release().await;
                })
            };
            let (p, c, ()) = all.await;
            (p, c)
        };
        parked.expect("leased");
        completed.expect("leased");
        woken(&weir, &lease(&waiting).work).await;
        weir.stop().await;
    }
}

/// Keeps the publisher of an event of source `test` from committing after it has read the clock: the identity is taken
/// by a transaction that will not commit.
async fn hold_identity(weir: &Weir, id: &str) -> weir_testkit::Hold {
    let (tenant, scope) = numbers(weir, "t").await;
    let mut hold = weir.db.hold().await;
    sqlx::query(
        "INSERT INTO weir.event (tenant_id, uid, source, id, type, content, scope_id, seq, accepted_at, actor) \
         VALUES ($1, gen_random_uuid(), 'test', $2, 'x', gen_random_uuid(), $3, 1000000, weir.clock(), 'x')",
    )
    .bind(tenant.0)
    .bind(id)
    .bind(scope.0)
    .execute(hold.connection())
    .await
    .expect("nobody has it");
    hold
}

/// Publishes that event and returns its uid.
async fn publish_early(weir: &Weir) -> String {
    publish_into(weir, "t", "early", "go", &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_an_event_that_commits_between_check_and_wake_wins_when_it_was_accepted_first() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[of("t", ""), of("root", "")]).await;
    checked(&weir).await;
    // Accepted first, and not committed yet.
    let identity = hold_identity(&weir, "early").await;
    let steps = async {
        weir.db.wait_until_blocked(1).await;
        // Accepted second, seen by the check, whose wake now stands at the Work.
        let hold = hold_work(&weir, &work).await;
        publish_into(&weir, "root", "later", "go", &[]).await;
        weir.db.wait_until_blocked(2).await;
        identity.release().await;
        hold
    };
    let (early, hold) = tokio::join!(publish_early(&weir), steps);
    hold.release().await;
    let attempt = woken(&weir, &work).await;
    assert_eq!(attempt.inputs[1].uid, early);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l10_an_own_event_that_is_being_routed_loses_to_one_that_was_accepted_first() {
    let weir = Weir::with(WAITING).await;
    weir.register(&[]).await;
    let (work, _) = parked(&weir, "1", "k", &[own(), of("t", "")]).await;
    checked(&weir).await;
    let identity = hold_identity(&weir, "early").await;
    let steps = async {
        weir.db.wait_until_blocked(1).await;
        // Its decision to wake stands at the Work.
        let hold = hold_work(&weir, &work).await;
        let own = weir.publish("2", "context", &["k"]).await;
        weir.db.wait_until_blocked(2).await;
        identity.release().await;
        (hold, own)
    };
    let (early, (hold, own)) = tokio::join!(publish_early(&weir), steps);
    hold.release().await;
    let record = weir.record(&own).await;
    assert_eq!(record.disposition(), Disposition::Queue);
    let attempt = woken(&weir, &work).await;
    assert_eq!(attempt.inputs[1].uid, early);
    weir.stop().await;
}
