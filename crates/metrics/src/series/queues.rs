//! Series of the work queues (MET-15).

use super::Presence::Use;
use super::Stability::Beta;
use super::{Series, table};

/// Bucket bounds from 1e-8 to 10, each ten times the one before, with the rounding of repeated multiplication, so that
/// the text is the same as that of other Kubernetes components.
#[allow(clippy::excessive_precision, reason = "these are the numbers of MET-4")]
const TENFOLD: &[f64] = &[
    1e-8,
    1e-7,
    1e-6,
    9.999_999_999_999_999e-6,
    9.999_999_999_999_999e-5,
    0.001,
    0.01,
    0.1,
    1.0,
    10.0,
];

table!(QUEUES {
    QUEUE_DEPTH = Series::gauge("workqueue_depth").by(&["name"]).is(Beta).from(Use)
        .help("Keys in the queue that wait for a worker.");
    QUEUE_ADDS = Series::counter("workqueue_adds_total").by(&["name"]).is(Beta).from(Use)
        .help("Keys added to the queue, without those that were waiting already.");
    QUEUE_WAIT = Series::histogram("workqueue_queue_duration_seconds", TENFOLD).by(&["name"]).is(Beta).from(Use)
        .help("Time that a key waits for a worker, in seconds.");
    QUEUE_WORK = Series::histogram("workqueue_work_duration_seconds", TENFOLD).by(&["name"]).is(Beta).from(Use)
        .help("Time to process a key, in seconds.");
    QUEUE_UNFINISHED = Series::gauge("workqueue_unfinished_work_seconds").by(&["name"]).is(Beta).from(Use)
        .help("Total time spent so far on the keys in progress, in seconds.");
    QUEUE_LONGEST = Series::gauge("workqueue_longest_running_processor_seconds").by(&["name"]).is(Beta).from(Use)
        .help("Time spent so far on the key that has been in progress for longest, in seconds.");
    QUEUE_RETRIES = Series::counter("workqueue_retries_total").by(&["name"]).is(Beta).from(Use)
        .help("Keys added to the queue with a delay, usually because processing failed.");
});
