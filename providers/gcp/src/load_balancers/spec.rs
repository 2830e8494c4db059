//! The settings of a Service, parsed once, without lookups in the cloud.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result, Service};
use ipnet::IpNet;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::{HealthCheck, requests_only_local_traffic};
use provider_kit::load_balancers::{ServicePort, each_port};
use provider_kit::source_ranges::{allows_all, source_ranges};

use crate::annotations as key;
use crate::api::{BACKEND_SERVICE, CHECK, HTTP_CHECK, Kind, Place, REGION_CHECK, TARGET_POOL};
use crate::config::{Config, StackType};

/// Classes of load balancers: those that the Go program serves, and that of the controller of backend services.
const EXTERNAL_CLASS: &str = "networking.gke.io/l4-regional-external-legacy";
const INTERNAL_CLASS: &str = "networking.gke.io/l4-regional-internal-legacy";
/// Finalizers of other controllers.
const OTHERS: [[&str; 2]; 2] = [
    [
        "gke.networking.io/l4-netlb-v2",
        "gke.networking.io/l4-netlb-v3",
    ],
    ["gke.networking.io/l4-ilb-v2", ""],
];
/// Most ports that an internal forwarding rule names one by one.
pub(super) const MOST_PORTS: usize = 5;

/// The protocol of a forwarding rule for TCP and UDP.
pub(super) const BOTH: &str = "L3_DEFAULT";

/// The objects to which a forwarding rule leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) pool: Kind,
    pub(super) check: Kind,
    pub(super) scheme: &'static str,
}

/// A target pool serves one protocol over IPv4; external load balancers of other kinds have a backend service.
pub(super) const TARGETS: Backend = Backend {
    pool: TARGET_POOL,
    check: HTTP_CHECK,
    scheme: "EXTERNAL",
};
pub(super) const EXTERNAL: Backend = Backend {
    pool: BACKEND_SERVICE,
    check: REGION_CHECK,
    scheme: "EXTERNAL",
};
pub(super) const INTERNAL: Backend = Backend {
    pool: BACKEND_SERVICE,
    check: CHECK,
    scheme: "INTERNAL",
};

impl Backend {
    /// Returns `true` if the instances are in instance groups.
    pub(super) fn has_groups(self) -> bool {
        self.pool == BACKEND_SERVICE
    }
}

/// A forwarding rule of a load balancer, and what it leads to: one for each address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frontend {
    pub(super) is_ipv6: bool,
    pub(super) backend: Backend,
}

