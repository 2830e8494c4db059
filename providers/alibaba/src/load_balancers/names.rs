//! Names of the parts of a load balancer, which tell their owner, and the share of a Service in a load balancer of the
//! user.

use std::fmt;

use cloud_provider::{Service, default_load_balancer_name, is_default_load_balancer_name};
use provider_kit::load_balancers::{Identity, OwnerTags};

use super::read::Tags;

/// The kinds of load balancers: CLBs and NLBs of the cluster, and the shares of Services in those of the user.
pub(super) const CLASSIC: &str = "classic";
pub(super) const NETWORK: &str = "network";
const REUSED_CLASSIC: &str = "reused classic";
const REUSED_NETWORK: &str = "reused network";
/// The tag with the default name of the load balancer, and the one with the cluster.
pub(super) const NAME_TAG: &str = "kubernetes.do.not.delete";
pub(super) const CLUSTER_TAG: &str = "ack.aliyun.com";
/// The tag of load balancers of the user that Services use.
pub(super) const REUSED_TAG: (&str, &str) = ("kubernetes.reused.by.user", "true");
/// Prefix of the tag of a Service that uses a load balancer of the user; the UID follows. The value is the cluster.
pub(super) const SHARE_TAG: &str = "ccm-rs/service.";

/// Returns the kind of a Service's load balancer.
pub(super) fn kind(is_network: bool, is_reused: bool) -> &'static str {
    match (is_network, is_reused) {
        (false, false) => CLASSIC,
        (true, false) => NETWORK,
        (false, true) => REUSED_CLASSIC,
        (true, true) => REUSED_NETWORK,
    }
}

/// Returns `true` for NLBs.
pub(super) fn is_network(kind: &str) -> bool {
    kind.ends_with(NETWORK)
}

/// Returns `true` for load balancers of the user.
pub(super) fn is_reused(kind: &str) -> bool {
    [REUSED_CLASSIC, REUSED_NETWORK].contains(&kind)
}

/// Returns `true` for the name of a part of a Service of any cluster.
pub(super) fn is_of_kubernetes(kind: &str, name: &str) -> bool {
    name.starts_with(if is_network(kind) { "k8s." } else { "k8s/" })
}

/// Returns `true` if a name has the form of those that are generated for the load balancers of Services, but not for this
/// one.
pub(super) fn is_generated_for_another(name: &str, service: &Service) -> bool {
    is_default_load_balancer_name(name) && name != default_load_balancer_name(service)
}

/// Returns namespace and name of a Service.
pub(super) fn names(service: &Service) -> [&str; 2] {
    let metadata = &service.metadata;
    [
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    ]
}

/// A part of a load balancer, as its name or description tells: `k8s/<port>/<Service>/<namespace>/<cluster>` at a CLB,
/// with dots at an NLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) port: &'a str,
    pub(super) service: &'a str,
    pub(super) namespace: &'a str,
}

impl<'a> Part<'a> {
    /// Reads a name; `None` if the part belongs to no Service of the cluster.
    pub(super) fn of(kind: &str, name: &'a str, cluster: &str) -> Option<Self> {
        let separator = if is_network(kind) { '.' } else { '/' };
        let rest = name.strip_prefix("k8s")?.strip_prefix(separator)?;
        let rest = rest.strip_suffix(cluster)?.strip_suffix(separator)?;
        // Names of Services and namespaces have no separator.
        let (rest, namespace) = rest.rsplit_once(separator)?;
        let (port, service) = rest.rsplit_once(separator)?;
        (!port.is_empty()).then_some(Self {
            port,
            service,
            namespace,
        })
    }

    /// Returns the name of the part of a Service.
    pub(super) fn name(kind: &str, port: &str, service: &Service, cluster: &str) -> String {
        let [namespace, name] = names(service);
        ["k8s", port, name, namespace, cluster].join(if is_network(kind) { "." } else { "/" })
    }
}

/// The share of a Service in a load balancer of the user. Its ID is `<load balancer>/<UID>/<namespace>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Share {
    pub(super) fn of(identity: &Identity<'_>) -> Self {
        let [namespace, name] = names(identity.service).map(str::to_owned);
        Self {
            uid: identity.uid().to_owned(),
            namespace,
            name,
        }
    }

    /// Reads the ID of a share, and returns the ID of the load balancer with it.
    pub(super) fn read(id: &str) -> (&str, Option<Self>) {
        let mut parts = id.split('/');
        let balancer = parts.next().unwrap_or_default();
        let [uid, namespace, name] =
            std::array::from_fn(|_| parts.next().unwrap_or_default().to_owned());
        (
            balancer,
            (!uid.is_empty()).then_some(Self {
                uid,
                namespace,
                name,
            }),
        )
    }

    pub(super) fn id(&self, balancer: &str) -> String {
        format!("{balancer}/{}/{}/{}", self.uid, self.namespace, self.name)
    }

    /// Returns `true` if the part belongs to the Service.
    pub(super) fn has(&self, part: &Part<'_>) -> bool {
        (part.namespace, part.service) == (&*self.namespace, &*self.name)
    }

    /// Returns the key of the tag that names the Service.
    pub(super) fn tag(&self) -> String {
        format!("{SHARE_TAG}{}", self.uid)
    }

    /// Returns the owner tags among the tags of the load balancer.
    pub(super) fn owner_tags(&self, tags: &Tags) -> OwnerTags {
        let cluster = tags.get(&self.tag()).cloned();
        OwnerTags {
            service: cluster.as_ref().map(|_| self.uid.clone()),
            cluster,
        }
    }

    /// Returns the default name of a load balancer of the Service.
    pub(super) fn default_name(&self) -> String {
        format!("a{}", self.uid)
            .replace('-', "")
            .chars()
            .take(32)
            .collect()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_parts_are_those_of_the_go_program() {
        let service: Service =
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"}}))
                .unwrap();
        let group = Part::name(CLASSIC, "30080", &service, "c1");
        let part = |port| {
            Some(Part {
                port,
                service: "web",
                namespace: "shop",
            })
        };
        assert_eq!(
            (&*group, Part::of(CLASSIC, &group, "c1")),
            ("k8s/30080/web/shop/c1", part("30080"))
        );
        let group = Part::name(NETWORK, "30080.TCP", &service, "c1");
        assert_eq!(
            (&*group, Part::of(NETWORK, &group, "c1")),
            ("k8s.30080.TCP.web.shop.c1", part("30080.TCP"))
        );
        assert_eq!(
            Part::of(NETWORK, "k8s.80.TCP.web.shop.c2", "c1"),
            None,
            "another cluster"
        );
        assert_eq!(Part::of(CLASSIC, "mine", "c1"), None);
    }

    #[test]
    fn id_of_a_share_names_the_load_balancer_and_the_service() {
        let share = Share {
            uid: "0b0a1c0f-3f3e".into(),
            namespace: "shop".into(),
            name: "web".into(),
        };
        assert_eq!(share.id("lb-1"), "lb-1/0b0a1c0f-3f3e/shop/web");
        assert_eq!(
            Share::read(&share.id("lb-1")),
            ("lb-1", Some(share.clone()))
        );
        assert_eq!(Share::read("lb-1"), ("lb-1", None));
        assert_eq!(share.default_name(), "a0b0a1c0f3f3e");
    }
}
