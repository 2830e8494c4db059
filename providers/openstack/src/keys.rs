//! The keys of `cloud.conf`, and the environment variables. docs/providers/openstack.md is generated from these
//! declarations.

use std::time::Duration;

use provider_kit::declared::{Declared, Kind, Value};
use provider_kit::gcfg::{Key, TRUTH};

use crate::config::Interface;

impl Value for Interface {
    const KIND: Kind<Self> = Kind::one_of(&[
        ("public", Self::Public),
        ("internal", Self::Internal),
        ("admin", Self::Admin),
        ("publicURL", Self::Public),
        ("internalURL", Self::Internal),
        ("adminURL", Self::Admin),
    ])
    .any_case();
}

/// Only the word `true` disables verification, as in the Go cloud-controller-manager: any other word leaves it enabled.
const INSECURE: Kind<bool> = Kind::one_of(&[("true", true), ("false", false)]).verbatim();
const RETRIES: Kind<u16> = Kind::number(1, 10);
const VERSION: Kind<String> = Kind::of("v2", |text| (text == "v2").then(|| text.to_owned()));
const SEARCH_ORDER: Kind<String> = Kind::of(
    "a comma list of one or both of configDrive and metadataService",
    |text| {
        let is_known = |item: &str| matches!(item.trim(), "configDrive" | "metadataService");
        (text.split(',').count() <= 2 && text.split(',').all(is_known)).then(|| text.to_owned())
    },
);
const POLLS: Kind<u32> = Kind::number(0, 10_000);
/// A comma list whose items are not checked here: items that are not address ranges are left out later, with a warning.
const RANGES: Kind<String> = Kind::of("a comma list of address ranges", |text| {
    Some(text.to_owned())
});

/// The truth values of `[LoadBalancer]`, which are true without a value.
pub(crate) const FLAGS: [&Key<bool>; 7] = [
    &ENABLED,
    &INTERNAL_LB,
    &CASCADE_DELETE,
    &CREATE_MONITOR,
    &MANAGE_SECURITY_GROUPS,
    &ENABLE_INGRESS_HOSTNAME,
    &PROVIDER_REQUIRES_SERIAL_API_CALLS,
];

/// Every list of keys, in the order of the reference page.
pub const SECTIONS: &[&[&dyn Declared]] = &[
    GLOBAL,
    NETWORKING,
    LOAD_BALANCER,
    LOAD_BALANCER_CLASS,
    ROUTE,
    METADATA,
];

