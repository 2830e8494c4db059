//! The queue against a simple model, and what needs a running clock.
//!
//! Rules: RT-1, RT-2, RT-6, RT-30.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::claim::Claim;
use crate::limiter::Exponential;
use crate::workers::{run_batch_workers, run_workers};

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn queue() -> Queue<u8> {
    Queue::new(
        "test",
        RateLimiter::exponential(s(1), s(60)),
        Arc::new(NoMetrics),
    )
}

/// An operation on a queue.
#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u64),
    AddRateLimited(u8),
    Take(usize),
    /// Ends the work on the n-th key that is being worked on.
    Done(usize),
    Forget(u8),
    Advance(u64),
    ShutDown,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0_u8..6;
    let op = prop_oneof![
        6 => key.clone().prop_map(Op::Add),
        4 => (key.clone(), 0_u64..30).prop_map(|(k, d)| Op::AddAfter(k, d)),
        3 => key.clone().prop_map(Op::AddRateLimited),
        6 => (1_usize..5).prop_map(Op::Take),
        6 => (0_usize..6).prop_map(Op::Done),
        1 => key.prop_map(Op::Forget),
        5 => (1_u64..20).prop_map(Op::Advance),
    ];
    (proptest::collection::vec(op, 1..120), any::<bool>()).prop_map(|(mut ops, stop)| {
        if stop {
            ops.insert(ops.len() * 3 / 4, Op::ShutDown);
        }
        ops
    })
}

/// The rules, written as plainly as possible; time in seconds.
#[derive(Default)]
struct Model {
    now: u64,
    ready: Vec<u8>,
    running: Vec<u8>,
    again: BTreeSet<u8>,
    /// Key to (due, order).
    waiting: BTreeMap<u8, (u64, u64)>,
    order: u64,
    failures: BTreeMap<u8, u32>,
    shut_down: bool,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.shut_down {
        } else if self.running.contains(&key) {
            self.again.insert(key);
        } else if !self.ready.contains(&key) {
            self.ready.push(key);
        }
    }

    fn add_after(&mut self, key: u8, delay: u64) {
        if self.shut_down {
        } else if delay == 0 {
            self.add(key);
        } else {
            let due = self.now + delay;
            if self
                .waiting
                .get(&key)
                .is_none_or(|(earlier, _)| due < *earlier)
            {
                self.waiting.insert(key, (due, self.order));
                self.order += 1;
            }
        }
    }

    fn advance(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            let mut due: Vec<_> = self
                .waiting
                .iter()
                .filter(|(_, (at, _))| *at <= self.now)
                .collect();
            due.sort_by_key(|(_, slot)| **slot);
            for key in due.into_iter().map(|(key, _)| *key).collect::<Vec<_>>() {
                self.waiting.remove(&key);
                self.add(key);
            }
        }
    }

    fn take(&mut self, max: usize) -> Vec<u8> {
        let taken: Vec<u8> = self.ready.drain(..max.min(self.ready.len())).collect();
        self.running.extend(&taken);
        taken
    }

    fn done(&mut self, key: u8) {
        self.running.retain(|k| *k != key);
        if self.again.remove(&key) {
            self.ready.push(key);
        }
    }
}

