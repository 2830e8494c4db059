//! The Service, parsed into settings of a load balancer.

use std::collections::BTreeMap;

use cloud_provider::Service;
use provider_kit::addresses::AddressFamily;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::load_balancers::{Attributes, Resource, each_port, filled};
use provider_kit::node_selector::NodeSelector;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::SPEC_TAGS;
use super::backends::Mode;
use super::model::{ClassicBalancer, ClassicListener, NetworkBalancer, NetworkGroup, NetworkListener, has_field};
use super::names;
use crate::annotations::{self as key, NLB_CLASS, PREFIX, Range};
use crate::config::Config;
use crate::endpoints::Target;

/// A Service, parsed into the settings of its load balancer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(super) kind: &'static str,
    /// Another controller has the Service.
    pub(super) is_elsewhere: bool,
    /// ID of the load balancer of the user.
    pub(super) requested: Option<String>,
    /// Listeners of the load balancer of the user are changed, too.
    pub(super) overrides: bool,
    pub(super) is_preserved: bool,
    pub(super) hostname: Option<String>,
    /// The Service shows the EIP of its CLB.
    pub(super) shows_eip: bool,
    pub(super) balancer: Attributes,
    pub(super) ports: Vec<Port>,
    pub(super) mode: Mode,
    /// Backends of an NLB are addresses instead of instances.
    pub(super) has_addresses: bool,
    /// IP families of Pods as backends.
    pub(super) family: AddressFamily,
    pub(super) weight: u32,
    /// Weight of all backends together.
    pub(super) total_weight: Option<u32>,
    pub(super) ignores_weights: bool,
    pub(super) selector: NodeSelector,
    pub(super) removes_cordoned: bool,
}

/// A listener with its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    /// Port of the listener, or the first one of its range.
    pub(super) number: u16,
    pub(super) range: Option<Range>,
    /// Protocol of the port: `TCP` or `UDP`.
    pub(super) transport: &'static str,
    pub(super) node_port: u16,
    /// Name of the port, and the port of Pods.
    pub(super) name: String,
    pub(super) target: Target,
    /// The port in the name of the server group, and in descriptions of backends.
    pub(super) part: String,
    /// Name of the pool: the same, or the ID of a server group of the user.
    pub(super) pool: String,
    pub(super) listener: Attributes,
    pub(super) group: Attributes,
}

impl Port {
    fn overlaps(&self, other: &Self) -> bool {
        let [[first, last], [start, end]] =
            [self, other].map(|it| it.range.map_or([it.number; 2], |it| [it.first, it.last]));
        self.transport == other.transport && first <= end && start <= last
    }
}

/// Returns `true` if a Service asks for an NLB.
pub(super) fn is_network(service: &Service, config: &Config) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    let is_named = || Annotations::of(service).get(&key::BALANCER_TYPE).unwrap_or_default();
    class == Some(NLB_CLASS) || config.has_type_annotation && is_named()
}

/// Returns the settings from annotations, as an object.
fn object<R: Resource + DeserializeOwned + Default>(annotations: &mut Annotations<'_>) -> Value {
    match serde_json::to_value(filled::<R>(annotations)) {
        Ok(it @ Value::Object(_)) => it,
        _ => json!({}),
    }
}

fn attributes<R: Resource>(resource: &R) -> Attributes {
    Attributes::desired(resource).unwrap_or_default()
}

fn capitalized(text: &str) -> String {
    text.chars().take(1).flat_map(char::to_uppercase).chain(text.chars().skip(1)).collect()
}

