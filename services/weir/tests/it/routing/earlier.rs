//! What earlier input means for later input (rules r05, r06, r08, r24).

use std::time::Duration;

use weir_proto::lifecycle::v1::FailureKind;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Disposition, PendingState, Targets};

use super::arrange::{
    ALL, SCRIPTED, decided, fail, publish, publish_together, read, stands, untouched,
};
use super::script::Say;
use crate::support::{Weir, event};

/// Returns the transaction that wrote the decision of each event.
async fn transactions(weir: &Weir, uids: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for uid in uids {
        let found = sqlx::query_scalar("SELECT xmin::text FROM weir.event WHERE uid = $1::uuid")
            .bind(uid)
            .fetch_one(weir.db.pool())
            .await;
        out.push(found.expect("it is accepted"));
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn r24_giving_up_on_earlier_input_lets_later_input_route_in_the_same_call() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;
    script.say("fails", [Say::Fail]);
    let fails = publish(&weir, "fails", "x", "{}", &["k"]).await;
    stands(&weir, &fails, PendingState::Backoff).await;
    // Both depend on it: one by the Work, one by a key of the other.
    let later = publish(&weir, "later", "start", "{}", &["k", "l"]).await;
    let last = publish(&weir, "last", "start", "{}", &["l"]).await;
    for failures in 2..=4 {
        weir.db.advance(Duration::from_secs(2 << failures)).await;
        let pending = weir.route(&last).await.pending;
        assert!(pending.is_some(), "it waits for the earlier one");
        assert!(untouched(&weir, &last).await && untouched(&weir, &later).await);
    }
    let pending = read(&weir, &fails).await.pending.expect("it backs off");
    assert!(pending.failures >= 4, "{pending:?}");

    weir.db.advance(Duration::from_secs(15 * 60)).await;
    let record = weir.record(&last).await;
    assert_eq!(
        (record.disposition(), &record.work),
        (Disposition::Queue, &work)
    );
    let failed = read(&weir, &fails).await.route.expect("decided before it");
    assert_eq!(
        (failed.disposition(), failed.reason.as_str(), &failed.work),
        (Disposition::Failed, "handler_failed", &work)
    );
    let all = [fails.clone(), later.clone(), last.clone()];
    let written = transactions(&weir, &all).await;
    assert!(written.iter().all(|t| *t == written[0]), "{written:?}");
    assert_eq!(weir.inputs(&work).await[1..], [later, last]);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r24_what_cannot_be_retried_holds_back_nobody_in_its_batch() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    script.say("invalid", [Say::Invalid]);
    script.say("panics", [Say::Panic]);
    let items: [(&str, &str, &str, &[&str]); 4] = [
        ("first", "start", "{}", &["k"]),
        ("invalid", "x", "{}", &["k"]),
        ("panics", "x", "{}", &["k"]),
        ("last", "start", "{}", &["k"]),
    ];
    let uids = publish_together(&weir, &items).await;
    let last = weir.record(&uids[3]).await;
    assert_eq!(last.disposition(), Disposition::Queue);
    for uid in &uids[1..3] {
        let record = weir.record(uid).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (Disposition::Failed, &last.work)
        );
    }
    let written = transactions(&weir, &uids).await;
    assert!(written.iter().all(|t| *t == written[0]), "{written:?}");
    assert_eq!(
        weir.inputs(&last.work).await,
        [uids[0].clone(), uids[3].clone()]
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_input_that_is_checkpointed_does_not_come_back_when_its_key_is_attached() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;
    // Decided without any effect that attaches: the key is free.
    script.say("failed", [Say::Invalid]);
    script.say("skipped", [Say::Fail]);
    let mut before = Vec::new();
    for (id, kind) in [("unmatched", "x"), ("dropped", "drop"), ("failed", "x")] {
        let uid = publish(&weir, id, kind, "{}", &["n"]).await;
        before.push((id, weir.record(&uid).await));
    }
    let skipped = publish(&weir, "skipped", "x", "{}", &["n"]).await;
    stands(&weir, &skipped, PendingState::Backoff).await;
    weir.skip(&skipped).await.expect("unrouted");
    before.push(("skipped", weir.record(&skipped).await));

    let attaches = publish(&weir, "attaches", "attach", r#"{"key":"n"}"#, &["k"]).await;
    assert_eq!(weir.record(&attaches).await.work, work);
    let next = weir.routed("next", "start", &["n"]).await;
    assert_eq!(
        (next.disposition(), &next.work),
        (Disposition::Queue, &work),
        "the key is the work's now"
    );
    for (id, record) in before {
        assert_eq!(weir.record(&record.event).await, record, "{id}");
        assert_eq!(record.work, "", "{id}");
        assert!(script.calls(id).len() <= 1, "{id}");
    }
    assert_eq!(weir.inputs(&work).await[1..], [attaches, next.event]);
    weir.stop().await;
}

/// Nobody owns a key when they come. Each has something in common with another one, and all of them are one Work.
#[tokio::test(flavor = "multi_thread")]
async fn r08_keys_that_a_batch_shares_make_one_work_of_it() {
    let weir = Weir::with(SCRIPTED).await;
    let second = weir.another().await;
    let items: [(&str, &str, &str, &[&str]); 6] = [
        ("1", "start", "{}", &["a"]),
        ("2", "start", "{}", &["a", "b"]),
        ("3", "start", "{}", &["b", "c"]),
        ("alone", "start", "{}", &["z"]),
        ("4", "attach", r#"{"key":"e"}"#, &["c", "d"]),
        ("5", "start", "{}", &["d"]),
    ];
    let uids = publish_together(&weir, &items).await;
    let work = weir.record(&uids[0]).await.work;
    for i in [1, 2, 4, 5] {
        let record = weir.record(&uids[i]).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (Disposition::Queue, &work),
            "{i}"
        );
    }
    assert_eq!(weir.work(&work).await.keys, ["a", "b", "c", "d", "e"]);
    let order = [0, 1, 2, 4, 5].map(|i| uids[i].clone());
    assert_eq!(weir.inputs(&work).await, order);
    assert_ne!(weir.record(&uids[3]).await.work, work);
    second.stop().await;
    weir.stop().await;
}

/// Two that start Works of their own and a third that has a key of each: it belongs to both, and to neither.
#[tokio::test(flavor = "multi_thread")]
async fn r05_a_batch_that_starts_two_works_leaves_what_belongs_to_both_in_conflict() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let items: [(&str, &str, &str, &[&str]); 4] = [
        ("a", "start", "{}", &["a"]),
        ("b", "start", "{}", &["b"]),
        ("both", "start", "{}", &["a", "b"]),
        ("later", "start", "{}", &["b"]),
    ];
    let uids = publish_together(&weir, &items).await;
    let (a, b) = (weir.record(&uids[0]).await, weir.record(&uids[1]).await);
    stands(&weir, &uids[2], PendingState::Conflict).await;
    let mut works = [a.work.clone(), b.work.clone()];
    works.sort();
    let pending = read(&weir, &uids[2]).await.pending.expect("undecided");
    assert_eq!((pending.works, pending.failures), (works.to_vec(), 0));
    assert_eq!(weir.record(&uids[3]).await.work, b.work);

    // It stays a conflict when one of them ends, and blocks nothing of the other.
    let claimed = weir.claim().await.expect("ready");
    fail(&weir, &claimed, FailureKind::Permanent).await;
    assert_eq!(weir.pending(&uids[2]).await.state(), PendingState::Conflict);
    let other = weir.claim().await.expect("ready");
    weir.complete(&other)
        .await
        .expect("a conflict refuses nothing");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_targets_and_keys_that_agree_are_one_work() {
    let weir = Weir::with(SCRIPTED).await;
    let works = [
        weir.routed("1", "start", &["a"]).await.work,
        weir.routed("2", "start", &["b"]).await.work,
    ];
    let named = async |id: &str, work: &str, keys: &[&str]| {
        let request = routing::PublishRequest {
            scope: "s".to_owned(),
            event: Some(event(id, "start", "{}")),
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            targets: Some(Targets {
                work: work.to_owned(),
                attempt: 0,
            }),
        };
        let answer = weir.user.events().publish(request).await;
        answer.expect("accepted").into_inner().uid
    };
    let agrees = named("agrees", &works[0], &["a", "new"]).await;
    let record = decided(&weir, &agrees).await;
    assert_eq!(
        (record.disposition(), &record.work),
        (Disposition::Queue, &works[0])
    );
    let bare = named("bare", &works[1], &[]).await;
    assert_eq!(decided(&weir, &bare).await.work, works[1]);
    // The key that came with the first is the Work's: naming another one is a conflict.
    let differs = named("differs", &works[1], &["new"]).await;
    stands(&weir, &differs, PendingState::Conflict).await;
    assert_eq!(weir.inputs(&works[1]).await.len(), 2);
    assert_eq!(weir.work(&works[0]).await.keys, ["a", "new"]);
    assert_eq!(weir.work(&works[1]).await.keys, ["b"]);
    weir.stop().await;
}
