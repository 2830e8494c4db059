//! The annotations of a Service. docs/providers/alibaba.md is generated from these declarations.

use std::collections::BTreeMap;

use cloud_provider::Service;
use provider_kit::addresses::AddressFamily;
use provider_kit::annotations::Annotations;
use provider_kit::declared::{Kind, Value as Declared, forms};
use provider_kit::node_selector::NodeSelector;
use serde::Serialize;
use serde_json::{Value, json};

/// Prefix of the annotations of load balancers.
pub const PREFIX: &str = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-";
/// Prefix of the same annotations in old manifests. The other one has precedence.
pub const OLD_PREFIX: &str = "service.beta.kubernetes.io/alicloud-loadbalancer-";
/// The class of Services that get an NLB.
pub const NLB_CLASS: &str = "alibabacloud.com/nlb";
/// The label with the ID of the load balancer, which the Go program writes to Services.
pub const ID_LABEL: &str = "service.k8s.alibaba/loadbalancer-id";

const ON: Kind<String> = Kind::of("on or off", |text| {
    ["on", "off"].contains(&text).then(|| text.to_owned())
});
const TRUTH: Kind<bool> = Kind::one_of(&[
    ("on", true),
    ("off", false),
    ("true", true),
    ("false", false),
]);
const ADDRESS: Kind<String> = Kind::of("internet or intranet", |text| {
    ["internet", "intranet"]
        .contains(&text)
        .then(|| text.to_owned())
});
const NETWORK: Kind<String> = Kind::of("vpc or classic", |text| {
    ["vpc", "classic"].contains(&text).then(|| text.to_owned())
});
const SCHEDULER: Kind<String> = Kind::of("one of rr, wrr, wlc, sch, tch, qch", |text| {
    let text = text.to_ascii_lowercase();
    ["rr", "wrr", "wlc", "sch", "tch", "qch"]
        .contains(&&*text)
        .then_some(text)
});
const TYPE: Kind<bool> = Kind::one_of(&[("clb", false), ("nlb", true)]);
const BACKEND: Kind<bool> = Kind::one_of(&[("ecs", false), ("eni", true)]);
const GROUP_TYPE: Kind<String> = Kind::of("Instance or Ip", |text| {
    ["Instance", "Ip"].contains(&text).then(|| text.to_owned())
});
const FAMILY: Kind<AddressFamily> = Kind::of("one of ipv4, ipv6, dualstack", |text| {
    let all = [
        AddressFamily::Ipv4,
        AddressFamily::Ipv6,
        AddressFamily::Dualstack,
    ];
    let at = ["ipv4", "ipv6", "dualstack"]
        .iter()
        .position(|dualstack| text.eq_ignore_ascii_case(dualstack));
    at.map(|at| all[at])
});
const CERTIFICATES: &str = "use any certificate of the account";
const WEIGHT: Kind<u32> = Kind::number(0, 100);
const DRAIN: Kind<u32> = Kind::number(10, 900);
const DOMAIN: Kind<Vec<String>> = Kind::of(
    "a comma list of domain:certificate, each domain once",
    |text| {
        let parts = |item: &str| {
            let (domain, certificate) = item.split_once(':')?;
            let [domain, certificate] = [domain, certificate].map(str::trim);
            let is_whole =
                !domain.is_empty() && !certificate.is_empty() && !certificate.contains(':');
            is_whole.then(|| (domain.to_owned(), certificate.to_owned()))
        };
        let all: Vec<_> = forms::items(text).map(parts).collect::<Option<_>>()?;
        let domains: BTreeMap<_, _> = all.iter().cloned().collect();
        (domains.len() == all.len()).then(|| {
            all.iter()
                .map(|(domain, id)| format!("{domain}:{id}"))
                .collect()
        })
    },
);
const LABELS: Kind<NodeSelector> = Kind::explained("a comma list of key=value", |text| {
    match forms::items(text).all(|item| item.contains('=')) {
        true => NodeSelector::parse(text),
        false => Err("each item needs a key and a value".to_owned()),
    }
});
/// Values that an annotation gives to ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ByPort<T>(pub BTreeMap<u16, T>);

/// Ports with protocols, such as `https:443`.
impl Declared for ByPort<String> {
    const KIND: Kind<Self> = Kind::of("a comma list of protocol:port", |text| {
        let pair = |item: &str| {
            let (protocol, port) = item.split_once(':')?;
            let protocol = protocol.trim().to_ascii_lowercase();
            let is_known = ["tcp", "udp", "http", "https", "tcpssl"].contains(&&*protocol);
            Some((port.trim().parse().ok()?, protocol)).filter(|_| is_known)
        };
        forms::items(text)
            .map(pair)
            .collect::<Option<_>>()
            .map(Self)
    });
}

