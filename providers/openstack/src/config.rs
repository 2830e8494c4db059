//! The configuration from `cloud.conf`, `clouds.yaml` and the environment, validated.

mod auth;
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use provider_kit::declared::Defaults;
use provider_kit::gcfg::Key;
pub use provider_kit::transport::Tls;
use secrecy::SecretString;
use serde::Serialize;

use crate::keys::{
    CONTAINER_STORE, ENABLE_INGRESS_HOSTNAME, INGRESS_HOSTNAME_SUFFIX, LB_METHOD, LB_PROVIDER,
};

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// Credential, and the scope of tokens.
    pub auth: Auth,
    /// `[Global] region`: of the catalogue, and the Nodes' region label.
    pub region: Option<String>,
    /// Value of `[Global] os-endpoint-type`.
    pub interface: Interface,
    /// `ca-file`, `cert-file` and `key-file`, `tls-insecure`: towards all services.
    pub tls: Tls,
    /// `OS_CCM_REGIONAL`: provider ids carry the region.
    pub regional: bool,
    /// `[Metadata] request-timeout`: of each request to any service.
    pub request_timeout: Duration,
    /// Settings of the section `[Networking]`.
    pub networking: Networking,
    /// `[LoadBalancer]`, unless `enabled` is false.
    pub balancers: Option<Balancers>,
    /// Value of `[Route] router-id`.
    pub router: Option<String>,
    /// Other files that were read: `clouds.yaml` and the like, certificates. When one of them changes, the configuration is read
    /// again.
    pub files: Vec<PathBuf>,
    /// Warnings about settings that work, but hardly as intended, such as unknown keys: for `doctor` and the log.
    pub warnings: Vec<String>,
}

impl Config {
    /// Returns `true` if at most the credential and the TLS files differ, which can be reloaded without a restart.
    #[must_use]
    pub fn differs_in_access_only(&self, other: &Self) -> bool {
        let beyond = |config: &Self| {
            (
                config.region.clone(),
                config.interface,
                config.regional,
                config.request_timeout,
                config.router.clone(),
            )
        };
        self.auth.may_be_for_the_same(&other.auth)
            && beyond(self) == beyond(other)
            && (&self.networking, &self.balancers) == (&other.networking, &other.balancers)
    }
}

/// The request for a token.
#[derive(Clone, Debug)]
pub struct Auth {
    /// `auth-url`, without a slash at its end and without `/v3`.
    pub url: String,
    /// Method and credential of the authentication.
    pub method: Method,
    /// The scope of the token.
    pub scope: Scope,
}

impl Auth {
    /// Returns `true` if both may have the same scope at the same Keystone. The scope of a trust or an application credential is
    /// known only from the token.
    pub(crate) fn may_be_for_the_same(&self, other: &Self) -> bool {
        use std::mem::discriminant;
        let is_told = !matches!(self.scope, Scope::Trust(_))
            && discriminant(&self.scope) == discriminant(&other.scope);
        self.url == other.url && (!is_told || self.scope == other.scope)
    }
}

/// The method of authentication.
#[derive(Clone, Debug)]
pub enum Method {
    /// User and password; also of a trustee.
    Password {
        /// The user who authenticates.
        user: User,
        /// Password of the user.
        password: SecretString,
    },
    /// An application credential. Never with a scope.
    ApplicationCredential {
        /// ID of the credential, or its name and user.
        credential: Named,
        /// Secret of the application credential.
        secret: SecretString,
    },
    /// A given token, which cannot be renewed.
    Token(SecretString),
}

/// A user of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// ID of the user.
    Id(String),
    /// Name of the user in a domain.
    Name(String, Domain),
}

/// An application credential of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// ID of the application credential.
    Id(String),
    /// Name of the credential, and its user.
    Name(String, User),
}

/// A domain of Keystone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// ID of the domain.
    Id(String),
    /// Name of the domain.
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
    /// A domain instead of a project.
    Domain(Domain),
    /// A trust, by its id.
    Trust(String),
}

/// Interface of a service's endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The endpoint `public` of the catalogue.
    #[default]
    Public,
    /// The endpoint `internal` of the catalogue.
    Internal,
    /// The endpoint `admin` of the catalogue.
    Admin,
}

/// Settings of Nodes' addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networking {
    /// Value of `ipv6-support-disabled`; if set, Nodes have no IPv6 addresses.
    pub ipv6_disabled: bool,
    /// Values of `public-network-name`, whose addresses are external.
    pub public: Vec<String>,
    /// Values of `internal-network-name`; empty: all networks.
    pub internal: Vec<String>,
    /// Values of `address-sort-order`, in order of priority; items that are not CIDRs are left out.
    pub sort_order: Vec<IpNet>,
}

/// Settings of load balancers.
#[derive(Clone, Debug, PartialEq)]
pub struct Balancers {
    /// Values of the section `[LoadBalancer]`.
    pub settings: Defaults,
    /// `[LoadBalancerClass "name"]`.
    pub classes: BTreeMap<String, Defaults>,
    /// If not set, no configuration file was given, as in an offline `check`, so the names of classes are unknown.
    pub has_file: bool,
    /// `OCCM_WAIT_LB_ACTIVE_STEPS`: number of polls of a load balancer that changes.
    pub wait_steps: u32,
}

impl Balancers {
    /// Returns the value of a key of `[LoadBalancer]`, else its default.
    #[must_use]
    pub fn get<T>(&self, key: &Key<T>) -> Option<T> {
        self.settings.get(key)
    }

    /// Returns the truth value of a key of `[LoadBalancer]`.
    #[must_use]
    pub fn flag(&self, key: &Key<bool>) -> bool {
        self.get(key).unwrap_or_default()
    }

    /// Returns the name of Octavia's provider.
    #[must_use]
    pub fn provider(&self) -> String {
        self.get(&LB_PROVIDER).unwrap_or_default()
    }

    /// Returns the algorithm that chooses a member: OVN has only one.
    #[must_use]
    pub fn method(&self) -> String {
        let default = if self.provider() == "ovn" {
            "SOURCE_IP_PORT"
        } else {
            "ROUND_ROBIN"
        };
        self.get(&LB_METHOD).unwrap_or_else(|| default.to_owned())
    }

    /// Returns the suffix of host names, if enabled.
    #[must_use]
    pub fn ingress_hostname_suffix(&self) -> Option<String> {
        self.get(&INGRESS_HOSTNAME_SUFFIX)
            .filter(|_| self.flag(&ENABLE_INGRESS_HOSTNAME))
    }

    /// Returns `true` if references to containers are checked in Barbican.
    #[must_use]
    pub fn has_barbican(&self) -> bool {
        self.get(&CONTAINER_STORE).as_deref() == Some("barbican")
    }
}
