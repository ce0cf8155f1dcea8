//! The executor SDK: everything around a handler that turns claimed Work into an outcome.
//!
//! A [`Worker`] registers its executor, holds one claim stream open and grants it as many credits
//! as it has free places, so that concurrency is bounded and Weir never hands out what would only
//! wait here. Each claimed Work becomes an attempt, and an attempt is one task that
//!
//! - runs the handler and catches its panic (a retryable failure),
//! - renews the lease well before half of it, which also brings injects, interrupts and the news of
//!   a cancellation to the [`Context`],
//! - drops the handler's future as soon as the attempt has no authority any more: Weir said so, or
//!   the lease ran out by this machine's monotonic clock while Weir could not be reached. Somebody
//!   else may own the Work then, and what has no authority must not act,
//! - reports the outcome until Weir has answered. A repeat is safe: the outcome is stored with the
//!   attempt and answered again (rule o08), and one that comes too late changes nothing (rule l02).
//!
//! Nothing here decides whether an attempt still counts. That is the fencing epoch's business, in
//! the transaction of each write; the clock above only spares needless work.

mod attempt;
mod connection;
mod context;
mod finish;
mod renewal;
mod settings;
mod worker;

use std::future::Future;
use std::time::{Duration, SystemTime};

use tonic::Code;
use weir_proto::lifecycle::v1::{ClaimedWork, WaitCondition};

use crate::Problem;

pub use context::Context;
pub use settings::{Observer, Settings};
pub use worker::{Error, Summary, Worker};

/// How a handler's run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; what the claim presented is consumed.
    Complete {
        /// Result in words; cut at 64 KiB.
        result: String,
    },
    /// It failed.
    Fail {
        /// Trying again will not help, and the Work ends.
        permanent: bool,
        /// What happened; cut at 4,096 bytes.
        error: String,
        /// Not to be tried before; Weir only ever lengthens it.
        retry_after: Option<Duration>,
    },
    /// It waits: what the claim presented is consumed, and another attempt goes on with what wakes it.
    Park {
        /// Wakes on the first that holds; at most 32, at least one unless there is a timeout.
        conditions: Vec<WaitCondition>,
        /// Wakes at the latest after, 1 ms to 366 days.
        timeout: Option<Duration>,
        /// Events count from this attempt's claim on; this moves it later.
        since: Option<SystemTime>,
    },
    /// It is given back, uncounted, for somebody else.
    Release,
}

impl Outcome {
    /// Done, with a result in words.
    pub fn complete(result: impl Into<String>) -> Self {
        Self::Complete {
            result: result.into(),
        }
    }

    /// Failed, and trying again may help.
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Fail {
            permanent: false,
            error: error.into(),
            retry_after: None,
        }
    }

    /// Waits for the first of `conditions`, or for `timeout` to pass.
    #[must_use]
    pub const fn park(conditions: Vec<WaitCondition>, timeout: Option<Duration>) -> Self {
        Self::Park {
            conditions,
            timeout,
            since: None,
        }
    }

    /// Failed for good.
    pub fn give_up(error: impl Into<String>) -> Self {
        Self::Fail {
            permanent: true,
            error: error.into(),
            retry_after: None,
        }
    }
}

/// What turns a claimed Work into an outcome. Any `Fn(ClaimedWork, Context) -> impl Future` is one.
///
/// # Cancel safety
/// The future is dropped when the attempt loses its authority and when a drain runs out of time.
/// What it started must stop with it; what it did before may be done again by another attempt.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt. A panic is a retryable failure.
    fn handle(&self, work: ClaimedWork, context: Context) -> impl Future<Output = Outcome> + Send;
}

impl<F, R> Handler for F
where
    F: Fn(ClaimedWork, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    fn handle(&self, work: ClaimedWork, context: Context) -> impl Future<Output = Outcome> + Send {
        self(work, context)
    }
}

/// How an attempt ended, as Weir confirmed it or as it stands to this worker's knowledge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Completed.
    Completed,
    /// Failed; Weir tries it again.
    FailedRetryable,
    /// Failed for good.
    FailedPermanent,
    /// Parked: the Work waits.
    Parked,
    /// Given back.
    Released,
    /// The lease was lost; another attempt takes over.
    LeaseLost,
    /// The Work was cancelled.
    Cancelled,
    /// The outcome was refused; the lease runs out by itself.
    Refused,
    /// Nobody answered in time whether the outcome counts.
    Unknown,
}

impl Ending {
    /// Returns the lower_snake word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::FailedRetryable => "failed_retryable",
            Self::FailedPermanent => "failed_permanent",
            Self::Parked => "parked",
            Self::Released => "released",
            Self::LeaseLost => "lease_lost",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// The end of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The Work.
    pub work: String,
    /// The attempt's number.
    pub attempt: i32,
    /// Scope of the Work.
    pub scope: String,
    /// How it ended.
    pub ending: Ending,
    /// The error of a failure or refusal, else empty.
    pub detail: String,
    /// From the claim to the answer.
    pub took: Duration,
}

/// Whether Weir, or the way to it, was not there, so that the same call may pass later. Whether it
/// took effect is unknown. Internal is among them because that is what a connection that breaks
/// under a call looks like.
fn may_pass(problem: &Problem) -> bool {
    matches!(
        problem.code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
    )
}
