//! NodeBalancers that a Service names by an ID, and that were not created for it: they are adopted, and never deleted.

use cloud_provider::{Error, EventSubject, Result};
use provider_kit::load_balancers::{Applied, Identity, ObservedLoadBalancer, ResourceGraph, stays};
use provider_kit::transport::Call;

use super::spec::NodeBalancerSpec;
use super::{NodeBalancers, firewall};
use crate::annotations as key;

const TAGS: &str = "tags";

/// Refuses to create a NodeBalancer for a Service whose annotation names one that does not exist.
pub(super) fn check_requested_exists(identity: &Identity<'_>) -> Result<()> {
    let Some(id) = &identity.requested_id else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "annotation {}: there is no NodeBalancer {id} in this account; remove the annotation to have one created",
        key::ID.key()
    )))
}

/// Returns the desired state with the tags that the NodeBalancer has: its user chose them.
pub(super) fn with_own_tags(
    desired: ResourceGraph,
    observed: &ObservedLoadBalancer,
) -> ResourceGraph {
    let settings = desired.balancer_attributes().cloned();
    let has = observed
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes)
        .and_then(|has| has.get(TAGS));
    match (settings, has) {
        (Some(settings), Some(tags)) => desired.balancer(settings.set(TAGS, tags)),
        _ => desired,
    }
}

impl NodeBalancers {
    /// Releases a NodeBalancer that was adopted: it loses the ports of the Service, its firewalls and the owner tags, and
    /// stays.
    pub(super) async fn release(
        &self,
        actual: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &NodeBalancerSpec,
    ) -> Result<Applied> {
        let api = &self.source.api;
        for config in self.configs(&actual.id).await? {
            let ids = [&*actual.id, &config.id.to_string()];
            api.http
                .remove(Call::delete("/nodebalancers/{id}/configs/{config}", &ids))
                .await?;
        }
        if actual
            .graph
            .as_ref()
            .is_some_and(|graph| graph.resources.contains_key(&firewall::resource()))
        {
            self.delete_firewall(actual).await?;
        }
        if let Some(named) = spec.firewall_id {
            firewall::detach(api, named, &actual.id).await?;
        }
        match self.untag(actual).await {
            Err(error) if error.is_not_found() => return Ok(Applied::Gone),
            answer => answer?,
        }
        self.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "LoadBalancerNotDeleted",
            &stays(actual, "ports"),
        );
        Ok(Applied::Protected)
    }
}
