//! What `cloud.conf`, `clouds.yaml` and the environment say (§1 of the provider's page), validated.

mod auth;
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
pub use provider_kit::transport::Tls;
use secrecy::SecretString;

/// The configuration, validated.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who we are.
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
    /// What was read beside the configuration file: `clouds.yaml` and the like, certificates. When one of them changes, the
    /// configuration is read again.
    pub files: Vec<PathBuf>,
    /// What works, but hardly as somebody meant it, such as keys that nobody reads: for `doctor`. The log has it too.
    pub warnings: Vec<String>,
}

impl Config {
    /// Whether it asks for the same of the same cloud, with the same or another credential.
    #[must_use]
    pub fn differs_in_access_only(&self, other: &Self) -> bool {
        let beyond = |it: &Self| (it.region.clone(), it.interface, it.regional, it.request_timeout, it.router.clone());
        self.auth.may_be_for_the_same(&other.auth)
            && beyond(self) == beyond(other)
            && (&self.networking, &self.balancers) == (&other.networking, &other.balancers)
    }
}

/// Who we are, to Keystone (§1.2).
#[derive(Clone, Debug)]
pub struct Auth {
    /// `auth-url`, without a slash at its end and without `/v3`.
    pub url: String,
    /// How we prove it.
    pub method: Method,
    /// What the token is for.
    pub scope: Scope,
}

impl Auth {
    /// Whether it may be for what another one is for, of the same Keystone. Where that is said otherwise, by a trust or an application
    /// credential, only the token tells.
    pub(crate) fn may_be_for_the_same(&self, other: &Self) -> bool {
        use std::mem::discriminant;
        let is_told = !matches!(self.scope, Scope::Trust(_)) && discriminant(&self.scope) == discriminant(&other.scope);
        self.url == other.url && (!is_told || self.scope == other.scope)
    }
}

/// How a token is asked for.
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
    /// A token that somebody else made: it cannot be renewed.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What the credential itself says.
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

/// Which of a service's endpoints is used.
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

/// Which addresses Nodes get (§1.3).
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
    /// Where load balancers, their members and floating IPs are.
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
    /// `OCCM_WAIT_LB_ACTIVE_STEPS`: so often a load balancer that changes is looked at.
    pub wait_steps: u32,
    /// `[LoadBalancerClass "name"]`.
    pub classes: BTreeMap<String, Networks>,
}

/// Where things are: of `[LoadBalancer]`, or of a class.
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