provider_kit::declare! {
    /// Section `[Global]`: Keystone, credential and endpoints.
    pub GLOBAL: "[Global] ";

    /// Keystone's URL, with or without `/v3`. Required, here or in `clouds.yaml`.
    pub AUTH_URL: String = "auth-url";
    /// ID of the user.
    pub USER_ID: String = "user-id";
    /// Name of the user, in a domain; ignored if an ID is set.
    pub USERNAME: String = "username";
    /// Password of the user.
    pub PASSWORD: String = "password", secret();
    /// ID of the project.
    pub TENANT_ID: String = "tenant-id";
    /// Name of the project, in a domain; ignored if an ID is set.
    pub TENANT_NAME: String = "tenant-name";
    /// ID of the domain of user and project.
    pub DOMAIN_ID: String = "domain-id";
    /// Name of the domain of user and project. Without a project the token is for this domain.
    pub DOMAIN_NAME: String = "domain-name";
    /// ID of the user's domain.
    pub USER_DOMAIN_ID: String = "user-domain-id", default_description("`domain-id`");
    /// Name of the user's domain.
    pub USER_DOMAIN_NAME: String = "user-domain-name", default_description("`domain-name`");
    /// ID of the project's domain.
    pub TENANT_DOMAIN_ID: String = "tenant-domain-id", default_description("`domain-id`");
    /// Name of the project's domain.
    pub TENANT_DOMAIN_NAME: String = "tenant-domain-name", default_description("`domain-name`");
    /// ID of a Keystone trust, which is the scope of the token.
    pub TRUST_ID: String = "trust-id";
    /// ID of the trust's user, in place of `user-id`.
    pub TRUSTEE_ID: String = "trustee-id", default_description("`user-id`");
    /// Password of the trust's user, in place of `password`.
    pub TRUSTEE_PASSWORD: String = "trustee-password", secret(), default_description("`password`");
    /// ID of an application credential, which implies the scope of the token.
    pub APPLICATION_CREDENTIAL_ID: String = "application-credential-id";
    /// Name of an application credential of the user; ignored if an ID is set.
    pub APPLICATION_CREDENTIAL_NAME: String = "application-credential-name";
    /// Secret of the application credential.
    pub APPLICATION_CREDENTIAL_SECRET: String = "application-credential-secret", secret();
    /// A token that you issued, instead of all keys above. When the token expires, requests fail until you replace it
    /// here.
    pub TOKEN: String = "token", secret();
    /// Region of the catalogue, and the Nodes' region label.
    pub REGION: String = "region", default_description("the catalogue's first, and no label");
    /// Interface of the endpoints to use.
    pub OS_ENDPOINT_TYPE: Interface = "os-endpoint-type", default("public");
    /// File with the only CA certificates that are trusted (PEM).
    pub CA_FILE: String = "ca-file", default_description("those of the system");
    /// File with the client's certificate (PEM), with `key-file`.
    pub CERT_FILE: String = "cert-file";
    /// File with the key of the client's certificate.
    pub KEY_FILE: String = "key-file";
    /// Disables the verification of certificates: an attacker between the program and OpenStack can read the password.
    pub TLS_INSECURE: bool = "tls-insecure", kind(INSECURE), default("false"), lenient();
    /// Reads settings that are not set here from `clouds.yaml`.
    pub USE_CLOUDS: bool = "use-clouds", kind(TRUTH), default("false");
    /// Path of `clouds.yaml`.
    pub CLOUDS_FILE: String = "clouds-file", default_description("`OS_CLIENT_CONFIG_FILE`, else it is looked for");
    /// Name of the entry in `clouds.yaml`.
    pub CLOUD: String = "cloud", default_description("`OS_CLOUD`, else the only one");
}

provider_kit::declare! {
    /// Section `[Networking]`: addresses of Nodes.
    pub NETWORKING: "[Networking] ";

    /// Leaves IPv6 addresses out of Nodes' addresses.
    pub IPV6_SUPPORT_DISABLED: bool = "ipv6-support-disabled", kind(TRUTH), default("false");
    /// Name of a network whose addresses are ExternalIP. One line for each network.
    pub PUBLIC_NETWORK_NAME: String = "public-network-name";
    /// Name of a network whose addresses, and no others, are InternalIP. One line for each network.
    pub INTERNAL_NETWORK_NAME: String = "internal-network-name", default_description("all networks");
    /// Address ranges in the order in which a Node's addresses are sorted.
    pub ADDRESS_SORT_ORDER: String = "address-sort-order", kind(RANGES), default_description("as Nova and Neutron give them");
}

