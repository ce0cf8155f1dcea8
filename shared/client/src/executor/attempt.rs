//! One attempt, from its claim to its end.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_proto::lifecycle::v1::ClaimedWork;
use weir_proto::types::v1::Lease;

use super::finish::finish;
use super::renewal::{Gone, Renewal};
use super::{Context, Ending, Handler, Outcome, Report, Settings};
use crate::Client;

/// Taken when Weir does not say how long a lease is.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Runs the handler on a claimed Work while the lease holds, and reports its outcome. When
/// `give_up` is cancelled, the handler is dropped and the Work given back.
pub(super) async fn run<H: Handler>(
    client: Client,
    handler: Arc<H>,
    settings: Arc<Settings>,
    work: ClaimedWork,
    give_up: CancellationToken,
) -> Report {
    let began = Instant::now();
    let lease = work.lease.clone().unwrap_or_default();
    let scope = work.scope.clone();
    let (ending, detail) = endure(&client, &handler, &settings, &lease, work, &give_up).await;
    let report = Report {
        work: lease.work,
        attempt: lease.attempt,
        scope,
        ending,
        detail,
        took: began.elapsed(),
    };
    tracing::debug!(work.id = %report.work, attempt = report.attempt, ending = report.ending.as_str(), "attempt ended");
    report
}

async fn endure<H: Handler>(
    client: &Client,
    handler: &Arc<H>,
    settings: &Settings,
    lease: &Lease,
    work: ClaimedWork,
    give_up: &CancellationToken,
) -> (Ending, String) {
    let length = work
        .lease_duration
        .and_then(|length| Duration::try_from(length).ok())
        .filter(|length| !length.is_zero())
        .unwrap_or(DEFAULT_LEASE);
    let (context, signals) = Context::new(client.clone(), lease.clone(), &work);
    let mut renewal = Renewal::new(
        client.clone(),
        lease.clone(),
        length,
        settings.lease,
        settings.listens(),
        signals,
    );
    let outcome = {
        // The block ends the handler's future, and with it what it runs, before anything is
        // reported.
        let handling =
            AssertUnwindSafe(async { handler.handle(work, context).await }).catch_unwind();
        tokio::select! {
            // In this order: an outcome that is there is worth reporting even if the drain's time
            // ran out in the same moment.
            biased;
            outcome = handling => outcome.unwrap_or_else(|panic| Outcome::retry(panic_text(panic.as_ref()))),
            gone = renewal.run() => return (ending(gone), String::new()),
            () = give_up.cancelled() => Outcome::Release,
        }
    };
    finish(client, lease, outcome, &mut renewal, give_up).await
}

pub(super) fn ending(gone: Gone) -> Ending {
    match gone {
        Gone::LeaseLost => Ending::LeaseLost,
        Gone::Cancelled => Ending::Cancelled,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    format!("handler panicked: {text}")
}
