//! Load balancers that a Service names by an ID or a name, and that were not created for it: they are adopted, and never
//! deleted or replaced. The author of a Service chooses both annotations, so neither proves anything.

use cloud_provider::{EventSubject, Result};
use provider_kit::load_balancers::{
    Applied, Identity, ObservedLoadBalancer, ResourceGraph, check_adoption, stays,
};
use provider_kit::text_tags::ADOPTED;
use provider_kit::transport::Call;
use serde_json::json;

use super::DigitalOceanLoadBalancers;
use super::object::OWNER_TAGS;

/// Returns the tags of a load balancer.
pub(super) fn tags(observed: &ObservedLoadBalancer) -> Vec<String> {
    let settings = observed
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes);
    let tags = settings
        .and_then(|settings| settings.get("tags"))
        .and_then(|tags| tags.as_array());
    tags.into_iter()
        .flatten()
        .filter_map(|tag| tag.as_str())
        .map(str::to_owned)
        .collect()
}

/// Returns the desired state with the name that the load balancer has. A name that contains the UID of the Service would prove
/// later that the load balancer was created for it.
pub(super) fn with_own_name(
    desired: ResourceGraph,
    observed: &ObservedLoadBalancer,
) -> ResourceGraph {
    match desired.balancer_attributes().cloned() {
        Some(settings) => desired.balancer(settings.set("name", &observed.name)),
        None => desired,
    }
}

impl DigitalOceanLoadBalancers {
    /// Marks a load balancer with the tag of `--adoptable-load-balancer-tag` as adopted, also if somebody has removed the mark:
    /// it was not created for a Service.
    pub(super) fn marked(&self, mut observed: ObservedLoadBalancer) -> ObservedLoadBalancer {
        if let Some(tag) = &self.config.adoptable_tag {
            observed.adopted |= tag.is_among(tags(&observed));
        }
        observed
    }

    /// Refuses to adopt a load balancer that serves somebody.
    pub(super) fn check_adoption(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> Result<()> {
        check_adoption(
            observed,
            identity,
            self.config.adoptable_tag.as_ref(),
            &tags(observed),
        )
    }

    /// Adds the owner tags that a load balancer lacks. The mark of an adoption comes first: a process that is killed in
    /// between cannot mistake the load balancer for one that was created for the Service.
    pub(super) async fn tag(
        &self,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
    ) -> Result<()> {
        let mark = identity.is_adoption(observed).then(|| ADOPTED.to_owned());
        for tag in mark
            .into_iter()
            .chain(OWNER_TAGS.among(&identity.owner_tags(), Vec::new()))
        {
            crate::tags::add(self.api(), &tag, std::slice::from_ref(&observed.id)).await?;
        }
        Ok(())
    }

    /// Releases a load balancer that was adopted: it loses this cluster's droplets and the owner tags, and stays.
    pub(super) async fn release(
        &self,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
    ) -> Result<Applied> {
        let droplets: Vec<u64> = observed
            .targets()
            .iter()
            .filter_map(|id| id.parse().ok())
            .collect();
        if !droplets.is_empty() {
            let call = Call::delete("/v2/load_balancers/{id}/droplets", &[&observed.id]);
            match self
                .api()
                .http
                .send(call.json(&json!({"droplet_ids": droplets})))
                .await
            {
                Err(error) if error.is_not_found() => return Ok(Applied::Gone),
                answer => drop(answer?),
            }
        }
        // The Service's own tag goes after the cluster's: without it, a later attempt would not find the load balancer.
        for tag in OWNER_TAGS
            .among(&identity.owner_tags(), Vec::new())
            .into_iter()
            .chain([ADOPTED.to_owned()])
        {
            crate::tags::remove(self.api(), &tag, &observed.id).await?;
        }
        self.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "LoadBalancerNotDeleted",
            &stays(observed, "droplets"),
        );
        Ok(Applied::Protected)
    }
}
