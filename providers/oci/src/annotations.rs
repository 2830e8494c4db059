//! The annotations of a Service. docs/providers/oci.md is generated from these declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use provider_kit::declared::{Kind, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Kind of load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadBalancerKind {
    /// A load balancer: a proxy for TCP, HTTP and gRPC, with TLS.
    #[default]
    LoadBalancer,
    /// A network load balancer: TCP and UDP packets.
    Network,
}

/// The rules that the program writes, so that traffic reaches load balancers and Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityMode {
    /// Rules in the security lists of the subnets of load balancers and Nodes.
    #[default]
    All,
    /// Rules in the security lists of the subnets of load balancers.
    Frontend,
    /// Rules in a network security group for each load balancer, and in those of the Nodes.
    Groups,
    /// No rules: users write them.
    None,
}

impl SecurityMode {
    const NAMES: [(Self, &str); 4] = [
        (Self::All, "All"),
        (Self::Frontend, "Frontend"),
        (Self::Groups, "NSG"),
        (Self::None, "None"),
    ];

    /// Returns the name of the mode in the tag of a load balancer.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES
            .into_iter()
            .find(|(mode, _)| *mode == self)
            .map_or("None", |(_, name)| name)
    }

    /// Returns the mode of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::NAMES
            .into_iter()
            .find(|(_, other_name)| *other_name == name)
            .map(|(mode, _)| mode)
    }

    /// Returns `true` if rules are written to security lists.
    pub(crate) fn has_lists(self) -> bool {
        [Self::All, Self::Frontend].contains(&self)
    }
}

/// TLS settings: the cipher suite and the protocol versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsSettings {
    /// Name of the cipher suite.
    #[serde(rename = "CipherSuiteName", alias = "cipherSuiteName")]
    pub suite: Option<String>,
    /// Versions, such as `TLSv1.2`.
    #[serde(rename = "Protocols", alias = "protocols", default)]
    pub protocols: Vec<String>,
}

/// JSON objects by name: tags with a namespace, or rule sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Objects(pub BTreeMap<String, Json>);

/// OCIDs of network security groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupIds(pub BTreeSet<String>);

/// A word of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word(pub &'static str);

const MODES: Kind<SecurityMode> = Kind::one_of(&[
    ("All", SecurityMode::All),
    ("Frontend", SecurityMode::Frontend),
    ("None", SecurityMode::None),
]);
const RULE_MODES: Kind<SecurityMode> = Kind::one_of(&[
    ("SL-All", SecurityMode::All),
    ("SL-Frontend", SecurityMode::Frontend),
    ("NSG", SecurityMode::Groups),
    ("None", SecurityMode::None),
])
.any_case();
const BANDWIDTH: Kind<u32> = Kind::of("a bandwidth in Mbps such as 100 or 100Mbps", bandwidth);
const GROUPS: Kind<GroupIds> = Kind::explained("at most five OCIDs, separated by commas", |text| {
    groups(text, 5)
});
const ANY_GROUPS: Kind<GroupIds> = Kind::explained("OCIDs, separated by commas", |text| {
    groups(text, usize::MAX)
});
const BACKEND_PROTOCOL: Kind<Word> = Kind::of("one of TCP, HTTP, GRPC", |text| {
    match text.to_ascii_uppercase().as_str() {
        "" | "TCP" => Some(Word("TCP")),
        "HTTP" => Some(Word("HTTP")),
        "GRPC" => Some(Word("GRPC")),
        _ => None,
    }
});
const LB_POLICY: Kind<Word> = Kind::one_of(&[
    ("ROUND_ROBIN", Word("ROUND_ROBIN")),
    ("LEAST_CONNECTIONS", Word("LEAST_CONNECTIONS")),
    ("IP_HASH", Word("IP_HASH")),
]);
const NLB_POLICY: Kind<Word> = Kind::one_of(&[
    ("FIVE_TUPLE", Word("FIVE_TUPLE")),
    ("THREE_TUPLE", Word("THREE_TUPLE")),
    ("TWO_TUPLE", Word("TWO_TUPLE")),
]);
const TLS: Kind<TlsSettings> = Kind::of(
    "JSON such as {\"CipherSuiteName\":\"…\",\"Protocols\":[\"TLSv1.2\"]}",
    |text| serde_json::from_str(text).ok(),
);
const FREEFORM: Kind<BTreeMap<String, String>> = Kind::of("a JSON object of texts", |text| {
    if text.is_empty() {
        Some(BTreeMap::new())
    } else {
        serde_json::from_str(text).ok()
    }
});
const DEFINED: Kind<Objects> = Kind::of(
    "a JSON object of namespaces, each an object of tags",
    |text| {
        let tags: Objects = if text.is_empty() {
            Objects::default()
        } else {
            serde_json::from_str(text).ok()?
        };
        tags.0.values().all(Json::is_object).then_some(tags)
    },
);
const RULE_SETS: Kind<Objects> = Kind::of(
    "a JSON object of rule sets by name, each with its items",
    |text| {
        let sets: Objects = if text.is_empty() {
            Objects::default()
        } else {
            serde_json::from_str(text).ok()?
        };
        sets.0
            .values()
            .all(|set| set["items"].is_array())
            .then_some(sets)
    },
);
const IPV6: Kind<String> = Kind::of("an IPv6 address", |text| {
    text.parse::<Ipv6Addr>().ok().map(|ip| ip.to_string())
});
const KINDS: Kind<LoadBalancerKind> = Kind::one_of(&[
    ("lb", LoadBalancerKind::LoadBalancer),
    ("nlb", LoadBalancerKind::Network),
])
.any_case();
const IP_MODES: Kind<Word> =
    Kind::one_of(&[("VIP", Word("VIP")), ("proxy", Word("Proxy"))]).any_case();

