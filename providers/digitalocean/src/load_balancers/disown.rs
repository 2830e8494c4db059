//! Services whose load balancer is left alone.

use std::sync::Arc;

use cloud_provider::{
    Cluster, Goal, LoadBalancerDescription, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers,
    OwnedResource, Plan, RemovalOutcome, Result, Service, ServiceReview, TargetIdentity,
    async_trait,
};
use provider_kit::annotations::Annotations;

use crate::annotations::DISOWN;

/// Load balancers, except for those of disowned Services.
pub(crate) struct SkipDisowned<T>(pub(crate) T);

/// Returns `true` if the annotation [`DISOWN`](crate::annotations::DISOWN) of the Service is `true`.
///
/// # Errors
/// *Invalid*, for a value that is not a truth value: nothing is changed then, and nothing deleted.
fn is_disowned(service: &Service) -> Result<bool> {
    let mut annotations = Annotations::of(service);
    let is_disowned = annotations.get(&DISOWN).unwrap_or_default();
    annotations.finish().map(|()| is_disowned)
}

#[async_trait]
impl<T: LoadBalancers> LoadBalancers for SkipDisowned<T> {
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.0.name(cluster, service)
    }

    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.0.get(request).await
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        if is_disowned(request.service)? {
            let status = request
                .service
                .status
                .as_ref()
                .and_then(|status| status.load_balancer.clone());
            return Ok(Some(status.unwrap_or_default()));
        }
        self.0.ensure(request).await
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        if is_disowned(request.service)? {
            Ok(())
        } else {
            self.0.update_targets(request).await
        }
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        if is_disowned(request.service)? {
            Ok(())
        } else {
            self.0.delete(request).await
        }
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.0.targets_follow_labels(service)
    }

    fn targets_follow_addresses(&self) -> bool {
        self.0.targets_follow_addresses()
    }

    fn target_identity(&self) -> TargetIdentity {
        self.0.target_identity()
    }

    fn orphans(
        &self,
        cluster: &Cluster,
        service_exists: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        self.0.orphans(cluster, service_exists)
    }

    fn review(&self, service: &Service) -> ServiceReview {
        self.0.review(service)
    }

    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        self.0.owned(cluster).await
    }

    async fn read_owned(
        &self,
        cluster: &Cluster,
        id: &str,
        services: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        self.0.read_owned(cluster, id, services).await
    }

    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
        services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        self.0.delete_owned(cluster, resource, services).await
    }

    fn has_plans(&self) -> bool {
        self.0.has_plans()
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        if is_disowned(request.service)? {
            Ok(Plan::default())
        } else {
            self.0.plan(request, goal).await
        }
    }

    async fn describe(
        &self,
        request: LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        self.0.describe(request).await
    }
}
