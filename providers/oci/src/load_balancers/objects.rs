//! Load balancers and network load balancers, as the API shows them, and as resource graphs.

use std::collections::BTreeMap;

use provider_kit::load_balancers::{
    Attributes, ObservedLoadBalancer, OwnerTags, ResourceGraph, ResourceKey, State, Targets,
};
use provider_kit::signing::sha256_hex;
use provider_kit::transport::Transport;
use serde_json::{Value, json};

use crate::annotations::LoadBalancerKind;
use crate::api::Api;

/// Settings of the load balancer itself.
const BALANCER: &[&str] = &[
    "shapeName",
    "shapeDetails.minimumBandwidthInMbps",
    "shapeDetails.maximumBandwidthInMbps",
    "isPrivate",
    "subnetIds",
    "networkSecurityGroupIds",
    "ipMode",
    "subnetId",
    "nlbIpVersion",
    "compartmentId",
];
/// Settings of a backend set. The last three are set by users in the cloud, and written back.
const SET: &[&str] = &[
    "policy",
    "isPreserveSource",
    "ipVersion",
    "healthChecker.protocol",
    "healthChecker.port",
    "healthChecker.urlPath",
    "healthChecker.returnCode",
    "healthChecker.retries",
    "healthChecker.timeoutInMillis",
    "healthChecker.intervalInMillis",
    "healthChecker.isForcePlainText",
    "healthChecker.responseBodyRegex",
    "sslConfiguration.certificateName",
    "sslConfiguration.certificateIds",
    "sslConfiguration.verifyDepth",
    "sslConfiguration.verifyPeerCertificate",
    "sslConfiguration.cipherSuiteName",
    "sslConfiguration.protocols",
    "sessionPersistenceConfiguration",
    "lbCookieSessionPersistenceConfiguration",
    "backendMaxConnections",
];
/// Settings of a listener. Those from `hostnameNames` on are set by users in the cloud, and written back.
const LISTENER: &[&str] = &[
    "protocol",
    "ipVersion",
    "isPpv2Enabled",
    "ruleSetNames",
    "sslConfiguration.certificateName",
    "sslConfiguration.certificateIds",
    "sslConfiguration.verifyDepth",
    "sslConfiguration.verifyPeerCertificate",
    "sslConfiguration.cipherSuiteName",
    "sslConfiguration.protocols",
    "connectionConfiguration.idleTimeout",
    "connectionConfiguration.backendTcpProxyProtocolVersion",
    "hostnameNames",
    "pathRouteSetName",
    "routingPolicyName",
    "tcpIdleTimeout",
    "udpIdleTimeout",
];
/// Settings that are removed where nobody states them: without them, TLS would stay when it is no longer wanted.
const TLS: [&str; 4] = [
    "sslConfiguration.certificateName",
    "sslConfiguration.certificateIds",
    "sslConfiguration.verifyDepth",
    "sslConfiguration.verifyPeerCertificate",
];

/// The paths and fields of one kind of load balancer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    pub(crate) all: &'static str,
    pub(crate) one: &'static str,
    pub(crate) sets: &'static str,
    pub(crate) set: &'static str,
    pub(crate) listeners: &'static str,
    pub(crate) listener: &'static str,
    pub(crate) groups: &'static str,
    pub(crate) health: &'static str,
    /// Path of a work request, and its field with the state.
    pub(crate) work: &'static str,
    pub(crate) state: &'static str,
    /// Field of a list that holds the items; empty if it is bare.
    pub(crate) items: &'static str,
}

/// Paths and fields of load balancers.
pub(crate) static LB: Form = Form {
    name: "lb",
    all: "/20170115/loadBalancers",
    one: "/20170115/loadBalancers/{id}",
    sets: "/20170115/loadBalancers/{id}/backendSets",
    set: "/20170115/loadBalancers/{id}/backendSets/{name}",
    listeners: "/20170115/loadBalancers/{id}/listeners",
    listener: "/20170115/loadBalancers/{id}/listeners/{name}",
    groups: "/20170115/loadBalancers/{id}/networkSecurityGroups",
    health: "/20170115/loadBalancers/{id}/backendSets/{name}/health",
    work: "/20170115/loadBalancerWorkRequests/{id}",
    state: "lifecycleState",
    items: "",
};
/// Paths and fields of network load balancers.
pub(crate) static NLB: Form = Form {
    name: "nlb",
    all: "/20200501/networkLoadBalancers",
    one: "/20200501/networkLoadBalancers/{id}",
    sets: "/20200501/networkLoadBalancers/{id}/backendSets",
    set: "/20200501/networkLoadBalancers/{id}/backendSets/{name}",
    listeners: "/20200501/networkLoadBalancers/{id}/listeners",
    listener: "/20200501/networkLoadBalancers/{id}/listeners/{name}",
    groups: "/20200501/networkLoadBalancers/{id}/networkSecurityGroups",
    health: "/20200501/networkLoadBalancers/{id}/backendSets/{name}/health",
    work: "/20200501/workRequests/{id}",
    state: "status",
    items: "items",
};

