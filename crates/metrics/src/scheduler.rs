//! Metrics of the tokio runtime, limited to those of its stable interface.

use tokio::runtime::Handle;

use crate::hooks::number;
use crate::samples::Samples;
use crate::series::{RUNTIME_BUSY, RUNTIME_PARKS, RUNTIME_QUEUE, RUNTIME_TASKS, RUNTIME_WORKERS};

/// Adds the figures of the current tokio runtime, if there is one.
pub(crate) fn samples(out: &mut Samples) {
    let Ok(handle) = Handle::try_current() else {
        return;
    };
    let runtime = handle.metrics();
    let workers = runtime.num_workers();
    out.put(RUNTIME_WORKERS, number(workers));
    out.put(RUNTIME_TASKS, number(runtime.num_alive_tasks()));
    out.put(RUNTIME_QUEUE, number(runtime.global_queue_depth()));
    #[cfg(target_has_atomic = "64")]
    {
        let busy: f64 = (0..workers)
            .map(|worker| runtime.worker_total_busy_duration(worker).as_secs_f64())
            .sum();
        out.put(RUNTIME_BUSY, busy);
        let parks: u64 = (0..workers)
            .map(|worker| runtime.worker_park_count(worker))
            .sum();
        #[allow(
            clippy::cast_precision_loss,
            reason = "all numbers of the format are of this type"
        )]
        out.put(RUNTIME_PARKS, parks as f64);
    }
}
