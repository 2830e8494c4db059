//! The configuration from `cloud.conf`, `clouds.yaml` and the environment (§1 of the provider's page), validated.

mod auth;
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
pub use provider_kit::transport::Tls;
use secrecy::SecretString;
use serde::Serialize;

/// The configuration, validated.
#[derive(Clone, Debug)]
pub struct Config {
    /// Credential, and the scope of tokens.
    pub auth: Auth,
    /// `[Global] region`: of the catalogue, and the Nodes' region label.
    pub region: Option<String>,
    /// `[Global] os-endpoint-type`.
    pub interface: Interface,
    /// `ca-file`, `cert-file` and `key-file`, `tls-insecure`: towards all services.
    pub tls: Tls,
    /// `OS_CCM_REGIONAL`: provider ids carry the region.
    pub regional: bool,
    /// `[Metadata] request-timeout`: of each request to any service.
    pub request_timeout: Duration,
    /// `[Networking]`.
    pub networking: Networking,
    /// `[LoadBalancer]`, unless `enabled` is false.
    pub balancers: Option<Balancers>,
    /// `[Route] router-id`.
    pub router: Option<String>,
    /// Other files that were read: `clouds.yaml` and the like, certificates. When one of them changes, the configuration is read
    /// again.
    pub files: Vec<PathBuf>,
    /// Warnings about settings that work, but hardly as intended, such as unknown keys: for `doctor` and the log.
    pub warnings: Vec<String>,
}

impl Config {
    /// Returns `true` if only the credential differs.
    #[must_use]
    pub fn differs_in_access_only(&self, other: &Self) -> bool {
        let beyond = |it: &Self| (it.region.clone(), it.interface, it.regional, it.request_timeout, it.router.clone());
        self.auth.may_be_for_the_same(&other.auth)
            && beyond(self) == beyond(other)
            && (&self.networking, &self.balancers) == (&other.networking, &other.balancers)
    }
}

/// The request for a token (§1.2).
#[derive(Clone, Debug)]
pub struct Auth {
    /// `auth-url`, without a slash at its end and without `/v3`.
    pub url: String,
    /// The credential.
    pub method: Method,
    /// The scope of the token.
    pub scope: Scope,
}

impl Auth {
    /// Returns `true` if both may have the same scope at the same Keystone. The scope of a trust or an application credential is
    /// known only from the token.
    pub(crate) fn may_be_for_the_same(&self, other: &Self) -> bool {
        use std::mem::discriminant;
        let is_told = !matches!(self.scope, Scope::Trust(_)) && discriminant(&self.scope) == discriminant(&other.scope);
        self.url == other.url && (!is_told || self.scope == other.scope)
    }
}

/// The method of authentication.
#[derive(Clone, Debug)]
pub enum Method {
    /// User and password; also of a trustee.
    Password {
        /// The user.
        user: User,
        /// Its password.
        password: SecretString,
    },
    /// An application credential. Never with a scope.
    ApplicationCredential {
        /// By id, or by name and user.
        credential: Named,
        /// Its secret.
        secret: SecretString,
    },
    /// A given token, which cannot be renewed.
    Token(SecretString),
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// By its id.
    Id(String),
    /// By its name in a domain.
    Name(String, Domain),
}

/// An application credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its id.
    Id(String),
    /// By its name, of this user.
    Name(String, User),
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// The scope of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The scope of the credential itself.
    None,
    /// A project, by its id.
    ProjectId(String),
    /// A project, by its name in a domain.
    Project(String, Domain),
    /// A domain.
    Domain(Domain),
    /// A trust, by its id.
    Trust(String),
}

/// Interface of a service's endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// `public`.
    #[default]
    Public,
    /// `internal`.
    Internal,
    /// `admin`.
    Admin,
}

/// Addresses of Nodes (§1.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networking {
    /// `ipv6-support-disabled`.
    pub ipv6_disabled: bool,
    /// `public-network-name`.
    pub public: Vec<String>,
    /// `internal-network-name`; empty: all.
    pub internal: Vec<String>,
    /// `address-sort-order`, in order of priority; what is no CIDR is left out.
    pub sort_order: Vec<IpNet>,
}

/// Load balancers (§1.4).
#[derive(Clone, Debug, PartialEq)]
pub struct Balancers {
    /// `lb-provider`.
    pub provider: String,
    /// `lb-method`.
    pub method: String,
    /// Networks and subnets of load balancers, their members and floating IPs.
    pub networks: Networks,
    /// `internal-lb`.
    pub internal: bool,
    /// `node-selector`, as it is written.
    pub node_selector: String,
    /// `cascade-delete`.
    pub cascade_delete: bool,
    /// `flavor-id`.
    pub flavor: Option<String>,
    /// `availability-zone`.
    pub availability_zone: Option<String>,
    /// `create-monitor` and `monitor-…`.
    pub monitor: Monitor,
    /// `manage-security-groups`.
    pub manage_security_groups: bool,
    /// `ingress-hostname-suffix`, if `enable-ingress-hostname`.
    pub ingress_hostname_suffix: Option<String>,
    /// `default-tls-container-ref`.
    pub tls_container: Option<String>,
    /// `container-store` is `barbican`: references are checked.
    pub barbican: bool,
    /// `max-shared-lb`.
    pub max_shared: usize,
    /// `provider-requires-serial-api-calls`.
    pub serial: bool,
    /// `OCCM_WAIT_LB_ACTIVE_STEPS`: number of polls of a load balancer that changes.
    pub wait_steps: u32,
    /// `[LoadBalancerClass "name"]`.
    pub classes: BTreeMap<String, Networks>,
}

/// Networks and subnets of `[LoadBalancer]`, or of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// `network-id`: of the VIP.
    pub network: Option<String>,
    /// `subnet-id`: of the VIP.
    pub subnet: Option<String>,
    /// `member-subnet-id`.
    pub member_subnet: Option<String>,
    /// `floating-network-id`.
    pub floating_network: Option<String>,
    /// `floating-subnet-id`.
    pub floating_subnet_id: Option<String>,
    /// `floating-subnet`: a pattern.
    pub floating_subnet: Option<String>,
    /// `floating-subnet-tags`: an expression.
    pub floating_subnet_tags: Option<String>,
}

/// Health monitors, unless a Service says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// `create-monitor`.
    pub create: bool,
    /// `monitor-delay`.
    pub delay: Duration,
    /// `monitor-timeout`.
    pub timeout: Duration,
    /// `monitor-max-retries`.
    pub max_retries: u16,
    /// `monitor-max-retries-down`.
    pub max_retries_down: u16,
}