provider_kit::declare! {
    /// Load balancers: defaults of the annotations, and what there is no annotation for.
    pub LOAD_BALANCER: "[LoadBalancer] ";

    /// Creates load balancers for Services.
    pub ENABLED: bool = "enabled", kind(TRUTH), default("true");
    /// Version of the load balancer API; the only one is `v2`.
    pub LB_VERSION: String = "lb-version", kind(VERSION), default("v2");
    /// Octavia's provider: `amphora`, `octavia`, `ovn`, `f5`, `amphorav2`; an unknown one causes a warning.
    pub LB_PROVIDER: String = "lb-provider", default("amphora");
    /// Algorithm by which a member is chosen.
    pub LB_METHOD: String = "lb-method", default_description("`ROUND_ROBIN`; with `ovn` `SOURCE_IP_PORT`, the only one that it has");
    /// ID of the subnet of the VIP, and of members.
    pub SUBNET_ID: String = "subnet-id", default_description("the first Node's");
    /// ID of the subnet of members.
    pub MEMBER_SUBNET_ID: String = "member-subnet-id", default_description("the VIP's");
    /// ID of the network of the VIP.
    pub NETWORK_ID: String = "network-id";
    /// ID of the network of floating IPs.
    pub FLOATING_NETWORK_ID: String = "floating-network-id", default_description("the first external one");
    /// ID of the subnet of floating IPs.
    pub FLOATING_SUBNET_ID: String = "floating-subnet-id";
    /// Name of the subnet of floating IPs, in the form of the annotation `floating-subnet`.
    pub FLOATING_SUBNET: String = "floating-subnet";
    /// Tags of the subnet of floating IPs, in the form of the annotation `floating-subnet-tags`.
    pub FLOATING_SUBNET_TAGS: String = "floating-subnet-tags";
    /// Creates all load balancers without a floating IP, regardless of the annotation.
    pub INTERNAL_LB: bool = "internal-lb", kind(TRUTH), default("false");
    /// Restricts the members to Nodes with these labels: a comma list of `label=value`, or `label` alone for any value.
    pub NODE_SELECTOR: String = "node-selector", default_description("all Nodes");
    /// Deletes a load balancer with all its resources in one request.
    pub CASCADE_DELETE: bool = "cascade-delete", kind(TRUTH), default("true");
    /// Octavia flavor of new load balancers.
    pub FLAVOR_ID: String = "flavor-id";
    /// Octavia availability zone of new load balancers.
    pub AVAILABILITY_ZONE: String = "availability-zone";
    /// Creates health monitors for members.
    pub CREATE_MONITOR: bool = "create-monitor", kind(TRUTH), default("false");
    /// Interval between two health checks of a member.
    pub MONITOR_DELAY: Duration = "monitor-delay", kind(Kind::seconds()), default("5s");
    /// Time-out of a health check.
    pub MONITOR_TIMEOUT: Duration = "monitor-timeout", kind(Kind::seconds()), default("3s");
    /// Number of successful health checks after which a member is healthy.
    pub MONITOR_MAX_RETRIES: u16 = "monitor-max-retries", kind(RETRIES), default("1");
    /// Number of failed health checks after which a member is unhealthy.
    pub MONITOR_MAX_RETRIES_DOWN: u16 = "monitor-max-retries-down", kind(RETRIES), default("3");
    /// Creates a security group for each Service's node ports, and adds it to the Nodes' ports.
    pub MANAGE_SECURITY_GROUPS: bool = "manage-security-groups", kind(TRUTH), default("false");
    /// Shows a host name in the status with the PROXY protocol, so that traffic from inside the cluster uses the load
    /// balancer, too.
    pub ENABLE_INGRESS_HOSTNAME: bool = "enable-ingress-hostname", kind(TRUTH), default("false");
    /// Suffix of the host name in the status, after the address.
    pub INGRESS_HOSTNAME_SUFFIX: String = "ingress-hostname-suffix", default("nip.io");
    /// Default of the annotation of the same name.
    pub DEFAULT_TLS_CONTAINER_REF: String = "default-tls-container-ref";
    /// Store of TLS containers: `barbican`, where they are verified, or `external`, which is not read.
    pub CONTAINER_STORE: String = "container-store", default("barbican");
    /// Maximum number of Services that share a load balancer.
    pub MAX_SHARED_LB: u16 = "max-shared-lb", kind(Kind::number(1, 1000)), default("2");
    /// Creates and changes load balancers with one request for each object, for Octavia providers that do not accept
    /// several in one request.
    pub PROVIDER_REQUIRES_SERIAL_API_CALLS: bool = "provider-requires-serial-api-calls", kind(TRUTH), default("false");
}

