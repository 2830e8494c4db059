//! A Service, parsed once: the spec of its load balancer, except for facts from the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cloud_provider::{AddressType, Node, Service};
use ipnet::IpNet;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::node_selector::NodeSelector;
use serde_json::Value;

use super::reader::Reader;
use crate::annotations::{self as key, LoadBalancerKind, SecurityMode, TlsSettings};
use crate::config::{Config, Tags};

/// Load balancer configuration of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadBalancerSpec {
    pub(crate) kind: LoadBalancerKind,
    pub(crate) is_internal: bool,
    /// Shape and limits of its bandwidth; `None` keeps the shape of an existing load balancer.
    pub(crate) shape: Option<(String, Option<(u32, u32)>)>,
    /// If set, an annotation names the shape. The limits alone do not make an existing load balancer flexible.
    pub(crate) is_shape_named: bool,
    /// OCIDs of the subnets, in the order of configuration and annotations.
    pub(crate) subnets: Vec<Option<String>>,
    /// `true` if an annotation names the subnet of this position.
    pub(crate) is_subnet_named: [bool; 2],
    pub(crate) ports: Vec<PortSpec>,
    pub(crate) health_port: u16,
    /// Policy, health check and other settings of all backend sets, in the form of the API.
    pub(crate) set: Value,
    pub(crate) tls_secret: Option<(String, String)>,
    pub(crate) tls_backend_secret: Option<(String, String)>,
    pub(crate) certificate_ids: Vec<String>,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) backend_tls: Option<TlsSettings>,
    pub(crate) groups: BTreeSet<String>,
    pub(crate) backend_groups: BTreeSet<String>,
    pub(crate) mode: SecurityMode,
    pub(crate) sources: BTreeSet<IpNet>,
    pub(crate) preserves_source: bool,
    /// Tags of a new load balancer.
    pub(crate) tags: Tags,
    pub(crate) selector: Option<NodeSelector>,
    pub(crate) rule_sets: Option<BTreeMap<String, Value>>,
    pub(crate) ip_mode: Option<&'static str>,
    pub(crate) external_only: bool,
    pub(crate) assigned: [Option<String>; 2],
    pub(crate) reserved_ip: Option<IpAddr>,
    pub(crate) families: Families,
    pub(crate) warnings: Vec<String>,
}

/// The address families that a Service asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Families {
    #[default]
    Ipv4,
    Ipv6,
    /// Two families, if the subnets have both; else the one that they have.
    PreferBoth,
    /// Two families; subnets without both are refused.
    RequireBoth,
}

/// A port of the Service, or two with different protocols that share a listener.
#[derive(Clone, Debug)]
pub(crate) struct PortSpec {
    pub(crate) number: u16,
    pub(crate) node_port: u16,
    /// Protocol in the names of listener and backend set: `TCP`, `UDP` or `TCP_AND_UDP`.
    pub(crate) transport: &'static str,
    /// Protocol of the listener.
    pub(crate) protocol: &'static str,
    pub(crate) is_tls: bool,
    /// Further settings of the listener, in the form of the API.
    pub(crate) listener: Value,
}

fn families(service: &Service) -> Families {
    let spec = service.spec.as_ref();
    let policy = spec
        .and_then(|spec| spec.ip_family_policy.as_deref())
        .unwrap_or("SingleStack");
    let is_first_ipv6 = spec
        .and_then(|spec| spec.ip_families.as_ref()?.first().cloned())
        .as_deref()
        == Some("IPv6");
    let stated = spec
        .and_then(|spec| spec.ip_families.as_ref())
        .map_or(0, Vec::len);
    match policy {
        // The API server lists one family if the cluster has no other: there are no addresses of it.
        _ if stated == 1 && is_first_ipv6 => Families::Ipv6,
        _ if stated == 1 => Families::Ipv4,
        "RequireDualStack" => Families::RequireBoth,
        "PreferDualStack" => Families::PreferBoth,
        _ if is_first_ipv6 => Families::Ipv6,
        _ => Families::Ipv4,
    }
}

impl LoadBalancerSpec {
    /// Returns the mode of security rules of a Service's load balancer of this kind, whatever kind the Service asks for.
    pub(crate) fn mode_of(service: &Service, is_network: bool, config: &Config) -> SecurityMode {
        Reader {
            annotations: Annotations::of(service),
            service,
            is_network,
        }
        .mode(config)
    }

    /// Returns the mode of security rules that a Service asks for.
    pub(crate) fn wanted_mode(service: &Service, config: &Config) -> SecurityMode {
        let kind = Annotations::of(service).get(&key::KIND).unwrap_or_default();
        Self::mode_of(service, kind == LoadBalancerKind::Network, config)
    }

