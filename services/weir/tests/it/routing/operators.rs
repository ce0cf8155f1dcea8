//! Skip and reroute (rules r30, r31, r32).

use std::time::Duration;

use futures::future::join;
use sqlx::AssertSqlSafe;
use tonic::Code;
use weir_proto::causal::v1 as causal;
use weir_proto::types::v1::{Disposition, PendingState, WorkState};

use super::arrange::{ALL, SCRIPTED, decided, hanging, numbers, publish, read, running, stands};
use super::script::Say;
use crate::outside::{refusal, rows};
use crate::support::{Weir, event};

#[tokio::test(flavor = "multi_thread")]
async fn r30_skip_takes_any_unrouted_event_out_in_any_order() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let works = [
        weir.routed("1", "other", &["a"]).await.work,
        weir.routed("2", "start", &["b"]).await.work,
    ];
    let claimed = weir.claim_of("other").await.expect("ready");

    script.say("backoff", [Say::Fail]);
    script.close("hangs");
    let conflict = publish(&weir, "conflict", "x", "{}", &["a", "b"]).await;
    let deferred = publish(&weir, "deferred", "inject", "{}", &["a"]).await;
    let backoff = publish(&weir, "backoff", "x", "{}", &["b"]).await;
    let behind = publish(&weir, "behind", "start", "{}", &["b"]).await;
    let hangs = publish(&weir, "hangs", "x", "{}", &["h"]).await;
    hanging(&weir, "hangs").await;
    stands(&weir, &conflict, PendingState::Conflict).await;
    stands(&weir, &deferred, PendingState::Deferred).await;
    stands(&weir, &backoff, PendingState::Backoff).await;
    for (uid, work) in [
        (&hangs, ""),
        (&behind, works[1].as_str()),
        (&backoff, &works[1]),
        (&deferred, &works[0]),
        (&conflict, ""),
    ] {
        let record = weir
            .skip(uid)
            .await
            .expect("unrouted")
            .record
            .expect("always there");
        assert_eq!(
            (
                record.disposition(),
                record.work.as_str(),
                record.reason.as_str()
            ),
            (Disposition::Skipped, work, "test")
        );
        let stored = weir.record(uid).await;
        assert_eq!(
            (
                stored.disposition(),
                stored.work.as_str(),
                stored.generation
            ),
            (Disposition::Skipped, work, 1)
        );
        assert_eq!(
            (stored.route.as_str(), stored.reason.as_str()),
            ("", "test")
        );
    }
    // Nothing is held up any more, and the hung evaluation changes nothing.
    script.open("hangs");
    assert_eq!(weir.routed("3", "start", &["b"]).await.work, works[1]);
    assert_eq!(
        weir.routed("4", "start", &["h"]).await.disposition(),
        Disposition::Start
    );
    assert_eq!(
        weir.record(&hangs).await.disposition(),
        Disposition::Skipped
    );
    assert_eq!(
        weir.complete(&claimed).await.expect("nothing is left"),
        WorkState::Completed
    );
    assert_eq!(
        (weir.count("pending").await, weir.count("pending_key").await),
        (0, 0)
    );

    // A routed event is refused, and says how it was routed.
    for (uid, disposition) in [
        (&backoff, "skipped"),
        (&read(&weir, &conflict).await.uid, "skipped"),
    ] {
        let (code, reason, message, _) = refusal(weir.skip(uid).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::FailedPrecondition, "ALREADY_ROUTED")
        );
        assert!(message.contains(&format!("({disposition})")), "{message}");
    }
    let started = weir.routed("started", "start", &["fresh"]).await.event;
    let before = rows(&weir.db).await;
    assert!(refusal(weir.skip(&started).await).2.contains("(start)"));
    assert_eq!(rows(&weir.db).await, before, "a refusal leaves nothing");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r30_a_work_whose_last_unrouted_input_is_skipped_completes() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "other", &["k"]).await.work;
    let claimed = weir.claim_of("other").await.expect("ready");
    // Deferred while the attempt runs, so it does not refuse its end; then it fails.
    script.say("late", [Say::Match, Say::Fail]);
    let late = publish(&weir, "late", "x", "{}", &["k"]).await;
    stands(&weir, &late, PendingState::Deferred).await;
    assert_eq!(
        weir.complete(&claimed).await.expect("it has the lease"),
        WorkState::Ready
    );
    stands(&weir, &late, PendingState::Backoff).await;
    assert_eq!(weir.work(&work).await.state(), WorkState::Ready);
    assert!(weir.claim_of("other").await.is_none(), "nothing is queued");

    weir.skip(&late).await.expect("unrouted");
    assert_eq!(weir.work(&work).await.state(), WorkState::Completed);
    assert_eq!(
        weir.routed("after", "start", &["k"]).await.disposition(),
        Disposition::Terminal
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r31_reroute_of_an_unrouted_event_forgets_its_failures_and_tries_at_once() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    script.say("fails", [Say::Fail, Say::Fail, Say::Fail, Say::Match]);
    let uid = publish(&weir, "fails", "x", "{}", &["k"]).await;
    assert_eq!(weir.pending(&uid).await.failures, 1);
    weir.db.advance(Duration::from_secs(3)).await;
    let second = weir.pending(&uid).await;
    assert_eq!(second.failures, 2);
    let answer = weir.reroute(&uid).await.expect("unrouted");
    assert_eq!((&answer.event, answer.copied), (&uid, false));
    let third = weir.pending(&uid).await;
    assert_eq!(third.failures, 1, "counted anew");
    assert_ne!(third.first_failed_at, second.first_failed_at);
    weir.reroute(&uid).await.expect("unrouted");
    assert_eq!(weir.record(&uid).await.disposition(), Disposition::Start);
    assert_eq!(script.calls("fails").len(), 4, "no time passed");
    let (_, reason, message, _) = refusal(weir.reroute(&uid).await);
    assert_eq!(reason, "ALREADY_ROUTED");
    assert!(message.contains("(start)"), "{message}");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r31_a_failed_skipped_or_unmatched_event_is_accepted_again_as_a_copy() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let root = weir.routed("root", "start", &["root"]).await.event;
    script.say("failed", [Say::Invalid]);
    script.say("skipped", [Say::Fail]);
    let request = causal::DeriveRequest {
        parent: root.clone(),
        scope: "s".to_owned(),
        event: Some(event("failed", "x", r#"{"a":1}"#)),
        keys: vec!["f".to_owned()],
        targets: None,
    };
    let derived = weir
        .user
        .causal()
        .derive(request)
        .await
        .expect("accepted")
        .into_inner();
    let failed = derived.acceptance.expect("always there").uid;
    assert_eq!(
        weir.record(&failed).await.disposition(),
        Disposition::Failed
    );
    let skipped = publish(&weir, "skipped", "x", "{}", &["s"]).await;
    weir.pending(&skipped).await;
    weir.skip(&skipped).await.expect("unrouted");
    let unmatched = publish(&weir, "unmatched", "x", "{}", &["u"]).await;
    assert_eq!(
        weir.record(&unmatched).await.disposition(),
        Disposition::Unmatched
    );
    let buckets = weir.count("causal_bucket").await;
    let work = weir.record(&root).await.work;
    let request = weir_proto::routing::v1::PublishRequest {
        scope: "s".to_owned(),
        event: Some(event("named", "x", "{}")),
        keys: Vec::new(),
        targets: Some(weir_proto::types::v1::Targets {
            work: work.clone(),
            attempt: 0,
        }),
    };
    let named = weir
        .user
        .events()
        .publish(request)
        .await
        .expect("accepted")
        .into_inner()
        .uid;
    assert_eq!(
        weir.record(&named).await.disposition(),
        Disposition::Unmatched
    );
    script.say(&format!("reroute/{named}/1"), [Say::Match]);
    let copy = weir.reroute(&named).await.expect("unmatched").event;
    assert_eq!(read(&weir, &copy).await.target_work, work);
    assert_eq!(weir.record(&copy).await.work, work, "targets are copied");
    for uid in [&failed, &skipped, &unmatched] {
        let id = format!("reroute/{uid}/1");
        script.say(&id, [Say::Match]);
        let answer = weir.reroute(uid).await.expect("it may be");
        assert!(answer.copied && answer.event != *uid);
        let (original, copy) = (read(&weir, uid).await, read(&weir, &answer.event).await);
        let (from, to) = (original.event.expect("kept"), copy.event.expect("kept"));
        assert_eq!(
            (&to.id, &to.source, &to.r#type),
            (&id, &from.source, &from.r#type)
        );
        assert_eq!((&to.attributes, &to.data), (&from.attributes, &from.data));
        assert_eq!(
            (&copy.copy_of, &copy.keys, &copy.scope),
            (uid, &original.keys, &original.scope)
        );
        assert_eq!(
            (&copy.root, &copy.parent, copy.depth),
            (&original.root, &original.parent, original.depth)
        );
        assert!(copy.position > original.position);
        assert_eq!(
            weir.record(&answer.event).await.disposition(),
            Disposition::Start
        );
        // The copy succeeded: there is no second one, of neither.
        let (code, reason, message, _) = refusal(weir.reroute(uid).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::FailedPrecondition, "ALREADY_REROUTED")
        );
        assert!(message.contains(&answer.event), "{message}");
        assert_eq!(
            refusal(weir.reroute(&answer.event).await).1,
            "ALREADY_ROUTED"
        );
    }
    assert_eq!(read(&weir, &failed).await.depth, 1);
    assert_eq!(
        weir.count("causal_bucket").await,
        buckets,
        "a copy spends no token"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r31_copies_are_numbered_and_there_is_one_live_copy_at_a_time() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    let first = publish(&weir, "e", "x", "{}", &["k"]).await;
    weir.record(&first).await;
    let id = |n: i32| format!("reroute/{first}/{n}");
    script.say(&id(1), [Say::Fail]);
    let live = weir.reroute(&first).await.expect("unmatched").event;
    stands(&weir, &live, PendingState::Backoff).await;
    assert_eq!(
        refusal(weir.reroute(&first).await).1,
        "ALREADY_REROUTED",
        "undecided is live"
    );
    weir.skip(&live).await.expect("unrouted");
    // Of a copy that came to nothing there is another, of the same first original, whoever is named.
    let second = weir.reroute(&live).await.expect("skipped").event;
    assert_eq!(
        weir.record(&second).await.disposition(),
        Disposition::Unmatched
    );
    let second_read = read(&weir, &second).await;
    assert_eq!(
        (second_read.event.expect("kept").id, second_read.copy_of),
        (id(2), first.clone())
    );

    // Two at once, both before the scope's lock.
    script.say(&id(3), [Say::Match]);
    let (tenant, scope) = numbers(&weir, "s").await;
    let mut hold = weir.db.hold().await;
    hold.hold_scope_order(tenant, scope).await;
    let release = async {
        weir.db.wait_until_blocked(2).await;
        hold.release().await;
    };
    let ((one, two), ()) = join(join(weir.reroute(&first), weir.reroute(&second)), release).await;
    let (won, lost) = match (one, two) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        both => panic!("exactly one wins: {both:?}"),
    };
    assert_eq!(refusal::<()>(Err(lost)).1, "ALREADY_REROUTED");
    assert_eq!(read(&weir, &won.event).await.event.expect("kept").id, id(3));
    assert_eq!(
        decided(&weir, &won.event).await.disposition(),
        Disposition::Start
    );

    // Other dispositions are not rerouted.
    let dropped = weir.routed("dropped", "drop", &[]).await.event;
    let (work, claimed) = (
        weir.work(&weir.record(&won.event).await.work).await,
        weir.claim().await.expect("ready"),
    );
    super::arrange::fail(
        &weir,
        &claimed,
        weir_proto::lifecycle::v1::FailureKind::Permanent,
    )
    .await;
    let terminal = weir.routed("terminal", "start", &["k"]).await;
    assert_eq!(terminal.work, work.work);
    for (uid, disposition) in [(&dropped, "drop"), (&terminal.event, "terminal")] {
        let (_, reason, message, _) = refusal(weir.reroute(uid).await);
        assert_eq!(reason, "ALREADY_ROUTED");
        assert!(message.contains(&format!("({disposition})")), "{message}");
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r32_the_control_event_and_the_audit_are_of_the_effects_transaction() {
    let weir = Weir::with(SCRIPTED).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    script.say("skipped", [Say::Fail]);
    let uid = publish(&weir, "skipped", "x", "{}", &["k"]).await;
    weir.pending(&uid).await;

    // It stands before its last write: nothing of it is there.
    let mut hold = weir.db.hold().await;
    hold.run(AssertSqlSafe(format!(
        "SELECT 1 FROM weir.event WHERE uid = '{uid}' FOR UPDATE"
    )))
    .await;
    let before = rows(&weir.db).await;
    let check = async {
        weir.db.wait_until_blocked(1).await;
        assert_eq!(rows(&weir.db).await, before);
        hold.release().await;
    };
    let (answer, ()) = join(weir.skip(&uid), check).await;
    let control = answer.expect("unrouted").control_event;
    let rerouted = weir.reroute(&uid).await.expect("skipped");
    for (control, kind, effect) in [
        (&control, "core.manual.skip_event", &uid),
        (
            &rerouted.control_event,
            "core.manual.reroute_event",
            &rerouted.event,
        ),
    ] {
        let (same_event, same_audit): (bool, bool) = sqlx::query_as(
            "SELECT (SELECT c.xmin::text = e.xmin::text FROM weir.event_body c, weir.event x, weir.event e \
                     WHERE c.uid = $1::uuid AND x.uid = c.uid AND e.uid = $2::uuid), \
                    (SELECT c.xmin::text = a.xmin::text FROM weir.event c, weir.audit a \
                     WHERE c.uid = $1::uuid AND a.uid = c.uid)",
        )
        .bind(control)
        .bind(effect)
        .fetch_one(weir.db.pool())
        .await
        .expect("all are there");
        let moved_on = *effect == rerouted.event;
        assert!(same_audit && (same_event || moved_on), "{kind}");
        let (action, actor, target, reason): (String, String, String, String) = sqlx::query_as(
            "SELECT action, actor, target::text, reason FROM weir.audit WHERE uid = $1::uuid",
        )
        .bind(control)
        .fetch_one(weir.db.pool())
        .await
        .expect("it is there");
        assert_eq!(
            (action.as_str(), actor.as_str(), &target, reason.as_str()),
            (kind, "tester", &uid, "test")
        );
        let seen = read(&weir, control).await;
        let envelope = seen.event.expect("kept");
        assert_eq!(
            (envelope.r#type.as_str(), seen.actor.as_str(), seen.depth),
            (kind, "tester", 0)
        );
        let Some(weir_proto::cloudevents::v1::cloud_event::Data::TextData(data)) = envelope.data
        else {
            panic!("it is text");
        };
        assert!(data.contains(&uid) && data.contains("test"), "{data}");
    }
    // What is refused leaves neither.
    let counts = (weir.count("event").await, weir.count("audit").await);
    weir.skip(&uid).await.expect_err("it is routed");
    weir.reroute(&running(&weir, "r", "r").await.1.trigger)
        .await
        .expect_err("it started work");
    assert_eq!(
        (weir.count("event").await, weir.count("audit").await),
        (counts.0 + 1, counts.1)
    );
    weir.stop().await;
}
