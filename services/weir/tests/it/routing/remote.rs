//! Remote handlers (rules r20, r51, o07).

use std::time::Duration;

use futures::future::join_all;
use tonic::Code;
use tonic_health::ServingStatus;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_proto::gateway::v1::{TraceEventRequest, TraceEventResponse};
use weir_proto::routing::v1::ValidateConfigRequest;
use weir_proto::types::v1::{Disposition, PendingState, VerdictOutcome, WorkState};
use weir_routing::handler::MAX_CALLS;

use super::arrange::{publish, stands};
use super::remote_server::{Remote, Say, report};
use crate::support::{Weir, event};

/// Scope `s`, where a remote handler decides about all but `start`, within `timeout`.
fn config(url: &str, timeout: &str) -> String {
    format!(
        r#"
scopes:
  - name: root
  - name: s
    parent: root
    bindings: {{ b: {{ executor: e }} }}
    routes:
      - {{ slot: start, when: 'event.type == "start"', binding: b }}
      - {{ slot: score, handler: {{ remote: "{url}", name: score }}, timeout: {timeout}, binding: b, attach: ['event.data.key'] }}
  - name: t
    parent: root
    bindings: {{ b: {{ executor: e }} }}
    routes:
      - {{ slot: impatient, handler: {{ remote: "{url}/", name: other }}, timeout: 100ms, binding: b }}
"#
    )
}

fn takes(reason: &str, attach: &[&str]) -> Say {
    let attach = attach.iter().map(|k| (*k).to_owned()).collect();
    Say::Match(reason.to_owned(), attach)
}

async fn trace(weir: &Weir, scope: &str, id: &str) -> TraceEventResponse {
    let request = TraceEventRequest {
        scope: scope.to_owned(),
        event: Some(event(id, "x", "{}")),
        ..Default::default()
    };
    let traced = weir.user.control().trace_event(request).await;
    traced.expect("traceable").into_inner()
}

