//! The annotations of Services. docs/providers/azure.md is generated from these declarations.

use std::net::IpAddr;

use provider_kit::declared::{Kind, Value};

/// The beginning of all keys.
pub const PREFIX: &str = "service.beta.kubernetes.io/";

/// A truth value: `true` in any case of letters, and any other text for false.
const TRUTH: Kind<bool> = Kind::of("true or false", |text| {
    Some(text.eq_ignore_ascii_case("true"))
});

/// A truth value that decides who reaches a Service: another text is a mistake.
const STRICT_TRUTH: Kind<bool> = Kind::of("true or false", |text| match text {
    text if text.eq_ignore_ascii_case("true") => Some(true),
    text if text.eq_ignore_ascii_case("false") => Some(false),
    _ => None,
})
.verbatim();

/// The protocol of a health probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeProtocol {
    /// A TCP connection is opened.
    #[default]
    Tcp,
    /// An HTTP request is sent.
    Http,
    /// An HTTPS request is sent.
    Https,
}

/// Accepts the protocols in any case; any other text stands for `tcp`.
impl Value for ProbeProtocol {
    const KIND: Kind<Self> = Kind::of("`tcp`, `http`, `https`", |text| {
        Some(match text.to_ascii_lowercase().as_str() {
            "http" => Self::Http,
            "https" => Self::Https,
            _ => Self::Tcp,
        })
    });
}

