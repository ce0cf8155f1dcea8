//! The driver under a paused clock: time passes only when everything waits.
#![expect(
    clippy::disallowed_methods,
    reason = "the test stands in for the runtime"
)]

use std::sync::Mutex;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs the task and returns its handle and its stop.
fn spawn(
    task: Task,
) -> (
    tokio::task::JoinHandle<anyhow::Result<()>>,
    CancellationToken,
) {
    let stop = CancellationToken::new();
    (tokio::spawn(task.start(stop.clone())), stop)
}

type Times = Arc<Mutex<Vec<Instant>>>;

fn scripted(
    times: &Times,
    done: &Arc<Notify>,
    outcomes: Vec<anyhow::Result<Progress>>,
) -> impl FnMut() -> BoxFuture<'static, anyhow::Result<Progress>> + Send + use<> {
    let (times, done) = (times.clone(), done.clone());
    let mut outcomes = outcomes.into_iter();
    move || {
        times.lock().expect("no panic").push(Instant::now());
        let outcome = outcomes.next();
        if outcomes.len() == 0 {
            done.notify_one();
        }
        Box::pin(async move { outcome.unwrap_or(Ok(Progress::Idle)) })
    }
}

fn pauses(times: &Times) -> Vec<Duration> {
    times
        .lock()
        .expect("no panic")
        .windows(2)
        .map(|w| w[1] - w[0])
        .collect()
}

#[tokio::test(start_paused = true)]
async fn more_follows_at_once_and_idle_waits_an_interval() {
    let (times, done) = (Times::default(), Arc::new(Notify::new()));
    let outcomes = vec![
        Ok(Progress::More),
        Ok(Progress::More),
        Ok(Progress::Idle),
        Ok(Progress::Idle),
    ];
    let began = Instant::now();
    let (task, stop) = spawn(Task::every("t", HOUR).run(scripted(&times, &done, outcomes)));
    done.notified().await;
    assert!(times.lock().expect("no panic")[0] - began <= HOUR);
    let pauses = pauses(&times);
    assert!(pauses[0] < Duration::from_millis(5) && pauses[1] < Duration::from_millis(5));
    assert!(
        pauses[2] >= HOUR.mul_f64(0.89) && pauses[2] <= HOUR.mul_f64(1.11),
        "{pauses:?}"
    );
    stop.cancel();
    task.await.expect("no panic").expect("ends well");
}

#[tokio::test(start_paused = true)]
async fn a_wake_ends_the_pause_and_is_kept_during_a_step() {
    let (times, done, wake) = (
        Times::default(),
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
    );
    let mut count = 0;
    let step = {
        let (times, done, wake) = (times.clone(), done.clone(), wake.clone());
        move || {
            times.lock().expect("no panic").push(Instant::now());
            count += 1;
            // Work that comes while the step runs and that its look has missed.
            if count == 1 {
                wake.notify_one();
            } else {
                done.notify_one();
            }
            async { anyhow::Ok(Progress::Idle) }
        }
    };
    wake.notify_one();
    let began = Instant::now();
    let (task, stop) = spawn(Task::every("t", HOUR).woken_by(wake).run(step));
    done.notified().await;
    assert!(
        began.elapsed() < Duration::from_millis(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(times.lock().expect("no panic").len(), 2);
    stop.cancel();
    task.await.expect("no panic").expect("ends well");
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_do_not_end_the_loop() {
    let (times, done) = (Times::default(), Arc::new(Notify::new()));
    let mut outcomes: Vec<_> = (0..12)
        .map(|n| Err(anyhow::anyhow!("failure {n}")))
        .collect();
    outcomes.push(Ok(Progress::Idle));
    let interval = Duration::from_secs(1);
    let (task, stop) = spawn(Task::every("t", interval).run(scripted(&times, &done, outcomes)));
    done.notified().await;
    let pauses = pauses(&times);
    assert_eq!(pauses.len(), 12);
    assert!(pauses[0] >= BACKOFF_MIN / 2 && pauses[0] <= BACKOFF_MIN * 2);
    assert!(pauses[11] >= BACKOFF_MAX / 2 && pauses[11] <= BACKOFF_MAX + interval);
    stop.cancel();
    task.await.expect("no panic").expect("ends well");
}

#[tokio::test(start_paused = true)]
async fn o02_a_step_that_began_is_finished() {
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let finished = Arc::new(Mutex::new(false));
    let step = {
        let (begun, may_end, finished) = (begun.clone(), may_end.clone(), finished.clone());
        move || {
            let (begun, may_end, finished) = (begun.clone(), may_end.clone(), finished.clone());
            async move {
                begun.notify_one();
                may_end.notified().await;
                *finished.lock().expect("no panic") = true;
                anyhow::Ok(Progress::More)
            }
        }
    };
    let (task, stop) = spawn(Task::every("t", Duration::from_secs(1)).run(step));
    begun.notified().await;
    stop.cancel();
    may_end.notify_one();
    task.await.expect("no panic").expect("ends well");
    assert!(*finished.lock().expect("no panic"));
}
