//! Annotations of Services. docs/providers/gcp.md is generated from these declarations.

use provider_kit::declared::Kind;

use crate::config::KIND as DEFAULT_KIND;

/// Kinds of load balancers: `true` is internal. Another spelling is a mistake, because it decides who reaches the Service.
pub(crate) const KINDS: Kind<bool> = Kind::of("`Internal` or `External`", |text| match text {
    "Internal" | "internal" => Some(true),
    "External" | "external" => Some(false),
    _ => None,
})
.verbatim();
const TIERS: Kind<String> = Kind::of("`Premium` or `Standard`", |text| {
    matches!(text, "Premium" | "Standard").then(|| text.to_uppercase())
});
const TRUE: Kind<bool> = Kind::of("`true`; anything else is false", |text| {
    Some(text == "true")
});
const ENABLED: Kind<bool> = Kind::of("`enabled`; anything else has no effect", |text| {
    Some(text == "enabled")
});

provider_kit::declare! {
    /// The annotations, in the order of the reference page.
    pub ALL: "";

    /// Kind of load balancer. A change replaces the load balancer, and its address changes.
    pub TYPE: bool = "networking.gke.io/load-balancer-type", kind(KINDS), fallback(&DEFAULT_KIND),
        aliases(&["cloud.google.com/load-balancer-type"]);
    /// Clients of other regions reach an internal load balancer.
    pub GLOBAL_ACCESS: bool = "networking.gke.io/internal-load-balancer-allow-global-access", kind(TRUE), default("false");
    /// Name of the subnetwork of an internal load balancer's address.
    pub SUBNET: String = "networking.gke.io/internal-load-balancer-subnet", default_description("the cluster's subnetwork"),
        reaches("use any subnetwork of the region");
    /// Shares the backend service with other internal load balancers. Not with `externalTrafficPolicy: Local`.
    pub SHARE: bool = "alpha.cloud.google.com/load-balancer-backend-share", kind(TRUE), default("false"),
        aliases(&["cloud.google.com/load-balancer-backend-share"]),
        reaches("use the backend service of other Services that share theirs");
    /// Network tier of an external load balancer.
    pub NETWORK_TIER: String = "cloud.google.com/network-tier", kind(TIERS), default_description("the project's"),
        costs("pay for the Premium tier");
    /// `enabled`: another controller serves the Service.
    pub RBS: bool = "cloud.google.com/l4-rbs", kind(ENABLED), default_description("`--enable-rbs-default-l4-netlb`");
}
