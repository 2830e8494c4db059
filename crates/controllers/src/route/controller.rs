//! The I/O of the route controller: the triggers of its reconciliation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Cluster, Error, Node};
use futures::FutureExt;
use kube::Api;
use parking_lot::{Mutex, MutexGuard};
use runtime::cache::{CacheEvent, Resync};
use runtime::events::EventRecorder;
use runtime::limiter::{RateLimiter, TokenBucket};
use runtime::loops::fixed;
use runtime::node::NodeObject;
use runtime::queue::{Queue, QueueMetrics};
use runtime::workers::run_workers;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::memory::Memory;
use super::metrics::{RouteMetrics, SyncOutcome, SyncTrigger};
use super::pace::{Pace, ScheduleInputs, ScheduleStep};
use super::pass::Reconciled;
use super::work::Work;
use super::{node_event, plan};
use crate::context::{ConstructionError, ControllerContext};
use crate::failure_log::{DueLine, FailureLog};
use crate::options::{Options, RouteMode, RouteOptions};

/// Name of the queue in work queue metrics (ROUTE-11).
const QUEUE: &str = "Routes";
/// Name of a pass in the log of failures.
const RECONCILE: &str = "reconcile";
/// Interval of reconciliations in watch mode. No event waits longer (ROUTE-13).
const WATCH_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which a pass waits for its calls before it goes on without those that are in progress (INV-6).
const PASS_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of updates of conditions while calls go on after their pass.
const SETTLE_EVERY: Duration = Duration::from_secs(1);

/// The node-route-controller, which keeps the cloud's routes in sync with the Nodes' Pod CIDRs.
pub struct RouteController {
    pub(super) context: ControllerContext,
    pub(super) api: Api<NodeObject>,
    pub(super) cluster: Cluster,
    pub(super) options: RouteOptions,
    /// If set, events report more than those of the Go program (D-3).
    pub(super) explain: bool,
    pub(super) events: EventRecorder,
    pub(super) metrics: Arc<dyn RouteMetrics>,
    /// Permits for concurrent calls to the cloud (ROUTE-31).
    pub(super) calls: Semaphore,
    memory: Mutex<Memory>,
    pub(super) failures: FailureLog,
}

