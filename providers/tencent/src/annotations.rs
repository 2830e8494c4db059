//! The annotations of a Service. docs/providers/tencent.md is generated from these declarations.

use std::collections::BTreeMap;

use cloud_provider::Service;
use provider_kit::declared::{Kind, Value as Declared, forms};
use provider_kit::node_selector::NodeSelector;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The beginnings of annotations of this cloud: a key with one of them that is not declared is a spelling mistake. Other
/// keys of `service.kubernetes.io` are those of Kubernetes.
pub const PREFIXES: [&str; 7] = [
    "service.beta.kubernetes.io/tencentcloud-loadbalancer-",
    "service.cloud.tencent.com/",
    "service.kubernetes.io/loadbalance-",
    "service.kubernetes.io/local-svc-",
    "service.kubernetes.io/qcloud-",
    "service.kubernetes.io/service.",
    "service.kubernetes.io/tke-",
];

const CLASSIC: Kind<bool> = Kind::of("`classic` or `application`", |text| Some(text == "classic"));
const PRIVATE: Kind<bool> = Kind::one_of(&[("public", false), ("private", true)]);
const LEGACY_KIND: Kind<bool> = Kind::of(
    "`classic`, `yunapi_clb` or `yunapiv3_forward_clb`",
    |text| Some(text == "classic" || text == "yunapi_clb"),
);
const LB_NAME: Kind<String> = Kind::of("a name of 1 to 80 characters", |text| {
    (1..=80)
        .contains(&text.chars().count())
        .then(|| text.to_owned())
});
const ID_FORM: Kind<String> = Kind::of("an ID such as lb-5jvk1pzr", |text| {
    is_id(text, "lb-").then(|| text.to_owned())
});
const SUBNET_FORM: Kind<String> = Kind::of("an ID such as subnet-3lzrkspo", |text| {
    (text.is_empty() || is_id(text, "subnet-")).then(|| text.to_owned())
});
const CHARGES: [&str; 3] = [
    "TRAFFIC_POSTPAID_BY_HOUR",
    "BANDWIDTH_POSTPAID_BY_HOUR",
    "BANDWIDTH_PACKAGE",
];
const CHARGE_FORM: Kind<String> = Kind::of(
    "one of TRAFFIC_POSTPAID_BY_HOUR, BANDWIDTH_POSTPAID_BY_HOUR, BANDWIDTH_PACKAGE",
    |text| CHARGES.contains(&text).then(|| text.to_owned()),
);
const GROUPS: Kind<Vec<String>> =
    Kind::of("a comma list of 1 to 5 IDs of security groups", |text| {
        let all: Vec<_> = forms::items(text).map(str::to_owned).collect();
        ((1..=5).contains(&all.len()) && all.iter().all(|id| is_id(id, "sg-"))).then_some(all)
    });
const SUBNETS: &str = "create an internal load balancer in any subnet of the VPC";
const SKIP: Kind<bool> = Kind::of("`skip`", |text| Some(text == "skip"));

/// Maximum length of the ID of a resource, in bytes.
const LONGEST_ID: usize = 64;

fn is_id(text: &str, prefix: &str) -> bool {
    let is_plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LONGEST_ID && text.strip_prefix(prefix).is_some_and(is_plain)
}

/// A JSON object with parameters of a request, as an annotation has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Json(pub Map<String, Value>);

impl Declared for Json {
    const KIND: Kind<Self> = Kind::explained("a JSON object", |text| {
        serde_json::from_str(text)
            .map(Self)
            .map_err(|error| error.to_string())
    });
}

/// Protocols of the load balancer by port of the Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Protocols(pub BTreeMap<u16, PortProtocols>);

/// Protocols of one port.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct PortProtocols {
    /// Names of the protocols.
    #[serde(default)]
    pub protocol: Vec<String>,
    /// Name of the Secret with the ID of the certificate.
    pub tls: Option<String>,
}

