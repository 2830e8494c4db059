//! Metrics of a queue.

use std::time::Duration;

/// The seven series of a work queue (RT-30), each a hook. The label `name` of the series is the first argument.
///
/// Hooks are called while the queue is locked: they update a number and return. All of them do nothing by default.
pub trait QueueMetrics: Send + Sync {
    /// Called when the queue is created; its series should appear, at zero.
    fn created(&self, _queue: &str) {}
    /// Sets `workqueue_depth`: the number of keys waiting for a worker.
    fn depth(&self, _queue: &str, _keys: usize) {}
    /// Counts added keys in `workqueue_adds_total`; a key that is queued already is not counted.
    fn added(&self, _queue: &str, _keys: usize) {}
    /// Records `workqueue_queue_duration_seconds`: a key was taken after having been ready that long.
    fn waited(&self, _queue: &str, _time: Duration) {}
    /// Records `workqueue_work_duration_seconds`: the duration of the work on a key.
    fn worked(&self, _queue: &str, _time: Duration) {}
    /// Sets `workqueue_unfinished_work_seconds`: the sum of the ages of all keys in progress.
    fn unfinished_work(&self, _queue: &str, _sum: Duration) {}
    /// Sets `workqueue_longest_running_processor_seconds`: the age of the oldest key in progress.
    fn longest_running(&self, _queue: &str, _age: Duration) {}
    /// Counts `workqueue_retries_total`: a key was added with a delay.
    fn retried(&self, _queue: &str) {}
}

/// A metrics recorder of queues that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl QueueMetrics for NoMetrics {}
