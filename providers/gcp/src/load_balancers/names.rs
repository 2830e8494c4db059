//! Names of the objects of a load balancer, as the Go program gives them.

use provider_kit::load_balancers::ResourceKey;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::spec::Spec;
use crate::api::{ADDRESS, BACKEND_SERVICE, CHECK, FIREWALL, GROUP, HTTP_CHECK, Kind, RULE, TARGET_POOL};

pub(super) const ADDRESSES: &str = "addresses";
pub(super) const FIREWALLS: &str = "firewalls";
pub(super) const CHECKS: &str = "healthChecks";
pub(super) const HTTP_CHECKS: &str = "httpHealthChecks";
pub(super) const GROUPS: &str = "instanceGroups";
/// Beginning of the name of the firewall for traffic, before that of the load balancer.
pub(super) const FIREWALL_PREFIX: &str = "k8s-fw-";

/// The names of one load balancer's objects.
#[derive(Clone, Debug)]
pub(super) struct LbNames {
    /// The name of the forwarding rule, and of most other objects.
    pub(super) name: String,
    pub(super) cluster_id: String,
}

impl LbNames {
    pub(super) fn new(name: &str, cluster_id: &str) -> Self {
        Self { name: name.to_owned(), cluster_id: cluster_id.to_owned() }
    }

    /// Returns the name of the firewall for traffic of clients.
    pub(super) fn firewall(&self) -> String {
        format!("{FIREWALL_PREFIX}{}", self.name)
    }

    /// Returns the name of the firewall that denies all other traffic.
    pub(super) fn denial(&self) -> String {
        format!("{FIREWALL_PREFIX}{}-deny", self.name)
    }

    /// Returns the name of the health check that Services share.
    pub(super) fn shared_check(&self) -> String {
        format!("k8s-{}-node", self.cluster_id)
    }

    /// Returns the path of a health check: `healthChecks/x`, or `httpHealthChecks/x` of an external load balancer.
    pub(super) fn check(name: &str, is_internal: bool) -> String {
        format!("{}/{name}", if is_internal { CHECKS } else { HTTP_CHECKS })
    }

    /// Returns the path of the health check of a Service.
    pub(super) fn check_of(&self, spec: &Spec) -> String {
        Self::check(&if spec.check.is_some() { self.name.clone() } else { self.shared_check() }, spec.is_internal)
    }

    /// Returns the name of the firewall for a health check.
    pub(super) fn check_firewall(&self, check: &str) -> String {
        match check.split_once('/').unwrap_or_default() {
            (CHECKS, name) => format!("{name}-hc"),
            (_, name) if name == self.shared_check() => format!("{name}-http-hc"),
            (_, name) => format!("k8s-{name}-http-hc"),
        }
    }

    /// Returns the resource that a health check is. One of the Service's own is created before its firewall and deleted
    /// after it, so that it leads to the firewall; one that is shared is deleted first, because the cloud keeps it
    /// while it is in use.
    pub(super) fn check_resource(&self, check: &str) -> ResourceKey {
        let kind = if check.starts_with(CHECKS) { CHECKS } else { HTTP_CHECKS };
        ResourceKey::created_before(u8::from(self.is_shared(check)), kind, crate::api::name(check))
    }

    /// Returns the resource that the firewall of a health check is.
    pub(super) fn check_firewall_resource(&self, check: &str) -> ResourceKey {
        ResourceKey::created_before(u8::from(!self.is_shared(check)), FIREWALLS, self.check_firewall(check))
    }

    /// Returns the path of the target pool or backend service, which is also the name of the kit's pool.
    pub(super) fn pool(&self, spec: &Spec) -> String {
        match (spec.is_internal, spec.is_shared) {
            (false, _) => format!("targetPools/{}", self.name),
            (true, false) => format!("backendServices/{}", self.name),
            (true, true) => {
                let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, spec.affinity_text.as_bytes());
                let hash: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                let protocol = spec.protocol.to_lowercase();
                format!("backendServices/k8s-{}-internal-{protocol}-nmv1-{hash}", self.cluster_id)
            }
        }
    }

    /// Returns the name of the instance group of each zone.
    pub(super) fn group(&self) -> String {
        group(&self.cluster_id)
    }

    /// Returns the resource that the instance groups are. They are created with their first member.
    pub(super) fn group_resource(&self) -> ResourceKey {
        ResourceKey::created_before(0, GROUPS, self.group())
    }

    /// Returns `true` if the object belongs to more than this load balancer.
    pub(super) fn is_shared(&self, name: &str) -> bool {
        !name.contains(&self.name)
    }
}

/// Returns the name of the instance group of each zone.
pub(super) fn group(cluster_id: &str) -> String {
    format!("k8s-ig--{cluster_id}")
}

/// Returns the kind of a resource, and the name of its object.
pub(super) fn object<'a>(resource: &'a ResourceKey, lb: &'a str) -> Option<(Kind, &'a str)> {
    let (collection, name) = match resource {
        ResourceKey::CreatedBefore(it) | ResourceKey::CreatedAfter(it) => (&*it.kind, &*it.name),
        ResourceKey::Pool(path) => path.split_once('/')?,
        ResourceKey::Listener(_) => ("forwardingRules", lb),
        ResourceKey::Balancer => return None,
    };
    let kinds = [ADDRESS, RULE, TARGET_POOL, BACKEND_SERVICE, CHECK, HTTP_CHECK, FIREWALL, GROUP];
    kinds.into_iter().find(|kind| kind.collection() == collection).map(|kind| (kind, name))
}
