//! The keys of `cloud.conf`, and the environment variables. docs/providers/openstack.md is generated from these declarations.

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

/// Exactly this word switches verification off, as in the Go cloud-controller-manager: any other one leaves it on.
const INSECURE: Kind<bool> = Kind::one_of(&[("true", true), ("false", false)]).verbatim();
const RETRIES: Kind<u16> = Kind::number(1, 10);
const VERSION: Kind<String> = Kind::of("v2", |text| (text == "v2").then(|| text.to_owned()));
const SEARCH_ORDER: Kind<String> = Kind::of("a comma list of one or both of configDrive and metadataService", |text| {
    let is_known = |item: &str| matches!(item.trim(), "configDrive" | "metadataService");
    (text.split(',').count() <= 2 && text.split(',').all(is_known)).then(|| text.to_owned())
});
const POLLS: Kind<u32> = Kind::number(0, 10_000);
/// The comma list without a check of its items: those that are no range are left out with a warning.
const RANGES: Kind<String> = Kind::of("a comma list of address ranges", |text| Some(text.to_owned()));

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
pub const SECTIONS: &[&[&dyn Declared]] = &[GLOBAL, NETWORKING, LOAD_BALANCER, LOAD_BALANCER_CLASS, ROUTE, METADATA];

provider_kit::declare! {
    /// Who we are.
    pub GLOBAL: "[Global] ";

    /// Keystone's URL, with or without `/v3`. Required, here or in `clouds.yaml`.
    pub AUTH_URL: String = "auth-url";
    /// Id of the user.
    pub USER_ID: String = "user-id";
    /// Name of the user, in a domain; does not count beside an id.
    pub USERNAME: String = "username";
    /// Password of the user.
    pub PASSWORD: String = "password", secret();
    /// Id of the project.
    pub TENANT_ID: String = "tenant-id";
    /// Name of the project, in a domain; does not count beside an id.
    pub TENANT_NAME: String = "tenant-name";
    /// Id of the domain of user and project.
    pub DOMAIN_ID: String = "domain-id";
    /// Name of the domain of user and project. Without a project the token is for this domain.
    pub DOMAIN_NAME: String = "domain-name";
    /// Id of the user's domain.
    pub USER_DOMAIN_ID: String = "user-domain-id", otherwise("`domain-id`");
    /// Name of the user's domain.
    pub USER_DOMAIN_NAME: String = "user-domain-name", otherwise("`domain-name`");
    /// Id of the project's domain.
    pub TENANT_DOMAIN_ID: String = "tenant-domain-id", otherwise("`domain-id`");
    /// Name of the project's domain.
    pub TENANT_DOMAIN_NAME: String = "tenant-domain-name", otherwise("`domain-name`");
    /// Id of a Keystone trust: the token is for what it gives.
    pub TRUST_ID: String = "trust-id";
    /// Id of the trust's user, in place of `user-id`.
    pub TRUSTEE_ID: String = "trustee-id", otherwise("`user-id`");
    /// Its password, in place of `password`.
    pub TRUSTEE_PASSWORD: String = "trustee-password", secret(), otherwise("`password`");
    /// Id of an application credential. It says itself what the token is for.
    pub APPLICATION_CREDENTIAL_ID: String = "application-credential-id";
    /// Name of an application credential of the user; does not count beside an id.
    pub APPLICATION_CREDENTIAL_NAME: String = "application-credential-name";
    /// Its secret.
    pub APPLICATION_CREDENTIAL_SECRET: String = "application-credential-secret", secret();
    /// A token that somebody else made, in place of all of these. When it ends, nothing works until there is another one here.
    pub TOKEN: String = "token", secret();
    /// Region of the catalogue, and the Nodes' region label.
    pub REGION: String = "region", otherwise("the catalogue's first, and no label");
    /// Which of a service's endpoints is used.
    pub OS_ENDPOINT_TYPE: Interface = "os-endpoint-type", default("public");
    /// File with the only CA certificates that are trusted (PEM).
    pub CA_FILE: String = "ca-file", otherwise("those of the image");
    /// File with the client's certificate (PEM), with `key-file`.
    pub CERT_FILE: String = "cert-file";
    /// File with its key.
    pub KEY_FILE: String = "key-file";
    /// Certificates are not checked: whoever is on the way can read the password.
    pub TLS_INSECURE: bool = "tls-insecure", kind(INSECURE), default("false"), lenient();
    /// What is not set here comes from `clouds.yaml`.
    pub USE_CLOUDS: bool = "use-clouds", kind(TRUTH), default("false");
    /// Where that file is.
    pub CLOUDS_FILE: String = "clouds-file", otherwise("`OS_CLIENT_CONFIG_FILE`, else it is looked for");
    /// Its entry.
    pub CLOUD: String = "cloud", otherwise("`OS_CLOUD`, else the only one");
}

