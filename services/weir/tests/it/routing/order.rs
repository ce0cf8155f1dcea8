//! Order of input, and keys (rules r04, r06, r07, r08).

use std::time::Duration;

use futures::future::join_all;
use weir_proto::routing::v1 as routing;
use weir_proto::types::v1::{Disposition, PendingState, WorkState};

use super::arrange::{
    ALL, SCRIPTED, decided, hanging, publish, publish_together, read, running, stands, untouched,
};
use super::script::Say;
use crate::outside::refusal;
use crate::support::{Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn r04_a_blocked_handler_stops_only_what_depends_on_it() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    script.close("hung");
    let hung = publish(&weir, "hung", "x", "{}", &["a"]).await;
    hanging(&weir, "hung").await;
    let behind = publish(&weir, "behind", "start", "{}", &["a", "b"]).await;
    let transitively = publish(&weir, "transitively", "start", "{}", &["b"]).await;

    // Works of the same scope start, run and end; another scope's too.
    let (work, claimed) = running(&weir, "1", "c").await;
    assert_eq!(
        weir.routed("2", "inject", &["c"]).await.disposition(),
        Disposition::Inject
    );
    assert_eq!(
        weir.complete(&claimed).await.expect("it has the lease"),
        WorkState::Ready
    );
    assert_eq!(weir.inputs(&work).await.len(), 2);
    let elsewhere = weir
        .try_publish("t", event("3", "start", "{}"), &["a"])
        .await
        .expect("accepted")
        .uid;
    assert_eq!(
        decided(&weir, &elsewhere).await.disposition(),
        Disposition::Start
    );
    assert!(untouched(&weir, &hung).await && untouched(&weir, &behind).await);
    assert!(
        untouched(&weir, &transitively).await,
        "an undecided event blocks through the keys of another"
    );

    script.open("hung");
    let (first, second) = (
        decided(&weir, &behind).await,
        decided(&weir, &transitively).await,
    );
    assert_eq!(
        weir.record(&hung).await.disposition(),
        Disposition::Unmatched
    );
    assert_eq!(
        (first.disposition(), second.disposition()),
        (Disposition::Start, Disposition::Queue)
    );
    assert_eq!(first.work, second.work);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_input_of_a_work_is_queued_in_acceptance_order_whoever_publishes_and_routes() {
    let weir = Weir::start().await;
    let second = weir.another().await;
    let publish = async |user: &weir_client::Client, id: String, keys: Vec<String>| {
        let request = routing::PublishRequest {
            scope: "s".to_owned(),
            event: Some(event(&id, "start", "{}")),
            keys,
            targets: None,
        };
        let answer = user
            .events()
            .publish(request)
            .await
            .expect("accepted")
            .into_inner();
        answer.acceptance.expect("always there")
    };
    // Four keys in chains: whatever comes first, all belong to one Work in the end or were it from the start.
    let jobs = (0..60).map(|i| {
        let user = if i % 2 == 0 { &weir.user } else { &second.user };
        publish(
            user,
            format!("e{i}"),
            vec!["all".to_owned(), format!("k/{}", i % 4)],
        )
    });
    let mut accepted = join_all(jobs).await;
    accepted.sort_by_key(|a| a.position);
    let order: Vec<String> = accepted.into_iter().map(|a| a.uid).collect();
    for uid in &order {
        decided(&weir, uid).await;
    }
    let first = weir.record(&order[0]).await;
    assert_eq!(first.disposition(), Disposition::Start);
    assert_eq!(weir.count("work").await, 1);
    assert_eq!(weir.inputs(&first.work).await, order);
    let work = weir.work(&first.work).await;
    assert_eq!(work.keys, ["all", "k/0", "k/1", "k/2", "k/3"]);
    second.stop().await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_a_backing_off_event_holds_back_what_depends_on_it_uncounted_and_nothing_else() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    script.say("fails", [Say::Fail, Say::Match]);
    let fails = publish(&weir, "fails", "x", "{}", &["a"]).await;
    stands(&weir, &fails, PendingState::Backoff).await;
    let uids = publish_together(
        &weir,
        &[
            ("on a", "start", "{}", &["a"]),
            ("on b", "start", "{}", &["b"]),
            ("on both", "start", "{}", &["a", "c"]),
        ],
    )
    .await;
    // What came with them and does not depend is decided.
    assert_eq!(
        decided(&weir, &uids[1]).await.disposition(),
        Disposition::Start
    );
    assert_eq!(
        weir.routed("later", "start", &["b"]).await.disposition(),
        Disposition::Queue
    );
    assert!(untouched(&weir, &uids[0]).await && untouched(&weir, &uids[2]).await);
    assert_eq!(script.calls("fails").len(), 1);

    weir.db.advance(Duration::from_secs(3)).await;
    let last = decided(&weir, &uids[2]).await;
    let record = weir.record(&fails).await;
    assert_eq!(
        (record.disposition(), &record.work),
        (Disposition::Start, &last.work)
    );
    assert_eq!(
        weir.inputs(&last.work).await,
        [fails, uids[0].clone(), uids[2].clone()]
    );
    weir.stop().await;
}

/// The router reads pending rows in portions; what depends on an event of an earlier portion waits all the same.
#[tokio::test(flavor = "multi_thread")]
async fn r06_order_holds_however_many_events_stand_in_line() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let ids: Vec<String> = (0..254).map(|i| format!("e{i}")).collect();
    script.say("e0", [Say::Match]);
    script.close("e0");
    let kind = |i: usize| if i == 0 { "x" } else { "start" };
    // The first and the last four share a key; those between are on their own.
    let shares = |i: usize| i == 0 || i >= 250;
    let own: Vec<[&str; 1]> = ids
        .iter()
        .enumerate()
        .map(|(i, id)| [if shares(i) { "k" } else { id }])
        .collect();
    let items: Vec<(&str, &str, &str, &[&str])> = ids
        .iter()
        .enumerate()
        .map(|(i, id)| (id.as_str(), kind(i), "{}", own[i].as_slice()))
        .collect();
    let uids = publish_together(&weir, &items).await;
    hanging(&weir, "e0").await;
    // Whatever the router can decide, it has decided before this one.
    weir.routed("independent", "start", &["i"]).await;
    decided(&weir, &uids[249]).await;
    for uid in &uids[250..254] {
        assert!(untouched(&weir, uid).await, "{uid}");
    }
    script.open("e0");
    let work = decided(&weir, &uids[253]).await.work;
    assert_eq!(
        weir.inputs(&work).await,
        [&uids[..1], &uids[250..]].concat()
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_members_are_decided_on_what_their_predecessors_left() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    for id in ["asked", "stops"] {
        script.say(id, [Say::Match]);
    }
    script.say("stops", [Say::Fail]);
    let uids = publish_together(
        &weir,
        &[
            ("first", "attach", r#"{"key":"x"}"#, &["a"]),
            ("asked", "y", "{}", &["a", "c"]),
            ("unmatched", "y", "{}", &["a"]),
            ("stops", "y", "{}", &["a"]),
            ("waits", "start", "{}", &["c"]),
        ],
    )
    .await;
    stands(&weir, &uids[3], PendingState::Backoff).await;
    let (first, asked) = (weir.record(&uids[0]).await, weir.record(&uids[1]).await);
    assert_eq!(
        (first.disposition(), asked.disposition()),
        (Disposition::Start, Disposition::Queue)
    );
    assert_eq!(first.work, asked.work, "the key attached in the same pass");
    assert_eq!(weir.work(&first.work).await.keys, ["a", "c", "x"]);
    let unmatched = weir.record(&uids[2]).await;
    assert_eq!(
        (unmatched.disposition(), &unmatched.work),
        (Disposition::Unmatched, &first.work)
    );
    let last = script.calls("asked").into_iter().last().expect("asked");
    assert_eq!(
        last.state.as_deref(),
        Some("ready"),
        "it sees the work that its predecessor starts"
    );
    assert!(untouched(&weir, &uids[4]).await);
    assert_eq!(weir.inputs(&first.work).await, uids[..2]);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_unrouted_input_blocks_complete_until_it_is_decided() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let (work, claimed) = running(&weir, "w", "k").await;
    let script = &weir.handlers.script;
    script.close("late");
    let late = publish(&weir, "late", "x", "{}", &["k"]).await;
    hanging(&weir, "late").await;
    let (_, reason, message, _) = refusal(weir.complete(&claimed).await);
    assert_eq!(reason, "UNROUTED_INPUT");
    assert!(message.contains(&late), "{message}");
    assert_eq!(
        weir.work(&work).await.state(),
        WorkState::Running,
        "the attempt goes on"
    );

    // So does input that became the Work's by a key attached after it was accepted.
    script.say("attaches", [Say::Match]);
    script.close("attaches");
    let attaches = publish(&weir, "attaches", "x", r#"{"key":"n"}"#, &["m"]).await;
    script.close("by key");
    let by_key = publish(&weir, "by key", "x", "{}", &["n"]).await;
    hanging(&weir, "attaches").await;
    hanging(&weir, "by key").await;
    script.open("attaches");
    let other = decided(&weir, &attaches).await.work;
    let second = weir.claim().await.expect("it started");
    assert_eq!(second.lease.as_ref().expect("always there").work, other);
    assert!(refusal(weir.complete(&second).await).2.contains(&by_key));
    script.open("by key");
    decided(&weir, &by_key).await;
    assert_eq!(
        weir.complete(&second).await.expect("nothing blocks"),
        WorkState::Completed
    );

    script.open("late");
    assert_eq!(
        weir.record(&late).await.disposition(),
        Disposition::Unmatched
    );
    assert_eq!(
        weir.complete(&claimed).await.expect("nothing blocks"),
        WorkState::Completed
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_keys_attach_with_effects_and_only_with_them() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let work = weir.routed("start", "start", &["a"]).await.work;
    let attach = publish(&weir, "attach", "attach", r#"{"key":"x"}"#, &["a", "b"]).await;
    assert_eq!(weir.record(&attach).await.work, work);
    assert_eq!(weir.work(&work).await.keys, ["a", "b", "x"]);
    // What a decision attaches belongs to the Work like any key.
    assert_eq!(weir.routed("on x", "start", &["x"]).await.work, work);

    script.say("failed", [Say::Invalid]);
    script.say("skipped", [Say::Fail]);
    let quiet = [
        ("dropped", "drop", Disposition::Drop),
        ("unmatched", "x", Disposition::Unmatched),
        ("failed", "x", Disposition::Failed),
    ];
    for (id, kind, disposition) in quiet {
        let uid = publish(&weir, id, kind, r#"{"key":"y"}"#, &["a", id]).await;
        let record = weir.record(&uid).await;
        assert_eq!(
            (record.disposition(), &record.work),
            (disposition, &work),
            "{id}"
        );
    }
    let skipped = publish(&weir, "skipped", "x", "{}", &["a", "skipped"]).await;
    weir.pending(&skipped).await;
    weir.skip(&skipped).await.expect("unrouted");
    assert_eq!(weir.work(&work).await.keys, ["a", "b", "x"]);
    // So those keys are free for others.
    assert_ne!(
        weir.routed(
            "free",
            "start",
            &["dropped", "unmatched", "failed", "skipped"]
        )
        .await
        .work,
        work
    );

    let claimed = weir.claim().await.expect("ready");
    assert_eq!(claimed.keys, ["a", "b", "x"]);
    super::arrange::fail(
        &weir,
        &claimed,
        weir_proto::lifecycle::v1::FailureKind::Permanent,
    )
    .await;
    let terminal = weir.routed("terminal", "start", &["x", "t"]).await;
    assert_eq!(
        (terminal.disposition(), &terminal.work),
        (Disposition::Terminal, &work)
    );
    assert_eq!(
        weir.work(&work).await.keys,
        ["a", "b", "x"],
        "owned for ever, and no more"
    );
    assert_eq!(
        weir.routed("t is free", "start", &["t"])
            .await
            .disposition(),
        Disposition::Start
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_earlier_unrouted_input_with_a_newly_attached_key_joins_the_same_work_first() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;

    // It backs off on a key that nobody owns; then the Work wants that key.
    script.say("early", [Say::Fail, Say::Match]);
    let early = publish(&weir, "early", "x", "{}", &["n"]).await;
    stands(&weir, &early, PendingState::Backoff).await;
    let attaches = publish(&weir, "attaches", "attach", r#"{"key":"n"}"#, &["k"]).await;
    let later = publish(&weir, "later", "start", "{}", &["n"]).await;
    let after = publish(&weir, "after", "start", "{}", &["k"]).await;
    // Something unrelated is decided after them: they were looked at, and wait.
    weir.routed("unrelated", "start", &["u"]).await;
    for uid in [&attaches, &later, &after] {
        assert!(untouched(&weir, uid).await);
    }
    assert_eq!(weir.work(&work).await.keys, ["k"]);

    weir.db.advance(Duration::from_secs(3)).await;
    decided(&weir, &after).await;
    for uid in [&early, &attaches, &later, &after] {
        assert_eq!(weir.record(uid).await.work, work);
    }
    let inputs = weir.inputs(&work).await;
    assert_eq!(inputs[1..], [early.clone(), attaches, later, after]);
    let calls = script.calls("early");
    assert_eq!(calls[0].state, None);
    assert_eq!(
        calls.last().and_then(|c| c.state.as_deref()),
        Some("ready"),
        "it was asked with its work"
    );
    assert_eq!(weir.work(&work).await.keys, ["k", "n"]);
    assert_eq!(read(&weir, &early).await.keys, ["n"]);
    weir.stop().await;
}
