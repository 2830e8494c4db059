//! Load balancers that pass packets on to the ports of Services, as the cloud shows them. The worker firewall must admit
//! these packets, whatever the annotations of a Service want: a load balancer serves until its replacement works, or for
//! ever if the replacement is not allowed.

use std::collections::HashMap;

use cloud_provider::Service;
use parking_lot::Mutex;
use provider_kit::load_balancers::{ObservedLoadBalancer, ResourceGraph};

/// The external network load balancers of Services: their IDs, and the UIDs of the Services.
#[derive(Debug, Default)]
pub(crate) struct PassingLoadBalancers(Mutex<HashMap<String, String>>);

impl PassingLoadBalancers {
    /// Stores what the load balancer of a Service is.
    pub(super) fn note(&self, observed: &ObservedLoadBalancer, service: &Service) {
        let settings = observed
            .graph
            .as_ref()
            .and_then(ResourceGraph::balancer_attributes);
        let is = |field: &str, value: &str| {
            settings.and_then(|settings| settings.text(field)) == Some(value)
        };
        let uid = service.metadata.uid.clone().unwrap_or_default();
        if is("type", "REGIONAL_NETWORK") && is("network", "EXTERNAL") {
            self.0.lock().insert(observed.id.clone(), uid);
        }
    }

    /// Forgets a load balancer that was deleted.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// Returns `true` if the Service has such a load balancer.
    pub(crate) fn has(&self, service: &Service) -> bool {
        let uid = service.metadata.uid.as_deref();
        self.0.lock().values().any(|text| Some(&**text) == uid)
    }
}
