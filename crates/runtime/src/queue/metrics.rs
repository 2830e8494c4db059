//! Metrics of a queue.

use std::time::Duration;

/// The seven series of a work queue (RT-30), each a hook. The label `name` of the series is the first argument.
///
/// Hooks are called while the queue is locked: they update a number and return. All of them do nothing by default.
pub trait QueueMetrics: Send + Sync {
    /// The queue exists; its series should appear, at zero.
    fn created(&self, _queue: &str) {}
    /// `workqueue_depth`: keys waiting for a worker.
    fn depth(&self, _queue: &str, _keys: usize) {}
    /// Counts added keys in `workqueue_adds_total`; a key that is queued already is not counted.
    fn added(&self, _queue: &str, _keys: usize) {}
    /// `workqueue_queue_duration_seconds`: a key was taken after having been ready that long.
    fn waited(&self, _queue: &str, _time: Duration) {}
    /// `workqueue_work_duration_seconds`: the work on a key took that long.
    fn worked(&self, _queue: &str, _time: Duration) {}
    /// `workqueue_unfinished_work_seconds`: the ages of all keys being worked on, added up.
    fn unfinished_work(&self, _queue: &str, _sum: Duration) {}
    /// `workqueue_longest_running_processor_seconds`: the age of the oldest key being worked on.
    fn longest_running(&self, _queue: &str, _age: Duration) {}
    /// `workqueue_retries_total`: a key was added with a delay.
    fn retried(&self, _queue: &str) {}
}

/// A metrics recorder of queues that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl QueueMetrics for NoMetrics {}
