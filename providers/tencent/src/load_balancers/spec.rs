//! A Service, parsed into the settings of its load balancer, except for facts from the cloud and from Kubernetes.

use cloud_provider::{Service, default_load_balancer_name, is_default_load_balancer_name};
use ipnet::IpNet;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::{HealthCheck, needs_health_check};
use provider_kit::load_balancers::{Attributes, ServicePort, each_port};
use provider_kit::node_selector::NodeSelector;
use provider_kit::source_ranges::{allows_all, configured_source_ranges};
use serde_json::{Map, Value, json};

use super::model::{Balancer, Listener, usual_check};
use super::parameters;
use crate::annotations::{self as key, PREFIXES, Protocols};
use crate::endpoints::Pods;

/// The most characters of a name.
const LONGEST_NAME: usize = 80;
/// The weight of a target.
pub(super) const WEIGHT: u32 = 10;

/// Settings of the load balancer of a Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(super) is_skipped: bool,
    pub(super) is_protected: bool,
    pub(super) balancer: Attributes,
    /// Further parameters of the creation.
    pub(super) creation: Map<String, Value>,
    /// Further tags of a new load balancer.
    pub(super) tags: Vec<Value>,
    /// Further parameters of listeners, which are not compared.
    pub(super) listener: Map<String, Value>,
    pub(super) ports: Vec<Port>,
    /// Ports with a protocol that is not supported, whose listeners of other programs stay as they are.
    pub(super) stale: Vec<u16>,
    pub(super) selector: NodeSelector,
    /// Targets that follow Pods.
    pub(super) pods: Option<Pods>,
    /// If set, targets are Pods instead of Nodes.
    pub(super) is_direct: bool,
    pub(super) has_ipv6: bool,
    /// Source ranges that a security group admits.
    pub(super) ranges: Vec<IpNet>,
    pub(super) weight: u32,
    pub(super) warnings: Vec<(&'static str, String)>,
}

/// A port of a Service with its listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    pub(super) number: u16,
    /// Protocol of the port: `TCP` or `UDP`.
    pub(super) transport: &'static str,
    pub(super) node_port: u16,
    /// Name of the port in the Service, by which the ports of Pods are found.
    pub(super) name: String,
    /// Name of the pool: protocol and port.
    pub(super) pool: String,
    pub(super) listener: Attributes,
    /// If set, only Nodes with ready Pods are targets.
    pub(super) needs_pods: bool,
    /// Name of the Secret with the ID of the certificate.
    pub(super) secret: Option<String>,
}

impl Spec {
    /// Parses a Service, and notes all mistakes that can be found without a request.
    pub(super) fn of(service: &Service, cluster: &str) -> Parsed<Self> {
        let mut annotations = Annotations::of(service);
        let mut warnings = Vec::new();
        let is_existing = annotations.get(&key::EXISTING).is_some();
        let (creation, tags) = parameters::of_creation(key::is_internal(service), &mut annotations);
        let mut listener = parameters::of_listeners(&mut annotations);
        let ranges = ranges(service, &mut annotations);
        if is_existing && !ranges.is_empty() {
            let text = "loadBalancerSourceRanges has no effect on a load balancer of yours; use its security groups";
            warnings.push(("SourceRangesIgnored", text.to_owned()));
        }
        let ranges = if is_existing { Vec::new() } else { ranges };
        for annotation in [
            key::TKE_CONFIG.text_on(service),
            key::TKE_CONFIG_AUTO.text_on(service),
        ]
        .into_iter()
        .flatten()
        {
            let text = format!(
                "TkeServiceConfig ({annotation:?}) is not supported; use listenerParameters"
            );
            warnings.push(("UnsupportedAnnotation", text));
        }
        if annotations.get(&key::LB_KIND) == Some(true)
            || annotations.get(&key::OLD_KIND) == Some(true)
        {
            let text = "load balancers of the kind classic are not created any more; the Service gets one of the kind application";
            warnings.push(("UnsupportedAnnotation", text.to_owned()));
        }
        let balancer = balancer(service, is_existing, !ranges.is_empty(), &mut annotations);
        let protocols = annotations.get(&key::PROTOCOLS).unwrap_or_default();
        let ports = ports(service, &protocols, &mut listener, &mut annotations);
        let stale = stale_ports(service, &protocols, &ports);
        let has_udp = ports.iter().any(|port| port.needs_pods);
        let pods = pods(service, has_udp, &mut annotations);
        let is_direct = pods.as_ref().is_some_and(|pods| pods.is_direct);
        warnings.extend(clamped_affinity(service));
        warnings
            .extend(ignored(service, is_direct, &annotations).map(|text| ("SettingIgnored", text)));
        for port in ports
            .iter()
            .filter(|port| port.node_port == 0 && !is_direct)
        {
            annotations.mistake(format!(
                "port {} has no node port; set allocateLoadBalancerNodePorts",
                port.number
            ));
        }
        if let Some(name) = annotations.get(&key::LB_NAME_KEY)
            && is_generated_for_another(&name, cluster, service)
        {
            annotations.mistake(format!(
                "annotation {}: {name:?} has the form of a name that is generated for another Service; choose another name",
                key::LB_NAME_KEY.key()
            ));
        }
        for prefix in PREFIXES {
            annotations.unknown(prefix, key::ALL);
        }
        let spec = Self {
            is_skipped: annotations.get(&key::MODE).unwrap_or_default(),
            is_protected: annotations.get(&key::PROTECTION).unwrap_or_default(),
            balancer,
            has_ipv6: creation
                .get("AddressIPVersion")
                .and_then(Value::as_str)
                .is_some_and(|text| !text.eq_ignore_ascii_case("IPV4")),
            creation,
            tags,
            listener,
            ports,
            stale,
            selector: annotations.get(&key::BACKENDS).unwrap_or_default(),
            is_direct,
            pods,
            ranges,
            weight: WEIGHT,
            warnings,
        };
        let follows = !spec.selector.selects_all();
        annotations.parsed(spec).targets_follow_labels(follows)
    }
}

