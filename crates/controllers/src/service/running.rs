//! Queues and workers of the service controller (SVC-5, SVC-15 … SVC-19, D-9).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Service};
use parking_lot::Mutex;
use runtime::cache::{CacheEvent, Cached, Resync};
use runtime::claim::Claim;
use runtime::limiter::RateLimiter;
use runtime::queue::{NoMetrics, Queue, QueueMetrics};
use runtime::workers::{run_batch_workers, run_workers};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::service::controller::ServiceController;
use crate::service::locks::{ServiceLocks, WorkKind};
use crate::service::metrics::ServiceMetrics;
use crate::service::needs_update::needs_sync;
use crate::service::retry::{BASE, CAP};
use crate::service::wants::{concerns_us, may_hold_leftovers};

/// Time for which Node events are collected. A Node that joins is added, then gets its provider ID, and other Nodes
/// join with it; one change of each load balancer covers all of these events (P-5).
const WINDOW: Duration = Duration::from_secs(1);

/// A controller that runs.
struct RunningController {
    controller: Arc<ServiceController>,
    locks: Arc<ServiceLocks>,
    /// Queue of Services to sync (SVC-30).
    services: Queue<String>,
    /// Queue of Node events (SVC-30).
    nodes: Queue<String>,
    /// Queue of Services whose targets must be updated.
    targets: Queue<String>,
    /// Queue of Services whose load balancer is checked for drift.
    drift: Queue<String>,
    /// Node sync that each Service in `targets` belongs to.
    rounds: Mutex<HashMap<String, Arc<Round>>>,
}

/// A node sync. Ends when the last of its Services was processed, or was taken over by a later node sync.
struct Round {
    start: Instant,
    metrics: Arc<dyn ServiceMetrics>,
}

impl Drop for Round {
    fn drop(&mut self) {
        self.metrics.node_synced(self.start.elapsed());
    }
}

pub(super) async fn run(
    controller: Arc<ServiceController>,
    service_queue: Arc<dyn QueueMetrics>,
    node_queue: Arc<dyn QueueMetrics>,
    shutdown: CancellationToken,
) {
    let queue =
        |name: &str, metrics| Queue::new(name, RateLimiter::exponential(BASE, CAP), metrics);
    let services = queue("service", service_queue);
    let targets = queue("service-targets", Arc::new(NoMetrics));
    let running = Arc::new(RunningController {
        locks: Arc::new(ServiceLocks::new(&services, &targets)),
        services,
        nodes: queue("node", node_queue),
        targets,
        drift: queue("service-drift", Arc::new(NoMetrics)),
        rounds: Mutex::default(),
        controller,
    });
    running.feed();
    let controller = &running.controller;
    let synced = async {
        tokio::join!(
            controller.services.wait_synced(),
            controller.context.nodes.wait_synced()
        )
    };
    tokio::select! {
        _ = synced => {}
        () = shutdown.cancelled() => return,
    }
    let stop = async {
        shutdown.cancelled().await;
        controller.cloud.stop();
    };
    let workers = controller.workers();
    tokio::join!(
        stop,
        run_workers(
            &running.services,
            workers,
            shutdown.clone(),
            running.each(RunningController::sync)
        ),
        run_workers(
            &running.targets,
            workers,
            shutdown.clone(),
            running.each(RunningController::refresh_targets)
        ),
        run_workers(
            &running.drift,
            workers,
            shutdown.clone(),
            running.each(RunningController::check_drift)
        ),
        running.retry_refused(&shutdown),
        run_batch_workers(&running.nodes, 1, usize::MAX, shutdown.clone(), {
            let running = Arc::clone(&running);
            let shutdown = shutdown.clone();
            move |claims| Arc::clone(&running).node_sync(claims, shutdown.clone())
        }),
    );
}

impl RunningController {
    /// Returns the function that a worker runs for each key.
    fn each<F>(
        self: &Arc<Self>,
        work: fn(Arc<Self>, Claim<String>) -> F,
    ) -> impl Fn(Claim<String>) -> F + use<F> {
        let running = Arc::clone(self);
        move |claim| work(Arc::clone(&running), claim)
    }

    /// Syncs the Services that wait for a valid credential as soon as the cloud accepts one, regardless of their
    /// back-off.
    async fn retry_refused(&self, shutdown: &CancellationToken) {
        let accepted = async || self.controller.credential_accepted.notified().await;
        while shutdown.run_until_cancelled(accepted()).await.is_some() {
            self.controller
                .refused
                .take()
                .into_iter()
                .for_each(|key| self.services.add(key));
        }
    }

    /// Adds Services to the queues when the cache changes (SVC-15 … SVC-19). A resync adds nothing, because failed
    /// Services are in the queue anyway (SVC-18).
    fn feed(self: &Arc<Self>) {
        // A weak reference, so that the caches do not keep their owner alive.
        let running = Arc::downgrade(self);
        self.controller
            .services
            .subscribe(Resync::never(), move |event| {
                if let Some(running) = running.upgrade() {
                    running.service_changed(event);
                }
            });
        let running = Arc::downgrade(self);
        self.controller
            .context
            .nodes
            .subscribe(Resync::never(), move |event| {
                if let Some(running) = running.upgrade() {
                    running.node_changed(event);
                }
            });
    }

