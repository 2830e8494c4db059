//! Metrics of work queues (MET-15).

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec};
use runtime::queue::QueueMetrics;

use crate::histogram::{Histogram, HistogramVec};
use crate::hooks::number;
use crate::registry::Registry;
use crate::resolved::Resolved;
use crate::series::{
    QUEUE_ADDS, QUEUE_DEPTH, QUEUE_LONGEST, QUEUE_RETRIES, QUEUE_UNFINISHED, QUEUE_WAIT, QUEUE_WORK,
};

pub(crate) struct Queues {
    depth: GaugeVec,
    adds: IntCounterVec,
    wait: HistogramVec,
    work: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    retries: IntCounterVec,
    queues: Resolved<Box<str>, Queue>,
}

struct Queue {
    depth: Gauge,
    adds: IntCounter,
    wait: Histogram,
    work: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    retries: IntCounter,
}

impl Queues {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            depth: registry.gauges(QUEUE_DEPTH),
            adds: registry.counters(QUEUE_ADDS),
            wait: registry.histograms(QUEUE_WAIT),
            work: registry.histograms(QUEUE_WORK),
            unfinished: registry.gauges(QUEUE_UNFINISHED),
            longest: registry.gauges(QUEUE_LONGEST),
            retries: registry.counters(QUEUE_RETRIES),
            queues: Resolved::default(),
        }
    }

    fn queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.queues.get(
            |known| **known == *name,
            || (name.into(), self.make(&[name])),
        )
    }

    fn make(&self, name: &[&str]) -> Queue {
        Queue {
            depth: self.depth.with_label_values(name),
            adds: self.adds.with_label_values(name),
            wait: self.wait.with_label_values(name),
            work: self.work.with_label_values(name),
            unfinished: self.unfinished.with_label_values(name),
            longest: self.longest.with_label_values(name),
            retries: self.retries.with_label_values(name),
        }
    }

    fn update(&self, name: &str, update: impl FnOnce(&Queue)) {
        if let Some(queue) = self.queue(name) {
            update(&queue);
        }
    }
}

impl QueueMetrics for Queues {
    fn created(&self, queue: &str) {
        self.update(queue, |_| ());
    }
    fn depth(&self, queue: &str, keys: usize) {
        self.update(queue, |queue| queue.depth.set(number(keys)));
    }
    fn added(&self, queue: &str, keys: usize) {
        self.update(queue, |queue| queue.adds.inc_by(keys as u64));
    }
    fn waited(&self, queue: &str, time: Duration) {
        self.update(queue, |queue| queue.wait.observe(time.as_secs_f64()));
    }
    fn worked(&self, queue: &str, time: Duration) {
        self.update(queue, |queue| queue.work.observe(time.as_secs_f64()));
    }
    fn unfinished_work(&self, queue: &str, sum: Duration) {
        self.update(queue, |queue| queue.unfinished.set(sum.as_secs_f64()));
    }
    fn longest_running(&self, queue: &str, age: Duration) {
        self.update(queue, |queue| queue.longest.set(age.as_secs_f64()));
    }
    fn retried(&self, queue: &str) {
        self.update(queue, |queue| queue.retries.inc());
    }
}