/// Ports that redirect to ports.
impl Declared for ByPort<u16> {
    const KIND: Kind<Self> = Kind::of("a comma list of port:port", |text| {
        let pair = |item: &str| {
            let (from, to) = item.split_once(':')?;
            Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
        };
        forms::items(text)
            .map(pair)
            .collect::<Option<_>>()
            .map(Self)
    });
}

/// Server groups of the user, by the port of the Service.
impl Declared for ByPort<Group> {
    const KIND: Kind<Self> = Kind::of("a comma list of group:port", |text| {
        let pair = |item: &str| {
            let (group, port) = item.split_once(':')?;
            let group =
                Some(group.trim()).filter(|id| id.starts_with("rsp-") || id.starts_with("sgp-"))?;
            Some((port.trim().parse().ok()?, Group(group.to_owned())))
        };
        forms::items(text)
            .map(pair)
            .collect::<Option<_>>()
            .map(Self)
    });
}

/// Ports that one listener of an NLB takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Range {
    /// First port of the range, at least 1.
    pub first: u16,
    /// Last port of the range, which is greater than the first.
    pub last: u16,
}

/// Ranges of ports, by the port of the Service.
impl Declared for ByPort<Range> {
    const KIND: Kind<Self> = Kind::of(
        "a comma list of first-last:port, such as 1000-2000:80",
        |text| {
            let pair = |item: &str| {
                let (range, port) = item.split_once(':')?;
                let (first, last) = range.split_once('-')?;
                let range = Range {
                    first: first.trim().parse().ok()?,
                    last: last.trim().parse().ok()?,
                };
                Some((port.trim().parse().ok()?, range))
                    .filter(|_| 0 < range.first && range.first < range.last)
            };
            forms::items(text)
                .map(pair)
                .collect::<Option<_>>()
                .map(Self)
        },
    );
}

/// ID of a server group of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Group(pub String);

/// Zones of an NLB, as its API takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Zones(pub Vec<Value>);

impl Declared for Zones {
    const KIND: Kind<Self> = Kind::of(
        "a comma list of zone:vswitch, or zone:vswitch:address:EIP",
        |text| {
            let zone = |item: &str| {
                let mut parts = item
                    .split(':')
                    .map(|part| Some(part.trim()).filter(|text| !text.is_empty()));
                let [zone, vswitch, address, eip] = std::array::from_fn(|_| parts.next().flatten());
                let all = [
                    ("ZoneId", Some(zone?)),
                    ("VSwitchId", Some(vswitch?)),
                    ("PrivateIPv4Address", address),
                    ("AllocationId", eip),
                ];
                Some(
                    all.into_iter()
                        .filter_map(|(key, value)| Some((key, json!(value?))))
                        .collect::<Value>(),
                )
            };
            forms::items(text)
                .map(zone)
                .collect::<Option<_>>()
                .map(Self)
        },
    );
}