provider_kit::declare! {
    /// Addresses of Nodes.
    pub NETWORKING: "[Networking] ";

    /// Nodes get no IPv6 addresses.
    pub IPV6_SUPPORT_DISABLED: bool = "ipv6-support-disabled", kind(TRUTH), default("false");
    /// Addresses in this network are ExternalIP. One line for each network.
    pub PUBLIC_NETWORK_NAME: String = "public-network-name";
    /// Only addresses in this network are InternalIP. One line for each network.
    pub INTERNAL_NETWORK_NAME: String = "internal-network-name", otherwise("all networks");
    /// Address ranges: addresses of the first one come first, and so on.
    pub ADDRESS_SORT_ORDER: String = "address-sort-order", kind(RANGES), otherwise("as Nova and Neutron give them");
}

provider_kit::declare! {
    /// Load balancers: defaults of the annotations, and what there is no annotation for.
    pub LOAD_BALANCER: "[LoadBalancer] ";

    /// Services get load balancers.
    pub ENABLED: bool = "enabled", kind(TRUTH), default("true");
    /// There is no other.
    pub LB_VERSION: String = "lb-version", kind(VERSION), default("v2");
    /// Octavia's provider: `amphora`, `octavia`, `ovn`, `f5`, `amphorav2`; another one is a warning.
    pub LB_PROVIDER: String = "lb-provider", default("amphora");
    /// How a member is chosen.
    pub LB_METHOD: String = "lb-method", otherwise("`ROUND_ROBIN`; with `ovn` `SOURCE_IP_PORT`, the only one that it has");
    /// Id of the subnet of the VIP, and of members.
    pub SUBNET_ID: String = "subnet-id", otherwise("the first Node's");
    /// Id of the subnet of members.
    pub MEMBER_SUBNET_ID: String = "member-subnet-id", otherwise("the VIP's");
    /// Id of the network of the VIP.
    pub NETWORK_ID: String = "network-id";
    /// Id of the network that floating IPs come from.
    pub FLOATING_NETWORK_ID: String = "floating-network-id", otherwise("the first external one");
    /// Id of the subnet that floating IPs come from.
    pub FLOATING_SUBNET_ID: String = "floating-subnet-id";
    /// Its name, as the annotation `floating-subnet` takes it.
    pub FLOATING_SUBNET: String = "floating-subnet";
    /// Its tags, as the annotation `floating-subnet-tags` takes them.
    pub FLOATING_SUBNET_TAGS: String = "floating-subnet-tags";
    /// No load balancer gets a floating IP, whatever the annotation says.
    pub INTERNAL_LB: bool = "internal-lb", kind(TRUTH), default("false");
    /// Only these Nodes are members: a comma list of `label=value`, or `label` alone if its value does not matter.
    pub NODE_SELECTOR: String = "node-selector", otherwise("all Nodes");
    /// A load balancer is deleted with all its parts in one request.
    pub CASCADE_DELETE: bool = "cascade-delete", kind(TRUTH), default("true");
    /// Octavia flavor of new load balancers.
    pub FLAVOR_ID: String = "flavor-id";
    /// Octavia availability zone of new load balancers.
    pub AVAILABILITY_ZONE: String = "availability-zone";
    /// Members are checked.
    pub CREATE_MONITOR: bool = "create-monitor", kind(TRUTH), default("false");
    /// How often a member is checked.
    pub MONITOR_DELAY: Duration = "monitor-delay", kind(Kind::seconds()), default("5s");
    /// How long a check may take.
    pub MONITOR_TIMEOUT: Duration = "monitor-timeout", kind(Kind::seconds()), default("3s");
    /// How many good checks make a member good.
    pub MONITOR_MAX_RETRIES: u16 = "monitor-max-retries", kind(RETRIES), default("1");
    /// How many failed checks make a member bad.
    pub MONITOR_MAX_RETRIES_DOWN: u16 = "monitor-max-retries-down", kind(RETRIES), default("3");
    /// Each Service gets a security group for its node ports, which the Nodes' ports carry.
    pub MANAGE_SECURITY_GROUPS: bool = "manage-security-groups", kind(TRUTH), default("false");
    /// With the PROXY protocol the status is a name, so that traffic from inside goes through the load balancer, too.
    pub ENABLE_INGRESS_HOSTNAME: bool = "enable-ingress-hostname", kind(TRUTH), default("false");
    /// The name is the address with this behind it.
    pub INGRESS_HOSTNAME_SUFFIX: String = "ingress-hostname-suffix", default("nip.io");
    /// Default of the annotation of the same name.
    pub DEFAULT_TLS_CONTAINER_REF: String = "default-tls-container-ref";
    /// Where those are: `barbican`, which is asked for them, or `external`, which is not.
    pub CONTAINER_STORE: String = "container-store", default("barbican");
    /// So many Services may share a load balancer.
    pub MAX_SHARED_LB: u16 = "max-shared-lb", kind(Kind::number(1, 1000)), default("2");
    /// Load balancers are made and changed piece by piece, for providers that take no more.
    pub PROVIDER_REQUIRES_SERIAL_API_CALLS: bool = "provider-requires-serial-api-calls", kind(TRUTH), default("false");
}