fn bandwidth(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c.is_whitespace());
    let digits: String = digits.chars().filter(char::is_ascii_alphanumeric).collect();
    digits.parse::<u32>().ok().map(|mbps| mbps.clamp(10, 8192))
}

fn groups(text: &str, most: usize) -> Result<GroupIds, String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if text.is_empty() {
        return Ok(GroupIds::default());
    }
    let all: BTreeSet<String> = text.split(',').map(str::to_owned).collect();
    match () {
        () if all.contains("") => Err("an item is empty".to_owned()),
        () if all.len() > most => Err(format!("there are {}", all.len())),
        () => Ok(GroupIds(all)),
    }
}

provider_kit::declare! {
    /// Annotations of load balancers.
    pub LOAD_BALANCER: "service.beta.kubernetes.io/oci-load-balancer-";

    /// The load balancer has a private address.
    pub INTERNAL: bool = "internal", default("false");
    /// Shape of the load balancer: `flexible`, or a fixed one such as `100Mbps`.
    pub SHAPE: String = "shape", default_description("`flexible`; an existing load balancer keeps its shape"),
        costs("pay for a load balancer of any size");
    /// Lower limit of the bandwidth of a flexible shape, at least 10 Mbps.
    pub SHAPE_MIN: u32 = "shape-flex-min", kind(BANDWIDTH), default_description("10 without `shape`"),
        costs("pay for up to 8192 Mbps of bandwidth at all times");
    /// Upper limit of the bandwidth of a flexible shape, at most 8192 Mbps.
    pub SHAPE_MAX: u32 = "shape-flex-max", kind(BANDWIDTH), default_description("100 without `shape`"),
        costs("pay for up to 8192 Mbps of bandwidth");
    /// OCID of the subnet, or of the first of two in different availability domains.
    pub SUBNET1: String = "subnet1", default_description("`loadBalancer.subnet1`"),
        reaches("use any subnet that loadBalancer.allowedSubnets admits, and have rules for the Service's ports written to its security list");
    /// OCID of the second subnet.
    pub SUBNET2: String = "subnet2", default_description("`loadBalancer.subnet2`"),
        reaches("use any subnet that loadBalancer.allowedSubnets admits, and have rules for the Service's ports written to its security list");
    /// Ports of the Service that clients connect to with TLS.
    pub TLS_PORTS: Vec<u16> = "ssl-ports";
    /// Secret with the certificate for clients: `name`, or `namespace/name` with a namespace of
    /// `loadBalancer.secretNamespaces`.
    pub TLS_SECRET: String = "tls-secret",
        reaches("use any certificate of the namespace and of loadBalancer.secretNamespaces");
    /// OCIDs of certificates of the Certificates service, instead of a Secret.
    pub TLS_CERTIFICATE_IDS: Vec<String> = "tls-certificate-ids",
        reaches("use any certificate of the Certificates service that the principal may use");
    /// Secret with the certificate for connections to backends.
    pub TLS_BACKEND_SECRET: String = "tls-backendset-secret",
        reaches("use any certificate of the namespace and of loadBalancer.secretNamespaces");
    /// Protocol of the listeners.
    pub BACKEND_PROTOCOL_KEY: Word = "backend-protocol", kind(BACKEND_PROTOCOL), default("TCP");
    /// Seconds after which an idle connection is closed.
    pub IDLE_TIMEOUT: u32 = "connection-idle-timeout", default_description("the cloud's; with the PROXY protocol 300 for TCP, 60 for HTTP");
    /// Version of the PROXY protocol by which backends learn the address of the client.
    pub PROXY_PROTOCOL: u32 = "connection-proxy-protocol-version", kind(Kind::number(1, 2));
    /// Failed health checks until a backend is left out.
    pub CHECK_RETRIES: u32 = "health-check-retries", default("3");
    /// Milliseconds that a health check may take.
    pub CHECK_TIMEOUT: u32 = "health-check-timeout", default("3000");
    /// Milliseconds between two health checks.
    pub CHECK_INTERVAL: u32 = "health-check-interval", kind(Kind::number(1000, 1_800_000)), default("10000");
    /// Security lists that get rules.
    pub LIST_MODE: SecurityMode = "security-list-management-mode", default_description("`loadBalancer.securityListManagementMode`"), lenient(),
        reaches("have rules for the Service's ports written to the security lists of the subnets");
}

