//! Reports an outcome until Weir has answered.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use weir_kernel::limits::{MAX_RESULT, MAX_TEXT, cut};
use weir_proto::lifecycle::v1::{
    CompleteRequest, FailRequest, FailureKind, ParkRequest, ReleaseRequest,
};
use weir_proto::types::v1::Lease;

use super::attempt::ending;
use super::renewal::Renewal;
use super::settings::wire_duration;
use super::{Ending, Outcome, may_pass};
use crate::{Backoff, Client, Problem};

/// How long one call may take. Longer than a commit ever does; a call that hangs is made again.
const CALL: Duration = Duration::from_secs(10);
/// How long an unanswered outcome is repeated after the lease's end. It may have counted, and the
/// stored outcome says so; a Weir that stays away for longer is not worth a held place.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for the routing of input where Weir gives no hint.
const UNROUTED_DELAY: Duration = Duration::from_millis(500);
/// Longest wait for it, whatever the hint: input may be routed sooner than its backoff says.
const UNROUTED_LIMIT: Duration = Duration::from_secs(5);

/// Reports `outcome` under the lease, which is kept meanwhile, and returns how the attempt ended
/// and the error that goes with it.
///
/// While input of the Work is unrouted, `Complete` is repeated (rule l06); when `give_up` is
/// cancelled before it counts, the Work is given back instead.
pub(super) async fn finish(
    client: &Client,
    lease: &Lease,
    mut outcome: Outcome,
    renewal: &mut Renewal,
    give_up: &CancellationToken,
) -> (Ending, String) {
    let mut backoff = Backoff::default();
    // Once an outcome may have counted, the lease may be gone because of it; only a repeat tells.
    let mut may_have_counted = false;
    loop {
        let problem = match report(client, lease, &outcome).await {
            Ok(()) => return confirmed(outcome),
            Err(problem) => problem,
        };
        let delay = if problem.reason == "LEASE_LOST" {
            return (Ending::LeaseLost, problem.message);
        } else if problem.reason == "UNROUTED_INPUT" {
            if give_up.is_cancelled() {
                outcome = Outcome::Release;
                continue;
            }
            problem
                .retry_after
                .unwrap_or(UNROUTED_DELAY)
                .min(UNROUTED_LIMIT)
        } else if may_pass(&problem) {
            may_have_counted = true;
            if give_up.is_cancelled() || Instant::now() >= renewal.until() + PATIENCE {
                return (Ending::Unknown, problem.message);
            }
            backoff.next_delay()
        } else {
            return (Ending::Refused, problem.message);
        };
        tracing::debug!(work.id = %lease.work, error = %problem.message, "outcome is reported again");
        if may_have_counted {
            tokio::select! { () = sleep(delay) => {}, () = give_up.cancelled() => {} }
        } else {
            tokio::select! {
                () = sleep(delay) => {}
                () = give_up.cancelled() => {}
                gone = renewal.run() => return (ending(gone), String::new()),
            }
        }
    }
}

fn confirmed(outcome: Outcome) -> (Ending, String) {
    match outcome {
        Outcome::Complete { .. } => (Ending::Completed, String::new()),
        Outcome::Fail {
            permanent: true,
            error,
            ..
        } => (Ending::FailedPermanent, error),
        Outcome::Fail {
            permanent: false,
            error,
            ..
        } => (Ending::FailedRetryable, error),
        Outcome::Park { .. } => (Ending::Parked, String::new()),
        Outcome::Release => (Ending::Released, String::new()),
    }
}

async fn report(client: &Client, lease: &Lease, outcome: &Outcome) -> Result<(), Problem> {
    let mut executor = client.executor();
    let lease = Some(lease.clone());
    let call = async {
        match outcome {
            Outcome::Complete { result } => {
                let result = cut(result, MAX_RESULT).to_owned();
                executor
                    .complete(CompleteRequest { lease, result })
                    .await
                    .map(drop)
            }
            Outcome::Fail {
                permanent,
                error,
                retry_after,
            } => {
                let kind = if *permanent {
                    FailureKind::Permanent
                } else {
                    FailureKind::Retryable
                };
                let request = FailRequest {
                    lease,
                    kind: kind.into(),
                    // The store keeps no NUL.
                    error: cut(&error.replace('\0', " "), MAX_TEXT).to_owned(),
                    retry_after: retry_after.map(wire_duration),
                };
                executor.fail(request).await.map(drop)
            }
            Outcome::Park {
                conditions,
                timeout,
                since,
            } => {
                let request = ParkRequest {
                    lease,
                    conditions: conditions.clone(),
                    timeout: timeout.map(wire_duration),
                    since: since.map(Into::into),
                };
                executor.park(request).await.map(drop)
            }
            Outcome::Release => executor.release(ReleaseRequest { lease }).await.map(drop),
        }
    };
    timeout(CALL, call)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
        .map_err(Problem::from)
}
