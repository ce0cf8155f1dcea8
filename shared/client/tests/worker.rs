//! The worker against a scripted service: what it claims, keeps, reports and gives back.

#![allow(clippy::unwrap_used, reason = "a test's unwrap is its assertion")]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use weir_client::executor::{
    Context, Ending, Error, Handler, Outcome, Report, Settings, Summary, Worker,
};
use weir_client::proto::lifecycle::v1::{
    Capability, ClaimedWork, OwnInput, RenewResponse, WaitCondition, wait_condition,
};
use weir_client::testing::{Call, FakeExecutorService, event, work};

struct Running {
    stop: CancellationToken,
    reports: mpsc::UnboundedReceiver<Report>,
    worker: JoinHandle<Result<Summary, Error>>,
}

fn settings() -> Settings {
    Settings::new("command", "triage")
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is no runtime of ours in a client"
)]
fn run<H: Handler>(service: &FakeExecutorService, mut settings: Settings, handler: H) -> Running {
    let (sender, reports) = mpsc::unbounded_channel();
    settings.observer = Some(Arc::new(move |report: &Report| {
        let _ = sender.send(report.clone());
    }));
    let stop = CancellationToken::new();
    let worker = Worker::new(service.client(), settings);
    let token = stop.clone();
    Running {
        stop,
        reports,
        worker: tokio::spawn(async move { worker.run(handler, token).await }),
    }
}

impl Running {
    async fn report(&mut self) -> Report {
        self.reports.recv().await.expect("an attempt ends")
    }

    async fn stopped(self) -> Summary {
        self.stop.cancel();
        self.worker.await.expect("no panic").expect("a good end")
    }
}

fn refusal(code: Code, reason: &str, retry: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "weir", [("event".to_owned(), "e9".to_owned())]);
    if retry.is_some() {
        details.set_retry_info(retry);
    }
    Status::with_error_details(code, "refused", details)
}

async fn complete(work: ClaimedWork, _: Context) -> Outcome {
    Outcome::complete(work.lease.unwrap_or_default().work)
}

#[tokio::test]
async fn concurrency_is_bounded_by_credits_and_each_end_frees_one() {
    let mut service = FakeExecutorService::start().await;
    let mut settings = settings();
    settings.concurrency = 2;
    settings.capabilities = vec![Capability::Interrupt];
    settings.scope = "github".to_owned();
    let running = run(&service, settings, complete);
    let first = service.call(|_| true).await;
    assert_eq!(
        first,
        Call::Register {
            executor: "command".to_owned(),
            capabilities: vec![2]
        }
    );
    let claim = service.call(|_| true).await;
    assert_eq!(
        claim,
        Call::Claim {
            binding: "triage".to_owned(),
            scope: "github".to_owned(),
            credits: 2
        }
    );
    for name in ["a", "b", "c"] {
        service.offer(work(name, 60_000, &[]));
        service
            .call(|call| matches!(call, Call::Complete(done) if done == name))
            .await;
        service.call(|call| *call == Call::Credits(1)).await;
    }
    let summary = running.stopped().await;
    assert_eq!((summary.claimed, summary.completed), (3, 3));
}

#[tokio::test]
async fn a_panic_is_a_retryable_failure() {
    let mut service = FakeExecutorService::start().await;
    async fn boom(_: ClaimedWork, _: Context) -> Outcome {
        panic!("boom")
    }
    let mut running = run(&service, settings(), boom);
    service.offer(work("a", 60_000, &[]));
    let call = service.call(|call| matches!(call, Call::Fail { .. })).await;
    assert_eq!(
        call,
        Call::Fail {
            permanent: false,
            error: "handler panicked: boom".to_owned()
        }
    );
    assert_eq!(running.report().await.ending, Ending::FailedRetryable);
    running.stopped().await;
}