provider_kit::declare! {
    /// Annotations of network load balancers.
    pub NETWORK: "oci-network-load-balancer.oraclecloud.com/";

    /// The network load balancer has a private address.
    pub NETWORK_INTERNAL: bool = "internal", default("false");
    /// OCID of the subnet.
    pub NETWORK_SUBNET: String = "subnet", default_description("`loadBalancer.subnet1`"),
        reaches("use any subnet that loadBalancer.allowedSubnets admits, and have rules for the Service's ports written to its security list");
    /// Sends the PROXY protocol, version 2.
    pub PPV2: bool = "is-ppv2-enabled", default("false"), lenient();
    /// Backends see the address of the client. Only with `externalTrafficPolicy: Local`.
    pub PRESERVE_SOURCE: bool = "is-preserve-source", default_description("`true` with `externalTrafficPolicy: Local`");
    /// The status of the Service has the public address only.
    pub EXTERNAL_ONLY: bool = "external-ip-only", default("false");
    /// Private address of a new network load balancer.
    pub ASSIGNED_V4: Ipv4Addr = "assigned-private-ipv4", reaches("take any free address of the subnet");
    /// IPv6 address of a new network load balancer.
    pub ASSIGNED_V6: String = "assigned-ipv6", kind(IPV6), reaches("take any free IPv6 address of the subnet");
    /// Failed health checks until a backend is left out.
    pub NETWORK_CHECK_RETRIES: u32 = "health-check-retries", default("3");
    /// Milliseconds that a health check may take.
    pub NETWORK_CHECK_TIMEOUT: u32 = "health-check-timeout", default("3000");
    /// Milliseconds between two health checks.
    pub NETWORK_CHECK_INTERVAL: u32 = "health-check-interval", kind(Kind::number(10_000, 1_800_000)), default("10000");
    /// Choice of a backend, by parts of a packet's addresses and ports.
    pub NETWORK_POLICY: Word = "backend-policy", kind(NLB_POLICY), default("FIVE_TUPLE");
    /// OCIDs of network security groups of yours.
    pub NETWORK_GROUPS: GroupIds = "oci-network-security-groups",
        reaches("put the load balancer into any network security group that loadBalancer.allowedSecurityGroups admits");
    /// Security lists that get rules.
    pub NETWORK_LIST_MODE: SecurityMode = "security-list-management-mode", default("None"),
        reaches("have rules for the Service's ports written to the security lists of the subnets");
    /// Freeform tags of a new network load balancer, instead of all tags of the configuration.
    pub NETWORK_FREEFORM: BTreeMap<String, String> = "initial-freeform-tags-override", kind(FREEFORM), aliases(&["oci-network-load-balancer.oraclecloud.com/freeform-tags"]),
        reaches("set any freeform tag that does not name an owner, by which policies of the tenancy may decide");
    /// Defined tags of a new network load balancer, instead of all tags of the configuration.
    pub NETWORK_DEFINED: Objects = "initial-defined-tags-override", aliases(&["oci-network-load-balancer.oraclecloud.com/defined-tags"]),
        reaches("set any defined tag that the principal may use, by which policies of the tenancy may decide");
    /// Selector of the Nodes that are backends.
    pub NETWORK_SELECTOR: String = "node-label-selector";
}

