//! The ports of a Service, parsed into listeners and server groups.

use std::collections::BTreeMap;

use cloud_provider::Service;
use provider_kit::addresses::AddressFamily;
use provider_kit::annotations::Annotations;
use provider_kit::load_balancers::{Attributes, each_port};
use serde_json::{Value, json};

use super::backends::Mode;
use super::model::{ClassicListener, NetworkGroup, NetworkListener, has_field};
use super::spec::{attributes, capitalized, object};
use crate::annotations::{self as key, Range};
use crate::endpoints::Target;

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
        let [[first, last], [start, end]] = [self, other].map(|port| {
            port.range
                .map_or([port.number; 2], |range| [range.first, range.last])
        });
        self.transport == other.transport && first <= end && start <= last
    }
}

/// Returns the port of Pods, and its text. Without one, it is the port of the Service.
fn target(target: &Value, port: u16) -> (Target, String) {
    match target.as_str() {
        Some(name) => (Target::Named, name.to_owned()),
        None => {
            let number = target
                .as_u64()
                .and_then(|target| u16::try_from(target).ok())
                .unwrap_or(port);
            (Target::Number(number), number.to_string())
        }
    }
}

pub(super) fn ports(
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
    let ranges = annotations
        .get(&key::PORT_RANGES)
        .filter(|_| is_network)
        .unwrap_or_default()
        .0;
    let classic = object::<ClassicListener>(annotations);
    let [network, group] = match is_network {
        false => [json!({}), json!({})],
        true => [
            object::<NetworkListener>(annotations),
            network_group(family, annotations),
        ],
    };
    let of_service = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let mut all: Vec<Port> = Vec::new();
    for (other_object, port) in of_service.iter().zip(each_port(service, &["TCP", "UDP"])) {
        let port = match port {
            Ok(port) if port.node_port == 0 && mode != Mode::Pods => {
                annotations.mistake(format!(
                    "port {} has no node port; set allocateLoadBalancerNodePorts",
                    port.number
                ));
                continue;
            }
            Ok(port) => port,
            Err(error) => {
                annotations.mistake(error.to_string());
                continue;
            }
        };
        let protocol = protocols
            .get(&port.number)
            .cloned()
            .unwrap_or_else(|| port.protocol.to_lowercase());
        let is_tls = ["https", "tcpssl"].contains(&&*protocol);
        let accepted: &[&str] = if is_network {
            &["tcp", "udp", "tcpssl"]
        } else {
            &["tcp", "udp", "http", "https"]
        };
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
        let (target, target_part) = target(
            &serde_json::to_value(&other_object.target_port).unwrap_or_default(),
            port.number,
        );
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
        let part = if is_network {
            format!("{part}.{}", port.protocol)
        } else {
            part
        };
        let place = Port {
            number: range.map_or(port.number, |range| range.first),
            range,
            transport: port.protocol,
            node_port: port.node_port,
            name: other_object.name.clone().unwrap_or_default(),
            target,
            pool: groups
                .get(&port.number)
                .map_or_else(|| part.clone(), |group| group.0.clone()),
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
                let mut current = classic.clone();
                current["Protocol"] = json!(protocol);
                current["Status"] = json!("running");
                current["ServerCertificateId"] = json!(certificates.first());
                if let Some(to) = forwards.get(&port.number).filter(|_| protocol == "http") {
                    current["ForwardPort"] = json!(to);
                }
                current
                    .as_object_mut()
                    .into_iter()
                    .for_each(|object| object.retain(|field, _| has_field(&protocol, field)));
                Port {
                    listener: attributes(&ClassicListener(current)),
                    ..place
                }
            }
            true => {
                let mut entry = network.clone();
                entry["ListenerProtocol"] = json!(protocol.to_uppercase());
                entry["ListenerStatus"] = json!("Running");
                entry["ListenerPort"] = json!(if range.is_some() { 0 } else { port.number });
                if let Some(range) = range {
                    (entry["StartPort"], entry["EndPort"]) =
                        (json!(range.first), json!(range.last));
                }
                let is_of_tls = |field: &str| {
                    field == "SecurityPolicyId"
                        || ["C", "A"]
                            .iter()
                            .any(|text| field.starts_with(text) && field != "Cps")
                };
                entry
                    .as_object_mut()
                    .into_iter()
                    .for_each(|object| object.retain(|field, _| is_tls || !is_of_tls(field)));
                let mut group = group.clone();
                group["Protocol"] = json!(port.protocol);
                if range.is_some() {
                    take_any_port(&mut group, &place, annotations);
                }
                let is_own = place.pool == place.part;
                let group = if is_own {
                    attributes(&NetworkGroup(group))
                } else {
                    Attributes::default()
                };
                Port {
                    listener: attributes(&NetworkListener(entry)),
                    group,
                    ..place
                }
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
    let is_checked = annotations
        .get(&key::CHECK_FLAG)
        .map(|check_flag| check_flag == "on");
    match is_checked {
        Some(true) => {
            all["HealthCheckConfig"]["HealthCheckEnabled"] = json!(true);
            all["HealthCheckConfig"]["HealthCheckType"] = json!(
                annotations
                    .get(&key::CHECK_TYPE)
                    .map(|check_type| check_type.to_uppercase())
            );
        }
        Some(false) => all["HealthCheckConfig"] = json!({"HealthCheckEnabled": false}),
        None => drop(
            all.as_object_mut()
                .map(|all| all.remove("HealthCheckConfig")),
        ),
    }
    all
}