impl Spec {
    /// Parses a Service, and notes all mistakes that can be found without a request.
    pub(super) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let service = &key::with_new_prefix(service);
        let mut annotations = Annotations::of(service);
        let is_network = is_network(service, config);
        let requested = annotations.get(&key::ID).filter(|it| !it.is_empty());
        let (balancer, overrides) = (balancer(is_network, config, &mut annotations), annotations.get(&key::OVERRIDE));
        let tags = annotations.get(&key::TAGS).unwrap_or_default();
        let selector = annotations.get(&key::BACKEND_LABEL).unwrap_or_default();
        let spec = service.spec.clone().unwrap_or_default();
        let mode = match annotations.get(&key::BACKEND_TYPE).unwrap_or(config.has_eni_backends) {
            true => Mode::Pods,
            false if spec.external_traffic_policy.as_deref() == Some("Local") => Mode::Local,
            false => Mode::Nodes,
        };
        if let Some(id) = requested.as_ref().filter(|id| id.starts_with("nlb-") != is_network) {
            let (kind, other) = if is_network { ("an NLB", "nlb-") } else { ("a CLB", "lb-") };
            annotations.mistake(format!(
                "annotation {}: {id:?} is no ID of {kind}, which this Service asks for; name one that begins with {other}",
                key::ID.key()
            ));
        }
        // Groups and weights count in a load balancer of the user only.
        let (groups, total_weight) = (annotations.get(&key::GROUPS), annotations.get(&key::WEIGHT_TOTAL));
        let groups = groups.filter(|_| requested.is_some()).unwrap_or_default().0;
        let family = family(is_network, config, &mut annotations);
        let spec = Self {
            kind: names::kind(is_network, requested.is_some()),
            is_elsewhere: !is_network
                && (annotations.get(&key::CLASS).is_some_and(|it| !it.is_empty()) || annotations.is_set(&key::TUNNEL)),
            overrides: overrides.unwrap_or_default(),
            is_preserved: annotations.get(&key::PRESERVE).is_some_and(|it| !it.is_empty()),
            hostname: annotations.get(&key::HOSTNAME).filter(|it| !it.is_empty()),
            shows_eip: !is_network && annotations.get(&key::EXTERNAL_IP_TYPE).is_some_and(|it| it == "eip"),
            balancer: balancer.tagged(&SPEC_TAGS.among(tags)),
            ports: ports(service, is_network, mode, family, &groups, &mut annotations),
            mode,
            has_addresses: is_network && annotations.get(&key::SERVER_GROUP).is_some_and(|it| it == "Ip"),
            family,
            weight: annotations.get(&key::DEFAULT_WEIGHT).unwrap_or(100),
            total_weight: total_weight.filter(|_| !groups.is_empty()),
            ignores_weights: annotations.get(&key::IGNORE_WEIGHT).unwrap_or_default(),
            removes_cordoned: annotations.get(&key::REMOVE_CORDONED).unwrap_or_default(),
            selector,
            requested,
        };
        let ranges = service.spec.as_ref().and_then(|spec| spec.load_balancer_source_ranges.as_ref());
        if is_network && ranges.is_some_and(|ranges| !ranges.is_empty()) {
            annotations.mistake(format!(
                "loadBalancerSourceRanges: not supported by an NLB; remove them, and set annotation {} to a security group \
                 with such rules",
                key::SECURITY_GROUPS.key()
            ));
        }
        let affinity = service.spec.as_ref().and_then(|spec| spec.session_affinity.as_deref());
        if affinity.is_some_and(|it| it != "None") {
            annotations.mistake(format!(
                "sessionAffinity: set it to None, and annotation {} for TCP listeners",
                key::PERSISTENCE.key()
            ));
        }
        annotations.unknown(PREFIX, key::ALL);
        let follows = !spec.selector.selects_all();
        annotations.parsed(spec).targets_follow_labels(follows)
    }
}

/// Returns the IP families of Pods as backends. Others than IPv4 need the feature gate and a load balancer of that
/// version: an IPv6 CLB, or a dual-stack NLB.
fn family(is_network: bool, config: &Config, annotations: &mut Annotations<'_>) -> AddressFamily {
    let wanted = annotations.get(&key::BACKEND_IP).unwrap_or_default();
    let needed = if is_network { "DualStack" } else { "ipv6" };
    let is_possible = config.has_dual_stack
        && annotations.get(&key::IP_VERSION).is_some_and(|it| it.eq_ignore_ascii_case(needed))
        && (is_network || wanted != AddressFamily::Dualstack);
    if is_possible { wanted } else { AddressFamily::Ipv4 }
}

