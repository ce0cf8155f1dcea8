//! Decisions while something changes under them, with two replicas (rules r01, r08, r20). Every interleaving is
//! forced: calls of a handler stand at a gate, commits stand at a held lock.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use weir_proto::types::v1::{Disposition, PendingState};

use super::arrange::{
    ALL, decided, hanging_in, patient, publish, publish_together, read, renew, running, stands,
    untouched,
};
use super::script::Say;
use crate::support::Weir;

/// Waits until both replicas are through with what they did in scope `s`: a worker takes new events only then.
pub(crate) async fn both_went_on(weir: &Weir, id: &str) {
    weir.handlers.script.close(id);
    publish(weir, id, "x", "{}", &[]).await;
    hanging_in(weir, 2, id).await;
    weir.handlers.script.open(id);
}

/// Lets both replicas come with what they evaluated to a row that is locked, then lets them go, one after the other.
async fn commit_twice(weir: &Weir, id: &str, uid: &str) {
    let mut rows = weir.db.hold().await;
    let row = format!("SELECT 1 FROM weir.pending WHERE uid = '{uid}' FOR UPDATE");
    rows.run(AssertSqlSafe(row)).await;
    // These two calls and no further one: what backs off may be asked again meanwhile.
    weir.handlers.script.pass(id, 0);
    weir.handlers.script.pass(id, 1);
    weir.db.wait_until_blocked(2).await;
    rows.release().await;
    both_went_on(weir, &format!("after {id}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_two_replicas_that_evaluated_the_same_events_write_each_effect_once() {
    let weir = Weir::with(&patient()).await;
    weir.register(&ALL).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let (work, claimed) = running(&weir, "w", "k").await;
    let cases = [
        ("starts", Say::Match, "n"),
        ("injects", Say::Match, "k"),
        ("declined", Say::Skip("no".to_owned()), "d"),
        ("invalid", Say::Invalid, "i"),
        ("fails", Say::Fail, "f"),
    ];
    let mut uids = Vec::new();
    for (id, say, key) in &cases {
        script.say(id, [say.clone()]);
        script.close(id);
        uids.push(publish(&weir, id, "x", "{}", &[*key]).await);
    }
    for (id, ..) in &cases {
        hanging_in(&weir, 2, id).await;
    }
    for ((id, ..), uid) in cases.iter().zip(&uids) {
        commit_twice(&weir, id, uid).await;
    }

    let mut routes = Vec::new();
    for uid in &uids[..4] {
        routes.push(read(&weir, uid).await.route.expect("it is decided"));
    }
    let found: Vec<Disposition> = routes.iter().map(|r| r.disposition()).collect();
    let wanted = [
        Disposition::Start,
        Disposition::Inject,
        Disposition::Unmatched,
        Disposition::Failed,
    ];
    assert_eq!(found, wanted);
    assert_eq!(weir.inputs(&routes[0].work).await, uids[..1]);
    assert_eq!(weir.inputs(&work).await[1..], uids[1..2]);
    assert_eq!(
        (weir.count("work").await, weir.count("intent").await),
        (2, 1)
    );
    assert_eq!(
        renew(&weir, &claimed).await,
        (vec![uids[1].clone()], Vec::new())
    );
    let pending = read(&weir, &uids[4]).await.pending.expect("it backs off");
    assert_eq!(
        (pending.state(), pending.failures),
        (PendingState::Backoff, 1),
        "one failure is one, whoever else saw it"
    );
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_a_backlog_in_evaluation_everywhere_joins_the_work_that_gets_its_key() {
    let weir = Weir::with(&patient()).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;
    for id in ["attaches", "first", "third"] {
        script.say(id, [Say::Match]);
        script.close(id);
    }
    let attaches = publish(&weir, "attaches", "x", r#"{"key":"n"}"#, &["k"]).await;
    hanging_in(&weir, 2, "attaches").await;
    // Nobody knows yet that these have to do with the Work: each replica decides about them as about new Work.
    let items: [(&str, &str, &str, &[&str]); 3] = [
        ("first", "x", "{}", &["n"]),
        ("second", "start", "{}", &["n", "m"]),
        ("third", "x", "{}", &["m"]),
    ];
    let backlog = publish_together(&weir, &items).await;
    hanging_in(&weir, 2, "first").await;
    assert_eq!(script.calls("first")[0].state, None);

    script.open("attaches");
    assert_eq!(decided(&weir, &attaches).await.work, work);
    assert_eq!(weir.work(&work).await.keys, ["k", "n"]);
    script.open("third");
    script.open("first");
    for uid in &backlog {
        let record = decided(&weir, uid).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (Disposition::Queue, &work)
        );
    }
    let order = [&[attaches][..], &backlog].concat();
    assert_eq!(weir.inputs(&work).await[1..], order);
    assert_eq!(weir.work(&work).await.keys, ["k", "m", "n"]);
    assert_eq!(
        script.calls("third")[0].state.as_deref(),
        Some("ready"),
        "it was first asked when its predecessors were decided"
    );
    assert_eq!(weir.count("work").await, 1);
    second.stop().await;
    weir.stop().await;
}

/// The earlier event stands at a handler in one replica while the other one decides it with the Work that gets its
/// key. What the first replica says of it at last is about a state that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn r08_earlier_input_joins_while_another_replica_still_evaluates_it() {
    let weir = Weir::with(&patient()).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;
    script.say("early", [Say::Fail, Say::Match]);
    script.close("early");
    let early = publish(&weir, "early", "x", "{}", &["n"]).await;
    hanging_in(&weir, 2, "early").await;
    let attaches = publish(&weir, "attaches", "attach", r#"{"key":"n"}"#, &["k"]).await;
    let after = publish(&weir, "after", "start", "{}", &["n"]).await;
    both_went_on(&weir, "looked").await;
    for uid in [&attaches, &after] {
        assert!(untouched(&weir, uid).await, "it waits for the earlier one");
    }

    // One replica fails, and asks again with all that now depends on it; the other one still hangs.
    script.pass("early", 0);
    stands(&weir, &early, PendingState::Backoff).await;
    weir.db.advance(Duration::from_secs(3)).await;
    hanging_in(&weir, 2, "early").await;
    script.pass("early", 2);
    for uid in [&early, &attaches, &after] {
        assert_eq!(decided(&weir, uid).await.work, work);
    }
    let before = weir.inputs(&work).await;
    assert_eq!(before[1..], [early.clone(), attaches, after]);
    let states: Vec<_> = script.calls("early").into_iter().map(|c| c.state).collect();
    assert_eq!(states, [None, None, Some("ready".to_owned())]);

    let record = weir.record(&early).await;
    script.open("early");
    both_went_on(&weir, "settled").await;
    assert_eq!(weir.record(&early).await, record);
    assert_eq!(weir.inputs(&work).await, before);
    assert_eq!(weir.count("work").await, 1);
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_a_decision_is_a_conflict_when_another_work_got_its_key_meanwhile() {
    let weir = Weir::with(&patient()).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let mut works = [
        weir.routed("1", "start", &["a"]).await.work,
        weir.routed("2", "start", &["b"]).await.work,
    ];
    works.sort();
    for id in ["attaches", "torn"] {
        script.say(id, [Say::Match]);
        script.close(id);
    }
    publish(&weir, "attaches", "x", r#"{"key":"n"}"#, &["b"]).await;
    hanging_in(&weir, 2, "attaches").await;
    let torn = publish(&weir, "torn", "x", "{}", &["a", "n"]).await;
    hanging_in(&weir, 2, "torn").await;
    script.open("attaches");
    weir.db
        .wait_until("the key is owned", async |_| {
            weir.count("work_key").await == 3
        })
        .await;
    script.open("torn");
    stands(&weir, &torn, PendingState::Conflict).await;
    both_went_on(&weir, "settled").await;
    let pending = read(&weir, &torn).await.pending.expect("it is undecided");
    assert_eq!((pending.works, pending.failures), (works.to_vec(), 0));
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_a_configuration_published_mid_decision_decides_what_is_under_way() {
    let weir = Weir::with(&patient()).await;
    let second = weir.another().await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;
    for id in ["new", "old", "gone"] {
        script.say(id, [Say::Match]);
        script.close(id);
    }
    let new = publish(&weir, "new", "x", "{}", &["n"]).await;
    let old = publish(&weir, "old", "x", "{}", &["k"]).await;
    let gone = publish(&weir, "gone", "y", "{}", &["g"]).await;
    for id in ["new", "old", "gone"] {
        hanging_in(&weir, 2, id).await;
    }
    // The handler's route is gone; what it was asked about goes elsewhere, under another name, or nowhere.
    let before = patient();
    let slot = before
        .lines()
        .find(|l| l.contains("slot: scripted"))
        .expect("it has one");
    let next = patient().replace(
        slot,
        r#"      - { slot: instead, when: 'event.type == "x"', binding: other }"#,
    );
    assert_eq!(weir.apply(&next, 1).await, 2);
    for id in ["new", "old", "gone"] {
        script.open(id);
    }
    for (uid, disposition) in [(&new, Disposition::Start), (&old, Disposition::Queue)] {
        let record = decided(&weir, uid).await;
        assert_eq!(
            (record.disposition(), record.generation),
            (disposition, 2),
            "{uid}"
        );
        assert_eq!(
            (record.route.as_str(), record.binding.as_str()),
            ("instead", "other")
        );
    }
    let record = decided(&weir, &gone).await;
    assert_eq!(
        (record.disposition(), record.generation),
        (Disposition::Unmatched, 2)
    );
    let declined: Vec<&str> = record.refusals.iter().map(|r| r.route.as_str()).collect();
    assert_eq!(declined.last(), Some(&"instead"), "{declined:?}");
    assert_eq!(script.all_calls().len(), 6, "nobody asked it again");
    assert_eq!(weir.inputs(&work).await[1..], [old]);
    second.stop().await;
    weir.stop().await;
}