/// Returns the name that is generated for the load balancer of a Service.
pub(super) fn generated_name(cluster: &str, service: &Service) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let name = format!(
        "{cluster}_{}_{}",
        part(&service.metadata.namespace),
        part(&service.metadata.name)
    );
    name.chars().take(LONGEST_NAME).collect()
}

/// Returns `true` if a name has the form of those that are generated for Services, but not for this one.
fn is_generated_for_another(name: &str, cluster: &str, service: &Service) -> bool {
    let is_of_service = name.split('_').count() == 3
        && (name.starts_with("cls-") || name.starts_with(&format!("{cluster}_")));
    let is_own =
        name == generated_name(cluster, service) || name == default_load_balancer_name(service);
    !is_own && (is_default_load_balancer_name(name) || is_of_service)
}

fn ranges(service: &Service, annotations: &mut Annotations<'_>) -> Vec<IpNet> {
    match configured_source_ranges(service) {
        Ok(ranges) if allows_all(&ranges) => Vec::new(),
        Ok(ranges) => ranges.into_iter().collect(),
        Err(error) => {
            annotations.mistake(error.to_string());
            Vec::new()
        }
    }
}

fn balancer(
    service: &Service,
    is_existing: bool,
    has_ranges: bool,
    annotations: &mut Annotations<'_>,
) -> Attributes {
    let subnets = [
        annotations.get(&key::TKE_SUBNET),
        annotations.get(&key::SUBNET),
    ];
    let subnet = subnets
        .into_iter()
        .flatten()
        .find(|subnet| !subnet.is_empty());
    annotations.get(&key::TYPE);
    let is_internal = key::is_internal(service);
    let charge = annotations.get(&key::CHARGE);
    let bandwidth = annotations.get(&key::BANDWIDTH);
    let groups = annotations.get(&key::SECURITY_GROUPS);
    let pass = annotations.get(&key::PASS_TO_TARGET);
    let protection = annotations.get(&key::PROTECTION);
    if is_existing {
        // Traffic of others passes the load balancer, too.
        for (is_set, of_users) in [
            (pass.is_some(), key::PASS_TO_TARGET.key()),
            (groups.is_some(), key::SECURITY_GROUPS.key()),
        ] {
            if is_set {
                annotations.mistake(format!(
                    "annotation {of_users} is not possible together with {}: the load balancer is yours; change it there, and \
                     remove the annotation",
                    key::EXISTING.key()
                ));
            }
        }
        return desired(json!({"IsCreated": false,
            "LoadBalancerType": is_internal.then_some("INTERNAL"), "SubnetId": subnet.filter(|_| is_internal)}));
    }
    if is_internal && subnet.is_none() {
        let kind = key::TYPE.key();
        let key = key::SUBNET.key();
        annotations.mistake(format!(
            "annotation {kind}: private needs annotation {key} with the ID of a subnet"
        ));
    }
    let address = service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        .unwrap_or_default();
    if !address.is_empty() && is_internal && address.parse::<std::net::IpAddr>().is_err() {
        annotations.mistake(format!("loadBalancerIP: {address:?} is no IP address"));
    }
    desired(json!({
        "LoadBalancerType": if is_internal { "INTERNAL" } else { "OPEN" },
        "SubnetId": subnet.filter(|_| is_internal),
        "InternetChargeType": charge.filter(|_| !is_internal),
        "InternetMaxBandwidthOut": bandwidth.filter(|_| !is_internal),
        "SecurityGroups": groups,
        "LoadBalancerPassToTarget": pass.or(has_ranges.then_some(true)),
        "DeleteProtect": protection,
    }))
}