provider_kit::declare! {
    /// The annotations of load balancers, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-";

    /// Kind of load balancer: `clb` or `nlb`. Needs the feature gate `LoadBalancerTypeAnnotation`.
    pub BALANCER_TYPE: bool = "type", kind(TYPE), default("clb");
    /// CLB: leaves the Service to the controller of tunnels; any value.
    pub TUNNEL: String = "tunnel-type";
    /// ID of your own load balancer, which the Service uses. The load balancer is never deleted, and keeps its settings.
    pub ID: String = "id", reaches("use any load balancer of the region that Kubernetes did not create");
    /// Creates, changes and deletes listeners of your own load balancer.
    pub OVERRIDE: bool = "force-override-listeners", default("false"), reaches("take over and delete listeners of a load balancer that Kubernetes did not create");
    /// Name of the load balancer. A name that is generated for another Service is a mistake.
    pub LB_NAME: String = "name", default_description("`a` and the UID of the Service"), reaches("take a name that somebody else wants");
    /// Resource group. A later change is refused.
    pub RESOURCE_GROUP: String = "resource-group-id", default_description("`Global.resourceGroupID`"), reaches("create a load balancer in any resource group");
    /// Further tags. A tag that is removed from the annotation is removed from the load balancer; tags of others stay.
    pub TAGS: BTreeMap<String, String> = "additional-resource-tags", reaches("set any tag except owner tags");
    /// `internet` for a public address, `intranet` for one of the VPC. A CLB refuses a later change.
    pub ADDRESS_TYPE: String = "address-type", kind(ADDRESS), default("internet");
    /// IP version: `ipv4` or `ipv6` (CLB), `ipv4` or `DualStack` (NLB). A later change is refused.
    pub IP_VERSION: String = "ip-version";
    /// NLB: `internet` or `intranet` for IPv6 addresses.
    pub IPV6_ADDRESS: String = "ipv6-address-type", kind(ADDRESS);
    /// CLB: payment for traffic, `paybytraffic` or `paybybandwidth`.
    pub CHARGE: String = "charge-type";
    /// CLB: bandwidth in Mbit/s, with `paybybandwidth` only.
    pub BANDWIDTH: u32 = "bandwidth", costs("pay for any bandwidth");
    /// CLB: `PayByCLCU` or `PayBySpec`.
    pub INSTANCE_CHARGE: String = "instance-charge-type", default_description("`PayByCLCU`"), costs("pay for a load balancer of any size");
    /// CLB: specification with `PayBySpec`, such as `slb.s1.small`.
    pub SPEC: String = "spec", costs("pay for a load balancer of any size");
    /// CLB: vSwitch of an internal load balancer.
    pub VSWITCH: String = "vswitch-id", default_description("one of `Global.vswitchid`"), reaches("create a load balancer in any vSwitch of the VPC");
    /// CLB: primary zone of a new load balancer.
    pub MASTER_ZONE: String = "master-zoneid";
    /// CLB: secondary zone of a new load balancer.
    pub SLAVE_ZONE: String = "slave-zoneid";
    /// CLB: private address of an internal load balancer.
    pub ADDRESS_IP: String = "ip", reaches("take any free address of the vSwitch");
    /// CLB: network of an internal load balancer: `vpc`, or `classic` without a vSwitch. A later change is refused.
    pub NETWORK_TYPE: String = "network-type", kind(NETWORK), default_description("`vpc`");
    /// NLB: zones with their vSwitches; required.
    pub ZONE_MAPS: Zones = "zone-maps", reaches("use any vSwitch of the VPC, any free address in it and any EIP of the account");
    /// NLB: security groups of yours. An empty list removes all.
    pub SECURITY_GROUPS: Vec<String> = "security-group-ids", reaches("use any security group of the VPC");
    /// NLB: shared bandwidth package.
    pub BANDWIDTH_PACKAGE: String = "bandwidth-package-id", reaches("use any bandwidth package of the region");
    /// NLB: balances across zones.
    pub CROSS_ZONE: bool = "cross-zone-enabled", kind(TRUTH);
    /// CLB: protection against deletion.
    pub DELETE_PROTECTION: String = "delete-protection", kind(ON), default_description("`on` when it is created");
    /// CLB: protection against changes in the console, `ConsoleProtection` or `NonProtection`.
    pub MODIFICATION_PROTECTION: String = "modification-protection", default_description("`ConsoleProtection` when it is created");
    /// Keeps the load balancer when the Service is deleted; any value.
    pub PRESERVE: String = "preserve-lb-on-delete", costs("leave a billed load balancer behind");
    /// CLB: `eip` shows the EIP that is bound to the load balancer.
    pub EXTERNAL_IP_TYPE: String = "external-ip-type";
    /// CLB: host name that the Service shows instead of an address.
    pub HOSTNAME: String = "hostname", reaches("show any host name in the status of its Service");
    /// Protocols of ports: `https:443,http:80` (CLB), `tcpssl:443` (NLB).
    pub PROTOCOL_PORT: ByPort<String> = "protocol-port", default_description("those of the Service");
    /// NLB: ranges of ports that lead to the same ports of Pods, instead of ports of the Service: `1000-2000:80`. Needs the annotation `service.beta.kubernetes.io/backend-type: eni`.
    pub PORT_RANGES: ByPort<Range> = "listener-port-range", decides_targets();
    /// Certificate of HTTPS listeners; of TCPSSL listeners, a list.
    pub CERTIFICATE: Vec<String> = "cert-id", reaches(CERTIFICATES);
    /// TLS policy of HTTPS and TCPSSL listeners.
    pub TLS_POLICY: String = "tls-cipher-policy";
    /// CLB: further certificates of HTTPS listeners, by domain. An empty list removes all.
    pub DOMAINS: Vec<String> = "domain-extensions", kind(DOMAIN), reaches(CERTIFICATES);
    /// NLB: further certificates of TCPSSL listeners. An empty list removes all.
    pub ADDITIONAL_CERTIFICATES: Vec<String> = "additional-cert-ids", reaches(CERTIFICATES);
    /// CLB: HTTP/2 on HTTPS listeners.
    pub HTTP2: String = "http2-enabled", kind(ON);
    /// NLB: CA certificates for TLS of clients.
    pub CA_CERTIFICATES: Vec<String> = "cacert-id", reaches("use any CA certificate of the account");
    /// NLB: checks certificates of clients.
    pub CA_ENABLED: bool = "cacert", kind(TRUTH);
    /// NLB: ALPN on TCPSSL listeners.
    pub ALPN: bool = "alpn", kind(TRUTH);
    /// NLB: ALPN policy, such as `HTTP2Optional`.
    pub ALPN_POLICY: String = "alpn-policy";
    /// NLB: new connections in a second.
    pub CPS: u32 = "cps";
    /// CLB: HTTP ports that redirect to HTTPS ports: `80:443`.
    pub FORWARD: ByPort<u16> = "forward-port";
    /// Scheduling algorithm. CLB: `rr`, `wrr`; NLB also `wlc`, `sch`, `tch`, `qch`.
    pub SCHEDULING: String = "scheduler", kind(SCHEDULER);
    /// Sends the address of the client by the PROXY protocol.
    pub PROXY: bool = "proxy-protocol", kind(TRUTH);
    /// NLB: sends the ID of the PrivateLink endpoint by the PROXY protocol.
    pub PROXY_ENDPOINT: bool = "ppv2-pvl-ep-id-enabled", kind(TRUTH);
    /// NLB: sends the ID of the PrivateLink endpoint service by the PROXY protocol.
    pub PROXY_SERVICE: bool = "ppv2-pvl-eps-id-enabled", kind(TRUTH);
    /// NLB: sends the ID of the client's VPC by the PROXY protocol.
    pub PROXY_VPC: bool = "ppv2-pvl-vpc-id-enabled", kind(TRUTH);
    /// Seconds until an idle connection ends.
    pub IDLE: u32 = "idle-timeout";
    /// CLB: seconds until a request over HTTP ends.
    pub REQUEST: u32 = "request-timeout";
    /// CLB: seconds until an established TCP connection without traffic ends.
    pub ESTABLISHED: u32 = "established-timeout", kind(DRAIN);
    /// CLB: seconds for which a client keeps its backend over TCP.
    pub PERSISTENCE: u32 = "persistence-timeout", kind(Kind::number(0, 3600));
    /// CLB: sticky sessions over HTTP.
    pub STICKY: String = "sticky-session", kind(ON);
    /// CLB: `insert` or `server`.
    pub STICKY_TYPE: String = "sticky-session-type";
    /// CLB: name of the cookie of `server`.
    pub COOKIE: String = "cookie";
    /// CLB: seconds of the cookie of `insert`.
    pub COOKIE_TIMEOUT: u32 = "cookie-timeout";
    /// Lets connections end before a backend is removed.
    pub DRAINING: String = "connection-drain", kind(ON);
    /// Seconds that connections have to end before a backend is removed.
    pub DRAINING_TIMEOUT: u32 = "connection-drain-timeout", kind(DRAIN);
    /// CLB: access control by a list.
    pub ACL_STATUS: String = "acl-status", kind(ON);
    /// CLB: IDs of access control lists.
    pub ACL: Vec<String> = "acl-id", reaches("use any access control list of the account");
    /// CLB: `white` or `black`.
    pub ACL_TYPE: String = "acl-type";
    /// CLB: header with the protocol of the listener.
    pub FORWARDED_PROTO: String = "xforwardedfor-proto", kind(ON);
    /// CLB: header with the port of the listener.
    pub FORWARDED_PORT: String = "xforwardedfor-slbport", kind(ON);
    /// CLB: header with the port of the client.
    pub FORWARDED_CLIENT: String = "xforwardedfor-clientsrcport", kind(ON);
    /// CLB: health check of TCP and UDP listeners.
    pub CHECK_SWITCH: String = "health-check-switch", kind(ON);
    /// Health check of HTTP listeners, and of NLB.
    pub CHECK_FLAG: String = "health-check-flag", kind(ON);
    /// Protocol of the health check: `tcp` or `http`.
    pub CHECK_TYPE: String = "health-check-type";
    /// Path of the health check over HTTP.
    pub CHECK_PATH: String = "health-check-uri";
    /// Host name of the health check over HTTP.
    pub CHECK_DOMAIN: String = "health-check-domain";
    /// Port of the health check.
    pub CHECK_PORT: u16 = "health-check-connect-port";
    /// Seconds between health checks.
    pub CHECK_INTERVAL: u32 = "health-check-interval";
    /// Seconds until a health check over TCP or UDP fails.
    pub CHECK_CONNECT: u32 = "health-check-connect-timeout";
    /// Seconds until a health check over HTTP fails.
    pub CHECK_TIMEOUT: u32 = "health-check-timeout";
    /// Good answers: `http_2xx,http_3xx`.
    pub CHECK_CODES: String = "health-check-httpcode";
    /// Method of the health check: `head` or `get`.
    pub CHECK_METHOD: String = "health-check-method";
    /// Successes until a backend counts as healthy.
    pub HEALTHY: u32 = "healthy-threshold", kind(Kind::number(2, 10));
    /// Failures until a backend counts as unhealthy.
    pub UNHEALTHY: u32 = "unhealthy-threshold", kind(Kind::number(2, 10));
    /// NLB: shows backends the address of the client.
    pub PRESERVE_IP: bool = "preserve-client-ip", kind(TRUTH);
    /// NLB: backends are instances or addresses.
    pub SERVER_GROUP: String = "server-group-type", kind(GROUP_TYPE), default("Instance"), decides_targets();
    /// Server groups of your own load balancer by ports: `rsp-1:80` (CLB), `sgp-1:80` (NLB). Other backends in them stay.
    /// A group of another load balancer, and one that Kubernetes created, is refused.
    pub GROUPS: ByPort<Group> = "vgroup-port", default_description("groups that are created"), decides_targets(), reaches("get traffic of any server group of the named load balancer that Kubernetes did not create");
    /// Weight of all backends together, in server groups of yours.
    pub WEIGHT_TOTAL: u32 = "weight", kind(WEIGHT), decides_targets(), reaches("choose its part of the traffic of a server group of others");
    /// Weight of each backend; with `externalTrafficPolicy: Local`, a Node has the number of its Pods.
    pub DEFAULT_WEIGHT: u32 = "default-weight", kind(WEIGHT), default("100"), decides_targets();
    /// Leaves weights of backends as they are.
    pub IGNORE_WEIGHT: bool = "ignore-weight-update", kind(TRUTH), default("off"), decides_targets();
    /// Labels of the Nodes that are backends.
    pub BACKEND_LABEL: NodeSelector = "backend-label", kind(LABELS), default_description("all Nodes"), decides_targets();
    /// IP version of Pods as backends. `ipv6` and `dualstack` need the feature gate `IPv6DualStack` and the annotation `ip-version`: `ipv6` (CLB), or `DualStack` (NLB).
    pub BACKEND_IP: AddressFamily = "backend-ip-version", kind(FAMILY), default("ipv4"), decides_targets();
    /// Removes cordoned Nodes from the backends.
    pub REMOVE_CORDONED: bool = "remove-unscheduled-backend", kind(TRUTH), default("off"), decides_targets();
}