impl Declared for Protocols {
    const KIND: Kind<Self> = Kind::explained(
        "a JSON object such as {\"443\": {\"protocol\": [\"TCP_SSL\"], \"tls\": \"<Secret>\"}}",
        |text| {
            let all: BTreeMap<String, PortProtocols> =
                serde_json::from_str(text).map_err(|error| error.to_string())?;
            let port = |(port, protocols): (String, PortProtocols)| {
                let number = port.parse().map_err(|_| format!("{port:?} is no port"))?;
                Ok::<_, String>((number, protocols))
            };
            all.into_iter()
                .map(port)
                .collect::<Result<_, _>>()
                .map(Self)
        },
    );
}

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ALL: "";

    /// Accepted: new load balancers are always of the kind `application`. An existing one of the kind `classic` is kept.
    pub LB_KIND: bool = "service.beta.kubernetes.io/tencentcloud-loadbalancer-kind", kind(CLASSIC), default("application");
    /// Network of the load balancer. When it changes, the Service gets another load balancer with another address. Another
    /// value is a mistake.
    pub TYPE: bool = "service.beta.kubernetes.io/tencentcloud-loadbalancer-type", kind(PRIVATE), default("public");
    /// Subnet of an internal load balancer, required for `private`. When it changes, the Service gets another load
    /// balancer with another address.
    pub SUBNET: String = "service.beta.kubernetes.io/tencentcloud-loadbalancer-type-internal-subnet-id", kind(SUBNET_FORM),
        reaches(SUBNETS);
    /// Name of a new load balancer. A name that is generated for another Service is a mistake.
    pub LB_NAME_KEY: String = "service.beta.kubernetes.io/tencentcloud-loadbalancer-name", kind(LB_NAME), default_description("`<cluster>_<namespace>_<name>`"),
        reaches("take a name that somebody else wants");
    /// ID of the load balancer of the Service. Written by the program; do not change it.
    pub ID: String = "service.kubernetes.io/loadbalance-id", kind(ID_FORM), lenient(),
        reaches("keep younger Services from a load balancer without an owner that it names");
    /// Subnet of an internal load balancer; like `type: private` with this subnet.
    pub TKE_SUBNET: String = "service.kubernetes.io/qcloud-loadbalancer-internal-subnetid", kind(SUBNET_FORM), reaches(SUBNETS);
    /// ID of a load balancer of yours that the Service uses. It is never deleted; only listeners of the Service change.
    pub EXISTING: String = "service.kubernetes.io/tke-existed-lbid", kind(ID_FORM),
        reaches("add listeners to any load balancer of the VPC that has no owner");
    /// Charge type of the traffic of a new public load balancer. A later change has no effect, and an event says so.
    pub CHARGE: String = "service.kubernetes.io/qcloud-loadbalancer-internet-charge-type", kind(CHARGE_FORM), default_description("the cloud's"),
        aliases(&["kubernetes.io/service.internetChargeType"]);
    /// Bandwidth of a public load balancer in Mbps.
    pub BANDWIDTH: u32 = "service.kubernetes.io/qcloud-loadbalancer-internet-max-bandwidth-out", kind(Kind::number(1, 2048)), default_description("the cloud's"), costs("pay for up to 2048 Mbps"),
        aliases(&["kubernetes.io/service.internetMaxBandwidthOut"]);
    /// Further parameters of the request `CreateLoadBalancer`, such as `{"AddressIPVersion": "IPV6"}`, and further tags:
    /// `{"Tags": [{"TagKey": "team", "TagValue": "shop"}]}`. [Some are accepted](#further-parameters).
    pub EXTENSIVE: Json = "service.kubernetes.io/service.extensiveParameters",
        reaches("use any EIP, bandwidth package and subnet of the account, and pay for any size");
    /// Further parameters of listeners, such as `{"Scheduler": "LEAST_CONN"}`. [Some are accepted](#further-parameters).
    pub LISTENER: Json = "service.kubernetes.io/service.listenerParameters";
    /// Security groups of the load balancer. Not with `tke-existed-lbid`.
    pub SECURITY_GROUPS: Vec<String> = "service.cloud.tencent.com/security-groups", kind(GROUPS), reaches("use any security group of the account");
    /// Traffic is checked by the security groups of the load balancer alone, and not by those of the Nodes. Not with
    /// `tke-existed-lbid`.
    pub PASS_TO_TARGET: bool = "service.cloud.tencent.com/pass-to-target", default_description("`true` with source ranges"),
        reaches("lead its traffic past the security groups of the Nodes");
    /// Protects the load balancer against deletion by others.
    pub PROTECTION: bool = "service.cloud.tencent.com/modification-protection";
    /// Selector of the Nodes that are targets.
    pub BACKENDS: NodeSelector = "service.kubernetes.io/qcloud-loadbalancer-backends-label";
    /// With `externalTrafficPolicy: Local`: only Nodes with a ready Pod are targets. UDP ports always have only those,
    /// because their health check does not notice that a Node has no Pod.
    pub LOCAL_NODES: bool = "service.kubernetes.io/local-svc-only-bind-node-with-pod", default("false");
    /// With `local-svc-only-bind-node-with-pod`: the weight of a Node is its number of ready Pods.
    pub LOCAL_WEIGHTS: bool = "service.cloud.tencent.com/local-svc-weighted-balance", default("false");
    /// Targets are Pods with addresses in the VPC, instead of Nodes.
    pub DIRECT: bool = "service.cloud.tencent.com/direct-access", default("false"),
        reaches("lead traffic to any address of the VPC, if the author may write EndpointSlices");
    /// With `direct-access`: terminating Pods stay targets with weight 0.
    pub GRACE: bool = "service.cloud.tencent.com/enable-grace-shutdown", default("false");
    /// Protocols by port: `TCP`, `UDP`, `TCP_SSL`. The Secret of `tls` has the ID of the certificate in `qcloud_cert_id`.
    pub PROTOCOLS: Protocols = "service.cloud.tencent.com/specify-protocol",
        reaches("use any certificate of the account, by a Secret of its namespace");
    /// `skip` leaves the Service to another controller.
    pub MODE: bool = "service.cloud.tencent.com/mode", kind(SKIP);
    /// Not supported: has no effect, and an event says so.
    pub TKE_CONFIG: String = "service.cloud.tencent.com/tke-service-config";
    /// Not supported: has no effect, and an event says so.
    pub TKE_CONFIG_AUTO: bool = "service.cloud.tencent.com/tke-service-config-auto", lenient();
    /// Deprecated form of `tencentcloud-loadbalancer-kind`.
    pub OLD_KIND: bool = "service.kubernetes.io/loadbalance-type", kind(LEGACY_KIND);
    /// Written by the service controller of TKE: token of its creations. Not read.
    pub TKE_TOKEN: String = "service.cloud.tencent.com/client-token";
    /// Written by the service controller of TKE: start of its last sync. Not read.
    pub TKE_SYNC_BEGIN: String = "service.cloud.tencent.com/sync-begin-time";
    /// Written by the service controller of TKE: end of its last sync. Not read.
    pub TKE_SYNC_END: String = "service.cloud.tencent.com/sync-end-time";
    /// Written by the service controller of TKE: result of its last sync. Not read.
    pub TKE_STATUS: String = "service.cloud.tencent.com/status.conditions";
    /// Written by the service controller of TKE: the endpoints that it reads. Not read.
    pub TKE_ENDPOINTS: String = "service.cloud.tencent.com/loadbalancer-source-endpoints";
    /// Written by the service controller of TKE: IPv6 address of the load balancer. Not read.
    pub TKE_IPV6: String = "service.kubernetes.io/loadbalance-nat-ipv6";
}

/// Returns the ID of the load balancer of yours that a Service names.
#[must_use]
pub fn existing(service: &Service) -> Option<String> {
    EXISTING
        .text_on(service)
        .map(str::trim)
        .filter(|id| is_id(id, "lb-"))
        .map(str::to_owned)
}

/// Returns `true` if the Service wants an internal load balancer.
#[must_use]
pub fn is_internal(service: &Service) -> bool {
    TYPE.text_on(service)
        .is_some_and(|text| text.trim() == "private")
        || TKE_SUBNET
            .text_on(service)
            .is_some_and(|text| !text.trim().is_empty())
}

/// Returns the subnet of the internal load balancer that a Service wants.
#[must_use]
pub fn internal_subnet(service: &Service) -> Option<&str> {
    let subnets =
        [&TKE_SUBNET, &SUBNET].map(|declaration| declaration.text_on(service).map(str::trim));
    subnets
        .into_iter()
        .flatten()
        .find(|subnet| is_id(subnet, "subnet-"))
}