impl Form {
    pub(crate) fn of_kind(kind: LoadBalancerKind) -> &'static Self {
        if kind == LoadBalancerKind::Network {
            &NLB
        } else {
            &LB
        }
    }

    /// Returns the form of a load balancer by its OCID.
    pub(crate) fn of_id(id: &str) -> &'static Self {
        if id.starts_with("ocid1.networkloadbalancer.") {
            &NLB
        } else {
            &LB
        }
    }

    pub(crate) fn is_network(&self) -> bool {
        self.name == NLB.name
    }

    pub(crate) fn http<'a>(&self, api: &'a Api) -> &'a Transport {
        if self.is_network() {
            &api.network
        } else {
            &api.iaas
        }
    }
}

/// Returns the resource of a certificate. All are created before what uses them.
pub(crate) fn certificate(name: &str) -> ResourceKey {
    ResourceKey::created_before(1, "certificate", name)
}

/// Returns the resource of a rule set.
pub(crate) fn rule_set(name: &str) -> ResourceKey {
    ResourceKey::created_before(2, "rule set", name)
}

/// Returns the settings of a backend set from its form in the API.
pub(crate) fn set_settings(set: &Value) -> Attributes {
    Attributes::at(SET, set)
}

/// Returns the settings of a listener from its form in the API, with its name.
pub(crate) fn listener_settings(listener: &Value) -> Attributes {
    Attributes::at(LISTENER, listener)
}

/// Returns the settings of the load balancer itself; what cannot be changed counts at its creation only.
pub(crate) fn balancer_settings(balancer: &Value) -> Attributes {
    let settings = Attributes::at(BALANCER, balancer);
    let fixed = ["isPrivate", "subnetIds", "subnetId", "compartmentId"];
    settings.fixed(&fixed)
}

/// Wants the settings of TLS absent where they are not stated.
pub(crate) fn without_other_tls(settings: Attributes) -> Attributes {
    let missing: Vec<_> = TLS
        .into_iter()
        .filter(|key| settings.get(key).is_none())
        .collect();
    missing
        .into_iter()
        .fold(settings, |all, key| all.set(key, ()))
}

/// Returns the settings of a certificate: a digest of its text, and of that of its certificate authority.
pub(crate) fn certificate_settings(public: &str, authority: &str) -> Attributes {
    let text: String = public
        .split_whitespace()
        .chain(authority.split_whitespace())
        .collect();
    let digest = Attributes::default().set("certificate", sha256_hex(text.as_bytes()));
    digest.fixed(&["certificate"])
}

/// Returns the settings of a rule set: its items.
pub(crate) fn rule_set_settings(set: &Value) -> Attributes {
    Attributes::default().set("items", &set["items"])
}

/// Returns port, transport and family in the name of a listener. A listener that was made with another protocol has that
/// protocol in its name. Any other name is that of a user's part.
pub(crate) fn listener_key(name: &str) -> Option<(u16, String)> {
    let (name, family) = name
        .strip_suffix("-IPv6")
        .map_or((name, ""), |name| (name, "-IPv6"));
    let (protocol, port) = name.split_once('-')?;
    let transport = match &*protocol.to_ascii_uppercase() {
        "TCP" | "HTTP" | "HTTP2" | "GRPC" => "TCP",
        "UDP" => "UDP",
        "TCP_AND_UDP" => "TCP_AND_UDP",
        _ => return None,
    };
    let number: u16 = port
        .parse()
        .ok()
        .filter(|number: &u16| number.to_string() == port)?;
    Some((number, format!("{transport}{family}")))
}

fn objects(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of.as_object().into_iter().flatten()
}

/// Returns the text of a backend as a target: `10.0.0.5:30080`.
fn target(backend: &Value) -> Option<String> {
    let ip = backend["ipAddress"].as_str()?;
    let port = backend["port"].as_u64()?;
    Some(if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    })
}

/// Returns address and port of a target.
pub(crate) fn socket(target: &str) -> Option<(String, u16)> {
    let socket: std::net::SocketAddr = target.parse().ok()?;
    Some((socket.ip().to_string(), socket.port()))
}