provider_kit::declare! {
    /// Annotations without that prefix.
    pub OTHERS: "service.beta.kubernetes.io/";

    /// CLB: leaves the Service to the controller of this class.
    pub CLASS: String = "class";
    /// Kind of backends: `ecs` for instances with node ports, `eni` for network interfaces of Pods.
    pub BACKEND_TYPE: bool = "backend-type", kind(BACKEND), default_description("`Global.serviceBackendType`"), decides_targets(), reaches("lead traffic to any network interface of the VPC, if the author may write EndpointSlices");
}

/// Returns the Service with annotations of the old prefix under the new one.
pub(crate) fn with_new_prefix(service: &Service) -> Service {
    let mut service = service.clone();
    let all = service.metadata.annotations.get_or_insert_default();
    let old: Vec<_> = all
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(OLD_PREFIX)?.to_owned(), value.clone())))
        .collect();
    for (suffix, value) in old {
        all.entry(format!("{PREFIX}{suffix}")).or_insert(value);
    }
    service
}

/// Returns the server groups of the user that a Service names, by its ports.
pub(crate) fn groups_of(service: &Service) -> BTreeMap<u16, String> {
    let service = with_new_prefix(service);
    let groups = Annotations::of(&service).get(&GROUPS).unwrap_or_default().0;
    groups
        .into_iter()
        .map(|(port, Group(id))| (port, id))
        .collect()
}
