//! The calls of the service controller to a provider under test.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{RecordedAnnotations, ScriptedCluster};
use crate::{
    Caches, CloudProvider, Cluster, Error, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers,
    Result, Service,
};

impl ScriptedCluster {
    /// Syncs the only Service of the cluster with all Nodes, and writes the annotations and the status that follow to it.
    ///
    /// # Errors
    /// The provider's error; the annotations are written also then.
    pub async fn ensure(
        &self,
        provider: &dyn CloudProvider,
        cluster: &Cluster,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.set_services([service.clone()]);
        let nodes = self.nodes();
        let callbacks = RecordedAnnotations::default();
        let request = LoadBalancerRequest {
            cluster,
            service,
            nodes: &nodes,
            callbacks: &callbacks,
        };
        let outcome = load_balancers(provider)?.ensure(request).await;
        callbacks.apply_to(service);
        let status = outcome?.unwrap_or_default();
        service.status = Some(ServiceStatus {
            load_balancer: Some(status.clone()),
            ..ServiceStatus::default()
        });
        Ok(status)
    }

    /// Deletes the load balancer of the only Service of the cluster, which is being deleted.
    ///
    /// # Errors
    /// The provider's error.
    pub async fn delete(
        &self,
        provider: &dyn CloudProvider,
        cluster: &Cluster,
        service: &Service,
    ) -> Result<()> {
        let mut service = service.clone();
        service
            .metadata
            .deletion_timestamp
            .get_or_insert(Time(Timestamp::UNIX_EPOCH));
        self.set_services([service.clone()]);
        let request = LoadBalancerRequest {
            cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        load_balancers(provider)?.delete(request).await
    }
}

fn load_balancers(provider: &dyn CloudProvider) -> Result<&dyn LoadBalancers> {
    provider.load_balancers().ok_or_else(Error::not_implemented)
}
