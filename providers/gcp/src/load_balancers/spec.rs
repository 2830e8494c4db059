//! The settings of a Service, parsed once, without lookups in the cloud.

use cloud_provider::Service;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::{HealthCheck, requests_only_local_traffic};
use provider_kit::load_balancers::{ServicePort, service_ports};
use provider_kit::source_ranges::source_ranges;

use crate::annotations as key;
use crate::config::Config;

/// Classes of load balancers: those that the Go program serves, and that of the controller of backend services.
const EXTERNAL_CLASS: &str = "networking.gke.io/l4-regional-external-legacy";
const INTERNAL_CLASS: &str = "networking.gke.io/l4-regional-internal-legacy";
/// Finalizers of other controllers.
const OTHERS: [[&str; 2]; 2] =
    [["gke.networking.io/l4-netlb-v2", "gke.networking.io/l4-netlb-v3"], ["gke.networking.io/l4-ilb-v2", ""]];
/// Most ports that an internal forwarding rule names one by one.
pub(super) const MOST_PORTS: usize = 5;

/// The settings of a Service for its load balancer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    /// Namespace and name, as descriptions name the Service.
    pub(super) service: String,
    pub(crate) is_internal: bool,
    /// If set, another controller serves the Service.
    pub(crate) is_elsewhere: bool,
    pub(super) protocol: &'static str,
    pub(super) ports: Vec<u16>,
    pub(super) ranges: Vec<String>,
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
        let ports = service_ports(service, &["TCP", "UDP"]).unwrap_or_else(|error| {
            annotations.mistake(error.to_string());
            Vec::new()
        });
        let protocol = ports.first().map_or("TCP", |port: &ServicePort| port.protocol);
        if ports.iter().any(|port| port.protocol != protocol) {
            annotations
                .mistake("spec.ports: TCP and UDP in one Service are not supported; use a Service for each protocol");
        }
        let ranges = source_ranges(service).map_err(|error| annotations.mistake(error.to_string())).unwrap_or_default();
        let (kind, class) = (annotations.get(&key::TYPE), spec.load_balancer_class.as_deref());
        if class == Some(EXTERNAL_CLASS) && kind == Some(true) {
            annotations.warning(format!(
                "annotation {}: Internal has no effect: spec.loadBalancerClass {EXTERNAL_CLASS} is external",
                key::TYPE.key()
            ));
        }
        let is_internal = class.map_or(kind.unwrap_or_default(), |class| class == INTERNAL_CLASS);
        let is_local = requests_only_local_traffic(service);
        let check = HealthCheck::of(service).map(|it| (it.path, it.port));
        let affinity_text = spec.session_affinity.clone().unwrap_or_else(|| "None".to_owned());
        let ip = spec.load_balancer_ip.filter(|ip| !ip.is_empty());
        if ip.as_ref().is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            annotations
                .mistake(format!("spec.loadBalancerIP: {:?} is not an IP address", ip.as_deref().unwrap_or_default()));
        }
        let tier = annotations.get(&key::NETWORK_TIER);
        let meta = &service.metadata;
        let [namespace, name] = [&meta.namespace, &meta.name].map(|it| it.as_deref().unwrap_or_default());
        let parsed = Self {
            service: format!("{namespace}/{name}"),
            is_internal,
            is_elsewhere: is_elsewhere(service, is_internal, annotations.get(&key::RBS) == Some(true), config),
            protocol,
            ports: ports.iter().map(|port| port.number).collect(),
            ranges: ranges.iter().map(ToString::to_string).collect(),
            ip,
            tier: tier.filter(|_| !is_internal),
            has_global_access: annotations.get(&key::GLOBAL_ACCESS).unwrap_or_default(),
            subnet: annotations.get(&key::SUBNET).filter(|it| !it.is_empty() && is_internal),
            is_shared: is_internal && !is_local && annotations.get(&key::SHARE).unwrap_or_default(),
            affinity: if affinity_text == "ClientIP" { "CLIENT_IP" } else { "NONE" },
            affinity_text,
            check,
        };
        annotations.parsed(parsed)
    }

    /// Returns `min-max` of the ports, which is what an external forwarding rule has.
    pub(super) fn port_range(&self) -> String {
        let (first, last) = (self.ports.iter().min(), self.ports.iter().max());
        format!("{}-{}", first.copied().unwrap_or_default(), last.copied().unwrap_or_default())
    }
}

/// Returns `true` if another controller serves the Service: by its class, its finalizers, or by the flags.
fn is_elsewhere(service: &Service, is_internal: bool, is_rbs: bool, config: &Config) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    if let Some(class) = class {
        return class != EXTERNAL_CLASS && class != INTERNAL_CLASS;
    }
    let has = |finalizer: &str| service.metadata.finalizers.iter().flatten().any(|it| it == finalizer);
    let [external, internal] = crate::kubernetes::FINALIZERS;
    let is_others = OTHERS[usize::from(is_internal)].into_iter().any(has);
    let is_ours = has(if is_internal { internal } else { external });
    !is_ours && (is_others || if is_internal { config.has_subsets } else { is_rbs || config.leaves_external })
}