fn balancer(is_network: bool, config: &Config, annotations: &mut Annotations<'_>) -> Attributes {
    // The default counts at the creation only: a load balancer that exists may be of the other type.
    let has_type = annotations.is_set(&key::ADDRESS_TYPE);
    let stated = |mut all: Value| {
        all.as_object_mut().into_iter().for_each(|all| all.retain(|name, _| has_type || name != "AddressType"));
        all
    };
    if !is_network {
        let mut all = object::<ClassicBalancer>(annotations);
        let is_public = all["AddressType"] == "internet";
        if is_public && config.has_no_public && !annotations.is_set(&key::ID) {
            annotations.mistake(format!(
                "annotation {}: Global.disablePublicSLB forbids public load balancers; set it to intranet",
                key::ADDRESS_TYPE.key()
            ));
        }
        if all["InstanceChargeType"] == "PayBySpec"
            && all["LoadBalancerSpec"].is_null()
            && !annotations.is_set(&key::ID)
        {
            all["LoadBalancerSpec"] = json!("slb.s1.small");
        }
        let fields = all.as_object_mut().into_iter();
        fields
            .for_each(|all| all.retain(|name, _| is_public || !["InternetChargeType", "Bandwidth"].contains(&&**name)));
        if all["InternetChargeType"] != "paybybandwidth" {
            all.as_object_mut().into_iter().for_each(|all| drop(all.remove("Bandwidth")));
        }
        return attributes(&ClassicBalancer(stated(all)));
    }
    let mut all = object::<NetworkBalancer>(annotations);
    for field in ["AddressType", "Ipv6AddressType"] {
        if let Some(text) = all[field].as_str() {
            all[field] = json!(capitalized(text));
        }
    }
    if all["ZoneMappings"].as_array().is_none_or(Vec::is_empty) && !annotations.is_set(&key::ID) {
        annotations.mistake(format!(
            "annotation {} is required: name zones with their vSwitches, such as cn-hangzhou-a:vsw-1,cn-hangzhou-b:vsw-2",
            key::ZONE_MAPS.key()
        ));
    }
    attributes(&NetworkBalancer(stated(all)))
}

/// Returns the port of Pods, and its text. Without one, it is the port of the Service.
fn target(target: &Value, port: u16) -> (Target, String) {
    match target.as_str() {
        Some(name) => (Target::Named, name.to_owned()),
        None => {
            let number = target.as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(port);
            (Target::Number(number), number.to_string())
        }
    }
}

fn ports(
    service: &Service,
    is_network: bool,
    mode: Mode,
    family: AddressFamily,
    groups: &BTreeMap<u16, key::Group>,
    annotations: &mut Annotations<'_>,
) -> Vec<Port> {
    let protocols = annotations.get(&key::PROTOCOL_PORT).unwrap_or_default().0;
    let forwards = annotations.get(&key::FORWARD).unwrap_or_default().0;
    let certificates = annotations.get(&key::CERTIFICATE).unwrap_or_default();
    let ranges = annotations.get(&key::PORT_RANGES).filter(|_| is_network).unwrap_or_default().0;
    let classic = object::<ClassicListener>(annotations);
    let [network, group] = match is_network {
        false => [json!({}), json!({})],
        true => [object::<NetworkListener>(annotations), network_group(family, annotations)],
    };
    let of_service = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let mut all: Vec<Port> = Vec::new();
    for (it, port) in of_service.iter().zip(each_port(service, &["TCP", "UDP"])) {
        let port = match port {
            Ok(port) if port.node_port == 0 && mode != Mode::Pods => {
                annotations
                    .mistake(format!("port {} has no node port; set allocateLoadBalancerNodePorts", port.number));
                continue;
            }
            Ok(port) => port,
            Err(error) => {
                annotations.mistake(error.to_string());
                continue;
            }
        };
        let protocol = protocols.get(&port.number).cloned().unwrap_or_else(|| port.protocol.to_lowercase());
        let is_tls = ["https", "tcpssl"].contains(&&*protocol);
        let accepted: &[&str] = if is_network { &["tcp", "udp", "tcpssl"] } else { &["tcp", "udp", "http", "https"] };
        let annotation = key::PROTOCOL_PORT.key();
        if !accepted.contains(&&*protocol) {
            annotations.mistake(format!(
                "annotation {annotation}: port {}: {protocol:?} is not one of {}",
                port.number,
                accepted.join(", ")
            ));
        } else if is_tls && certificates.is_empty() {
            annotations.mistake(format!(
                "annotation {} is required by {protocol} port {}",
                key::CERTIFICATE.key(),
                port.number
            ));
        }
        let (target, target_part) = target(&serde_json::to_value(&it.target_port).unwrap_or_default(), port.number);
        let range = ranges.get(&port.number).copied();
        if range.is_some() && mode != Mode::Pods {
            annotations.mistake(format!(
                "annotation {}: port {} has Nodes as backends, which a range of ports cannot have; set annotation {} to eni",
                key::PORT_RANGES.key(),
                port.number,
                key::BACKEND_TYPE.key()
            ));
        }
        let part = match range {
            Some(range) => format!("{}_{}", range.first, range.last),
            None if mode == Mode::Pods => target_part,
            None => port.node_port.to_string(),
        };
        let part = if is_network { format!("{part}.{}", port.protocol) } else { part };
        let place = Port {
            number: range.map_or(port.number, |range| range.first),
            range,
            transport: port.protocol,
            node_port: port.node_port,
            name: it.name.clone().unwrap_or_default(),
            target,
            pool: groups.get(&port.number).map_or_else(|| part.clone(), |group| group.0.clone()),
            part,
            ..Port::default()
        };
        if let Some(other) = all.iter().find(|other| other.overlaps(&place)) {
            annotations.mistake(format!(
                "annotation {}: ports from {} overlap with ports from {}; name ranges without common ports",
                key::PORT_RANGES.key(),
                other.number,
                place.number
            ));
        }
        all.push(match is_network {
            false => {
                let mut it = classic.clone();
                it["Protocol"] = json!(protocol);
                it["Status"] = json!("running");
                it["ServerCertificateId"] = json!(certificates.first());
                if let Some(to) = forwards.get(&port.number).filter(|_| protocol == "http") {
                    it["ForwardPort"] = json!(to);
                }
                it.as_object_mut().into_iter().for_each(|it| it.retain(|field, _| has_field(&protocol, field)));
                Port { listener: attributes(&ClassicListener(it)), ..place }
            }
            true => {
                let mut it = network.clone();
                it["ListenerProtocol"] = json!(protocol.to_uppercase());
                it["ListenerStatus"] = json!("Running");
                it["ListenerPort"] = json!(if range.is_some() { 0 } else { port.number });
                if let Some(range) = range {
                    (it["StartPort"], it["EndPort"]) = (json!(range.first), json!(range.last));
                }
                let is_of_tls = |field: &str| {
                    field == "SecurityPolicyId" || ["C", "A"].iter().any(|it| field.starts_with(it) && field != "Cps")
                };
                it.as_object_mut().into_iter().for_each(|it| it.retain(|field, _| is_tls || !is_of_tls(field)));
                let mut group = group.clone();
                group["Protocol"] = json!(port.protocol);
                if range.is_some() {
                    take_any_port(&mut group, &place, annotations);
                }
                let is_own = place.pool == place.part;
                let group = if is_own { attributes(&NetworkGroup(group)) } else { Attributes::default() };
                Port { listener: attributes(&NetworkListener(it)), group, ..place }
            }
        });
    }
    all
}