async fn behaves_like_the_model(ops: &[Op]) {
    let queue = queue();
    let mut model = Model::default();
    for (i, op) in ops.iter().enumerate() {
        match *op {
            Op::Add(key) => {
                queue.add(key);
                model.add(key);
            }
            Op::AddAfter(key, delay) => {
                queue.add_after(key, s(delay));
                model.add_after(key, delay);
            }
            Op::AddRateLimited(key) => {
                queue.add_rate_limited(key);
                if !model.shut_down {
                    let failures = model.failures.entry(key).or_default();
                    let delay = (1 << *failures).min(60);
                    *failures += 1;
                    model.add_after(key, delay);
                }
            }
            Op::Take(max) => {
                let expected = model.take(max);
                let taken = timeout(Duration::ZERO, queue.next_batch(max)).await;
                match (taken, expected.as_slice(), model.shut_down) {
                    (Ok(Some(keys)), expected, _) => assert_eq!(keys, expected, "{i}: {op:?}"),
                    (Ok(None), [], true) | (Err(_), [], false) => {}
                    (taken, expected, _) => panic!("{i}: {op:?}: got {taken:?}, not {expected:?}"),
                }
            }
            Op::Done(n) if model.running.is_empty() => queue.done(&u8::try_from(n).unwrap()),
            Op::Done(n) => {
                let key = model.running[n % model.running.len()];
                queue.done(&key);
                model.done(key);
            }
            Op::Forget(key) => {
                queue.forget(&key);
                model.failures.remove(&key);
            }
            Op::Advance(seconds) => {
                advance(s(seconds)).await;
                model.advance(seconds);
            }
            Op::ShutDown => {
                queue.shut_down();
                model.shut_down = true;
                model.waiting.clear();
            }
        }
        assert_eq!(
            queue.len(),
            model.ready.len() + model.again.len(),
            "{i}: {op:?}"
        );
        for key in 0..6 {
            assert_eq!(
                queue.retries(&key),
                model.failures.get(&key).copied().unwrap_or_default()
            );
        }
        queue.lock().state.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_calls_behaves_like_the_model(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(behaves_like_the_model(&ops));
    }

    /// Asserts with real workers that no key is lost and none is processed twice at a time.
    #[test]
    fn every_key_is_worked_on_after_its_last_add(
        adds in proptest::collection::vec((0_u8..8, 0_u64..40), 1..80),
        workers in 1_usize..5,
        batch in 1_usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let queue = queue(); let running = Arc::new(Mutex::new(BTreeSet::new()));
            let last_run = Arc::new(Mutex::new(BTreeMap::new()));
            let feed = queue.clone(); let runs = Arc::clone(&last_run);
            let start = Instant::now();
            let feeder = async move {
                let mut last_due = BTreeMap::new();
                for (key, delay) in adds {
                    feed.add_after(key, s(delay));
                    let due = start.elapsed() + s(delay);
                    let latest = last_due.entry(key).or_insert(due);
                    // An add that waits longer than an earlier one is served by that one.
                    *latest = due.min(*latest).max(start.elapsed());
                    tokio::time::sleep(ms(700)).await;
                }
                tokio::time::sleep(s(200)).await;
                feed.shut_down_with_drain().await;
                last_due
            };
            let work = move |claims: Vec<Claim<u8>>| {
                let running = Arc::clone(&running); let runs = Arc::clone(&runs);
                async move {
                    let keys: Vec<u8> = claims.iter().map(|claim| *claim.key()).collect();
                    for key in &keys {
                        assert!(running.lock().insert(*key), "{key} runs twice at once");
                    }
                    for key in &keys {
                        runs.lock().insert(*key, start.elapsed());
                    }
                    tokio::time::sleep(ms(900)).await;
                    for key in &keys {
                        running.lock().remove(key);
                    }
                    claims.into_iter().for_each(Claim::succeed);
                }
            };
            let (last_due, ()) =
                tokio::join!(feeder, run_batch_workers(&queue, workers, batch, CancellationToken::new(), work));
            for (key, due) in last_due {
                assert!(last_run.lock()[&key] >= due, "{key} was not worked on again");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn the_earlier_due_time_wins_and_a_direct_add_cancels_nothing() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, s(30));
    queue.add_after(1, s(10));
    queue.add_after(1, s(20));
    queue.add(1);
    assert_eq!(queue.next().await, Some(1));
    queue.done(&1);
    assert_eq!(start.elapsed(), s(0));
    assert_eq!(queue.next().await, Some(1));
    assert_eq!(start.elapsed(), s(10));
    queue.done(&1);
    assert!(
        timeout(s(100), queue.next()).await.is_err(),
        "it waits once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_worker_learns_of_an_earlier_due_time() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, s(100));
    let sleeper = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await }
    });
    advance(s(1)).await;
    queue.add_after(2, s(5));
    assert_eq!(sleeper.await.unwrap(), Some(2));
    assert_eq!(start.elapsed().as_secs(), 6);
}