provider_kit::declare! {
    /// What a Service may choose by the annotation `class`.
    pub LOAD_BALANCER_CLASS: "[LoadBalancerClass \"name\"] ";

    /// As in `[LoadBalancer]`.
    pub CLASS_FLOATING_NETWORK_ID: String = "floating-network-id", or(&FLOATING_NETWORK_ID);
    /// As in `[LoadBalancer]`.
    pub CLASS_FLOATING_SUBNET_ID: String = "floating-subnet-id", or(&FLOATING_SUBNET_ID);
    /// As in `[LoadBalancer]`.
    pub CLASS_FLOATING_SUBNET: String = "floating-subnet", or(&FLOATING_SUBNET);
    /// As in `[LoadBalancer]`.
    pub CLASS_FLOATING_SUBNET_TAGS: String = "floating-subnet-tags", or(&FLOATING_SUBNET_TAGS);
    /// As in `[LoadBalancer]`.
    pub CLASS_NETWORK_ID: String = "network-id", or(&NETWORK_ID);
    /// As in `[LoadBalancer]`.
    pub CLASS_SUBNET_ID: String = "subnet-id", or(&SUBNET_ID);
    /// As in `[LoadBalancer]`.
    pub CLASS_MEMBER_SUBNET_ID: String = "member-subnet-id", or(&MEMBER_SUBNET_ID);
}

provider_kit::declare! {
    /// Routes.
    pub ROUTE: "[Route] ";

    /// Id of the router that gets routes to Pod CIDRs. Without it there are none.
    pub ROUTER_ID: String = "router-id";
}

provider_kit::declare! {
    /// What is left of the metadata service.
    pub METADATA: "[Metadata] ";

    /// Checked, and not used: this program asks Nova alone.
    pub METADATA_SEARCH_ORDER: String = "search-order", kind(SEARCH_ORDER), default("configDrive,metadataService");
    /// How long each request to any service may take.
    pub REQUEST_TIMEOUT: Duration = "request-timeout", kind(Kind::seconds()), default("60s");
}

provider_kit::declare! {
    /// The environment variables.
    pub VARIABLES: "O";

    /// Exactly `true`: provider ids carry the region.
    pub OS_CCM_REGIONAL: String = "S_CCM_REGIONAL", default("false");
    /// So often a load balancer that changes is looked at before its change counts as failed; the looks are ever rarer, 23 take
    /// four and a half minutes. A day is the most.
    pub OCCM_WAIT_LB_ACTIVE_STEPS: u32 = "CCM_WAIT_LB_ACTIVE_STEPS", kind(POLLS), default("23"), lenient();
    /// Where `clouds.yaml` is, if `clouds-file` does not say it. With `use-clouds`.
    pub OS_CLIENT_CONFIG_FILE: String = "S_CLIENT_CONFIG_FILE", otherwise("it is looked for");
    /// Its entry, if `cloud` does not say it. With `use-clouds`.
    pub OS_CLOUD: String = "S_CLOUD", otherwise("the only one");
}