provider_kit::declare! {
    /// Section `[LoadBalancerClass "name"]`, which a Service selects by the annotation `class`.
    pub LOAD_BALANCER_CLASS: "[LoadBalancerClass \"name\"] ";

    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_FLOATING_NETWORK_ID: String = "floating-network-id", fallback(&FLOATING_NETWORK_ID);
    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_FLOATING_SUBNET_ID: String = "floating-subnet-id", fallback(&FLOATING_SUBNET_ID);
    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_FLOATING_SUBNET: String = "floating-subnet", fallback(&FLOATING_SUBNET);
    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_FLOATING_SUBNET_TAGS: String = "floating-subnet-tags", fallback(&FLOATING_SUBNET_TAGS);
    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_NETWORK_ID: String = "network-id", fallback(&NETWORK_ID);
    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_SUBNET_ID: String = "subnet-id", fallback(&SUBNET_ID);
    /// Overrides the key of the same name in `[LoadBalancer]`.
    pub CLASS_MEMBER_SUBNET_ID: String = "member-subnet-id", fallback(&MEMBER_SUBNET_ID);
}

provider_kit::declare! {
    /// Section `[Route]`: routes for Pod CIDRs.
    pub ROUTE: "[Route] ";

    /// ID of the router that gets routes to Pod CIDRs. Without a router, no routes are created.
    pub ROUTER_ID: String = "router-id";
}

provider_kit::declare! {
    /// Section `[Metadata]`: the time-out of requests.
    pub METADATA: "[Metadata] ";

    /// Validated but not used: this program reads machines only from Nova.
    pub METADATA_SEARCH_ORDER: String = "search-order", kind(SEARCH_ORDER), default("configDrive,metadataService");
    /// Time-out of each request to any service.
    pub REQUEST_TIMEOUT: Duration = "request-timeout", kind(Kind::seconds()), default("60s");
}

provider_kit::declare! {
    /// Keys that are accepted without effect, as by the Go cloud-controller-manager: the file may be shared with the
    /// Cinder CSI driver, or be older than Octavia.
    pub INERT: "[";

    /// Read by the Cinder CSI driver.
    pub NODE_VOLUME_ATTACH_LIMIT: String = "BlockStorage] node-volume-attach-limit";
    /// Read by the Cinder CSI driver.
    pub RESCAN_ON_RESIZE: String = "BlockStorage] rescan-on-resize";
    /// Read by the Cinder CSI driver.
    pub IGNORE_VOLUME_AZ: String = "BlockStorage] ignore-volume-az";
    /// Read by the Cinder CSI driver.
    pub IGNORE_VOLUME_MICROVERSION: String = "BlockStorage] ignore-volume-microversion";
    /// Version of Cinder's API, in old files.
    pub BS_VERSION: String = "BlockStorage] bs-version";
    /// Names of devices of volumes, in old files.
    pub TRUST_DEVICE_PATH: String = "BlockStorage] trust-device-path";
    /// Choice between Octavia and its predecessor, which no longer exists.
    pub USE_OCTAVIA: String = "LoadBalancer] use-octavia";
}

provider_kit::declare! {
    /// The environment variables of the provider.
    pub VARIABLES: "O";

    /// If exactly `true`, provider IDs contain the region.
    pub OS_CCM_REGIONAL: String = "S_CCM_REGIONAL", default("false");
    /// Number of polls of a changing load balancer before the change counts as failed. The interval grows; 23 polls
    /// take four and a half minutes. The limit is a day.
    pub OCCM_WAIT_LB_ACTIVE_STEPS: u32 = "CCM_WAIT_LB_ACTIVE_STEPS", kind(POLLS), default("23"), lenient();
    /// Path of `clouds.yaml`, if `clouds-file` is not set. Applies with `use-clouds`.
    pub OS_CLIENT_CONFIG_FILE: String = "S_CLIENT_CONFIG_FILE", default_description("it is looked for");
    /// Name of the entry in `clouds.yaml`, if `cloud` is not set. Applies with `use-clouds`.
    pub OS_CLOUD: String = "S_CLOUD", default_description("the only one");
}
