//! Calls of a provider's capabilities, counted and timed: dashboards of many clouds have such a series.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Cluster, Goal, InstanceState, Instances, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Node, Plan,
    Result, Route, Routes, Service, Want, WantMetadata, async_trait,
};
use tokio::time::Instant;

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the contract's questions")]
pub enum Called {
    InstanceExists,
    InstanceShutdown,
    InstanceMetadata,
    GetLoadBalancer,
    EnsureLoadBalancer,
    UpdateLoadBalancer,
    DeleteLoadBalancer,
    ListRoutes,
    CreateRoute,
    DeleteRoute,
}

/// A capability, each call of which is told before it is made; what is asked of many Nodes at once counts for each.
///
/// ```
/// use provider_kit::counted::{Called, Counted};
///
/// # fn example(machines: impl cloud_provider::Instances + 'static) {
/// let machines = Counted::new(machines, |called: Called| tracing::debug!(?called));
/// # }
/// ```
pub struct Counted<T> {
    inner: T,
    tell: Box<dyn Fn(Called) + Send + Sync>,
    ended: Option<Box<Ended>>,
}

/// Hears how a call ended: how long it took, and whether it went well.
type Ended = dyn Fn(Called, Duration, bool) + Send + Sync;

impl<T> Counted<T> {
    /// `tell` only counts: it must not wait.
    pub fn new(inner: T, tell: impl Fn(Called) + Send + Sync + 'static) -> Self {
        Self { inner, tell: Box::new(tell), ended: None }
    }

    /// Tells also how long each call took and whether it went well, look-ups of Nodes aside, which are of many at once. A call
    /// that is dropped has no end.
    #[must_use]
    pub fn timed(mut self, ended: impl Fn(Called, Duration, bool) + Send + Sync + 'static) -> Self {
        self.ended = Some(Box::new(ended));
        self
    }

    async fn call<R>(&self, called: Called, work: impl Future<Output = Result<R>>) -> Result<R> {
        (self.tell)(called);
        let began = Instant::now();
        let outcome = work.await;
        if let Some(ended) = &self.ended {
            ended(called, began.elapsed(), outcome.is_ok());
        }
        outcome
    }

    /// What is counted.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

#[async_trait]
impl<T: Instances> Instances for Counted<T> {
    async fn lookup(&self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>> {
        let asked = [
            (want.existence, Called::InstanceExists),
            (want.shutdown, Called::InstanceShutdown),
            (want.metadata != WantMetadata::No, Called::InstanceMetadata),
        ];
        for (_, called) in asked.into_iter().filter(|(asked, _)| *asked) {
            nodes.iter().for_each(|_| (self.tell)(called));
        }
        self.inner.lookup(nodes, want).await
    }
}

#[async_trait]
impl<T: LoadBalancers> LoadBalancers for Counted<T> {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.call(Called::GetLoadBalancer, self.inner.get(request)).await
    }
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.inner.name(cluster, service)
    }
    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.call(Called::EnsureLoadBalancer, self.inner.ensure(request)).await
    }
    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.call(Called::UpdateLoadBalancer, self.inner.update_targets(request)).await
    }
    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.call(Called::DeleteLoadBalancer, self.inner.delete(request)).await
    }
    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.inner.targets_follow_labels(service)
    }

    fn targets_follow_addresses(&self) -> bool {
        self.inner.targets_follow_addresses()
    }
    fn has_plans(&self) -> bool {
        self.inner.has_plans()
    }
    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        self.inner.plan(request, goal).await
    }
}

#[async_trait]
impl<T: Routes> Routes for Counted<T> {
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>> {
        self.call(Called::ListRoutes, self.inner.list(cluster)).await
    }
    async fn create(&self, cluster: &Cluster, hint: &str, route: &Route) -> Result<()> {
        self.call(Called::CreateRoute, self.inner.create(cluster, hint, route)).await
    }
    async fn delete(&self, cluster: &Cluster, route: &Route) -> Result<()> {
        self.call(Called::DeleteRoute, self.inner.delete(cluster, route)).await
    }
}
