//! Settings that get the API's default when their annotation is removed, as with the Go cloud-controller-manager, which
//! leaves them out of its requests. What an operator changed by hand, and no annotation ever stated, stays.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use provider_kit::load_balancers::{Attributes, ObservedLoadBalancer, ResourceGraph};

use super::spec::Spec;

const SIZE: &str = "size";
const SIZE_UNIT: &str = "size_unit";
const IDLE_TIMEOUT: &str = "http_idle_timeout_seconds";
/// The API's defaults for a load balancer of this kind.
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

/// The settings that annotations have stated since the start of the process, by the UID of the Service.
#[derive(Debug, Default)]
pub(super) struct StatedSettings(Mutex<HashMap<String, HashSet<&'static str>>>);

impl StatedSettings {
    /// Stores what the annotations of a Service state.
    pub(super) fn note(&self, uid: &str, spec: &Spec) {
        let size = spec.load_balancer.size.is_some() || spec.load_balancer.size_unit.is_some();
        let idle_timeout = spec.load_balancer.http_idle_timeout_seconds.is_some();
        for (setting, _) in [(SIZE, size), (IDLE_TIMEOUT, idle_timeout)]
            .into_iter()
            .filter(|(_, is_stated)| *is_stated)
        {
            self.0
                .lock()
                .entry(uid.to_owned())
                .or_default()
                .insert(setting);
        }
    }

    /// Wants the size and the idle timeout of the Service, in the form in which the load balancer has them, or the defaults
    /// of those that the Service stated before.
    pub(super) fn apply(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        uid: &str,
        spec: &Spec,
    ) -> ResourceGraph {
        let seen = observed
            .graph
            .as_ref()
            .and_then(ResourceGraph::balancer_attributes);
        let (Some(wanted), Some(seen)) = (desired.balancer_attributes().cloned(), seen) else {
            return desired;
        };
        let was_stated = |setting: &str| {
            self.0
                .lock()
                .get(uid)
                .is_some_and(|stated| stated.contains(setting))
        };
        let mut wanted = size(wanted, seen, spec, was_stated(SIZE));
        let has_timeout = seen.get(IDLE_TIMEOUT).is_some() && was_stated(IDLE_TIMEOUT);
        if has_timeout && spec.load_balancer.http_idle_timeout_seconds.is_none() {
            wanted = wanted.set(IDLE_TIMEOUT, DEFAULT_IDLE_TIMEOUT);
        }
        desired.balancer(wanted)
    }
}

fn size(wanted: Attributes, seen: &Attributes, spec: &Spec, was_stated: bool) -> Attributes {
    let has_nodes = seen.get(SIZE_UNIT).is_some();
    let has_size = seen.get(SIZE).is_some();
    match (&spec.load_balancer.size, spec.load_balancer.size_unit) {
        (Some(size), _) if has_nodes => wanted.set(SIZE, ()).set(SIZE_UNIT, nodes(size)),
        (None, Some(_)) if has_size => wanted.set(SIZE, ()),
        (None, None) if was_stated && has_nodes => wanted.set(SIZE_UNIT, DEFAULT_NODES),
        (None, None) if was_stated && has_size => wanted.set(SIZE, DEFAULT_SIZE),
        _ => wanted,
    }
}
