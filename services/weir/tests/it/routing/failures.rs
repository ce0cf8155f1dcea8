//! Handlers that fail, hang and panic (rules r20, r21, r22, r23, r24).

use std::time::Duration;

use weir_proto::types::v1::{Disposition, PendingState};

use super::arrange::{ALL, SCRIPTED, decided, hanging, publish, running, stands, untouched};
use super::script::Say;
use crate::outside::get;
use crate::support::Weir;

#[tokio::test(flavor = "multi_thread")]
async fn r20_a_panic_is_caught_with_its_message_and_backtrace() {
    let weir = Weir::with(SCRIPTED).await;
    weir.handlers.script.say("panics", [Say::Panic]);
    let uid = publish(&weir, "panics", "x", "{}", &["k"]).await;
    let record = weir.record(&uid).await;
    let found = (
        record.disposition(),
        record.reason.as_str(),
        record.route.as_str(),
        record.attempts,
    );
    assert_eq!(found, (Disposition::Failed, "handler_panic", "scripted", 1));
    assert!(
        record.error.contains("the script fell over"),
        "{}",
        record.error
    );
    assert!(
        record.error.contains("script.rs"),
        "it says where: {}",
        record.error
    );
    assert!(
        record.error.contains("routing::script"),
        "the backtrace names the handler: {}",
        record.error
    );
    // Routing goes on, with the same handler too.
    weir.handlers.script.say("well", [Say::Match]);
    let well = publish(&weir, "well", "x", "{}", &["k"]).await;
    assert_eq!(weir.record(&well).await.disposition(), Disposition::Start);
    assert_eq!(weir.handlers.script.calls("panics").len(), 1);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r20_a_call_that_never_returns_times_out_and_holds_nothing() {
    let config = SCRIPTED.replace(
        "handler: { rust: scripted },",
        "handler: { rust: scripted }, timeout: 100ms,",
    );
    let weir = Weir::with(&config).await;
    let script = &weir.handlers.script;
    script.say("hangs", [Say::Match]);
    script.close("hangs");
    let uid = publish(&weir, "hangs", "x", "{}", &["k"]).await;
    hanging(&weir, "hangs").await;
    assert_eq!(
        weir.routed("independent", "start", &["i"])
            .await
            .disposition(),
        Disposition::Start
    );
    stands(&weir, &uid, PendingState::Backoff).await;
    let pending = weir.pending(&uid).await;
    assert_eq!(pending.failures, 1);
    assert!(
        pending.last_error.contains("handler_timeout"),
        "{}",
        pending.last_error
    );
    assert!(
        pending.last_error.contains("no decision within 100ms"),
        "{}",
        pending.last_error
    );

    // Its call still hangs; the next one is another, and the event is decided by it.
    assert_eq!(script.hanging("hangs"), 1);
    script.open("hangs");
    weir.db.advance(Duration::from_secs(3)).await;
    assert_eq!(weir.record(&uid).await.disposition(), Disposition::Start);
    assert_eq!(
        weir.count("work").await,
        2,
        "the late answer decided nothing"
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r21_a_retryable_failure_is_counted_and_backs_off_and_is_answered_meanwhile() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    script.say("fails", [Say::Fail]);
    let uid = publish(&weir, "fails", "x", "{}", &["k"]).await;
    let mut waits = Vec::new();
    let mut first_failed_at = None;
    for failures in 1..=4 {
        let pending = weir.pending(&uid).await;
        let now = weir.db.now().await;
        assert_eq!(
            (pending.state(), pending.failures),
            (PendingState::Backoff, failures)
        );
        assert_eq!(pending.last_error, "handler_failed: upstream is away");
        let next = next_try(pending.next_try);
        waits.push((next - now).as_seconds_f64());
        assert_eq!(
            *first_failed_at.get_or_insert(pending.first_failed_at),
            pending.first_failed_at
        );
        // Within the backoff the failure is the answer, and nobody calls.
        assert_eq!(weir.pending(&uid).await.next_try, pending.next_try);
        assert_eq!(
            script.calls("fails").len(),
            usize::try_from(failures).expect("small")
        );
        weir.db
            .advance((next - now).to_std().expect("it is in the future") + Duration::from_millis(1))
            .await;
    }
    for (i, wait) in waits.iter().enumerate() {
        let plain = f64::from(2 << i);
        // It was read a moment after it was written.
        assert!(*wait > plain - 1.5 && *wait <= plain * 1.25, "{waits:?}");
    }
    weir.stop().await;
}

fn next_try(at: Option<prost_types::Timestamp>) -> chrono::DateTime<chrono::Utc> {
    let at = at.expect("it backs off");
    chrono::DateTime::from_timestamp(at.seconds, at.nanos.cast_unsigned()).expect("in range")
}

#[tokio::test(flavor = "multi_thread")]
async fn r22_a_new_generation_lifts_the_backoff_once_and_forgets_nothing() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    script.say("fails", [Say::Fail]);
    let uid = publish(&weir, "fails", "x", "{}", &["k"]).await;
    let before = weir.pending(&uid).await;
    assert_eq!(before.failures, 1);
    weir.apply(
        &format!("{SCRIPTED}\n# two\n").replace("max_attempts: 9", "max_attempts: 8"),
        1,
    )
    .await;
    // No time passed, as the database has it.
    let after = weir.pending(&uid).await;
    assert_eq!(
        (after.failures, after.first_failed_at),
        (2, before.first_failed_at)
    );
    assert_eq!(after.state(), PendingState::Backoff);
    // Once: the backoff holds again, however often somebody asks.
    weir.routed("other", "start", &["o"]).await;
    assert_eq!(weir.pending(&uid).await.failures, 2);
    assert_eq!(script.calls("fails").len(), 2);

    // The next generation may have what it takes.
    weir.apply(
        &SCRIPTED.replace(
            "slot: scripted, handler: { rust: scripted }",
            "slot: scripted, when: 'true'",
        ),
        2,
    )
    .await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.generation),
        (Disposition::Start, 3)
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_what_cannot_get_better_fails_at_once_on_its_work() {
    let config = SCRIPTED.replace("slot: scripted,", "slot: absent, when: 'false', binding: b }\n      - { slot: gone, when: 'event.type == \"gone\"', binding: gone }\n      - { slot: unclaimed, when: 'event.type == \"unclaimed\"', binding: other, policy: inject }\n      - { slot: scripted,");
    let weir = Weir::with(&config).await;
    weir.register(&ALL).await;
    let script = &weir.handlers.script;
    script.say("invalid", [Say::Invalid]);
    script.say("panic", [Say::Panic]);
    let (work, claimed) = running(&weir, "w", "k").await;
    let cases = [
        ("invalid", "x", "handler_invalid", "scripted", "no title"),
        (
            "panic",
            "x",
            "handler_panic",
            "scripted",
            "the script fell over",
        ),
        (
            "gone",
            "gone",
            "binding_invalid",
            "gone",
            "binding `gone` is not in the scope",
        ),
        (
            "unclaimed",
            "unclaimed",
            "policy_invalid",
            "unclaimed",
            "does not claim `inject`",
        ),
        ("attach", "attach", "handler_invalid", "attach", "attach: "),
    ];
    for (id, kind, code, route, error) in cases {
        let uid = publish(&weir, id, kind, r#"{"key":7}"#, &["k"]).await;
        let record = weir.record(&uid).await;
        assert_eq!(
            (record.disposition(), record.reason.as_str()),
            (Disposition::Failed, code),
            "{id}"
        );
        assert_eq!(
            (record.work.as_str(), record.route.as_str(), record.attempts),
            (work.as_str(), route, 1),
            "{id}"
        );
        assert!(record.error.contains(error), "{id}: {}", record.error);
        // The Work takes later input.
        let later = weir.routed(&format!("after {id}"), "start", &["k"]).await;
        assert_eq!(
            (later.disposition(), &later.work),
            (Disposition::Queue, &work)
        );
    }
    let missing = config.replace(
        "slot: absent, when: 'false'",
        "slot: absent, handler: { rust: absent }",
    );
    weir.apply(&missing, 1).await;
    let uid = publish(&weir, "missing", "x", "{}", &["k"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.reason.as_str()),
        (Disposition::Failed, "handler_missing")
    );
    assert_eq!(
        (record.work.as_str(), record.route.as_str(), record.attempts),
        (work.as_str(), "absent", 1)
    );
    assert_eq!(
        record.error,
        "handler `absent` is not registered with this service"
    );
    assert_eq!(weir.inputs(&work).await.len(), 1 + cases.len());
    weir.complete(&claimed)
        .await
        .expect("failed input blocks nothing");
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r23_a_retryable_failure_is_given_up_with_the_count_and_the_window() {
    let weir = Weir::with(SCRIPTED).await;
    let script = &weir.handlers.script;
    let work = weir.routed("w", "start", &["k"]).await.work;
    script.say("fails", [Say::Fail]);
    let uid = publish(&weir, "fails", "x", "{}", &["k"]).await;
    // Six failures within minutes: enough of them, too early.
    for failures in 1..=6 {
        let pending = weir.pending(&uid).await;
        assert_eq!(pending.failures, failures);
        weir.db.advance(Duration::from_secs(3 << failures)).await;
    }
    assert_eq!(weir.pending(&uid).await.failures, 7);
    let later = publish(&weir, "later", "start", "{}", &["k"]).await;
    weir.routed("unrelated", "start", &["u"]).await;
    assert!(untouched(&weir, &later).await);

    weir.db.advance(Duration::from_secs(15 * 60)).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (record.disposition(), record.reason.as_str()),
        (Disposition::Failed, "handler_failed")
    );
    assert_eq!(
        (record.error.as_str(), record.attempts),
        ("upstream is away", 8)
    );
    assert_eq!((&record.work, record.route.as_str()), (&work, "scripted"));
    // What stood behind it is decided.
    assert_eq!(decided(&weir, &later).await.work, work);

    // Long enough, and too few.
    script.say("rarely", [Say::Fail]);
    let rarely = publish(&weir, "rarely", "x", "{}", &["r"]).await;
    for failures in 1..=4 {
        assert_eq!(weir.pending(&rarely).await.failures, failures);
        weir.db.advance(Duration::from_secs(3_600)).await;
    }
    let record = weir.record(&rarely).await;
    assert_eq!(
        (record.disposition(), record.attempts, record.work.as_str()),
        (Disposition::Failed, 5, "")
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r25_giving_up_is_counted_by_code_and_without_names() {
    let weir = Weir::with(SCRIPTED).await;
    weir.handlers.script.say("bad", [Say::Invalid]);
    let uid = publish(&weir, "bad", "x", "{}", &["k"]).await;
    assert_eq!(weir.record(&uid).await.disposition(), Disposition::Failed);
    let counted = "weir_routing_events_failed_total{code=\"handler_invalid\"} 1";
    weir.db
        .wait_until("it is counted", async |_| {
            get(&weir.health, "/metrics").await.text().contains(counted)
        })
        .await;
    let metrics = get(&weir.health, "/metrics").await.text();
    for name in ["demo", uid.as_str(), "scripted"] {
        assert!(!metrics.contains(name), "`{name}` is in the metrics");
    }
    weir.stop().await;
}