fn desired(value: Value) -> Attributes {
    Attributes::desired(&Balancer(value)).unwrap_or_default()
}

/// Returns the pool of a listener: protocol and port.
pub(super) fn pool(transport: &str, port: u16) -> String {
    format!("{transport}_{port}")
}

fn ports(
    service: &Service,
    protocols: &Protocols,
    parameters: &mut Map<String, Value>,
    annotations: &mut Annotations<'_>,
) -> Vec<Port> {
    let mut all: Vec<Port> = Vec::new();
    let is_local = needs_health_check(service);
    let compared = settings(service, parameters);
    let annotation = key::PROTOCOLS.key();
    for port in each_port(service, &["TCP", "UDP"]) {
        let port: ServicePort = match port {
            Ok(port) => port,
            Err(error) => {
                annotations.mistake(error.to_string());
                continue;
            }
        };
        let stated = protocols
            .0
            .get(&port.number)
            .filter(|port_protocols| !port_protocols.protocol.is_empty());
        let names = stated.map_or_else(
            || vec![port.protocol.to_owned()],
            |port_protocols| port_protocols.protocol.clone(),
        );
        let secret = stated.and_then(|port_protocols| port_protocols.tls.clone());
        for name in names {
            let name = name.to_ascii_uppercase();
            let transport = match &*name {
                "TCP" | "TCP_SSL" => "TCP",
                "UDP" => "UDP",
                _ => {
                    let port = port.number;
                    annotations.mistake(format!(
                        "annotation {annotation}: port {port}: {name:?} is not one of TCP, UDP, TCP_SSL; HTTP and HTTPS need an Ingress"
                    ));
                    continue;
                }
            };
            if (name == "TCP_SSL") != secret.is_some() && name != "UDP" {
                let port = port.number;
                annotations.mistake(format!("annotation {annotation}: port {port}: TCP_SSL needs tls with the name of a Secret, and only TCP_SSL may have it"));
            }
            let pool = pool(transport, port.number);
            if all.iter().any(|port| port.pool == pool) {
                continue;
            }
            let listener = listener(service, &name, &compared);
            let secret = secret.clone().filter(|_| name == "TCP_SSL");
            let ServicePort {
                number, node_port, ..
            } = port;
            let name = port_name(service, port);
            let needs_pods = is_local && transport == "UDP";
            all.push(Port {
                number,
                transport,
                node_port,
                name,
                pool,
                listener,
                needs_pods,
                secret,
            });
        }
    }
    all
}

fn port_name(service: &Service, port: ServicePort) -> String {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let found = ports.iter().find(|other_port| {
        other_port.port == i32::from(port.number)
            && other_port.protocol.as_deref().unwrap_or("TCP") == port.protocol
    });
    found
        .and_then(|entry| entry.name.clone())
        .unwrap_or_default()
}

/// Returns the settings of all listeners: the parameters of the annotation that are compared, which are removed from
/// the others, and those of the Service.
fn settings(service: &Service, parameters: &mut Map<String, Value>) -> Value {
    let mut all = json!({"Scheduler": "WRR", "SessionExpireTime": 0});
    let spec = service.spec.as_ref();
    if spec.and_then(|spec| spec.session_affinity.as_deref()) == Some("ClientIP") {
        let config = spec.and_then(|spec| {
            spec.session_affinity_config
                .as_ref()?
                .client_ip
                .as_ref()?
                .timeout_seconds
        });
        all["SessionExpireTime"] = config.unwrap_or(10_800).clamp(30, 3600).into();
    }
    for name in [
        "Scheduler",
        "SessionExpireTime",
        "IdleConnectTimeout",
        "HealthCheck",
    ] {
        if let Some(value) = parameters.remove(name) {
            all[name] = value;
        }
    }
    // Affinity of clients needs the scheduler WRR.
    if all["SessionExpireTime"] != 0 {
        all["Scheduler"] = "WRR".into();
    }
    all
}

fn listener(service: &Service, protocol: &str, settings: &Value) -> Attributes {
    let mut all = settings.clone();
    all["Protocol"] = protocol.into();
    let stated = all["HealthCheck"].take();
    let mut check = json!({"CheckType": usual_check(protocol), "CheckPort": null});
    if let Some(HealthCheck { path, port }) = HealthCheck::of(service)
        && needs_health_check(service)
        && protocol != "UDP"
    {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let domain = format!(
            "{}.{}",
            part(&service.metadata.name),
            part(&service.metadata.namespace)
        );
        check = json!({"CheckType": "HTTP", "CheckPort": port, "HttpCheckPath": path, "HttpCheckDomain": domain,
            "HttpVersion": "HTTP/1.1", "HttpCode": 2, "HttpCheckMethod": "GET"});
    }
    for (name, value) in stated.as_object().into_iter().flatten() {
        check[name] = value.clone();
    }
    all["HealthCheck"] = check;
    Attributes::desired(&Listener(all)).unwrap_or_default()
}