/// What the remote route said in a trace: failure code and error.
fn failure(trace: &TraceEventResponse) -> (String, String) {
    let verdict = trace.verdicts.last().expect("the last route is remote");
    let error = trace.effect.as_ref().expect("always there").error.clone();
    (verdict.failure.clone(), error)
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_a_remote_handler_decides() {
    let remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "5s")).await;
    let data = r#"{"key":"d/1", "n":18446744073709551615}"#;
    let long = format!("score 3\nsecond line {}", "x".repeat(1_000));
    remote.say("1", takes(&long, &["a/1"]));
    let uid = publish(&weir, "1", "x", data, &["k/1"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (
            record.disposition(),
            record.route.as_str(),
            record.reason.as_str()
        ),
        (Disposition::Start, "score", "score 3")
    );
    let work = weir.work(&record.work).await;
    assert_eq!(work.keys, ["a/1", "d/1", "k/1"]);

    let [call] = &remote.calls("1")[..] else {
        panic!("it is asked once: {:?}", remote.calls("1"));
    };
    let asked = &call.request;
    assert_eq!(
        (asked.name.as_str(), asked.scope.as_str(), asked.dry_run),
        ("score", "s", false)
    );
    assert_eq!(
        (asked.keys.clone(), &asked.work),
        (vec!["k/1".to_owned()], &None)
    );
    let envelope = asked.event.as_ref().expect("it is sent");
    assert_eq!(
        (envelope.source.as_str(), envelope.r#type.as_str()),
        ("test", "x")
    );
    assert_eq!(envelope.data, Some(Data::TextData(data.to_owned())));
    assert!(call.timeout.is_some(), "it knows its deadline");

    // The Work as it stands now, and nothing that is of no concern to a handler.
    remote.say("2", Say::Skip("not\tmine".to_owned()));
    let uid = publish(&weir, "2", "x", "{}", &["a/1"]).await;
    let record = weir.record(&uid).await;
    assert_eq!(record.disposition(), Disposition::Unmatched);
    let refusal = record.refusals.last().expect("it declined");
    assert_eq!(
        (refusal.route.as_str(), refusal.reason.as_str()),
        ("score", "notmine")
    );
    let seen = remote
        .calls("2")
        .remove(0)
        .request
        .work
        .expect("it belongs to one");
    assert_eq!((&seen.work, seen.state()), (&work.work, WorkState::Ready));
    assert_eq!(
        (&seen.keys, &seen.binding, &seen.scope, seen.created_at),
        (&work.keys, &work.binding, &work.scope, work.created_at)
    );
    assert_eq!((seen.revision, seen.epoch, seen.blocked_by), (0, 0, None));
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_each_status_has_its_failure_code() {
    let remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "20s")).await;
    for number in 1..=16 {
        let code = Code::from_i32(number);
        let text = format!("line one {}\nline two", "x".repeat(600));
        remote.say("1", Say::Status(code, text));
        let (failure, error) = failure(&trace(&weir, "s", "1").await);
        let expected = match code {
            Code::InvalidArgument => "handler_invalid",
            Code::DeadlineExceeded => "handler_timeout",
            _ => "handler_failed",
        };
        assert_eq!(failure, expected, "{code:?}");
        let name = weir_rpc::code_name(code);
        assert!(error.starts_with(&format!("{name}: line one x")), "{error}");
        assert!(!error.contains('\n') && error.len() <= 530, "{error}");
    }
    // What is wrong with an answer.
    remote.say("1", takes("", &["k\0"]));
    assert_eq!(failure(&trace(&weir, "s", "1").await).0, "handler_invalid");
    remote.say("1", takes(&"x".repeat(3 << 20), &[]));
    let (code, error) = failure(&trace(&weir, "s", "1").await);
    assert_eq!(code, "handler_failed", "{error}");

    // Routed, what is malformed is final and what may heal is tried again.
    remote.say(
        "bad",
        Say::Status(Code::InvalidArgument, "no title".to_owned()),
    );
    let uid = publish(&weir, "bad", "x", "{}", &[]).await;
    let record = weir.record(&uid).await;
    assert_eq!(
        (
            record.disposition(),
            record.reason.as_str(),
            record.error.as_str()
        ),
        (
            Disposition::Failed,
            "handler_invalid",
            "INVALID_ARGUMENT: no title"
        )
    );
    remote.say("away", Say::Status(Code::Internal, String::new()));
    let uid = publish(&weir, "away", "x", "{}", &[]).await;
    let pending = weir.pending(&uid).await;
    assert_eq!(
        (pending.state(), pending.last_error.as_str()),
        (PendingState::Backoff, "handler_failed: INTERNAL")
    );
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_a_hung_remote_handler_times_out_and_holds_nothing() {
    let remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "1s")).await;
    remote.say("hangs", Say::Hang);
    remote.say("well", takes("", &[]));
    let uid = publish(&weir, "hangs", "x", "{}", &["k"]).await;
    // Neither independent Work nor the same handler's other events wait for it.
    let start = weir.routed("independent", "start", &["i"]).await;
    assert_eq!(start.disposition(), Disposition::Start);
    let well = publish(&weir, "well", "x", "{}", &["w"]).await;
    assert_eq!(weir.record(&well).await.disposition(), Disposition::Start);
    stands(&weir, &uid, PendingState::Backoff).await;
    let pending = weir.pending(&uid).await;
    assert_eq!(pending.last_error, "handler_timeout: no decision within 1s");
    // The handler was told that nobody waits any more.
    remote.hanging(0).await;
    assert_eq!(remote.calls("hangs").len(), 1);
    remote.say("hangs", takes("", &[]));
    weir.db.advance(Duration::from_secs(3)).await;
    assert_eq!(weir.record(&uid).await.disposition(), Disposition::Start);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_more_calls_than_an_endpoint_takes_wait_within_their_deadline() {
    let remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "25s")).await;
    remote.say("hangs", Say::Hang);
    let calls = join_all((0..MAX_CALLS).map(|_| trace(&weir, "s", "hangs")));
    let further = async {
        remote.hanging(MAX_CALLS).await;
        // Another route of the same endpoint, in another spelling.
        let (code, error) = failure(&trace(&weir, "t", "late").await);
        assert_eq!(code, "handler_timeout");
        assert!(error.contains("are under way"), "{error}");
        assert!(remote.calls("late").is_empty(), "it was not sent");
        // One that has more time gets the place of one that ends.
        let waits = trace(&weir, "s", "waits");
        let frees = async { remote.free() };
        let (waited, ()) = tokio::join!(waits, frees);
        let verdict = waited.verdicts.last().expect("the last route is remote");
        assert_eq!(verdict.outcome(), VerdictOutcome::Skip);
    };
    let (all, ()) = tokio::join!(calls, further);
    for traced in all {
        let verdict = traced.verdicts.last().expect("the last route is remote");
        assert_eq!(
            (verdict.outcome(), verdict.reason.as_str()),
            (VerdictOutcome::Match, "late")
        );
    }
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_it_reconnects_after_a_restart() {
    let mut remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "5s")).await;
    for id in ["1", "2", "3"] {
        remote.say(id, takes("", &[]));
    }
    let first = publish(&weir, "1", "x", "{}", &[]).await;
    assert_eq!(weir.record(&first).await.disposition(), Disposition::Start);
    remote.stop().await;
    let second = publish(&weir, "2", "x", "{}", &[]).await;
    stands(&weir, &second, PendingState::Backoff).await;
    let error = weir.pending(&second).await.last_error;
    assert!(error.starts_with("handler_failed: UNAVAILABLE"), "{error}");
    assert!(!error.contains(&remote.url()), "{error}");

    remote.restart().await;
    let third = publish(&weir, "3", "x", "{}", &[]).await;
    assert_eq!(weir.record(&third).await.disposition(), Disposition::Start);
    weir.db.advance(Duration::from_secs(3)).await;
    assert_eq!(weir.record(&second).await.disposition(), Disposition::Start);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_a_trace_says_dry_run() {
    let remote = Remote::start().await;
    let weir = Weir::with(&config(&remote.url(), "5s")).await;
    remote.say("traced", takes("as told", &["a"]));
    let before = crate::outside::rows(&weir.db).await;
    let traced = weir.trace("x", "{}", &["k"]).await;
    let effect = traced.effect.expect("always there");
    assert_eq!(
        (effect.route.as_str(), effect.reason.as_str()),
        ("score", "as told")
    );
    assert_eq!(effect.keys, ["a", "k"]);
    assert_eq!(crate::outside::rows(&weir.db).await, before);
    let uid = publish(&weir, "traced", "x", "{}", &["k"]).await;
    weir.record(&uid).await;
    let dry: Vec<bool> = remote
        .calls("traced")
        .iter()
        .map(|c| c.request.dry_run)
        .collect();
    assert_eq!(dry, [true, false]);
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r51_an_address_that_is_none_is_refused_with_its_place() {
    let weir = Weir::with(&config("http://127.0.0.1:1", "5s")).await;
    let request = ValidateConfigRequest {
        document: config("https://u:hidden@h:1", "5s"),
    };
    let answer = weir.user.config().validate_config(request).await;
    let problems = answer.expect("it validates").into_inner().problems;
    let errors: Vec<_> = problems.iter().filter(|p| p.severity == "error").collect();
    assert_eq!(errors.len(), 2, "{problems:?}");
    assert_eq!(
        (errors[0].path.as_str(), errors[0].line, errors[0].column),
        ("scopes[1].routes[1].handler.remote", 9, 43)
    );
    assert!(problems.iter().all(|p| !p.message.contains("hidden")));
    weir.stop().await;
}

async fn page(weir: &Weir, path: &str) -> (u16, String) {
    let answer = reqwest::get(format!("{}{path}", weir.health)).await;
    let answer = answer.expect("the health port is open");
    (answer.status().as_u16(), answer.text().await.expect("text"))
}

/// Waits until the page says this of its only endpoint, and returns its status and text.
async fn becomes(weir: &Weir, state: &str) -> (u16, String) {
    let said = format!(r#""state":"{state}""#);
    weir.db
        .wait_until("the page says it", async |_| {
            page(weir, "/health/handlers").await.1.contains(&said)
        })
        .await;
    page(weir, "/health/handlers").await
}

#[tokio::test(flavor = "multi_thread")]
async fn o07_the_handlers_page_says_503_when_one_is_down_and_readiness_does_not_change() {
    let mut remote = Remote::start().await;
    let weir = Weir::with("scopes: [ { name: root } ]").await;
    let none = (200, r#"{"handlers":[]}"#.to_owned());
    assert_eq!(page(&weir, "/health/handlers").await, none);
    weir.apply(&config(&remote.url(), "5s"), 1).await;
    let (status, text) = becomes(&weir, "up").await;
    assert_eq!(status, 200, "{text}");
    let said: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let line = &said["handlers"][0];
    assert_eq!(line["endpoint"], remote.url());
    assert_eq!(line["names"], serde_json::json!(["other", "score"]));
    assert!(
        line["latency_ms"].as_f64().is_some_and(|ms| ms > 0.0),
        "{text}"
    );
    let at = line["probed_at"].as_str().expect("it was probed");
    chrono::DateTime::parse_from_rfc3339(at).expect("a time");
    assert!(line["message"].as_str().is_some_and(|m| !m.is_empty()));
    assert!(!text.contains("demo"), "no tenant: {text}");

    remote.stop().await;
    let (status, text) = becomes(&weir, "down").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("it cannot be reached"), "{text}");
    assert_eq!(page(&weir, "/health/ready").await.0, 200);
    remote.restart().await;
    assert_eq!(becomes(&weir, "up").await.0, 200);

    // What no generation names any more is not asked any more.
    weir.apply("scopes: [ { name: root } ]", 2).await;
    weir.db
        .wait_until("the page is empty", async |_| {
            page(&weir, "/health/handlers").await == none
        })
        .await;
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o07_a_handler_that_serves_health_says_how_it_is() {
    let (remote, reporter) = Remote::with_health().await;
    let weir = Weir::with(&config(&remote.url(), "5s")).await;
    // The server as a whole, as the service is not registered.
    assert_eq!(becomes(&weir, "up").await.0, 200);
    report(&reporter, ServingStatus::NotServing).await;
    let (status, text) = becomes(&weir, "down").await;
    assert_eq!(status, 503);
    assert!(text.contains("it says that it does not serve"), "{text}");
    assert_eq!(page(&weir, "/health/ready").await.0, 200);
    report(&reporter, ServingStatus::Unknown).await;
    assert_eq!(becomes(&weir, "unknown").await.0, 200);
    report(&reporter, ServingStatus::Serving).await;
    assert_eq!(becomes(&weir, "up").await.0, 200);
    weir.stop().await;
}