impl RouteController {
    /// Creates the controller.
    ///
    /// # Errors
    /// If the provider does not support routes (ROUTE-2), or without cluster CIDRs (ROUTE-5).
    pub fn new(
        context: ControllerContext,
        cluster: Cluster,
        options: &Options,
        events: EventRecorder,
        metrics: Arc<dyn RouteMetrics>,
    ) -> Result<Self, ConstructionError> {
        if context.provider.routes().is_none() {
            return Err(ConstructionError::NoRoutes);
        }
        if options.route.cluster_cidrs.is_empty() {
            return Err(ConstructionError::NoClusterCidrs);
        }
        Ok(Self {
            api: Api::all(context.client.clone()),
            cluster,
            explain: options.explain,
            events,
            metrics,
            calls: Semaphore::new(options.route.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            memory: Mutex::default(),
            failures: FailureLog::default(),
            options: options.route.clone(),
            context,
        })
    }

    /// Runs until `shutdown`: waits for the cache of Nodes, then reconciles as the mode demands (ROUTE-6, D-5). `queue`
    /// are the metrics of the queue `Routes`, which only watch mode has; `resync` is the interval of resyncs in watch
    /// mode.
    pub async fn run(
        self: Arc<Self>,
        queue: Arc<dyn QueueMetrics>,
        resync: Resync,
        shutdown: CancellationToken,
    ) {
        match self.options.mode {
            RouteMode::Periodic => self.run_periodically(&shutdown).await,
            RouteMode::Watch => self.run_on_events(queue, resync, &shutdown).await,
            RouteMode::Adaptive => self.run_adaptively(&shutdown).await,
        }
    }

    /// Reconciles at a fixed interval (ROUTE-10).
    async fn run_periodically(&self, shutdown: &CancellationToken) {
        if self.nodes_are_known(shutdown).await {
            fixed(
                self.options.reconciliation_period,
                shutdown.clone(),
                || async {
                    self.reconcile_and_log(SyncTrigger::Periodic, shutdown)
                        .await;
                },
            )
            .await;
        }
    }

    /// Reconciles after changes of Nodes (ROUTE-11 … ROUTE-16). Failed reconciliations are retried, unlike in the Go
    /// program (ROUTE-15).
    async fn run_on_events(
        self: Arc<Self>,
        metrics: Arc<dyn QueueMetrics>,
        resync: Resync,
        shutdown: &CancellationToken,
    ) {
        let pacing = RateLimiter::bucket(TokenBucket::new(WATCH_INTERVAL, 1, Some(WATCH_INTERVAL)));
        let queue: Queue<SyncTrigger> = Queue::new(QUEUE, pacing, metrics);
        let feed = queue.clone();
        self.context.nodes.subscribe(resync, move |event| {
            if let Some(trigger) =
                reaction(event, Some(SyncTrigger::NodeChange), node_event::trigger)
            {
                feed.add_rate_limited(trigger);
            }
        });
        if !self.nodes_are_known(shutdown).await {
            return;
        }
        let stop = shutdown.clone();
        run_workers(&queue, 1, shutdown.clone(), move |claim| {
            let this = Arc::clone(&self);
            let stop = stop.clone();
            async move {
                match this.reconcile_and_log(*claim.key(), &stop).await {
                    true => claim.succeed(),
                    false => claim.fail(),
                }
            }
        })
        .await;
    }

    /// Reconciles in the adaptive mode (D-5).
    async fn run_adaptively(&self, shutdown: &CancellationToken) {
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        self.context.nodes.subscribe(Resync::never(), move |event| {
            if reaction(event, true, node_event::changes_inputs) {
                notify.notify_one();
            }
        });
        if !self.nodes_are_known(shutdown).await {
            return;
        }
        let mut pace = Pace::new(self.options.reconciliation_period);
        let mut work = Work::default();
        // Trigger of a pass that failed, which the next pass has, too.
        let mut failed_trigger = None;
        while !shutdown.is_cancelled() {
            let now = Instant::now();
            let schedule_inputs = self.schedule_inputs();
            if pace.step(now, schedule_inputs) == ScheduleStep::Pass {
                let trigger = failed_trigger
                    .take()
                    .unwrap_or_else(|| pace.trigger(schedule_inputs.inputs));
                pace.passed(now, schedule_inputs.inputs, fastrand::f64());
                let listed = self.pass_catching_panics(&mut work, shutdown).await;
                work.drain(Some(Instant::now() + PASS_TIMEOUT)).await;
                let outcome = match listed {
                    true => SyncOutcome::of_changes(std::mem::take(&mut work.has_changed)),
                    false => SyncOutcome::Error,
                };
                // As in the Go program, a change of a Node is the trigger until a pass succeeds.
                failed_trigger = (!listed && trigger == SyncTrigger::NodeChange).then_some(trigger);
                self.metrics.synced(outcome, trigger);
                self.metrics
                    .reconciled(now.elapsed(), listed && work.failures.is_empty());
            }
            let in_flight = work.in_flight.keys().cloned().collect();
            work.alongside(self.settle(&in_flight, shutdown)).await;
            work.failures.clear();
            let route_counts = self.memory().route_counts();
            self.metrics.route_counts(route_counts);
            if let ScheduleStep::Wait(at) = pace.step(Instant::now(), self.schedule_inputs()) {
                // Retrying a condition does not need a list of routes.
                let condition = self.memory().next_condition();
                let soonest = Instant::now() + SETTLE_EVERY;
                let until = condition.map_or(at, |due| at.min(due.max(soonest)));
                rest(&mut work, until, &changed, shutdown).await;
            }
        }
    }

    /// Runs a pass and catches a panic. Returns `true` if the routes could be listed.
    async fn pass_catching_panics<'a>(
        &'a self,
        work: &mut Work<'a>,
        shutdown: &'a CancellationToken,
    ) -> bool {
        let _busy = self.context.pulse.begin("pass");
        let pass = AssertUnwindSafe(self.pass(work, shutdown)).catch_unwind();
        match pass.await {
            Ok(Ok(())) => {
                self.failures.succeeded(RECONCILE, "", Instant::now());
                return true;
            }
            Ok(Err(error)) => self.log_failure(&error),
            Err(_) => {
                tracing::error!("a pass over the routes panicked, the next one runs on schedule");
                self.memory().list_failed(Instant::now());
            }
        }
        false
    }