impl ProbeProtocol {
    /// Returns the word of the API.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Tcp => "Tcp",
            Self::Http => "Http",
            Self::Https => "Https",
        }
    }
}

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/";

    /// Gives the Service an address of the virtual network instead of a public one.
    pub INTERNAL: bool = "azure-load-balancer-internal", kind(STRICT_TRUTH), default("false");
    /// Subnet of an internal address.
    pub SUBNET: String = "azure-load-balancer-internal-subnet", default_description("`subnetName` of the configuration"),
        reaches("take an address of any subnet of the virtual network");
    /// Names a set of machines with a load balancer of its own. Not supported: refused with the basic SKU, and without
    /// effect with the standard SKU.
    pub MODE: String = "azure-load-balancer-mode";
    /// Names of the load balancers that may serve the Service, if there are several.
    pub BALANCERS: Vec<String> = "azure-load-balancer-configurations",
        reaches("choose among the load balancers that the configuration allows to the namespace");
    /// Address of the load balancer, instead of `spec.loadBalancerIP`. A public one must exist.
    pub IPV4: IpAddr = "azure-load-balancer-ipv4",
        reaches("serve free ports of any public address of the resource group, that of another Service included");
    /// Address of a load balancer for a Service of the family IPv6.
    pub IPV6: IpAddr = "azure-load-balancer-ipv6",
        reaches("serve free ports of any public IPv6 address of the resource group, that of another Service included");
    /// Resource group of the public address.
    pub GROUP: String = "azure-load-balancer-resource-group", default_description("that of the load balancers"),
        reaches("use public addresses of any resource group that the identity may change");
    /// Name of an existing public address. It is never changed or deleted.
    pub ADDRESS_NAME: String = "azure-pip-name",
        reaches("serve free ports of any public address of the resource group, that of another Service included");
    /// Name of an existing public address of a Service's second family.
    pub ADDRESS_NAME_IPV6: String = "azure-pip-name-ipv6",
        reaches("serve free ports of any public IPv6 address of the resource group, that of another Service included");
    /// ID of the prefix from which a new public address is allocated.
    pub ADDRESS_PREFIX: String = "azure-pip-prefix-id", reaches("take addresses of any public IP prefix");
    /// ID of the prefix for the address of a Service's second family.
    pub ADDRESS_PREFIX_IPV6: String = "azure-pip-prefix-id-ipv6", reaches("take addresses of any public IPv6 prefix");
    /// IP tags of a new public address: `key=value,…`.
    pub IP_TAGS: String = "azure-pip-ip-tags", reaches("set IP tags, which may choose other routing of the address");
    /// Tags of the public address: `key=value,…`.
    pub TAGS: std::collections::BTreeMap<String, String> = "azure-pip-tags", lenient();
    /// DNS label of the public address. An empty text removes it.
    pub DNS_LABEL: String = "azure-dns-label-name", reaches("take any free DNS label of the region");
    /// Further addresses of the Service: shown in its status, and admitted by the security group.
    pub ADDITIONAL_ADDRESSES: Vec<IpAddr> = "azure-additional-public-ips",
        reaches("draw the cluster's traffic for a public address of others, which additionalPublicIPRanges limits, and open the address");
    /// Ranges that may reach the Service, instead of `spec.loadBalancerSourceRanges`.
    pub ALLOWED_RANGES: String = "azure-allowed-ip-ranges";
    /// Service tags of Azure that may reach the Service.
    pub ALLOWED_SERVICE_TAGS: Vec<String> = "azure-allowed-service-tags",
        reaches("admit any service tag of Azure to the Service");
    /// Adds a rule that denies all other traffic to the Service, if there are ranges.
    pub DENY_OTHERS: bool = "azure-deny-all-except-load-balancer-source-ranges", kind(STRICT_TRUTH), default("false"),
        reaches("close all other ports of the Nodes, kubelets included, together with azure-disable-load-balancer-floating-ip");
    /// Leaves the security group alone.
    pub NO_SECURITY_RULES: bool = "azure-disable-load-balancer-nsg-rule", kind(TRUTH), default("false");
    /// Sends traffic to the node ports instead of the Service's address.
    pub NO_FLOATING_IP: bool = "azure-disable-load-balancer-floating-ip", kind(TRUTH), default("false"),
        reaches("open the node ports of the Service on all Nodes in the security group");
    /// Minutes after which an idle connection is closed.
    pub IDLE_TIMEOUT: u32 = "azure-load-balancer-tcp-idle-timeout", kind(Kind::number(4, 100)), default("4");
    /// Closes idle connections without a TCP reset.
    pub NO_TCP_RESET: bool = "azure-load-balancer-disable-tcp-reset", kind(TRUTH), default("false");
    /// Combines all ports in one rule; only for an internal address.
    pub ALL_PORTS: bool = "azure-load-balancer-enable-high-availability-ports", kind(TRUTH), default("false");
    /// Makes a private link service for the Service's frontend.
    pub LINK_CREATE: bool = "azure-pls-create", kind(TRUTH), default("false"),
        reaches("switch network policies for private link services off in the subnet");
    /// Name of the private link service; it cannot change later.
    pub LINK_NAME: String = "azure-pls-name", default_description("`pls-` and the name of the frontend");
    /// Resource group of the private link service.
    pub LINK_GROUP: String = "azure-pls-resource-group", default_description("`privateLinkServiceResourceGroup`"),
        reaches("create private link services in any resource group that the identity may change");
    /// Subnet of the addresses of the private link service.
    pub LINK_SUBNET: String = "azure-pls-ip-configuration-subnet", default_description("that of the load balancer"),
        reaches("use any subnet of the virtual network, and switch its network policies for private link services off");
    /// Number of addresses of the private link service.
    pub LINK_COUNT: u32 = "azure-pls-ip-configuration-ip-address-count", kind(Kind::number(1, 8)), default("1");
    /// Static addresses of the private link service, separated by spaces; the first one is the primary one.
    pub LINK_ADDRESSES: String = "azure-pls-ip-configuration-ip-address",
        reaches("take any free address of the subnet");
    /// Names of the private link service, separated by spaces.
    pub LINK_FQDNS: String = "azure-pls-fqdns", reaches("publish any names for the private link service");
    /// Passes the address of the client in the PROXY protocol.
    pub LINK_PROXY_PROTOCOL: bool = "azure-pls-proxy-protocol", kind(TRUTH), default("false");
    /// Subscriptions that see the private link service, separated by spaces; `*` for all.
    pub LINK_VISIBILITY: String = "azure-pls-visibility", reaches("show the Service to any subscription");
    /// Subscriptions whose private endpoints are approved at once, separated by spaces.
    pub LINK_AUTO_APPROVAL: String = "azure-pls-auto-approval",
        reaches("connect private endpoints of any subscription to the Service");
    /// Protocol of health probes.
    pub PROBE_PROTOCOL: ProbeProtocol = "azure-load-balancer-health-probe-protocol", default_description("`tcp`");
    /// Seconds between two health probes.
    pub PROBE_INTERVAL: u32 = "azure-load-balancer-health-probe-interval", kind(Kind::number(5, 119)), default("5");
    /// Number of probes after which the state of a Node changes.
    pub PROBE_COUNT: u32 = "azure-load-balancer-health-probe-num-of-probe", kind(Kind::number(2, 23)), default("2");
    /// Path of HTTP probes.
    pub PROBE_PATH: String = "azure-load-balancer-health-probe-request-path", default("/");
}

/// The keys of a port, after `port_<number>_`.
pub(crate) const OF_PORT: [&str; 7] = [
    "no_lb_rule",
    "no_probe_rule",
    "health-probe_protocol",
    "health-probe_port",
    "health-probe_interval",
    "health-probe_num-of-probe",
    "health-probe_request-path",
];

/// Annotations that are refused, each with the reason.
pub(crate) const REFUSED: [(&str, &str); 1] = [(
    "azure-load-balancer-mode",
    "only the set of machines of primaryAvailabilitySetName or primaryScaleSetName has a load balancer",
)];
