//! Names of the objects of a load balancer, as the Go program gives them.

use provider_kit::load_balancers::{Auxiliary, ResourceKey};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::spec::{Backend, Spec};
use crate::api::{ADDRESS, CHECK, FIREWALL, GROUP, HTTP_CHECK, Kind, REGION_CHECK, RULE};

/// Beginning of the name of the firewall for traffic, before that of the load balancer.
pub(super) const FIREWALL_PREFIX: &str = "k8s-fw-";
/// End of the names of objects for IPv6, and of the protocol of such a listener.
pub(super) const IPV6: &str = "-ipv6";

/// Returns `true` if an object, or a listener of this protocol, is for IPv6.
pub(super) fn is_ipv6(name: &str) -> bool {
    name.ends_with(IPV6)
}

/// Returns the name without the end that is for IPv6.
pub(super) fn plain(name: &str) -> &str {
    name.strip_suffix(IPV6).unwrap_or(name)
}

fn of_family(mut name: String, is_ipv6: bool) -> String {
    name.push_str(if is_ipv6 { IPV6 } else { "" });
    name
}

/// The names of one load balancer's objects.
#[derive(Clone, Debug)]
pub(super) struct LbNames {
    /// The name of the forwarding rule, and of most other objects.
    pub(super) name: String,
    pub(super) cluster_id: String,
}

impl LbNames {
    pub(super) fn new(name: &str, cluster_id: &str) -> Self {
        Self {
            name: name.to_owned(),
            cluster_id: cluster_id.to_owned(),
        }
    }

    /// Returns the name of a forwarding rule, and of the address that is held for it.
    pub(super) fn rule(&self, is_ipv6: bool) -> String {
        of_family(self.name.clone(), is_ipv6)
    }

    /// Returns the name of the firewall for traffic of clients.
    pub(super) fn firewall(&self, is_ipv6: bool) -> String {
        of_family(format!("{FIREWALL_PREFIX}{}", self.name), is_ipv6)
    }

    /// Returns the name of the firewall that denies all other traffic.
    pub(super) fn denial(&self, is_ipv6: bool) -> String {
        of_family(format!("{FIREWALL_PREFIX}{}-deny", self.name), is_ipv6)
    }

    /// Returns `true` if the resource is a firewall that denies all other traffic.
    pub(super) fn is_denial(&self, resource: &ResourceKey) -> bool {
        [false, true]
            .iter()
            .any(|is_ipv6| *resource == denial(self.denial(*is_ipv6)))
    }

    /// Returns the name of the health check that Services share.
    pub(super) fn shared_check(&self) -> String {
        format!("k8s-{}-node", self.cluster_id)
    }

    /// Returns the path of the health check of a Service: `healthChecks/x`, or that of another kind.
    pub(super) fn check_of(&self, spec: &Spec, backend: Backend) -> String {
        backend.check.path(&if spec.check.is_some() {
            self.name.clone()
        } else {
            self.shared_check()
        })
    }

    /// Returns the name of the firewall for a health check.
    pub(super) fn check_firewall(&self, check: &str, is_ipv6: bool) -> String {
        let name = match check.split_once('/').unwrap_or_default() {
            (word, name) if word != HTTP_CHECK.word => format!("{name}-hc"),
            (_, name) if name == self.shared_check() => format!("{name}-http-hc"),
            (_, name) => format!("k8s-{name}-http-hc"),
        };
        of_family(name, is_ipv6)
    }

    /// Returns the resource that a health check is. One of the Service's own is created before its firewall and deleted
    /// after it, so that it leads to the firewall; one that is shared is deleted first, because the cloud keeps it
    /// while it is in use.
    pub(super) fn check_resource(&self, check: &str) -> ResourceKey {
        let word = check.split('/').next().unwrap_or_default();
        let kind = [CHECK, REGION_CHECK]
            .into_iter()
            .find(|kind| kind.word == word)
            .unwrap_or(HTTP_CHECK);
        ResourceKey::created_before(
            u8::from(self.is_shared(check)),
            kind.word,
            crate::api::name(check),
        )
    }

    /// Returns the resource that the firewall of a health check is.
    pub(super) fn check_firewall_resource(&self, check: &str, is_ipv6: bool) -> ResourceKey {
        let rank = u8::from(!self.is_shared(check));
        ResourceKey::created_before(rank, FIREWALL.word, self.check_firewall(check, is_ipv6))
    }

    /// Returns the path of the target pool or backend service, which is also the name of the kit's pool.
    pub(super) fn pool(&self, spec: &Spec, backend: Backend) -> String {
        if !spec.is_shared {
            return backend.pool.path(&self.name);
        }
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, spec.affinity_text.as_bytes());
        let hash: String = hash
            .as_ref()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let protocol = spec.protocol.to_lowercase();
        backend.pool.path(&format!(
            "k8s-{}-internal-{protocol}-nmv1-{hash}",
            self.cluster_id
        ))
    }

    /// Returns the name of the instance group of each zone.
    pub(super) fn group(&self) -> String {
        group(&self.cluster_id)
    }

    /// Returns the resource that the instance groups are. They are created with their first member.
    pub(super) fn group_resource(&self) -> ResourceKey {
        ResourceKey::created_before(0, GROUP.word, self.group())
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

/// Returns the resource that a firewall for traffic is.
pub(super) fn traffic(firewall: String) -> ResourceKey {
    ResourceKey::created_after(FIREWALL.word, firewall)
}

/// Returns the resource that a firewall which denies is: created after those that allow, and deleted before them.
pub(super) fn denial(firewall: String) -> ResourceKey {
    ResourceKey::CreatedAfter(Auxiliary {
        rank: 1,
        kind: FIREWALL.word.into(),
        name: firewall,
    })
}

/// Returns the resource that a held address is.
pub(super) fn held(address: String) -> ResourceKey {
    ResourceKey::created_after(ADDRESS.word, address)
}

impl LbNames {
    /// Returns the kind of a resource, and the name of its object.
    pub(super) fn object(&self, resource: &ResourceKey) -> Option<(Kind, String)> {
        match resource {
            ResourceKey::CreatedBefore(auxiliary) | ResourceKey::CreatedAfter(auxiliary) => {
                Kind::of(&auxiliary.kind).map(|kind| (kind, auxiliary.name.clone()))
            }
            ResourceKey::Pool(path) => {
                let (word, name) = path.split_once('/')?;
                Kind::of(word).map(|kind| (kind, name.to_owned()))
            }
            ResourceKey::Listener(port) => Some((RULE, self.rule(is_ipv6(&port.protocol)))),
            ResourceKey::Balancer => None,
        }
    }
}
