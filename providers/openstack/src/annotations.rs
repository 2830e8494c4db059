//! The annotations of a Service. docs/providers/openstack.md is generated from these declarations.
//!
//! An invalid truth value or number causes a warning, and the default applies: the Go cloud-controller-manager created
//! load balancers this way, and these must not change when ccm-rs takes over. The exception is [`INTERNAL`]. An empty text cancels the value of the
//! configuration ([`text`]).

use std::time::Duration;

use cloud_provider::Service;
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::declared::{Kind, Value};

use crate::keys;

/// PROXY protocol that sends the client's address to members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// No PROXY protocol header.
    Off,
    /// Version 1 of the PROXY protocol.
    V1,
    /// Version 2 of the PROXY protocol.
    V2,
}

impl Value for ProxyProtocol {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("false", Self::Off),
        ("true", Self::V1),
        ("v1", Self::V1),
        ("v2", Self::V2),
    ])
    .verbatim();
}

/// A truth value; only `true` and `false` are accepted, as in the Go cloud-controller-manager.
const TRUTH: Kind<bool> = Kind::one_of(&[("true", true), ("false", false)]).verbatim();
const SECONDS: Kind<Duration> = Kind::of("a whole number of seconds", |text| {
    text.parse()
        .ok()
        .map(|seconds: u32| Duration::from_secs(seconds.into()))
})
.verbatim();
/// Range of Octavia: up to 365 days.
const MILLISECONDS: Kind<u64> = Kind::number(0, 31_536_000_000).verbatim();
const RETRIES: Kind<u16> = Kind::number(1, 10).verbatim();

/// Prefix of nearly all keys.
pub const PREFIX: &str = "loadbalancer.openstack.org/";
/// Prefix of the annotation [`INTERNAL`].
pub const INTERNAL_PREFIX: &str = "service.beta.kubernetes.io/openstack-";

provider_kit::declare! {
    /// The annotation with another prefix.
    pub INTERNAL_ONES: "service.beta.kubernetes.io/";

    /// Creates the load balancer without a floating IP. With `internal-lb = true` in the configuration, none has one.
    /// Another value than `true` and `false` is refused, because it would make the load balancer public.
    pub INTERNAL: bool = "openstack-internal-load-balancer", kind(TRUTH), default_description("`internal-lb`");
}