/// Lets a server group take any port; its health check, which is on by default, needs a certain one.
fn take_any_port(group: &mut Value, port: &Port, annotations: &mut Annotations<'_>) {
    group["AnyPortEnabled"] = json!(true);
    let check = &mut group["HealthCheckConfig"];
    if check["HealthCheckEnabled"] == false {
        return;
    }
    check["HealthCheckEnabled"] = json!(true);
    match port.target {
        _ if check["HealthCheckConnectPort"].is_number() => {}
        Target::Number(number) => check["HealthCheckConnectPort"] = json!(number),
        Target::Named => annotations.mistake(format!(
            "annotation {}: the target port of the ports from {} has a name, and their health check needs a number; set a \
             number as target port, or annotations {}: on and {}",
            key::PORT_RANGES.key(),
            port.number,
            key::CHECK_FLAG.key(),
            key::CHECK_PORT.key()
        )),
    }
}

fn network_group(family: AddressFamily, annotations: &mut Annotations<'_>) -> Value {
    let mut all = object::<NetworkGroup>(annotations);
    if family != AddressFamily::Ipv4 {
        // Traffic stays in its IP family only where there are backends of both.
        let is_mixed = family == AddressFamily::Dualstack;
        all["AddressIPVersion"] = json!("DualStack");
        all["IpVersionAffinityMode"] = json!(if is_mixed { "Affinity" } else { "NonAffinity" });
    }
    // The API writes two of them with a capital.
    if let Some(text @ ("wrr" | "wlc")) = all["Scheduler"].as_str() {
        all["Scheduler"] = json!(capitalized(text));
    }
    if let Some(is_on) = annotations.get(&key::DRAINING) {
        all["ConnectionDrainEnabled"] = json!(is_on == "on");
    }
    let is_checked = annotations.get(&key::CHECK_FLAG).map(|it| it == "on");
    match is_checked {
        Some(true) => {
            all["HealthCheckConfig"]["HealthCheckEnabled"] = json!(true);
            all["HealthCheckConfig"]["HealthCheckType"] =
                json!(annotations.get(&key::CHECK_TYPE).map(|it| it.to_uppercase()));
        }
        Some(false) => all["HealthCheckConfig"] = json!({"HealthCheckEnabled": false}),
        None => drop(all.as_object_mut().map(|all| all.remove("HealthCheckConfig"))),
    }
    all
}
