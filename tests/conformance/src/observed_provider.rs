//! A provider that notes calls for one Service that overlap (INV-6, D-9).

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, Cluster, Clusters, Context, Goal, Instances, LoadBalancerDescription,
    LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Node, OwnedResource, Plan,
    RemovalOutcome, Result, Routes, Service, ServiceReview, TargetIdentity, Volumes, async_trait,
};
use parking_lot::{Mutex, MutexGuard};

/// Overlapping calls that were found so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Overlaps(Arc<Mutex<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    running: BTreeSet<String>,
    overlapped: Vec<String>,
}

impl Overlaps {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock()
    }

    /// Begins a call, which ends when the returned guard is dropped.
    fn begin(&self, request: &LoadBalancerRequest<'_>, call: &str) -> Call {
        let uid = request.service.metadata.uid.clone().unwrap_or_default();
        let mut calls = self.calls();
        if !calls.running.insert(uid.clone()) {
            let name = request.service.metadata.name.as_deref().unwrap_or_default();
            calls.overlapped.push(format!(
                "{call} of Service {name:?} began while another call for it ran"
            ));
        }
        Call {
            overlaps: self.clone(),
            uid,
        }
    }

    /// Returns the overlaps in words.
    #[must_use]
    pub fn found(&self) -> Vec<String> {
        self.calls().overlapped.clone()
    }
}

struct Call {
    overlaps: Overlaps,
    uid: String,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.overlaps.calls().running.remove(&self.uid);
    }
}

/// A provider, and what is noted of its calls.
pub struct ObservedProvider {
    inner: Arc<dyn CloudProvider>,
    balancers: Option<ObservedBalancers>,
}

struct ObservedBalancers {
    inner: Arc<dyn CloudProvider>,
    overlaps: Overlaps,
}

impl ObservedProvider {
    /// Notes in `overlaps` what overlaps.
    #[must_use]
    pub fn new(inner: Arc<dyn CloudProvider>, overlaps: Overlaps) -> Self {
        let balancers = inner.load_balancers().is_some();
        let balancers = balancers.then(|| ObservedBalancers {
            inner: Arc::clone(&inner),
            overlaps,
        });
        Self { inner, balancers }
    }
}

#[async_trait]
impl CloudProvider for ObservedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn has_cluster_id(&self) -> bool {
        self.inner.has_cluster_id()
    }
    fn needs_cluster_id(&self) -> bool {
        self.inner.needs_cluster_id()
    }
    async fn initialize(&self, context: &Context) -> Result<()> {
        self.inner.initialize(context).await
    }
    fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.inner.set_caches(caches);
    }
    fn metrics_address(&self) -> Option<String> {
        self.inner.metrics_address()
    }
    fn instances(&self) -> Option<&dyn Instances> {
        self.inner.instances()
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.balancers
            .as_ref()
            .map(|observed_balancers| observed_balancers as &dyn LoadBalancers)
    }
    fn routes(&self) -> Option<&dyn Routes> {
        self.inner.routes()
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        self.inner.volumes()
    }
    fn clusters(&self) -> Option<&dyn Clusters> {
        self.inner.clusters()
    }
    fn owns_node(&self, node: &Node) -> bool {
        self.inner.owns_node(node)
    }
}

impl ObservedBalancers {
    fn inner(&self) -> &dyn LoadBalancers {
        self.inner
            .load_balancers()
            .expect("PROV-19: an accessor always gives the same answer")
    }
}

#[async_trait]
impl LoadBalancers for ObservedBalancers {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let _call = self.overlaps.begin(&request, "get");
        self.inner().get(request).await
    }
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.inner().name(cluster, service)
    }
    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let _call = self.overlaps.begin(&request, "ensure");
        self.inner().ensure(request).await
    }
    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let _call = self.overlaps.begin(&request, "update_targets");
        self.inner().update_targets(request).await
    }
    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let _call = self.overlaps.begin(&request, "delete");
        self.inner().delete(request).await
    }
    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.inner().targets_follow_labels(service)
    }

    fn targets_follow_addresses(&self) -> bool {
        self.inner().targets_follow_addresses()
    }
    fn target_identity(&self) -> TargetIdentity {
        self.inner().target_identity()
    }
    fn target_annotations(&self) -> &[String] {
        self.inner().target_annotations()
    }
    fn orphans(
        &self,
        cluster: &Cluster,
        service_exists: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        self.inner().orphans(cluster, service_exists)
    }
    fn review(&self, service: &Service) -> ServiceReview {
        self.inner().review(service)
    }
    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        self.inner().owned(cluster).await
    }
    async fn read_owned(
        &self,
        cluster: &Cluster,
        id: &str,
        services: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        self.inner().read_owned(cluster, id, services).await
    }
    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
        services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        self.inner().delete_owned(cluster, resource, services).await
    }
    fn has_plans(&self) -> bool {
        self.inner().has_plans()
    }
    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        let _call = self.overlaps.begin(&request, "plan");
        self.inner().plan(request, goal).await
    }
    async fn describe(
        &self,
        request: LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        self.inner().describe(request).await
    }
}