/// The settings of a Service for its load balancer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    /// Namespace and name, as descriptions name the Service.
    pub(super) service: String,
    pub(crate) is_internal: bool,
    /// If set, another controller serves the Service.
    pub(crate) is_elsewhere: bool,
    /// `TCP`, `UDP`, or that of a forwarding rule for both.
    pub(super) protocol: &'static str,
    pub(super) ports: Vec<(&'static str, u16)>,
    pub(super) ranges: BTreeSet<IpNet>,
    /// Families of the addresses: IPv4, and IPv6 if the cluster has it.
    pub(super) has_ipv4: bool,
    pub(super) has_ipv6: bool,
    /// If set, a load balancer without an IPv6 address is not what the Service asks for.
    pub(super) needs_ipv6: bool,
    pub(super) ip: Option<String>,
    pub(super) tier: Option<String>,
    pub(crate) has_global_access: bool,
    pub(crate) subnet: Option<String>,
    pub(super) is_shared: bool,
    pub(super) affinity: &'static str,
    /// The affinity, as the Service has it.
    pub(super) affinity_text: String,
    /// Path and port of the Service's own health check.
    pub(super) check: Option<(&'static str, i32)>,
}

/// The beginnings of annotations that only this controller reads. Other controllers read further annotations of the same
/// domains (`cloud.google.com/neg`, `cloud.google.com/backend-config`).
const ANNOTATION_PREFIXES: [&str; 6] = [
    "networking.gke.io/internal-load-balancer-",
    "networking.gke.io/load-balancer-",
    "alpha.cloud.google.com/load-balancer-",
    "cloud.google.com/load-balancer-",
    "cloud.google.com/network-tier",
    "cloud.google.com/l4-rbs",
];

impl Spec {
    /// Parses the settings of a Service.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service).over(&config.defaults);
        for prefix in ANNOTATION_PREFIXES {
            annotations.unknown(prefix, key::ALL);
        }
        let spec = service.spec.clone().unwrap_or_default();
        // Traffic reaches the Nodes at the ports of the Service: it needs no node ports.
        let ports: Result<Vec<ServicePort>> = each_port(service, &["TCP", "UDP"]).collect();
        let ports = ports.unwrap_or_else(|error| {
            annotations.mistake(error.to_string());
            Vec::new()
        });
        let ports: Vec<_> = ports
            .iter()
            .map(|port| (port.protocol, port.number))
            .collect();
        let protocol = ports.first().map_or("TCP", |(protocol, _)| protocol);
        let protocol = if ports.iter().all(|(other, _)| *other == protocol) {
            protocol
        } else {
            BOTH
        };
        let kind = annotations.get(&key::TYPE);
        let class = spec.load_balancer_class.as_deref();
        if class == Some(EXTERNAL_CLASS) && kind == Some(true) {
            annotations.warning(format!(
                "annotation {}: Internal has no effect: spec.loadBalancerClass {EXTERNAL_CLASS} is external",
                key::TYPE.key()
            ));
        }
        let is_internal = class.map_or(kind.unwrap_or_default(), |class| class == INTERNAL_CLASS);
        let is_local = requests_only_local_traffic(service);
        let check =
            HealthCheck::of(service).map(|health_check| (health_check.path, health_check.port));
        let affinity_text = spec
            .session_affinity
            .clone()
            .unwrap_or_else(|| "None".to_owned());
        let ip = spec.load_balancer_ip.filter(|ip| !ip.is_empty());
        if ip
            .as_ref()
            .is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_err())
        {
            annotations.mistake(format!(
                "spec.loadBalancerIP: {:?} is not an IP address",
                ip.as_deref().unwrap_or_default()
            ));
        }
        let tier = annotations.get(&key::NETWORK_TIER);
        let ranges = source_ranges(service)
            .map_err(|error| annotations.mistake(error.to_string()))
            .unwrap_or_default();
        let is_open = allows_all(&ranges);
        let wants = |family: &str| {
            spec.ip_families
                .iter()
                .flatten()
                .any(|ip_family| ip_family == family)
        };
        let is_preferred =
            spec.ip_family_policy.as_deref() == Some("PreferDualStack") && wants("IPv4");
        let admits =
            |is_ipv6: bool| is_open || ranges.iter().any(|range| range.addr().is_ipv6() == is_ipv6);
        let is_standard = !is_internal && tier.as_deref() == Some("STANDARD");
        let has_stack = config.stack != StackType::Ipv4Only;
        let has_ipv6 =
            has_stack && wants("IPv6") && (!is_preferred || (admits(true) && !is_standard));
        let has_ipv4 = !has_ipv6 || wants("IPv4");
        if wants("IPv6") && !has_stack && !is_preferred {
            annotations.warning(
                "spec.ipFamilies: IPv6 has no effect, because stack-type in the cloud configuration is IPV4; the load balancer has an IPv4 address",
            );
        }
        if has_ipv6 && is_standard {
            annotations.mistake(format!(
                "annotation {}: Standard has no IPv6 addresses; use Premium, or remove IPv6 from spec.ipFamilies",
                key::NETWORK_TIER.key()
            ));
        }
        for (is_ipv6, family, all) in [(false, "IPv4", "0.0.0.0/0"), (true, "IPv6", "::/0")] {
            if (if is_ipv6 { has_ipv6 } else { has_ipv4 }) && !admits(is_ipv6) && !ranges.is_empty()
            {
                annotations.mistake(format!("source ranges: no client could reach the {family} address; add a range such as {all}, or remove {family} from spec.ipFamilies"));
            }
        }
        let meta = &service.metadata;
        let [namespace, name] =
            [&meta.namespace, &meta.name].map(|entry| entry.as_deref().unwrap_or_default());
        let parsed = Self {
            service: format!("{namespace}/{name}"),
            is_internal,
            is_elsewhere: is_elsewhere(
                service,
                is_internal,
                annotations.get(&key::RBS) == Some(true),
                config,
            ),
            protocol,
            ports,
            ranges,
            has_ipv4,
            has_ipv6,
            needs_ipv6: !is_preferred,
            ip,
            tier: tier.filter(|_| !is_internal),
            has_global_access: annotations.get(&key::GLOBAL_ACCESS).unwrap_or_default(),
            subnet: annotations
                .get(&key::SUBNET)
                .filter(|subnet| !subnet.is_empty() && is_internal),
            is_shared: is_internal
                && !is_local
                && protocol != BOTH
                && annotations.get(&key::SHARE).unwrap_or_default(),
            affinity: if affinity_text == "ClientIP" {
                "CLIENT_IP"
            } else {
                "NONE"
            },
            affinity_text,
            check,
        };
        annotations.parsed(parsed)
    }

    /// Returns the lowest and the highest port.
    pub(super) fn port_range(&self) -> (u16, u16) {
        let numbers = || self.ports.iter().map(|(_, number)| *number);
        (
            numbers().min().unwrap_or_default(),
            numbers().max().unwrap_or_default(),
        )
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.is_internal {
            INTERNAL.scheme
        } else {
            EXTERNAL.scheme
        }
    }

    /// Returns the source ranges of one address family. All IPv4 addresses stand for all IPv6 addresses as well.
    pub(super) fn ranges(&self, is_ipv6: bool) -> Vec<String> {
        let ranges_of_service = self
            .ranges
            .iter()
            .filter(|range| range.addr().is_ipv6() == is_ipv6);
        let range_texts: Vec<_> = ranges_of_service.map(ToString::to_string).collect();
        if is_ipv6 && range_texts.is_empty() {
            vec!["::/0".to_owned()]
        } else {
            range_texts
        }
    }

    /// Returns the settings without IPv6 if the subnetwork has no such addresses of the load balancer's scheme.
    ///
    /// # Errors
    /// *Invalid*, if the Service needs an IPv6 address.
    pub(super) fn fitted(&self, place: &Place) -> Result<Self> {
        let scheme = self.scheme();
        if !self.has_ipv6 || self.subnet.is_some() || place.ipv6_access == scheme {
            return Ok(self.clone());
        }
        if !self.needs_ipv6 {
            return Ok(Self {
                has_ipv6: false,
                ..self.clone()
            });
        }
        Err(Error::invalid(format!(
            "spec.ipFamilies: the cluster's subnetwork has no {} IPv6 addresses (its ipv6AccessType is {:?}); remove IPv6 from spec.ipFamilies",
            scheme.to_lowercase(),
            place.ipv6_access
        )))
    }

    /// Returns the forwarding rules, IPv4 first.
    pub(super) fn frontends(&self) -> impl Iterator<Item = Frontend> {
        let service = if self.is_internal { INTERNAL } else { EXTERNAL };
        let is_plain = !self.is_internal && self.protocol != BOTH;
        let ipv4 = Frontend {
            is_ipv6: false,
            backend: if is_plain { TARGETS } else { service },
        };
        let ipv6 = Frontend {
            is_ipv6: true,
            backend: service,
        };
        [self.has_ipv4.then_some(ipv4), self.has_ipv6.then_some(ipv6)]
            .into_iter()
            .flatten()
    }

    /// Returns `true` if instance groups hold the load balancer's instances.
    pub(super) fn has_groups(&self) -> bool {
        self.frontends()
            .any(|frontend| frontend.backend.has_groups())
    }

    /// Returns `true` if the load balancer uses the shared health check of a kind.
    pub(super) fn shares_check(&self, kind: Kind) -> bool {
        self.check.is_none()
            && self
                .frontends()
                .any(|frontend| frontend.backend.check == kind)
    }
}

/// Returns `true` if another controller serves the Service: by its class, its finalizers, or by the flags.
fn is_elsewhere(service: &Service, is_internal: bool, is_rbs: bool, config: &Config) -> bool {
    let class = service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_class.as_deref());
    if let Some(class) = class {
        return class != EXTERNAL_CLASS && class != INTERNAL_CLASS;
    }
    let has = |finalizer: &str| {
        service
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|other_finalizer| other_finalizer == finalizer)
    };
    let [external, internal] = crate::kubernetes::FINALIZERS;
    let is_others = OTHERS[usize::from(is_internal)].into_iter().any(has);
    let is_ours = has(if is_internal { internal } else { external });
    !is_ours
        && (is_others
            || if is_internal {
                config.has_subsets
            } else {
                is_rbs || config.leaves_external
            })
}
