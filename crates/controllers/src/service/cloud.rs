//! Calls to the provider about load balancers, guarded so that no failure of the provider stops the controller.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    CloudProvider, Cluster, Error, Goal, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers,
    Node, Plan, Result, Service, SyncCallbacks,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use runtime::pulse::Pulse;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::grace::within_grace;
use crate::service::metrics::ServiceMetrics;
use crate::service::targets::Follows;

/// Timeout of a change or a look-up. Some clouds take many minutes for a load balancer; providers have shorter timeouts
/// for each of their requests.
const CALL_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Time after which a call releases its worker permit, because the call may hang or retry after pauses, and other
/// Services must not wait for that (INV-6).
const RELEASE_AFTER: Duration = Duration::from_secs(2);
/// Timeout of a plan, which changes nothing.
const PLAN_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Client of the provider's load balancers for one cluster. Adds deadlines, catches panics and stops at a shutdown.
pub(super) struct Cloud {
    provider: Arc<dyn CloudProvider>,
    cluster: Cluster,
    metrics: Arc<dyn ServiceMetrics>,
    stopping: CancellationToken,
    pulse: Pulse,
}

/// The kind of a call to the provider.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallKind {
    /// A call that changes resources in the cloud.
    Change,
    /// A call that looks up a resource.
    Find,
    /// A call that plans changes without making them.
    Plan,
}

impl CallKind {
    fn deadline(self) -> Duration {
        match self {
            Self::Change | Self::Find => CALL_TIMEOUT,
            Self::Plan => PLAN_TIMEOUT,
        }
    }
}

impl Cloud {
    pub(super) fn new(
        provider: Arc<dyn CloudProvider>,
        cluster: Cluster,
        metrics: Arc<dyn ServiceMetrics>,
        pulse: Pulse,
    ) -> Self {
        Self {
            provider,
            cluster,
            metrics,
            stopping: CancellationToken::new(),
            pulse,
        }
    }

    /// Stops the calls: calls in progress have the grace period to end, then they are cancelled; no further call
    /// begins.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Returns `true` if the provider can plan changes.
    pub(super) fn has_plans(&self) -> bool {
        self.provider
            .load_balancers()
            .is_some_and(LoadBalancers::has_plans)
    }

    /// Returns the fields of Nodes that the Service's targets depend on, in addition to the set of Nodes.
    pub(super) fn follows(&self, service: &Service) -> Follows<'_> {
        let annotations = || {
            let balancers = self.provider.load_balancers()?;
            let labels = balancers.targets_follow_labels(service);
            let addresses = balancers.targets_follow_addresses();
            let annotations = balancers.target_annotations();
            Some(Follows {
                labels,
                addresses,
                annotations,
            })
        };
        std::panic::catch_unwind(AssertUnwindSafe(annotations))
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Returns the name of the load balancer in the cloud.
    pub(super) fn name(&self, service: &Service) -> String {
        self.provider
            .load_balancers()
            .map(|load_balancer| load_balancer.name(&self.cluster, service))
            .unwrap_or_default()
    }

    pub(super) async fn exists(&self, service: &Service) -> Result<bool> {
        Ok(self.find(service).await?.is_some())
    }

    /// Returns the load balancer with this controller's owner tags, even if incomplete.
    pub(super) async fn find(&self, service: &Service) -> Result<Option<LoadBalancerStatus>> {
        let request = self.request(service, &[], &());
        self.call(CallKind::Find, &(), |load_balancers| {
            load_balancers.get(request)
        })
        .await
    }

    pub(super) async fn ensure(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
        callbacks: &dyn SyncCallbacks,
    ) -> Result<Option<LoadBalancerStatus>> {
        let request = self.request(service, nodes, callbacks);
        let start = Instant::now();
        let result = self
            .call(CallKind::Change, callbacks, |load_balancers| {
                load_balancers.ensure(request)
            })
            .await;
        self.metrics.ensured(start.elapsed(), result.is_ok());
        result
    }

    pub(super) async fn update_targets(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let request = self.request(service, nodes, callbacks);
        self.call(CallKind::Change, callbacks, |load_balancers| {
            load_balancers.update_targets(request)
        })
        .await
    }

    pub(super) async fn delete(
        &self,
        service: &Service,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let request = self.request(service, &[], callbacks);
        let start = Instant::now();
        let result = self
            .call(CallKind::Change, callbacks, |load_balancers| {
                load_balancers.delete(request)
            })
            .await;
        self.metrics.deleted(start.elapsed(), result.is_ok());
        result
    }

    /// Returns the changes that would bring the load balancer in sync.
    pub(super) async fn plan(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<Plan> {
        let request = self.request(service, nodes, &());
        self.call(CallKind::Plan, &(), |load_balancers| {
            load_balancers.plan(request, Goal::Ensured)
        })
        .await
    }

    fn request<'a>(
        &'a self,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
        callbacks: &'a dyn SyncCallbacks,
    ) -> LoadBalancerRequest<'a> {
        LoadBalancerRequest {
            cluster: &self.cluster,
            service,
            nodes,
            callbacks,
        }
    }

    async fn call<'a, T>(
        &'a self,
        kind: CallKind,
        callbacks: &dyn SyncCallbacks,
        call: impl FnOnce(&'a dyn LoadBalancers) -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let provider = self.provider.name();
        let Some(balancers) = self.provider.load_balancers() else {
            return Err(Error::other(
                "the cloud provider does not support external load balancers",
            ));
        };
        if self.is_stopping() {
            return Err(Error::other("not started: the process is stopping"));
        }
        // The call is inside the future, so that a panic before the first await is caught too.
        let deadline = kind.deadline();
        let answer = AssertUnwindSafe(async { call(balancers).await }).catch_unwind();
        let answer = timeout(deadline, releasing_permit(callbacks, answer));
        let answer = within_grace(&self.stopping, answer).await;
        if answer.is_some() {
            callbacks.reacquire_permit().await;
        }
        match answer {
            Some(Ok(Ok(result))) => result,
            Some(Ok(Err(_))) => Err(Error::other(format!("cloud provider {provider} panicked"))),
            Some(Err(_)) => Err(Error::other(format!(
                "cloud provider {provider} gave no answer within {} s",
                deadline.as_secs()
            ))),
            None => {
                if kind == CallKind::Change {
                    self.pulse.give_up();
                }
                Err(Error::other("cancelled: the process is stopping"))
            }
        }
    }
}

/// Waits for a call of the provider, and releases the worker permit while the call is slow.
async fn releasing_permit<T>(callbacks: &dyn SyncCallbacks, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    loop {
        match timeout(RELEASE_AFTER, &mut call).await {
            Ok(answer) => return answer,
            // Repeated, because a provider that waits for its cloud reacquires the permit after the wait.
            Err(_) => callbacks.release_permit(),
        }
    }
}
