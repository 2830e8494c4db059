//! Counters and timers for calls of a provider's capabilities, for clouds whose dashboards have such a series.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Cluster, Goal, InstanceState, Instances, LoadBalancerDescription, LoadBalancerRequest,
    LoadBalancerStatus, LoadBalancers, LookupRequest, MetadataLevel, Node, OwnedResource, Plan,
    RemovalOutcome, Result, Route, Routes, Service, ServiceReview, TargetIdentity, async_trait,
};
use tokio::time::Instant;

/// The method that was called.
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

/// A capability that reports each call before it is made; a call for many Nodes counts once for each Node.
///
/// ```
/// use provider_kit::instrumented::{Called, InstrumentedCapability};
///
/// # fn example(machines: impl cloud_provider::Instances + 'static) {
/// let machines = InstrumentedCapability::new(machines, |called: Called| tracing::debug!(?called));
/// # }
/// ```
pub struct InstrumentedCapability<T> {
    inner: T,
    record: Box<dyn Fn(Called) + Send + Sync>,
    ended: Option<Box<Ended>>,
}

/// A callback for the end of a call: the duration, and `true` if the call succeeded.
type Ended = dyn Fn(Called, Duration, bool) + Send + Sync;

impl<T> InstrumentedCapability<T> {
    /// Returns `inner` as a capability that reports each call to `record` before it is made; `record` must not block.
    pub fn new(inner: T, record: impl Fn(Called) + Send + Sync + 'static) -> Self {
        Self {
            inner,
            record: Box::new(record),
            ended: None,
        }
    }

    /// Also reports the duration of each call and whether it succeeded, except for lookups of Nodes, which are for many
    /// at once. A call that is dropped is not reported.
    #[must_use]
    pub fn timed(mut self, ended: impl Fn(Called, Duration, bool) + Send + Sync + 'static) -> Self {
        self.ended = Some(Box::new(ended));
        self
    }

    async fn call<R>(&self, called: Called, work: impl Future<Output = Result<R>>) -> Result<R> {
        (self.record)(called);
        let began = Instant::now();
        let outcome = work.await;
        if let Some(ended) = &self.ended {
            ended(called, began.elapsed(), outcome.is_ok());
        }
        outcome
    }

    /// Returns the capability that is counted.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

#[async_trait]
impl<T: Instances> Instances for InstrumentedCapability<T> {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let requested = [
            (request.existence, Called::InstanceExists),
            (request.shutdown, Called::InstanceShutdown),
            (
                request.metadata != MetadataLevel::No,
                Called::InstanceMetadata,
            ),
        ];
        for (_, called) in requested.into_iter().filter(|(requested, _)| *requested) {
            nodes.iter().for_each(|_| (self.record)(called));
        }
        self.inner.lookup(nodes, request).await
    }
}

#[async_trait]
impl<T: LoadBalancers> LoadBalancers for InstrumentedCapability<T> {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.call(Called::GetLoadBalancer, self.inner.get(request))
            .await
    }
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.inner.name(cluster, service)
    }
    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.call(Called::EnsureLoadBalancer, self.inner.ensure(request))
            .await
    }
    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.call(
            Called::UpdateLoadBalancer,
            self.inner.update_targets(request),
        )
        .await
    }
    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.call(Called::DeleteLoadBalancer, self.inner.delete(request))
            .await
    }
    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.inner.targets_follow_labels(service)
    }

    fn targets_follow_addresses(&self) -> bool {
        self.inner.targets_follow_addresses()
    }
    fn target_identity(&self) -> TargetIdentity {
        self.inner.target_identity()
    }
    fn target_annotations(&self) -> &[String] {
        self.inner.target_annotations()
    }
    fn review(&self, service: &Service) -> ServiceReview {
        self.inner.review(service)
    }
    fn orphans(
        &self,
        cluster: &Cluster,
        service_exists: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        self.inner.orphans(cluster, service_exists)
    }
    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        self.inner.owned(cluster).await
    }
    async fn read_owned(
        &self,
        cluster: &Cluster,
        id: &str,
        services: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        self.inner.read_owned(cluster, id, services).await
    }
    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
        services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        self.inner.delete_owned(cluster, resource, services).await
    }
    fn has_plans(&self) -> bool {
        self.inner.has_plans()
    }
    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        self.inner.plan(request, goal).await
    }
    async fn describe(
        &self,
        request: LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        self.inner.describe(request).await
    }
}

#[async_trait]
impl<T: Routes> Routes for InstrumentedCapability<T> {
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>> {
        self.call(Called::ListRoutes, self.inner.list(cluster))
            .await
    }
    async fn create(&self, cluster: &Cluster, hint: &str, route: &Route) -> Result<()> {
        self.call(Called::CreateRoute, self.inner.create(cluster, hint, route))
            .await
    }
    async fn delete(&self, cluster: &Cluster, route: &Route) -> Result<()> {
        self.call(Called::DeleteRoute, self.inner.delete(cluster, route))
            .await
    }
    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        self.inner.owned(cluster).await
    }
    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
    ) -> Result<RemovalOutcome> {
        self.inner.delete_owned(cluster, resource).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Load balancers of which one is an orphan.
    struct Left;

    #[async_trait]
    impl LoadBalancers for Left {
        async fn get(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
            Ok(None)
        }
        async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
            Ok(None)
        }
        async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
            Ok(())
        }
        async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
            Ok(())
        }
        fn orphans(&self, _: &Cluster, _: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
            Some(vec!["left".to_owned()])
        }
        async fn owned(&self, _: &Cluster) -> Result<Vec<OwnedResource>> {
            Ok(vec![OwnedResource::default()])
        }
    }

    #[tokio::test]
    async fn counted_load_balancers_show_their_orphans() {
        let counted = InstrumentedCapability::new(Left, |_| {});
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: None,
        };
        assert_eq!(
            counted.orphans(&cluster, &|_| false),
            Some(vec!["left".to_owned()])
        );
        assert_eq!(counted.owned(&cluster).await.unwrap().len(), 1);
    }
}
