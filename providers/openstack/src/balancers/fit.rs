//! The desired resource graph of a load balancer that exists: others may share it, and some settings stay as they are.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Attributes, ObservedLoadBalancer, ResourceGraph, ResourceKey, sorted_set,
};
use serde_json::json;

use super::octavia::{ALLOWED_CIDRS, MEMBER_PORT, MONITOR_PORT, MONITOR_SETTINGS, POOL_SETTINGS};
use super::spec::ServiceSpec;
use super::{floating_ip, second_vip, security_group};
use crate::annotations as key;

/// Fits the desired resource graph to this load balancer.
///
/// # Errors
/// *Invalid* if the load balancer belongs to another Service, and this one requests an internal one.
pub(super) fn fit_to_observed(
    mut wanted: ResourceGraph,
    actual: &ObservedLoadBalancer,
    spec: &ServiceSpec,
) -> Result<ResourceGraph> {
    if actual.id.contains('/') && !actual.foreign.is_empty() && spec.internal {
        return Err(Error::invalid(format!(
            "{} belongs to another Service and may be external, so a Service that shares it cannot be internal ({})",
            actual.place(),
            key::INTERNAL.key()
        )));
    }
    let Some(graph) = actual
        .graph
        .as_ref()
        .filter(|graph| graph.balancer_attributes().is_some())
    else {
        return Ok(wanted);
    };
    let front = floating_ip::resource();
    if actual.foreign.contains_key(&front) {
        wanted.resources.remove(&front);
    } else if graph.resources.contains_key(&front) && !spec.internal && !spec.is_ipv6() {
        // Also if no network for a new one was found.
        wanted.resources.insert(front, Attributes::default());
    }
    for (resource, settings) in &wanted.resources.clone() {
        let settings = match (resource, graph.resources.get(resource)) {
            (ResourceKey::Pool(pool), Some(_)) => of_members(settings, &wanted, graph, pool),
            (ResourceKey::Listener(_), _)
                if spec.second.is_some() && settings.get(ALLOWED_CIDRS).is_some() =>
            {
                let is_both = graph
                    .balancer_attributes()
                    .is_some_and(|settings| second_vip::has_second_vip(settings, spec));
                settings
                    .clone()
                    .set(ALLOWED_CIDRS, sorted_set(json!(spec.allowed(is_both))))
            }
            (ResourceKey::CreatedBefore(_), Some(present)) => {
                security_group::fit_to_observed(settings, present)
            }
            _ => continue,
        };
        wanted.resources.insert(resource.clone(), settings);
    }
    Ok(wanted)
}

/// Returns the settings of a pool that are compared. Settings of members are compared only if the pool has members,
/// because Octavia stores them with each member. The members' subnet is never changed.
fn of_members(
    settings: &Attributes,
    wanted: &ResourceGraph,
    actual: &ResourceGraph,
    pool: &str,
) -> Attributes {
    let has_members = !actual.targets_of(pool).is_empty();
    let shall_have = wanted
        .targets
        .get(pool)
        .map_or(has_members, |targets| !targets.is_empty());
    let mut keys: Vec<&str> = MONITOR_SETTINGS.into_iter().chain(POOL_SETTINGS).collect();
    if shall_have && !has_members {
        return settings.clone();
    }
    keys.extend([MEMBER_PORT, MONITOR_PORT].iter().filter(|_| shall_have));
    settings.clone().only(&keys)
}
