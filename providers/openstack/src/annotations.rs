//! The annotations of a Service. docs/providers/openstack.md is generated from these declarations.
//!
//! A truth value or a number that cannot be read is a warning, and the default holds: the Go cloud-controller-manager created load
//! balancers so, and they must not change with the program. An empty text cancels the value of the configuration ([`text`]).

use std::time::Duration;

use cloud_provider::Service;
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::declared::{Kind, Value};

use crate::keys;

/// Protocol that tells targets the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// No such protocol.
    Off,
    /// Version 1 of the PROXY protocol.
    V1,
    /// Version 2 of the PROXY protocol.
    V2,
}

impl Value for ProxyProtocol {
    const KIND: Kind<Self> =
        Kind::one_of(&[("false", Self::Off), ("true", Self::V1), ("v1", Self::V1), ("v2", Self::V2)]).verbatim();
}

/// Exactly these two words, as in the Go cloud-controller-manager.
const TRUTH: Kind<bool> = Kind::one_of(&[("true", true), ("false", false)]).verbatim();
const SECONDS: Kind<Duration> = Kind::of("a whole number of seconds", |text| {
    text.parse().ok().map(|seconds: u32| Duration::from_secs(seconds.into()))
})
.verbatim();
/// Range of Octavia: up to 365 days.
const MILLISECONDS: Kind<u64> = Kind::number(0, 31_536_000_000).verbatim();
const RETRIES: Kind<u16> = Kind::number(1, 10).verbatim();

/// Prefix of nearly all keys.
pub const PREFIX: &str = "loadbalancer.openstack.org/";
/// Prefix of [`INTERNAL`].
pub const INTERNAL_PREFIX: &str = "service.beta.kubernetes.io/openstack-";

provider_kit::declare! {
    /// The annotation with another prefix.
    pub INTERNAL_ONES: "service.beta.kubernetes.io/";

    /// The load balancer gets no floating IP. With `internal-lb = true` in the configuration it never gets one.
    pub INTERNAL: bool = "openstack-internal-load-balancer", kind(TRUTH), otherwise("`internal-lb`"), lenient();
}