    fn service_changed(&self, event: &CacheEvent<Service>) {
        let key = event.object().key().into_owned();
        let options = &self.controller.options;
        match event {
            CacheEvent::Added(service) => {
                self.controller.note_present(&key, service);
                self.controller.writes.seen(&key, service);
                if concerns_us(service, options) || may_hold_leftovers(service, options) {
                    self.services.add(key);
                }
            }
            CacheEvent::Updated { old, new } => {
                if old.metadata.uid != new.metadata.uid {
                    self.service_vanished(&key, old, true);
                    self.controller.note_present(&key, new);
                }
                self.controller.writes.seen(&key, new);
                if needs_sync(old, new, options)
                    && !self
                        .controller
                        .ledger
                        .is_our_annotation(&key, old, new, options)
                {
                    self.services.add(key);
                } else {
                    self.controller.ledger.freshen(&key, new, options);
                }
            }
            CacheEvent::Deleted(last) => {
                self.service_vanished(&key, last, false);
                self.controller.writes.forget(&key);
                self.controller.ledger.remember_deleted(&key, last);
                // SVC-17 relies on the finalizer alone, but it may have been removed or never have been added: a list
                // from an API server that lags behind has Services that were deleted. After a successful deletion of
                // the load balancer, the ledger has no entry.
                if self.controller.ledger.service(&key).is_some() || self.locks.is_locked(&key) {
                    self.services.add(key);
                }
            }
        }
    }

    /// Handles a Service in the ledger or in work that no longer exists in the cache. Its last state determines whether
    /// it can have been deleted.
    fn service_vanished(&self, key: &str, last: &Arc<Service>, is_replaced: bool) {
        let controller = &self.controller;
        let known = controller.ledger.service(key);
        let is_known = known.is_some_and(|known| known.metadata.uid == last.metadata.uid);
        if is_known || self.locks.is_locked(key) {
            controller.note_vanished(
                key,
                last,
                controller.writes.are_outstanding(key),
                is_replaced,
            );
        }
    }

    fn node_changed(&self, event: &CacheEvent<Node>) {
        match event {
            CacheEvent::Updated { old, new } if !self.controller.concerns_targets(old, new) => {}
            CacheEvent::Added(node)
            | CacheEvent::Updated { new: node, .. }
            | CacheEvent::Deleted(node) => {
                self.nodes.add(node.name.to_string());
            }
        }
    }

    async fn sync(self: Arc<Self>, claim: Claim<String>) {
        let _busy = self.controller.context.pulse.begin("service");
        let Some(_lock) = self.locks.take(claim.key(), WorkKind::Sync) else {
            return claim.release_unprocessed();
        };
        let key = claim.key().clone();
        match self.controller.confirm_deletion(&key).await {
            Ok(cached) => self.controller.work_cached(claim, cached).await,
            Err(error) => {
                tracing::warn!(service = key, %error, "cannot verify whether the service was deleted; its load \
                                                       balancer is kept until a retry");
                claim.fail();
            }
        }
        // The API server may have lost the Service for so short a time that no event reports it.
        if let Some(pause) = self.controller.vanished.take_unwritten(&key)
            && self.controller.services.get(&key).is_some()
        {
            self.services.add_after(key.clone(), pause);
        }
        if let Some(pause) = self.controller.vanished.pause(&key) {
            self.services.add_after(key.clone(), pause);
        }
        if let Some(pause) = self.controller.leftovers.pause(&key) {
            self.services.add_after(key, pause);
        } else if self.controller.ledger.service(&key).is_some()
            && let Some(pause) = self.controller.drift_pause(true)
        {
            self.drift.add_after(key, pause);
        }
    }

    /// Processes all waiting Node events as one node sync (SVC-63). The node sync only determines the affected
    /// Services: a slow Service, or one that is being synced, delays neither others nor the next node sync (INV-6).
    async fn node_sync(self: Arc<Self>, claims: Vec<Claim<String>>, shutdown: CancellationToken) {
        let _busy = self.controller.context.pulse.begin("node");
        tokio::select! {
            () = tokio::time::sleep(WINDOW) => {}
            () = shutdown.cancelled() => return,
        }
        let metrics = Arc::clone(&self.controller.metrics);
        let round = Arc::new(Round {
            start: Instant::now(),
            metrics,
        });
        for key in self.controller.stale() {
            self.rounds.lock().insert(key.clone(), Arc::clone(&round));
            self.targets.add(key);
        }
        claims.into_iter().for_each(Claim::succeed);
    }

    async fn refresh_targets(self: Arc<Self>, claim: Claim<String>) {
        let _busy = self.controller.context.pulse.begin("service-targets");
        let Some(lock) = self.locks.take(claim.key(), WorkKind::Targets) else {
            return claim.release_unprocessed();
        };
        let round = self.rounds.lock().remove(claim.key());
        if self
            .controller
            .refresh_targets(claim.key(), &claim.permit())
            .await
            .is_err()
        {
            lock.then_sync();
        }
        drop(round);
        claim.succeed();
    }

    async fn check_drift(self: Arc<Self>, claim: Claim<String>) {
        let _busy = self.controller.context.pulse.begin("service-drift");
        let key = claim.key().clone();
        // A Service in work, or waiting for a retry, is in the middle of a change.
        if self.services.retries(&key) == 0
            && let Some(_lock) = self.locks.take_if_free(&key)
            && self.controller.check_drift(&key).await
        {
            self.services.add(key.clone());
        }
        match self.controller.drift_pause(false) {
            Some(pause) if self.controller.ledger.service(&key).is_some() => {
                claim.retry_after(pause);
            }
            _ => claim.succeed(),
        }
    }
}