provider_kit::declare! {
    /// Annotations of both kinds, and some of load balancers.
    pub GENERAL: "oci.oraclecloud.com/";

    /// Kind of load balancer: a proxy, or a network load balancer. A change creates the other kind and then deletes this one.
    pub KIND: LoadBalancerKind = "load-balancer-type", default("lb"), lenient();
    /// TLS settings for clients.
    pub LISTENER_TLS: TlsSettings = "oci-load-balancer-listener-ssl-config";
    /// TLS settings for connections to backends.
    pub BACKEND_TLS: TlsSettings = "oci-load-balancer-backendset-ssl-config";
    /// Choice of a backend by a load balancer.
    pub POLICY: Word = "loadbalancer-policy", kind(LB_POLICY), default("ROUND_ROBIN");
    /// OCIDs of network security groups of yours, for a load balancer.
    pub NETWORK_SECURITY_GROUPS: GroupIds = "oci-network-security-groups",
        reaches("put the load balancer into any network security group that loadBalancer.allowedSecurityGroups admits");
    /// Rules that are written. Overrides `security-list-management-mode`.
    pub RULE_MODE: SecurityMode = "security-rule-management-mode", kind(RULE_MODES),
        reaches("have rules for the Service's ports written to security lists or network security groups");
    /// OCIDs of network security groups of the Nodes, which get rules in mode `NSG`.
    pub BACKEND_GROUPS: GroupIds = "oci-backend-network-security-group", kind(ANY_GROUPS),
        reaches("have rules for the Service's node ports written to any network security group that loadBalancer.allowedSecurityGroups admits");
    /// Freeform tags of a new load balancer, instead of all tags of the configuration.
    pub FREEFORM_TAGS: BTreeMap<String, String> = "initial-freeform-tags-override", kind(FREEFORM),
        reaches("set any freeform tag that does not name an owner, by which policies of the tenancy may decide");
    /// Defined tags of a new load balancer, instead of all tags of the configuration.
    pub DEFINED_TAGS: Objects = "initial-defined-tags-override",
        reaches("set any defined tag that the principal may use, by which policies of the tenancy may decide");
    /// Selector of the Nodes that are backends of a load balancer.
    pub SELECTOR: String = "node-label-selector";
    /// The way in which Pods reach the load balancer's address: directly (`VIP`) or through the load balancer (`proxy`).
    pub IP_MODE: Word = "ingress-ip-mode", kind(IP_MODES);
    /// Rule sets of all listeners of a load balancer.
    pub RULE_SETS_KEY: Objects = "oci-load-balancer-rule-sets", kind(RULE_SETS);
    /// ServiceAccount of the Service's namespace by whose workload identity the load balancer is managed.
    pub WORKLOAD_ACCOUNT: String = "workload-service-account",
        reaches("act with the rights of any ServiceAccount of the namespace in OCI");
    /// OCID of a load balancer of yours. The Service adopts it: listeners and backend sets of yours stay, and so does the
    /// load balancer when the Service is deleted.
    pub LOAD_BALANCER_ID: String = "load-balancer-id",
        reaches("adopt any load balancer that has no owner and that the principal may manage");
    /// OCID of the compartment of a new load balancer.
    pub COMPARTMENT: String = "compartment-id", default_description("the cluster's"),
        reaches("create load balancers in any compartment that the principal may manage");
}

/// The label of a Node with the fault domain of its instance.
pub const FAULT_DOMAIN: &str = "oci.oraclecloud.com/fault-domain";
/// The annotation of a Node with the compartment of its instance.
pub const NODE_COMPARTMENT: &str = "oci.oraclecloud.com/compartment-id";
/// The label of a Node whose IPv6 addresses are shown.
pub const IPV6_LABEL: &str = "oci.oraclecloud.com/ip-family-ipv6";
/// The label of a Node of a cluster with IPv6 alone: its availability domain, with `.` for `:`.
pub const FULL_AD: &str = "csi-ipv6-full-ad-name";

impl Value for LoadBalancerKind {
    const KIND: Kind<Self> = KINDS;
}

impl Value for SecurityMode {
    const KIND: Kind<Self> = MODES;
}

impl Value for TlsSettings {
    const KIND: Kind<Self> = TLS;
}

impl Value for GroupIds {
    const KIND: Kind<Self> = GROUPS;
}

impl Value for Objects {
    const KIND: Kind<Self> = DEFINED;
}

/// Each annotation with a word has the words that it accepts.
impl Value for Word {
    const KIND: Kind<Self> = Kind::one_of(&[]);
}