fn freeform(balancer: &Value) -> BTreeMap<String, String> {
    objects(&balancer["freeformTags"])
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Returns the UID of the Service in the name that the Go cloud controller manager gives a load balancer.
fn legacy_owner(name: &str, prefix: &str, is_network: bool) -> Option<String> {
    let uid = if is_network {
        let [_, _, uid] = name.split('/').collect::<Vec<_>>()[..] else {
            return None;
        };
        uid
    } else {
        name.strip_prefix(prefix)?
    };
    let is_uid = uid.len() >= 8
        && uid
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_uid.then(|| uid.to_owned())
}

/// Converts a load balancer to what the engine compares.
pub(crate) fn observed(
    form: &'static Form,
    balancer: &Value,
    prefix: &str,
) -> ObservedLoadBalancer {
    let text = |key: &str| balancer[key].as_str().unwrap_or_default().to_owned();
    // A tag of the cloud is no label that only this program sets.
    let mut labels = local(&freeform(balancer));
    let owner_tags = OwnerTags::take_from(&mut labels);
    let legacy_owner = legacy_owner(&text("displayName"), prefix, form.is_network());
    let mode = labels.get(RULES).cloned();
    let adopted = labels.contains_key(ADOPTED);
    let addresses = balancer["ipAddresses"].as_array().into_iter().flatten();
    let mut addresses: Vec<_> = addresses
        .filter_map(|address| Some((address["ipAddress"].as_str()?, address["isPublic"] == true)))
        .collect();
    // Public addresses first: `external-ip-only` shows them alone.
    addresses.sort_by_key(|(_, is_public)| !is_public);
    let state = match &*text("lifecycleState") {
        "ACTIVE" => State::Ready,
        // A network load balancer that works accepts changes, although one of them failed.
        "FAILED" if form.is_network() && !addresses.is_empty() => State::Ready,
        "FAILED" => {
            let details = balancer["lifecycleDetails"]
                .as_str()
                .unwrap_or("the cloud could not create or change it");
            addresses.clear();
            State::Failed(details.to_owned())
        }
        _ => State::Busy,
    };
    if addresses.iter().any(|(_, is_public)| *is_public)
        && addresses.iter().any(|(_, is_public)| !is_public)
    {
        labels.insert(
            PRIVATE_FROM.to_owned(),
            addresses
                .iter()
                .filter(|(_, is_public)| *is_public)
                .count()
                .to_string(),
        );
    }
    if balancer["isDeleteProtectionEnabled"] == true {
        labels.insert(PROTECTED.to_owned(), String::new());
    }
    ObservedLoadBalancer {
        id: text("id"),
        legacy_owner,
        name: text("displayName"),
        kind: form.name,
        owner_tags,
        labels,
        state,
        ingress: addresses
            .iter()
            .map(|(ip, _)| ObservedLoadBalancer::ip(ip))
            .collect(),
        graph: Some(graph(form, balancer, mode)),
        adopted,
        created: balancer["timeCreated"]
            .as_str()
            .and_then(|time_created| time_created.parse().ok()),
        ..ObservedLoadBalancer::default()
    }
}

/// A label that the cloud does not have: the position of the first private address among those of the status.
pub(crate) const PRIVATE_FROM: &str = "ccm-rs/private-from";
/// A label that the cloud does not have: the load balancer is protected against deletion.
pub(crate) const PROTECTED: &str = "ccm-rs/protected";
/// The tag of a load balancer that a user created: `true`, or the names of the user's listeners and backend sets that look
/// like those of a Service. It is written and removed with the owner tags.
pub(crate) const ADOPTED: &str = "ccm-rs/adopted";
/// The tag with the mode of security rules, and the setting that the plan compares. Without it, nobody knows if rules for
/// the ports of a load balancer without a Service are those of a user.
pub(crate) const RULES: &str = "ccm-rs/security-rules";

/// Returns the labels without those that the cloud does not have.
pub(crate) fn local(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    labels.retain(|key, _| ![PRIVATE_FROM, PROTECTED, super::groups::OWN].contains(&&**key));
    labels
}

fn graph(form: &Form, balancer: &Value, mode: Option<String>) -> ResourceGraph {
    let settings = balancer_settings(balancer);
    let settings = mode
        .into_iter()
        .fold(settings, |all, mode| all.set(RULES, mode));
    let mut graph = ResourceGraph::default().balancer(settings);
    // Parts with other names are those of a user: they stay.
    for (name, set) in
        objects(&balancer["backendSets"]).filter(|(name, _)| listener_key(name).is_some())
    {
        let targets: Targets = set["backends"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(target)
            .collect();
        graph = graph.pool(name, set_settings(set), Some(targets));
    }
    for (name, listener) in objects(&balancer["listeners"]) {
        let Some((port, transport)) = listener_key(name) else {
            continue;
        };
        let pool = listener["defaultBackendSetName"]
            .as_str()
            .unwrap_or_default();
        let mut settings = listener_settings(listener).set("name", name);
        if form.is_network() && settings.get("isPpv2Enabled").is_none() {
            settings = settings.set("isPpv2Enabled", false);
        }
        graph = graph.listener(port, transport, pool, settings);
    }
    if !form.is_network() {
        for (name, object) in objects(&balancer["certificates"]) {
            let [public, authority] = ["publicCertificate", "caCertificate"]
                .map(|key| object[key].as_str().unwrap_or_default());
            graph = graph.resource(certificate(name), certificate_settings(public, authority));
        }
        for (name, set) in objects(&balancer["ruleSets"]) {
            graph = graph.resource(rule_set(name), rule_set_settings(set));
        }
    }
    graph
}

/// Returns the backends of a target set in the form of the API, with the instances at their addresses.
pub(crate) fn backends(targets: &Targets, instances: &BTreeMap<String, String>) -> Vec<Value> {
    let backend = |target: &str| {
        let (ip, port) = socket(target)?;
        let mut backend = json!({"ipAddress": ip, "port": port, "weight": 1});
        if let Some(id) = instances.get(&ip) {
            backend["targetId"] = id.as_str().into();
        }
        Some(backend)
    };
    targets.iter().filter_map(backend).collect()
}