/// Returns the ports to which an annotation gives a protocol that is not supported.
fn stale_ports(service: &Service, protocols: &Protocols, ports: &[Port]) -> Vec<u16> {
    let all = each_port(service, &["TCP", "UDP"])
        .flatten()
        .map(|port| port.number);
    let is_stated = |port: &u16| {
        protocols
            .0
            .get(port)
            .is_some_and(|port_protocols| !port_protocols.protocol.is_empty())
    };
    let is_served = |port: &u16| ports.iter().any(|other_port| other_port.number == *port);
    all.filter(|port| is_stated(port) && !is_served(port))
        .collect()
}

/// Returns a warning about a session time that listeners cannot have.
fn clamped_affinity(service: &Service) -> Option<(&'static str, String)> {
    let spec = service
        .spec
        .as_ref()
        .filter(|spec| spec.session_affinity.as_deref() == Some("ClientIP"))?;
    let stated = spec
        .session_affinity_config
        .as_ref()?
        .client_ip
        .as_ref()?
        .timeout_seconds?;
    // 10800 is the default of Kubernetes.
    let used = stated.clamp(30, 3600);
    (used != stated && stated != 10_800).then(|| {
        let text = format!(
            "sessionAffinityConfig.clientIP.timeoutSeconds {stated}: listeners accept 30 to 3600, and have {used}"
        );
        ("SettingIgnored", text)
    })
}

/// Returns texts about settings that have no effect, because the setting that they belong to is missing.
fn ignored<'a>(
    service: &Service,
    is_direct: bool,
    annotations: &'a Annotations<'_>,
) -> impl Iterator<Item = String> + 'a {
    let is_local = needs_health_check(service);
    let is_internal = key::is_internal(service);
    let is_existing = key::existing(service).is_some();
    let binds = annotations.is_set(&key::LOCAL_NODES);
    let needs_direct = "needs direct-access";
    [
        (
            annotations.is_set(&key::LOCAL_NODES) && !is_local,
            key::LOCAL_NODES.key(),
            "needs externalTrafficPolicy: Local",
        ),
        (
            annotations.is_set(&key::LOCAL_WEIGHTS) && !(is_local && binds),
            key::LOCAL_WEIGHTS.key(),
            "needs local-svc-only-bind-node-with-pod and externalTrafficPolicy: Local",
        ),
        (
            annotations.is_set(&key::GRACE) && !is_direct,
            key::GRACE.key(),
            needs_direct,
        ),
        (
            annotations.is_set(&key::SUBNET) && !is_internal,
            key::SUBNET.key(),
            "needs type: private",
        ),
        (
            annotations.is_set(&key::CHARGE) && is_internal,
            key::CHARGE.key(),
            "counts for public load balancers",
        ),
        (
            annotations.is_set(&key::BANDWIDTH) && is_internal,
            key::BANDWIDTH.key(),
            "counts for public load balancers",
        ),
        (
            (annotations.is_set(&key::CHARGE) || annotations.is_set(&key::BANDWIDTH))
                && is_existing
                && !is_internal,
            key::BANDWIDTH.key(),
            "has no effect on a load balancer of yours",
        ),
    ]
    .into_iter()
    .filter(|(is_ignored, ..)| *is_ignored)
    .map(|(_, key, why)| {
        format!("annotation {key} has no effect: it {why}; remove it, or set what it needs")
    })
}

/// Returns the Pods that decide about targets. `has_udp`: there are UDP ports that need Nodes with Pods.
fn pods(service: &Service, has_udp: bool, annotations: &mut Annotations<'_>) -> Option<Pods> {
    let is_direct = annotations.get(&key::DIRECT).unwrap_or_default();
    let keeps_terminating = annotations.get(&key::GRACE).unwrap_or_default();
    let nodes = annotations.get(&key::LOCAL_NODES);
    let weights = annotations.get(&key::LOCAL_WEIGHTS);
    let is_local = needs_health_check(service);
    let binds_nodes = is_local && nodes.unwrap_or_default();
    let follows = is_direct || binds_nodes || has_udp;
    let has_weights = binds_nodes && weights.unwrap_or_default();
    follows.then_some(Pods {
        is_direct,
        keeps_terminating,
        binds_nodes,
        has_weights,
    })
}
