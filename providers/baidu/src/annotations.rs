//! Annotations of Services and Nodes. docs/providers/baidu.md is generated from these declarations.

use provider_kit::declared::Kind;

/// The prefix of all annotations of Services.
pub const PREFIX: &str = "service.beta.kubernetes.io/cce-";
/// Annotation of a Node: `false` keeps its Pod CIDR out of the route table.
pub const ADVERTISE_ROUTE: &str = "node.alpha.kubernetes.io/advertise-route";

/// `true` or `false`: another value of a setting that decides between public and internal, or between a BLB that stays
/// and one that is deleted, is a mistake.
const TRUTH: Kind<bool> = Kind::one_of(&[("true", true), ("false", false)]);
/// `true`, or anything else.
const TRUE: Kind<bool> = Kind::of("`true`; any other value counts as `false`", |text| {
    Some(text == "true")
});

const SCHEDULERS: Kind<String> = word("`RoundRobin`, `LeastConnection`, `Hash`", |text| {
    ["RoundRobin", "LeastConnection", "Hash"]
        .contains(&text)
        .then(|| text.to_owned())
});

const RESERVATIONS: Kind<u32> = Kind::of("a number of months: 1 to 9, 12, 24 or 36", |text| {
    text.parse()
        .ok()
        .filter(|months| matches!(months, 1..=9 | 12 | 24 | 36))
});

const ADOPTS: &str = "use any BLB of the VPC that has no owner and is not in use";
const BINDS: &str = "bind any EIP of the account that is free and has no owner";
const PREPAYS: &str = "pay for up to 36 months in advance";

const fn word(accepted: &'static str, parse: fn(&str) -> Option<String>) -> Kind<String> {
    Kind::of(accepted, parse)
}

provider_kit::declare! {
    /// The annotations of Services, in the order of the reference page.
    pub ALL: "service.beta.kubernetes.io/cce-";

    /// ID of the BLB. Written when a BLB is created. Set by a user, it names the BLB to use.
    pub ID: String = "load-balancer-id", reaches(ADOPTS);
    /// ID of the BLB that was created for the Service. Written together with `…-id`. It proves nothing: a BLB that the
    /// Service does not own is treated as one of yours.
    pub ADDED_ID: String = "load-balancer-cce-add-id", reaches(ADOPTS);
    /// Address of the EIP that was created for the Service. Written when it is bound. An EIP of your own with this
    /// address is bound, and never deleted.
    pub ADDED_EIP: String = "load-balancer-cce-add-eip", reaches(BINDS);
    /// ID of a BLB of your own. It is never deleted.
    pub EXIST_ID: String = "load-balancer-exist-id", reaches(ADOPTS);
    /// If `true`, the BLB has no EIP, and the status shows its address in the VPC.
    pub INTERNAL: bool = "load-balancer-internal-vpc", kind(TRUTH), default("false");
    /// Accepted without effect: the API has no such parameter any more.
    pub ALLOCATE_VIP: bool = "load-balancer-allocate-vip", kind(TRUE), default("false");
    /// Subnet of a new BLB. Its type must be `BCC`. A later change has no effect, which an event says.
    pub SUBNET_ID: String = "load-balancer-subnet-id", default_description("`SubnetId` of the configuration, or that of a Node"),
        reaches("create a BLB in any subnet of the region");
    /// Most backends of the BLB.
    pub MAX_BACKENDS: u32 = "load-balancer-rs-max-num", kind(Kind::number(1, 50)), default("50"), decides_targets();
    /// If `true`, the BLB stays when the Service is deleted, without listeners and backends.
    pub RESERVE: bool = "load-balancer-reserve-lb", kind(TRUTH), default("false"), costs("leave a billed BLB behind");
    /// Name of the BLB. A name that is generated for another Service is a mistake.
    pub NAME: String = "load-balancer-lb-name", default_description("`CCE/SVC/<ClusterId>/<namespace>/<service>`"),
        reaches("use any BLB of the cluster that has this name, has no owner and is not in use");
    /// Algorithm by which listeners select backends.
    pub SCHEDULER: String = "load-balancer-scheduler", kind(SCHEDULERS), default_description("`Hash` with `sessionAffinity: ClientIP`, else `RoundRobin`");
    /// Seconds after which a health check has failed.
    pub CHECK_TIMEOUT: u32 = "load-balancer-health-check-timeout-in-second", kind(Kind::number(1, 60)), default("3");
    /// Seconds between two health checks.
    pub CHECK_INTERVAL: u32 = "load-balancer-health-check-interval", kind(Kind::number(1, 10)), default("3");
    /// Failed health checks after which a backend gets no traffic.
    pub UNHEALTHY: u32 = "load-balancer-unhealthy-threshold", kind(Kind::number(2, 5)), default("3");
    /// Successful health checks after which a backend gets traffic.
    pub HEALTHY: u32 = "load-balancer-healthy-threshold", kind(Kind::number(2, 5)), default("3");
    /// Text that health checks of UDP ports send.
    pub CHECK_STRING: String = "load-balancer-health-check-string", default("HealthCheck");
    /// Name of the EIP. An EIP of your own with this name is bound, and never changed or deleted. A name that is generated
    /// for another Service is a mistake.
    pub EIP_NAME: String = "elastic-ip-name", default_description("the name of the BLB"), reaches(BINDS);
    /// Payment timing of a new EIP. A prepaid EIP cannot be released before it expires.
    pub PAYMENT: String = "elastic-ip-payment-timing", kind(word("`Prepaid`, `Postpaid`", |text| {
        ["Prepaid", "Postpaid"].contains(&text).then(|| text.to_owned())
    })), default_description("`Postpaid`"), reaches(PREPAYS);
    /// Billing method of a new postpaid EIP.
    pub BILLING: String = "elastic-ip-billing-method", kind(word("`ByTraffic`, `ByBandwidth`", |text| {
        ["ByTraffic", "ByBandwidth"].contains(&text).then(|| text.to_owned())
    })), default_description("`ByTraffic`");
    /// Bandwidth of a created EIP in Mbit/s: at most 200, or 1000 if it is charged by traffic. It can be changed later.
    pub BANDWIDTH: u32 = "elastic-ip-bandwidth-in-mbps", kind(Kind::number(1, 1000)), default_description("the most"), costs("pay for up to 1000 Mbit/s");
    /// Months for which a prepaid EIP is paid. Required for it.
    pub RESERVATION: u32 = "elastic-ip-reservation-length", kind(RESERVATIONS), reaches(PREPAYS);
}