#[tokio::test]
async fn l06_complete_is_repeated_while_input_is_unrouted() {
    let mut service = FakeExecutorService::start().await;
    service.refuse(
        "complete",
        refusal(
            Code::FailedPrecondition,
            "UNROUTED_INPUT",
            Some(Duration::from_millis(1)),
        ),
    );
    let mut running = run(&service, settings(), complete);
    service.offer(work("a", 60_000, &[]));
    for _ in 0..2 {
        service
            .call(|call| *call == Call::Complete("a".to_owned()))
            .await;
    }
    assert_eq!(running.report().await.ending, Ending::Completed);
    running.stopped().await;
}

#[tokio::test]
async fn l10_a_handler_parks_its_work() {
    let mut service = FakeExecutorService::start().await;
    service.refuse("park", Status::unavailable("the connection broke"));
    let own = WaitCondition {
        condition: Some(wait_condition::Condition::OwnInput(OwnInput {})),
    };
    async fn park(_: ClaimedWork, _: Context) -> Outcome {
        let own = wait_condition::Condition::OwnInput(OwnInput {});
        let conditions = vec![WaitCondition {
            condition: Some(own),
        }];
        Outcome::park(conditions, Some(Duration::from_secs(60)))
    }
    let mut running = run(&service, settings(), park);
    service.offer(work("a", 60_000, &[]));
    for _ in 0..2 {
        let call = service.call(|call| matches!(call, Call::Park(_))).await;
        assert_eq!(call, Call::Park(vec![own.clone()]), "repeated as it was");
    }
    assert_eq!(running.report().await.ending, Ending::Parked);
    assert_eq!(running.stopped().await.parked, 1);
}

#[tokio::test]
async fn o08_an_unanswered_outcome_is_reported_again() {
    let mut service = FakeExecutorService::start().await;
    service.refuse("complete", Status::unavailable("the connection broke"));
    service.refuse("complete", Status::unknown("transport error"));
    let mut running = run(&service, settings(), complete);
    service.offer(work("a", 60_000, &[]));
    for _ in 0..3 {
        service
            .call(|call| *call == Call::Complete("a".to_owned()))
            .await;
    }
    assert_eq!(running.report().await.ending, Ending::Completed);
    running.stopped().await;
}

#[tokio::test]
async fn l02_a_lost_lease_drops_the_handler_and_reports_nothing() {
    let mut service = FakeExecutorService::start().await;
    service.refuse("renew", refusal(Code::Aborted, "LEASE_LOST", None));
    let (dropped, mut ended) = mpsc::unbounded_channel();
    let handler = move |_: ClaimedWork, context: Context| {
        let (dropped, token) = (dropped.clone(), context.ended());
        async move {
            let _held = dropped;
            let _context = context;
            token.cancelled().await;
            std::future::pending::<Outcome>().await
        }
    };
    let mut running = run(&service, settings(), handler);
    service.offer(work("a", 60, &[]));
    assert_eq!(running.report().await.ending, Ending::LeaseLost);
    let summary = running.stopped().await;
    assert_eq!(summary.lost, 1);
    assert_eq!(
        ended.recv().await,
        None::<()>,
        "every handler, and the factory, is gone"
    );
    let writes = service.rest();
    assert!(
        !writes
            .iter()
            .any(|call| matches!(call, Call::Complete(_) | Call::Fail { .. })),
        "{writes:?}"
    );
}

#[tokio::test]
async fn l03_the_lease_is_renewed_and_a_cancellation_ends_the_attempt() {
    let mut service = FakeExecutorService::start().await;
    service.renew_with(RenewResponse::default());
    service.renew_with(RenewResponse {
        cancelled: true,
        ..RenewResponse::default()
    });
    let mut running = run(&service, settings(), |_: ClaimedWork, _: Context| {
        std::future::pending::<Outcome>()
    });
    service.offer(work("a", 600, &[]));
    for _ in 0..2 {
        service.call(|call| *call == Call::Renew).await;
    }
    assert_eq!(running.report().await.ending, Ending::Cancelled);
    running.stopped().await;
}