provider_kit::declare! {
    /// The annotations that begin with [`PREFIX`], in the order of the reference page.
    pub ALL: "loadbalancer.openstack.org/";

    /// Name of a `[LoadBalancerClass "name"]` of the configuration, which says where things are.
    pub CLASS: String = "class";
    /// Id of the network that floating IPs come from; counts only if the class has none.
    pub FLOATING_NETWORK_ID: String = "floating-network-id", or(&keys::FLOATING_NETWORK_ID), otherwise("`floating-network-id`, else the first external one");
    /// Id of the subnet that the floating IP comes from; it must be in that network. Counts, as the next two, only if the class has none of the three.
    pub FLOATING_SUBNET_ID: String = "floating-subnet-id", otherwise("`floating-subnet-id`");
    /// The floating IP comes from a subnet with such a name: a glob, or `~` and a regular expression; a leading `!` means the others.
    pub FLOATING_SUBNET: String = "floating-subnet", otherwise("`floating-subnet`");
    /// The floating IP comes from a subnet with one of these tags (a comma list); after `&` with all of them. A leading `!` negates that: `!a,b` takes a subnet with neither tag, `!&a,b` one that lacks at least one of them.
    pub FLOATING_SUBNET_TAGS: String = "floating-subnet-tags", otherwise("`floating-subnet-tags`");
    /// Id of the subnet of the VIP. Read when the load balancer is made; the class goes before it unless that is internal.
    pub SUBNET_ID: String = "subnet-id", or(&keys::CLASS_SUBNET_ID), otherwise("the class, `subnet-id`, else the subnet of the first Node");
    /// Id of the network of the VIP. Read when the load balancer is made; the class goes before it unless that is internal.
    pub NETWORK_ID: String = "network-id", or(&keys::CLASS_NETWORK_ID), otherwise("the class, `network-id`");
    /// Id of the subnet that members are put in.
    pub MEMBER_SUBNET_ID: String = "member-subnet-id", or(&keys::CLASS_MEMBER_SUBNET_ID), otherwise("the class, `member-subnet-id`, else the subnet of the VIP");
    /// Id of a Neutron port that becomes the port of the VIP; subnet and network do not count then. Read when the load balancer is made.
    pub PORT_ID: String = "port-id";
    /// Id of the load balancer. Written by this program; on another Service it shares that load balancer.
    pub LOAD_BALANCER_ID: String = "load-balancer-id";
    /// The address that is published. Written by this program.
    pub LOAD_BALANCER_ADDRESS: String = "load-balancer-address";
    /// The Service's status is this name alone, without addresses.
    pub HOSTNAME: String = "hostname";
    /// The floating IP stays when the Service is deleted.
    pub KEEP_FLOATINGIP: bool = "keep-floatingip", kind(TRUTH), default("false"), lenient();
    /// Tells members the client's address by the PROXY protocol; they must expect it. Not together with `x-forwarded-for`.
    pub PROXY_PROTOCOL: ProxyProtocol = "proxy-protocol", default("false"), lenient();
    /// Listeners speak HTTP, and tell members the client's address in the header `X-Forwarded-For`.
    pub X_FORWARDED_FOR: bool = "x-forwarded-for", kind(TRUTH), default("false"), lenient();
    /// Reference of a container or secret in Barbican; listeners end TLS with it.
    pub DEFAULT_TLS_CONTAINER_REF: String = "default-tls-container-ref", or(&keys::DEFAULT_TLS_CONTAINER_REF);
    /// How many connections a listener takes at once; `-1`: any number.
    pub CONNECTION_LIMIT: i32 = "connection-limit", kind(Kind::number(-1, 2_147_483_647).verbatim()), default("-1"), lenient();
    /// How a member is chosen: `ROUND_ROBIN`, `LEAST_CONNECTIONS`, `SOURCE_IP` or `SOURCE_IP_PORT`. Another one is an event, and the
    /// configured one holds.
    pub LB_METHOD: String = "lb-method", otherwise("`lb-method`");
    /// After so many milliseconds without data from the client a connection is closed. Not with `ovn`; nor are the other three.
    pub TIMEOUT_CLIENT_DATA: u64 = "timeout-client-data", kind(MILLISECONDS), default("50000"), lenient();
    /// So many milliseconds a connection to a member may take.
    pub TIMEOUT_MEMBER_CONNECT: u64 = "timeout-member-connect", kind(MILLISECONDS), default("5000"), lenient();
    /// After so many milliseconds without data from the member a connection is closed.
    pub TIMEOUT_MEMBER_DATA: u64 = "timeout-member-data", kind(MILLISECONDS), default("50000"), lenient();
    /// So many milliseconds are waited for more data to inspect.
    pub TIMEOUT_TCP_INSPECT: u64 = "timeout-tcp-inspect", kind(MILLISECONDS), default("0"), lenient();
    /// Octavia flavor of the load balancer. Read when it is made. Not with `ovn`.
    pub FLAVOR_ID: String = "flavor-id", or(&keys::FLAVOR_ID);
    /// Octavia availability zone of the load balancer. Read when it is made. Not with `ovn`.
    pub AVAILABILITY_ZONE: String = "availability-zone", or(&keys::AVAILABILITY_ZONE);
    /// Members are checked.
    pub ENABLE_HEALTH_MONITOR: bool = "enable-health-monitor", kind(TRUTH), otherwise("`create-monitor`"), lenient();
    /// How often a member is checked.
    pub HEALTH_MONITOR_DELAY: Duration = "health-monitor-delay", kind(SECONDS), or(&keys::MONITOR_DELAY), lenient();
    /// How long a check may take.
    pub HEALTH_MONITOR_TIMEOUT: Duration = "health-monitor-timeout", kind(SECONDS), or(&keys::MONITOR_TIMEOUT), lenient();
    /// How many good checks make a member good.
    pub HEALTH_MONITOR_MAX_RETRIES: u16 = "health-monitor-max-retries", kind(RETRIES),
        or(&keys::MONITOR_MAX_RETRIES), lenient();
    /// How many failed checks make a member bad.
    pub HEALTH_MONITOR_MAX_RETRIES_DOWN: u16 = "health-monitor-max-retries-down", kind(RETRIES),
        or(&keys::MONITOR_MAX_RETRIES_DOWN), lenient();
    /// Only these Nodes are members: a comma list of `label=value`, or `label` alone if its value does not matter.
    pub NODE_SELECTOR: String = "node-selector", or(&keys::NODE_SELECTOR);
}

/// Returns the annotation if it is set, else the value of the configuration; an empty text is none.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::declared::Defaults;
/// use provider_openstack::annotations::{FLAVOR_ID, annotations_of, text};
/// use provider_openstack::keys;
///
/// let configuration = Defaults::default().set(keys::FLAVOR_ID.key(), "small");
/// let mut service = Service::default();
/// assert_eq!(text(&mut annotations_of(&service).over(&configuration), &FLAVOR_ID), Some("small".to_owned()));
/// service.metadata.annotations = Some([(FLAVOR_ID.key().to_owned(), String::new())].into());
/// assert_eq!(text(&mut annotations_of(&service).over(&configuration), &FLAVOR_ID), None);
/// ```
pub fn text(read: &mut Annotations<'_>, annotation: &Annotation<String>) -> Option<String> {
    read.get(annotation).filter(|text| !text.is_empty())
}

/// Returns the annotations of a Service, to be read. Unknown keys that begin with [`PREFIX`] are warned of.
#[must_use]
pub fn annotations_of(service: &Service) -> Annotations<'_> {
    let mut annotations = Annotations::of(service);
    annotations.unknown(PREFIX, ALL);
    annotations.unknown(INTERNAL_PREFIX, INTERNAL_ONES);
    annotations
}
