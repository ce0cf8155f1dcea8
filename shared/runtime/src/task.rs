//! Loops: a step that does one bounded batch, and the one driver that waits.
//!
//! A step is idempotent, takes no input and never retries inside: the next step is the retry. It runs
//! on a timer *and* on a wake-up that carries no data, so that the rare path and the common path are
//! the same. Only the driver sleeps; tests call the step.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use metrics::{counter, histogram};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The first pause after a failure; each further one is twice as long, up to the longer of
/// [`BACKOFF_MAX`] and the task's interval.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// What a step found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A full batch: there may be more, so the next step follows at once.
    More,
    /// Nothing further to do now.
    Idle,
}

/// A loop's body as a value.
pub trait Step: Send + 'static {
    /// Does one bounded batch.
    fn step(&mut self) -> impl Future<Output = anyhow::Result<Progress>> + Send;
}

/// A named loop of a component.
pub struct Task {
    name: &'static str,
    start: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> + Send>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.name).finish()
    }
}

impl Task {
    /// Begins a loop that steps at least once an interval. `name` is `context.verb_noun`.
    pub fn every(name: &'static str, interval: Duration) -> Every {
        Every {
            name,
            interval,
            wake: None,
        }
    }

    /// Makes a loop that drives itself and ends when its token is cancelled. An error stops the
    /// process.
    pub fn run<F, A>(name: &'static str, body: F) -> Self
    where
        F: FnOnce(CancellationToken) -> A + Send + 'static,
        A: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        Self {
            name,
            start: Box::new(move |stop| Box::pin(body(stop))),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Starts the loop; the runtime awaits the future.
    pub(crate) fn start(self, stop: CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> {
        (self.start)(stop)
    }
}

/// A loop without its body.
#[derive(Debug)]
pub struct Every {
    name: &'static str,
    interval: Duration,
    wake: Option<Arc<Notify>>,
}

impl Every {
    /// Lets `notify_one` end the pause between two steps. One `Notify` wakes one task; a wake-up
    /// during a step is kept for after it.
    #[must_use]
    pub fn woken_by(mut self, wake: Arc<Notify>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Gives the loop its step. A failed step is logged once and counted, and tried again after a
    /// growing pause; a panic stops the process.
    pub fn run<F, A, E>(self, mut step: F) -> Task
    where
        F: FnMut() -> A + Send + 'static,
        A: Future<Output = Result<Progress, E>> + Send + 'static,
        E: Into<anyhow::Error>,
    {
        self.drive(Closure(move || {
            let step = step();
            let step = async move { step.await.map_err(Into::into) };
            step.boxed()
        }))
    }

    /// Gives the loop its step as a value that keeps state between steps.
    pub fn drive(self, step: impl Step) -> Task {
        let name = self.name;
        Task {
            name,
            start: Box::new(move |stop| Box::pin(drive(self, step, stop))),
        }
    }
}

struct Closure<F>(F);

impl<F> Step for Closure<F>
where
    F: FnMut() -> BoxFuture<'static, anyhow::Result<Progress>> + Send + 'static,
{
    fn step(&mut self) -> impl Future<Output = anyhow::Result<Progress>> + Send {
        (self.0)()
    }
}

/// The driver. A step that has begun is finished, so that what it claimed it also commits; the
/// runtime bounds the time that this may take.
async fn drive(task: Every, mut step: impl Step, stop: CancellationToken) -> anyhow::Result<()> {
    let Every {
        name,
        interval,
        wake,
    } = task;
    let wake = wake.unwrap_or_default();
    // Replicas that start together do not step together.
    let mut pause = interval.mul_f64(rand::random_range(0.0..=1.0));
    let mut failures: u32 = 0;
    let mut woken = Box::pin(wake.notified());
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            // After a failure a wake-up waits for the pause: whoever wakes does not know of it.
            () = &mut woken, if failures == 0 => {}
            () = sleep(pause) => {}
        }
        // Registered before the step looks, so that what happens after its look wakes it again.
        woken.set(wake.notified());
        woken.as_mut().enable();
        let began = Instant::now();
        let outcome = step.step().await;
        histogram!("weir_task_step_duration_seconds", "task" => name).record(began.elapsed());
        let label = match &outcome {
            Ok(Progress::More) => "more",
            Ok(Progress::Idle) => "idle",
            Err(_) => "error",
        };
        counter!("weir_task_steps_total", "task" => name, "outcome" => label).increment(1);
        match outcome {
            Ok(progress) => {
                if failures > 0 {
                    tracing::info!(task = name, failures, "the task works again");
                    failures = 0;
                }
                pause = match progress {
                    Progress::More => Duration::ZERO,
                    Progress::Idle => interval.mul_f64(rand::random_range(0.9..=1.1)),
                };
                if progress == Progress::More {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                pause = backoff(failures, interval);
                let error = format!("{error:#}");
                if failures == 1 {
                    tracing::warn!(task = name, error, "the task failed, it is tried again");
                } else {
                    tracing::debug!(task = name, failures, error, "the task failed again");
                }
            }
        }
    }
}

fn backoff(failures: u32, interval: Duration) -> Duration {
    let full = BACKOFF_MIN.saturating_mul(1 << (failures - 1).min(16));
    full.min(BACKOFF_MAX.max(interval))
        .mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests;