#[tokio::test]
async fn l05_an_inject_is_told_once_and_consumed_by_its_acknowledgement() {
    let mut service = FakeExecutorService::start().await;
    for _ in 0..2 {
        service.renew_with(RenewResponse {
            injects: vec![event("presented"), event("late")],
            interrupts: vec![event("stop")],
            ..RenewResponse::default()
        });
    }
    let mut settings = settings();
    settings.capabilities = vec![Capability::Inject, Capability::Interrupt];
    let handler = |_: ClaimedWork, context: Context| async move {
        let late = context.next_inject().await;
        let taken = context
            .acknowledge(vec![late.uid])
            .await
            .expect("it is ours");
        let stop = context.next_interrupt().await;
        Outcome::complete(format!("{} {}", taken.join(","), stop.uid))
    };
    let running = run(&service, settings, handler);
    service.offer(work("a", 300, &["presented"]));
    service
        .call(|call| *call == Call::Acknowledge(vec!["late".to_owned()]))
        .await;
    service
        .call(|call| *call == Call::Complete("late stop".to_owned()))
        .await;
    running.stopped().await;
}

#[tokio::test]
async fn o02_a_drain_lets_handlers_end_and_claims_no_more() {
    let service = FakeExecutorService::start().await;
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began, may_end) = (Arc::clone(&started), Arc::clone(&go));
    let handler = move |work: ClaimedWork, context: Context| {
        let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
        async move {
            began.notify_one();
            may_end.notified().await;
            complete(work, context).await
        }
    };
    let running = run(&service, settings(), handler);
    service.offer(work("a", 60_000, &[]));
    started.notified().await;
    running.stop.cancel();
    service.offer(work("b", 60_000, &[]));
    go.notify_one();
    let summary = running.stopped().await;
    assert_eq!((summary.claimed, summary.completed), (1, 1));
}

#[tokio::test]
async fn o02_what_outlasts_the_grace_is_given_back() {
    let mut service = FakeExecutorService::start().await;
    let mut settings = settings();
    settings.grace = Duration::ZERO;
    let started = Arc::new(Notify::new());
    let began = Arc::clone(&started);
    let handler = move |_: ClaimedWork, _: Context| {
        began.notify_one();
        std::future::pending::<Outcome>()
    };
    let running = run(&service, settings, handler);
    service.offer(work("a", 60_000, &[]));
    started.notified().await;
    let summary = running.stopped().await;
    assert_eq!(summary.released, 1);
    service
        .call(|call| *call == Call::Release("a".to_owned()))
        .await;
}

#[tokio::test]
async fn a_worker_ends_after_its_last_work_or_when_nothing_comes() {
    let service = FakeExecutorService::start().await;
    let mut few = settings();
    few.concurrency = 8;
    few.max_works = Some(2);
    let running = run(&service, few, complete);
    for name in ["a", "b", "c"] {
        service.offer(work(name, 60_000, &[]));
    }
    let summary = running.worker.await.unwrap().unwrap();
    assert_eq!((summary.claimed, summary.completed), (2, 2));

    let mut idle = settings();
    idle.idle_exit = Some(Duration::from_millis(200));
    let summary = run(&service, idle, complete).worker.await.unwrap().unwrap();
    assert_eq!(summary.completed, 1, "what was offered is done first");
}

#[tokio::test]
async fn a_lost_stream_is_opened_again_and_a_refused_claim_is_final() {
    let mut service = FakeExecutorService::start().await;
    service.refuse("claim", Status::unavailable("restarting"));
    service.refuse("claim", refusal(Code::Aborted, "BINDING_CHANGED", None));
    service.refuse("claim", refusal(Code::NotFound, "BINDING_NOT_FOUND", None));
    let running = run(&service, settings(), complete);
    let Err(Error::Refused { problem, .. }) = running.worker.await.unwrap() else {
        panic!("a binding that is not there is final");
    };
    assert_eq!(problem.reason, "BINDING_NOT_FOUND");
    let registered = service
        .rest()
        .iter()
        .filter(|call| matches!(call, Call::Register { .. }))
        .count();
    assert_eq!(registered, 3, "each stream begins with a registration");
}