    /// Reconciles and logs errors. Returns `true` if everything succeeded.
    async fn reconcile_and_log(&self, trigger: SyncTrigger, shutdown: &CancellationToken) -> bool {
        let _busy = self.context.pulse.begin(QUEUE);
        let start = Instant::now();
        let (outcome, succeeded) = match self.reconcile(shutdown).await {
            Ok(Reconciled {
                has_changed,
                failures,
            }) => {
                self.failures.succeeded(RECONCILE, "", Instant::now());
                (SyncOutcome::of_changes(has_changed), failures.is_empty())
            }
            Err(error) => {
                self.log_failure(&error);
                (SyncOutcome::Error, false)
            }
        };
        self.metrics.synced(outcome, trigger);
        self.metrics.reconciled(start.elapsed(), succeeded);
        succeeded
    }

    /// Logs a pass that failed, at once and then once a minute.
    fn log_failure(&self, error: &Error) {
        if let Some(DueLine { failures, lasts }) =
            self.failures.failed(RECONCILE, "", Instant::now())
        {
            tracing::error!(%error, failures, ?lasts, "could not reconcile routes");
        }
    }

    fn schedule_inputs(&self) -> ScheduleInputs {
        let inputs = plan::inputs(&self.context.nodes.list(), |node| self.waits(node));
        let memory = self.memory();
        ScheduleInputs {
            inputs,
            again: memory.next_due(),
            not_before: memory.paused_until(Instant::now()),
        }
    }

    /// Returns `true` if a Node's new routes are deferred, which only the adaptive mode does.
    pub(super) fn waits(&self, node: &Node) -> bool {
        self.is_adaptive() && plan::waits(&*self.context.provider, node)
    }

    pub(super) fn is_adaptive(&self) -> bool {
        self.options.mode == RouteMode::Adaptive
    }

    /// Waits until the cache of Nodes is synced (ROUTE-6). Returns `false` if the shutdown comes first.
    async fn nodes_are_known(&self, shutdown: &CancellationToken) -> bool {
        tokio::select! {
            () = self.context.nodes.wait_synced() => true,
            () = shutdown.cancelled() => false,
        }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

/// Sleeps until the given time, until a Node changes, or until calls in progress have ended.
async fn rest(work: &mut Work<'_>, until: Instant, changed: &Notify, shutdown: &CancellationToken) {
    let is_busy = !work.is_empty();
    let until = if is_busy {
        until.min(Instant::now() + SETTLE_EVERY)
    } else {
        until
    };
    let woken = async {
        tokio::select! {
            () = changed.notified() => {}
            () = tokio::time::sleep_until(until) => {}
            () = shutdown.cancelled() => {}
        }
    };
    tokio::pin!(woken);
    loop {
        tokio::select! {
            biased;
            () = &mut woken => return,
            () = work.next() => if work.is_empty() { return },
        }
    }
}

/// Returns the reaction to an event: `to_membership` for a Node that was added or deleted, the result of `to_update` for
/// one that changed.
fn reaction<T>(event: &CacheEvent<Node>, to_membership: T, to_update: fn(&Node, &Node) -> T) -> T {
    match event {
        CacheEvent::Added(_) | CacheEvent::Deleted(_) => to_membership,
        CacheEvent::Updated { old, new } => to_update(old, new),
    }
}
