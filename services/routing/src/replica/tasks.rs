//! The loops of a process's life: beat, follow configurations, sweep what dead ones left.

use std::sync::Arc;

use weir_runtime::{Progress, Task};

use super::Replica;
use crate::Error;
use crate::route::claim::sweep;
use crate::route::failure::Limits;

/// Makes the loops. They are apart, so that nothing holds up a beat: neither a configuration that takes long to
/// compile nor a sweep that waits for a lock.
#[must_use]
pub fn tasks(replica: &Replica, limits: Limits) -> [Task; 3] {
    let interval = replica.0.timing.beat;
    let beating = replica.clone();
    let following = replica.clone();
    let sweeping = replica.clone();
    [
        // Its pause never grows: a process must not be taken for dead because the database was away.
        Task::run("routing.beat", move |shutdown| async move {
            let mut failing = false;
            loop {
                match beating.beat().await {
                    Ok(()) => failing = false,
                    Err(error) if !failing => {
                        failing = true;
                        tracing::warn!(error = %weir_rpc::chain(&error), "cannot say that this process lives");
                    }
                    Err(_) => {}
                }
                let pause = beating.0.timing.beat.mul_f64(rand::random_range(0.8..1.0));
                tokio::select! {
                    () = shutdown.cancelled() => return Ok(()),
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }),
        Task::every("routing.follow_generations", interval)
            .woken_by(Arc::clone(replica.0.generations.learned()))
            .run(move || {
                let replica = following.clone();
                async move {
                    replica.started().await;
                    replica.follow().await?;
                    Ok::<_, Error>(Progress::Idle)
                }
            }),
        Task::every("routing.sweep_claims", interval).run(move || {
            let replica = sweeping.clone();
            async move {
                if replica.is_settled() {
                    sweep::sweep(&replica.0.db, &replica, limits).await?;
                    replica.forget().await?;
                }
                Ok::<_, Error>(Progress::Idle)
            }
        }),
    ]
}