#[tokio::test(start_paused = true)]
async fn each_of_many_waiting_workers_gets_a_key() {
    let queue = queue();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add_after(0, s(1));
    queue.add_after(1, s(2));
    queue.add(2);
    queue.add(3);
    let mut keys: Vec<_> = futures::future::join_all(workers)
        .await
        .into_iter()
        .map(|k| k.unwrap().unwrap())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_what_is_ready_and_no_more_than_allowed() {
    let queue = queue();
    (0..5).for_each(|k| queue.add(k));
    assert_eq!(queue.next_batch(3).await, Some(vec![0, 1, 2]));
    queue.add(0);
    assert_eq!(
        queue.next_batch(100).await,
        Some(vec![3, 4]),
        "0 is being worked on"
    );
}

#[tokio::test(start_paused = true)]
async fn ready_keys_are_still_handed_out_after_a_shutdown() {
    let queue = queue();
    queue.add(1);
    queue.add_after(2, s(1));
    queue.shut_down();
    queue.add(3);
    assert_eq!((queue.next().await, queue.next().await), (Some(1), None));
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_the_work_to_end() {
    let queue = queue();
    let start = Instant::now();
    (0..4).for_each(|k| queue.add(k));
    let workers = run_workers(&queue, 2, CancellationToken::new(), |claim| async {
        tokio::time::sleep(s(3)).await;
        claim.succeed();
    });
    let drain = async {
        tokio::time::sleep(s(1)).await;
        queue.shut_down_with_drain().await;
        start.elapsed()
    };
    let (drained, ()) = tokio::join!(drain, workers);
    assert_eq!(drained, s(6));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_worker_finishes_its_key_and_takes_no_other() {
    let queue = queue();
    let shutdown = CancellationToken::new();
    let finished = Arc::new(AtomicUsize::new(0));
    (0..9).for_each(|k| queue.add(k));
    let count = Arc::clone(&finished);
    let stop = shutdown.clone();
    let workers = run_workers(&queue, 3, shutdown, move |claim| {
        let count = Arc::clone(&count);
        async move {
            tokio::time::sleep(s(2)).await;
            claim.succeed();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    tokio::join!(workers, async {
        tokio::time::sleep(s(1)).await;
        stop.cancel();
    });
    assert_eq!((finished.load(Ordering::SeqCst), queue.len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_rests_a_second_and_its_keys_are_tried_again() {
    let queue = queue();
    let shutdown = CancellationToken::new();
    let start = Instant::now();
    let runs = Arc::new(Mutex::new(Vec::new()));
    queue.add(7);
    let seen = Arc::clone(&runs);
    let stop = shutdown.clone();
    run_workers(&queue, 1, shutdown, move |claim| {
        seen.lock().push(start.elapsed().as_secs());
        let first = seen.lock().len() == 1;
        assert!(!first, "{claim:?} is unlucky");
        stop.cancel();
        claim.fail();
        async {}
    })
    .await;
    assert_eq!(
        *runs.lock(),
        [0, 1],
        "the limiter's second and the rest's run together"
    );
    assert_eq!(queue.retries(&7), 2, "a panic is a failure like others");
}

#[tokio::test(start_paused = true)]
async fn waiting_worker_releases_its_permit_and_reacquires_one() {
    let queue = queue();
    let shutdown = CancellationToken::new();
    let start = Instant::now();
    (0..250).for_each(|k| queue.add(k));
    let busy = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let ends = Arc::new(Mutex::new(vec![]));
    let stop = shutdown.clone();
    let log = Arc::clone(&ends);
    let peak = Arc::clone(&most);
    let work = async move |busy: &AtomicUsize, most: &AtomicUsize| {
        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        busy.fetch_sub(1, Ordering::SeqCst);
    };
    run_workers(&queue, 1, shutdown, move |claim| {
        let busy = Arc::clone(&busy);
        let most = Arc::clone(&most);
        let log = Arc::clone(&log);
        let stop = stop.clone();
        async move {
            let permit = claim.permit();
            work(&busy, &most).await;
            permit.release();
            tokio::time::sleep(s(60)).await;
            permit.reacquire().await;
            work(&busy, &most).await;
            claim.succeed();
            log.lock().push(start.elapsed());
            if log.lock().len() == 250 {
                stop.cancel();
            }
        }
    })
    .await;
    assert_eq!(peak.load(Ordering::SeqCst), 1, "one worker is one worker");
    let ends = ends.lock();
    assert!(
        ends[199] < s(66),
        "two hundred wait at the same time: {:?}",
        ends[199]
    );
    assert!(
        ends[249] > s(120) && ends[249] < s(130),
        "more do not: {:?}",
        ends[249]
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_while_no_place_is_free_is_worked_on_once() {
    let queue = queue();
    let shutdown = CancellationToken::new();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let feed = queue.clone();
    let stop = shutdown.clone();
    let log = Arc::clone(&runs);
    queue.add(1);
    let feeder = async move {
        for _ in 0..3 {
            tokio::time::sleep(s(1)).await;
            feed.add(2);
        }
        tokio::time::sleep(s(60)).await;
        stop.cancel();
    };
    let workers = run_workers(&queue, 1, shutdown, move |claim| {
        log.lock().push(*claim.key());
        async move {
            tokio::time::sleep(s(10)).await;
            claim.succeed();
        }
    });
    tokio::join!(feeder, workers);
    assert_eq!(*runs.lock(), [1, 2]);
}

#[derive(Default)]
struct Recorded(Mutex<BTreeMap<&'static str, Vec<u64>>>);

impl Recorded {
    fn note(&self, series: &'static str, value: u64) {
        self.0.lock().entry(series).or_default().push(value);
    }

    fn take(&self) -> BTreeMap<&'static str, Vec<u64>> {
        std::mem::take(&mut self.0.lock())
    }
}

impl QueueMetrics for Recorded {
    fn depth(&self, queue: &str, keys: usize) {
        assert_eq!(queue, "Nodes");
        self.note("depth", keys as u64);
    }
    fn added(&self, _: &str, keys: usize) {
        self.note("added", keys as u64);
    }
    fn waited(&self, _: &str, time: Duration) {
        self.note("waited", time.as_secs());
    }
    fn worked(&self, _: &str, time: Duration) {
        self.note("worked", time.as_secs());
    }
    fn unfinished_work(&self, _: &str, sum: Duration) {
        self.note("unfinished", sum.as_secs());
    }
    fn longest_running(&self, _: &str, age: Duration) {
        self.note("longest", age.as_secs());
    }
    fn retried(&self, _: &str) {
        self.note("retried", 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_seven_series_tell_what_happens() {
    let metrics = Arc::new(Recorded::default());
    let limiter = RateLimiter::max_of(
        Exponential::new(s(4), s(60)),
        crate::limiter::TokenBucket::new(s(1), 9, None),
    );
    let queue: Queue<u8> = Queue::new(
        "Nodes",
        limiter,
        Arc::clone(&metrics) as Arc<dyn QueueMetrics>,
    );
    queue.add(1);
    queue.add(1);
    queue.add(2);
    advance(s(3)).await;
    assert_eq!(queue.next().await, Some(1));
    advance(s(2)).await;
    assert_eq!(queue.next().await, Some(2));
    advance(s(1)).await;
    queue.report_running();
    queue.done(&1);
    queue.add_rate_limited(1);
    advance(s(6)).await;
    assert_eq!(queue.next().await, Some(1));
    let expected: BTreeMap<&str, Vec<u64>> = [
        ("added", vec![1, 1, 1]),
        ("depth", vec![1, 2, 1, 0, 0]),
        ("waited", vec![3, 5, 2]),
        ("worked", vec![3]),
        ("unfinished", vec![4]),
        ("longest", vec![3]),
        ("retried", vec![1]),
    ]
    .into();
    assert_eq!(
        metrics.take(),
        expected,
        "a waiting key was pending since it fell due"
    );
}