    /// Parses a Service's annotations and ports.
    pub(crate) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        for (prefix, declared) in [
            (
                "service.beta.kubernetes.io/oci-load-balancer-",
                key::LOAD_BALANCER,
            ),
            ("oci-network-load-balancer.oraclecloud.com/", key::NETWORK),
            ("oci.oraclecloud.com/", key::GENERAL),
        ] {
            annotations.unknown(prefix, declared);
        }
        let kind = annotations.get(&key::KIND).unwrap_or_default();
        let is_network = kind == LoadBalancerKind::Network;
        let mut reader = Reader {
            annotations,
            service,
            is_network,
        };
        let is_internal = reader
            .pick(&key::INTERNAL, &key::NETWORK_INTERNAL)
            .unwrap_or_default();
        reader.check_kind(is_internal);
        let (set, preserves_source, health_port) = reader.set();
        let ports = reader.ports();
        let mode = reader.mode(config);
        let has_udp = ports.iter().any(|port| port.transport.contains("UDP"));
        if is_network && has_udp && [SecurityMode::All, SecurityMode::Frontend].contains(&mode) {
            let text = "security lists get no rules for UDP; use security-rule-management-mode NSG or None";
            reader.annotations.mistake(text);
        }
        let (subnets, is_subnet_named) = reader.subnets(config);
        let assigned = [
            reader
                .annotations
                .get(&key::ASSIGNED_V4)
                .map(|ip| ip.to_string()),
            reader.annotations.get(&key::ASSIGNED_V6),
        ];
        let rule_sets = reader
            .annotations
            .get(&key::RULE_SETS_KEY)
            .map(|objects| objects.0);
        for (is_wrong, annotation) in [
            (!is_network && assigned[0].is_some(), key::ASSIGNED_V4.key()),
            (!is_network && assigned[1].is_some(), key::ASSIGNED_V6.key()),
            (is_network && rule_sets.is_some(), key::RULE_SETS_KEY.key()),
        ] {
            if is_wrong {
                let kinds = if is_network {
                    "load balancers (lb)"
                } else {
                    "network load balancers (nlb)"
                };
                reader.annotations.mistake(format!(
                    "annotation {annotation} is possible with {kinds} only"
                ));
            }
        }
        let sources = reader.sources();
        let families = families(service);
        let reserved_ip = reader.reserved_ip(is_internal);
        reader.check_service(families);
        reader.check_names(kind);
        reader.annotations.get(&key::COMPARTMENT);
        let groups = if is_network {
            &key::NETWORK_GROUPS
        } else {
            &key::NETWORK_SECURITY_GROUPS
        };
        let spec = Self {
            kind,
            is_internal,
            shape: reader.shape(),
            is_shape_named: reader.annotations.is_set(&key::SHAPE),
            subnets,
            is_subnet_named,
            health_port,
            set,
            tls_secret: reader.secret(&key::TLS_SECRET, config),
            tls_backend_secret: reader.secret(&key::TLS_BACKEND_SECRET, config),
            certificate_ids: reader
                .proxied(&key::TLS_CERTIFICATE_IDS)
                .unwrap_or_default(),
            tls: reader.filled(&key::LISTENER_TLS),
            backend_tls: reader.filled(&key::BACKEND_TLS),
            groups: reader.groups(groups, config),
            backend_groups: reader.groups(&key::BACKEND_GROUPS, config),
            mode,
            sources,
            preserves_source,
            tags: reader.tags(config),
            selector: reader.selector(),
            rule_sets,
            ip_mode: reader.annotations.get(&key::IP_MODE).map(|word| word.0),
            external_only: reader.network(&key::EXTERNAL_ONLY).unwrap_or_default() && !is_internal,
            assigned,
            reserved_ip,
            families,
            ports,
            warnings: reader.annotations.warnings().to_vec(),
        };
        let follows = spec.selector.is_some();
        reader
            .annotations
            .parsed(spec)
            .targets_follow_labels(follows)
    }

    /// Returns `true` if the Service asks for a network load balancer.
    pub(crate) fn is_network(&self) -> bool {
        self.kind == LoadBalancerKind::Network
    }

    /// Returns the address of a Node that gets traffic of a family.
    pub(crate) fn backend_address(node: &Node, is_ipv6: bool) -> Option<IpAddr> {
        let of = |kind: &AddressType| {
            let all = node
                .addresses
                .iter()
                .filter(|address| address.kind == *kind)
                .filter_map(|address| address.address.parse::<IpAddr>().ok());
            { all }.find(|ip| ip.is_ipv6() == is_ipv6)
        };
        let internal = of(&AddressType::InternalIP);
        if is_ipv6 {
            internal.or_else(|| of(&AddressType::ExternalIP))
        } else {
            internal
        }
    }
}
