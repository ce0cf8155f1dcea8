//! Many events of one Work, and many Works beside a handler that hangs (rules a03, r04, r06).

use futures::future::join_all;
use weir_client::Client;
use weir_proto::lifecycle::v1 as lifecycle;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Acceptance, Disposition, WorkState};

use super::arrange::{ALL, decided, hanging, patient, read};
use super::script::Say;
use crate::outside::refusal;
use crate::support::{Weir, event};

const EVENTS: usize = 1_000;
const CALLERS: usize = 8;
const WORKS: usize = 100;

async fn publish(user: &Client, id: &str, kind: &str, keys: Vec<String>) -> Acceptance {
    let request = routing::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event(id, kind, "{}")),
        keys,
        targets: None,
    };
    let answer = user.events().publish(request).await.expect("accepted");
    answer.into_inner().acceptance.expect("always there")
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_a_thousand_events_of_one_work_keep_their_order_through_three_replicas() {
    let weir = Weir::start().await;
    let (second, third) = (weir.another().await, weir.another().await);
    let users = [&weir.user, &second.user, &third.user];
    // Each event has the key that all have and one of a few others, which the Work comes to own on the way.
    let caller = async |caller: usize| {
        let mut accepted = Vec::with_capacity(EVENTS / CALLERS);
        for i in 0..EVENTS / CALLERS {
            let user = users[(caller + i) % users.len()];
            let keys = vec!["all".to_owned(), format!("some/{}", i % 7)];
            accepted.push(publish(user, &format!("{caller}/{i}"), "start", keys).await);
        }
        accepted
    };
    let all = join_all((0..CALLERS).map(caller)).await;
    for of_one in &all {
        assert!(
            of_one.is_sorted_by_key(|a| a.position),
            "a caller's events stand in the order of its calls"
        );
    }
    let mut all: Vec<Acceptance> = all.into_iter().flatten().collect();
    all.sort_by_key(|a| a.position);
    let positions: Vec<i64> = all.iter().map(|a| a.position).collect();
    assert!(positions.iter().copied().eq(1..=1_000), "{positions:?}");
    let order: Vec<String> = all.into_iter().map(|a| a.uid).collect();

    let last = decided(&weir, &order[EVENTS - 1]).await;
    assert_eq!(last.disposition(), Disposition::Queue);
    let inputs = weir.inputs(&last.work).await;
    assert_eq!(inputs.len(), EVENTS, "none missing, none twice");
    assert_eq!(inputs, order);
    let first = weir.record(&order[0]).await;
    assert_eq!(
        (first.disposition(), &first.work),
        (Disposition::Start, &last.work)
    );
    assert_eq!(
        (weir.count("work").await, weir.count("pending").await),
        (1, 0)
    );
    assert_eq!(weir.work(&last.work).await.keys.len(), 8);
    second.stop().await;
    third.stop().await;
    weir.stop().await;
}

/// Claims until `enough` Works are completed by all workers together, and returns what it could not complete.
async fn worker(
    weir: &Weir,
    user: &Client,
    name: usize,
    enough: usize,
) -> Vec<lifecycle::ClaimedWork> {
    let mut stuck = Vec::new();
    let completed = async || {
        let sql = "SELECT count(*) FROM weir.work WHERE state = $1";
        let found: i64 = sqlx::query_scalar(sql)
            .bind(weir_kernel::WorkState::Completed.code())
            .fetch_one(weir.db.pool())
            .await
            .expect("a table");
        usize::try_from(found).expect("not negative")
    };
    while completed().await < enough {
        let spec = lifecycle::ClaimSpec {
            binding: "b".to_owned(),
            owner: format!("worker {name}"),
            ..Default::default()
        };
        let request = lifecycle::ClaimOnceRequest {
            spec: Some(spec),
            max_works: 3,
            wait: None,
        };
        let answer = user.executor().claim_once(request).await;
        for work in answer.expect("claimable").into_inner().works {
            let request = lifecycle::CompleteRequest {
                lease: work.lease.clone(),
                result: String::new(),
            };
            let answer = user.executor().complete(request).await;
            if answer.is_err() {
                assert_eq!(refusal(answer).1, "UNROUTED_INPUT");
                stuck.push(work);
            }
        }
    }
    stuck
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_a_hundred_works_but_one_finish_while_its_handler_hangs() {
    let weir = Weir::with(&patient()).await;
    weir.register(&ALL).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let users = [&weir.user, &second.user];
    let start = async |i: usize| {
        let keys = vec![format!("k/{i}")];
        publish(users[i % 2], &format!("start {i}"), "start", keys.clone()).await;
        let id = format!("more {i}");
        script.say(&id, [Say::Match]);
        if i == 37 {
            script.close(&id);
        }
        publish(users[i % 2], &id, "x", keys).await.uid
    };
    let more = join_all((0..WORKS).map(start)).await;
    hanging(&weir, "more 37").await;
    for (i, uid) in more.iter().enumerate().filter(|(i, _)| *i != 37) {
        let record = decided(&weir, uid).await;
        assert_eq!(record.disposition(), Disposition::Queue, "{i}");
    }
    assert!(read(&weir, &more[37]).await.route.is_none());

    let workers = (0..4).map(|i| worker(&weir, users[i % 2], i, WORKS - 1));
    let stuck: Vec<lifecycle::ClaimedWork> =
        join_all(workers).await.into_iter().flatten().collect();
    assert!(
        read(&weir, &more[37]).await.route.is_none() && script.hanging("more 37") >= 1,
        "it hangs still"
    );
    // The one that is left was started and given to a worker, too; only its end waits.
    assert!(stuck.len() <= 1, "{stuck:?}");
    script.open("more 37");
    let work = decided(&weir, &more[37]).await.work;
    for claimed in &stuck {
        assert_eq!(claimed.lease.as_ref().expect("always there").work, work);
        weir.complete(claimed).await.expect("all is routed");
    }
    assert!(worker(&weir, &second.user, 9, WORKS).await.is_empty());
    assert_eq!(weir.work(&work).await.state(), WorkState::Completed);
    let inputs: i64 = weir.count("input").await;
    assert_eq!(usize::try_from(inputs), Ok(2 * WORKS));
    second.stop().await;
    weir.stop().await;
}