provider_kit::declare! {
    /// The annotations that begin with [`PREFIX`], in the order of the reference page.
    pub ALL: "loadbalancer.openstack.org/";

    /// Name of a `[LoadBalancerClass "name"]` in the configuration, which has the networks and subnets.
    pub CLASS: String = "class",
        reaches("use any class of the configuration");
    /// ID of the network of floating IPs; applies only if the class has none.
    pub FLOATING_NETWORK_ID: String = "floating-network-id", fallback(&keys::FLOATING_NETWORK_ID), default_description("`floating-network-id`, else the first external one"),
        reaches("use any external network of the project");
    /// ID of the subnet of the floating IP, which must be in that network. Applies, like the next two, only if the
    /// class has none of the three.
    pub FLOATING_SUBNET_ID: String = "floating-subnet-id", default_description("`floating-subnet-id`"),
        reaches("use any subnet of the external network");
    /// Name of the subnet of the floating IP: a glob, or `~` and a regular expression; a leading `!` negates it.
    pub FLOATING_SUBNET: String = "floating-subnet", default_description("`floating-subnet`"),
        reaches("use any subnet of the external network");
    /// Tags of the subnet of the floating IP (a comma list), one of which it must have; after `&`, all of them. A
    /// leading `!` negates that: `!a,b` takes a subnet with neither tag, `!&a,b` one that lacks at least one of them.
    pub FLOATING_SUBNET_TAGS: String = "floating-subnet-tags", default_description("`floating-subnet-tags`"),
        reaches("use any subnet of the external network");
    /// ID of the subnet of the VIP. Applies at creation; the class takes precedence unless the load balancer is
    /// internal.
    pub SUBNET_ID: String = "subnet-id", fallback(&keys::CLASS_SUBNET_ID), default_description("the class, `subnet-id`, else the subnet of the first Node"),
        reaches("use any subnet that the project can use");
    /// ID of the network of the VIP. Applies at creation; the class takes precedence unless the load balancer is
    /// internal.
    pub NETWORK_ID: String = "network-id", fallback(&keys::CLASS_NETWORK_ID), default_description("the class, `network-id`"),
        reaches("use any network that the project can use");
    /// ID of the subnet of members.
    pub MEMBER_SUBNET_ID: String = "member-subnet-id", fallback(&keys::CLASS_MEMBER_SUBNET_ID), default_description("the class, `member-subnet-id`, else the subnet of the VIP"),
        reaches("send traffic to members by any subnet that the project can use");
    /// ID of a Neutron port that becomes the port of the VIP; subnet and network are then ignored. Applies at creation.
    pub PORT_ID: String = "port-id",
        reaches("use any free Neutron port of the project, with its address");
    /// ID of the load balancer. The controller sets it. Set it yourself on another Service to share the load balancer.
    pub LOAD_BALANCER_ID: String = "load-balancer-id",
        reaches("share any load balancer of the project: add listeners to it, beside those of others");
    /// Address that the Service's status shows. The controller sets it.
    pub LOAD_BALANCER_ADDRESS: String = "load-balancer-address";
    /// Name that the Service's status shows instead of addresses.
    pub HOSTNAME: String = "hostname",
        reaches("show any host name in the status of its Service");
    /// Keeps the floating IP when the Service is deleted.
    pub KEEP_FLOATINGIP: bool = "keep-floatingip", kind(TRUTH), default("false"), lenient(),
        costs("leave a billed floating IP behind");
    /// Sends the client's address to members by the PROXY protocol, which members must expect. Not together with
    /// `x-forwarded-for`.
    pub PROXY_PROTOCOL: ProxyProtocol = "proxy-protocol", default("false"), lenient();
    /// Creates HTTP listeners, which send the client's address to members in the header `X-Forwarded-For`.
    pub X_FORWARDED_FOR: bool = "x-forwarded-for", kind(TRUTH), default("false"), lenient();
    /// Reference of a container or secret in Barbican, with which listeners terminate TLS.
    pub DEFAULT_TLS_CONTAINER_REF: String = "default-tls-container-ref", fallback(&keys::DEFAULT_TLS_CONTAINER_REF),
        reaches("use any secret of the project in Barbican");
    /// Maximum number of connections of a listener; `-1`: no limit.
    pub CONNECTION_LIMIT: i32 = "connection-limit", kind(Kind::number(-1, 2_147_483_647).verbatim()), default("-1"), lenient();
    /// Algorithm by which a member is chosen: `ROUND_ROBIN`, `LEAST_CONNECTIONS`, `SOURCE_IP` or `SOURCE_IP_PORT`. An
    /// unknown value causes an event, and the configured algorithm applies.
    pub LB_METHOD: String = "lb-method", default_description("`lb-method`");
    /// Milliseconds without data from the client after which a connection is closed. This and the next three timeouts
    /// have no effect with `ovn`.
    pub TIMEOUT_CLIENT_DATA: u64 = "timeout-client-data", kind(MILLISECONDS), default("50000"), lenient();
    /// Time-out in milliseconds of a connection to a member.
    pub TIMEOUT_MEMBER_CONNECT: u64 = "timeout-member-connect", kind(MILLISECONDS), default("5000"), lenient();
    /// Milliseconds without data from the member after which a connection is closed.
    pub TIMEOUT_MEMBER_DATA: u64 = "timeout-member-data", kind(MILLISECONDS), default("50000"), lenient();
    /// Time in milliseconds to wait for more data to inspect.
    pub TIMEOUT_TCP_INSPECT: u64 = "timeout-tcp-inspect", kind(MILLISECONDS), default("0"), lenient();
    /// Octavia flavor of the load balancer. Applies at creation. Not with `ovn`.
    pub FLAVOR_ID: String = "flavor-id", fallback(&keys::FLAVOR_ID),
        costs("pay for any flavor");
    /// Octavia availability zone of the load balancer. Applies at creation. Not with `ovn`.
    pub AVAILABILITY_ZONE: String = "availability-zone", fallback(&keys::AVAILABILITY_ZONE),
        reaches("use any availability zone");
    /// Creates health monitors for members.
    pub ENABLE_HEALTH_MONITOR: bool = "enable-health-monitor", kind(TRUTH), default_description("`create-monitor`"), lenient();
    /// Interval between two health checks of a member.
    pub HEALTH_MONITOR_DELAY: Duration = "health-monitor-delay", kind(SECONDS), fallback(&keys::MONITOR_DELAY), lenient();
    /// Time-out of a health check.
    pub HEALTH_MONITOR_TIMEOUT: Duration = "health-monitor-timeout", kind(SECONDS), fallback(&keys::MONITOR_TIMEOUT), lenient();
    /// Number of successful health checks after which a member is healthy.
    pub HEALTH_MONITOR_MAX_RETRIES: u16 = "health-monitor-max-retries", kind(RETRIES),
        fallback(&keys::MONITOR_MAX_RETRIES), lenient();
    /// Number of failed health checks after which a member is unhealthy.
    pub HEALTH_MONITOR_MAX_RETRIES_DOWN: u16 = "health-monitor-max-retries-down", kind(RETRIES),
        fallback(&keys::MONITOR_MAX_RETRIES_DOWN), lenient();
    /// Restricts the members to Nodes with these labels: a comma list of `label=value`, or `label` alone for any value.
    pub NODE_SELECTOR: String = "node-selector", fallback(&keys::NODE_SELECTOR);
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
