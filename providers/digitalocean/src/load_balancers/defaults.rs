//! Settings that get the API's default when their annotation is removed, as with the Go cloud-controller-manager, which
//! leaves them out of its requests.

use provider_kit::load_balancers::{Attributes, ObservedLoadBalancer, ResourceGraph};

use super::spec::Spec;

const SIZE: &str = "size";
const SIZE_UNIT: &str = "size_unit";
const IDLE_TIMEOUT: &str = "http_idle_timeout_seconds";
/// The API's defaults.
const DEFAULT_SIZE: &str = "lb-small";
const DEFAULT_NODES: u32 = 1;
const DEFAULT_IDLE_TIMEOUT: u32 = 60;

/// Returns the number of nodes of a size. The API writes one as the other, except in a few old regions.
fn nodes(size: &str) -> u32 {
    match size {
        "lb-large" => 6,
        "lb-medium" => 3,
        _ => DEFAULT_NODES,
    }
}

/// Wants the size and the idle timeout of the Service, or else the defaults, in the form in which the load balancer has
/// them.
pub(super) fn apply(desired: ResourceGraph, observed: &ObservedLoadBalancer, spec: &Spec) -> ResourceGraph {
    let seen = observed.graph.as_ref().and_then(ResourceGraph::balancer_attributes);
    let (Some(wanted), Some(seen)) = (desired.balancer_attributes().cloned(), seen) else { return desired };
    let mut wanted = size(wanted, seen, spec);
    if seen.get(IDLE_TIMEOUT).is_some() && spec.load_balancer.http_idle_timeout_seconds.is_none() {
        wanted = wanted.set(IDLE_TIMEOUT, DEFAULT_IDLE_TIMEOUT);
    }
    desired.balancer(wanted)
}

fn size(wanted: Attributes, seen: &Attributes, spec: &Spec) -> Attributes {
    let (has_nodes, has_size) = (seen.get(SIZE_UNIT).is_some(), seen.get(SIZE).is_some());
    match (&spec.load_balancer.size, spec.load_balancer.size_unit) {
        (Some(size), _) if has_nodes => wanted.set(SIZE, ()).set(SIZE_UNIT, nodes(size)),
        (None, Some(_)) if has_size => wanted.set(SIZE, ()),
        (None, None) if has_nodes => wanted.set(SIZE_UNIT, DEFAULT_NODES),
        (None, None) if has_size => wanted.set(SIZE, DEFAULT_SIZE),
        _ => wanted,
    }
}
