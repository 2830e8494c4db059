//! What a Service asks for: its annotations, and what the environment says where they are silent (§3.2).

use std::net::Ipv4Addr;

use cloud_provider::{LoadBalancerStatus, Service};
use ipnet::IpNet;
use provider_kit::annotations::{Annotation, Annotations, Parsed};
use provider_kit::load_balancers::{Actual, Attributes, in_order};
use provider_kit::node_selector::NodeSelector;
use provider_kit::status::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::wire::{NETWORK, domain};
use crate::annotations::{self as key, CertificateRef, CertificateType, DEFAULT_TYPE, Protocol};
use crate::config;

/// Everything that a Service asks for, beside its ports.
#[derive(Default)]
pub(crate) struct ServiceSpec {
    /// Settings of the load balancer itself.
    pub(super) balancer: Attributes,
    /// `None`: nobody chose one.
    pub(super) balancer_type: Option<String>,
    pub(super) use_private_ip: bool,
    pub(super) private_ipv4: Option<Ipv4Addr>,
    pub(super) private_subnet: Option<IpNet>,
    pub(super) node_selector: Option<NodeSelector>,
    /// Settings of every listener that do not depend on its port.
    pub(super) listener: Attributes,
    pub(super) certificates: Certificates,
    /// What works, but hardly as somebody meant it.
    pub(super) warnings: Vec<String>,
    hostname: Option<String>,
    disable_ipv6: bool,
    disable_private_ingress: bool,
    uses_proxyprotocol: bool,
}

/// The certificates of every listener.
#[derive(Default)]
pub(super) enum Certificates {
    /// Whatever there is.
    #[default]
    Unstated,
    /// These.
    Uploaded(Vec<CertificateRef>),
    /// One that is made for the Service.
    Managed(ManagedCertificate),
}

/// A certificate to be made.
pub(super) struct ManagedCertificate {
    pub(super) name: String,
    pub(super) domains: Vec<String>,
    pub(super) is_staging: bool,
}

/// Reads annotations, and notes those that every listener has.
struct Reader<'a> {
    annotations: Annotations<'a>,
    listener: Attributes,
}

/// The protocols with which settings of HTTP have an effect, and the annotation that says them.
#[derive(Clone, Copy)]
struct Http {
    key: &'static str,
    protocols: &'static str,
    is_spoken: bool,
}

impl Reader<'_> {
    fn get<T>(&mut self, annotation: &Annotation<T>) -> Option<T> {
        self.annotations.get(annotation)
    }

    /// A text; an empty one states nothing.
    fn text(&mut self, annotation: &Annotation<String>) -> Option<String> {
        self.get(annotation).filter(|text| !text.is_empty())
    }

    /// States a setting of the listeners; whether there is anything to state.
    fn state(&mut self, setting: &'static str, value: Option<impl Serialize>) -> bool {
        let is_stated = value.is_some();
        if let Some(value) = value {
            self.listener = std::mem::take(&mut self.listener).set(setting, value);
        }
        is_stated
    }

    /// States a setting of HTTP, or warns that it has no effect.
    fn state_http<T>(&mut self, http: Http, setting: &'static str, annotation: &Annotation<T>, write: fn(T) -> Value) {
        let value = self.get(annotation).map(write).filter(|value| *value != json!("") && *value != json!([]));
        if http.is_spoken {
            self.state(setting, value);
        } else if value.is_some() {
            self.only_with(annotation.key(), http.key, http.protocols);
        }
    }

    fn only_with(&mut self, key: &str, other: &str, value: &str) {
        self.annotations.warning(format!("annotation {key} has no effect unless {other} is {value}"));
    }

    /// Whether the PROXY protocol is spoken.
    fn listener(&mut self, protocol: Protocol, config: &config::Balancers) -> bool {
        let proxy = self.get(&key::USES_PROXYPROTOCOL).or(config.uses_proxyprotocol);
        self.state("protocol", Some(protocol.as_str()));
        self.state("proxyprotocol", proxy);
        let (key, is_http, is_https) = (key::PROTOCOL.key(), protocol != Protocol::Tcp, protocol == Protocol::Https);
        let http = Http { key, protocols: "http or https", is_spoken: is_http };
        let https = Http { key, protocols: "https", is_spoken: is_https };
        self.state_http(http, "http.cookie_name", &key::HTTP_COOKIE_NAME, |it| json!(it));
        self.state_http(http, "http.cookie_lifetime", &key::HTTP_COOKIE_LIFETIME, |it| json!(it.as_secs()));
        self.state_http(http, "http.timeout_idle", &key::HTTP_TIMEOUT_IDLE, |it| json!(it.as_secs()));
        self.state_http(https, "http.redirect_http", &key::HTTP_REDIRECT_HTTP, |it| json!(it));
        self.state_http(http, "http.sticky_sessions", &key::HTTP_STICKY_SESSIONS, |it| json!(it));
        self.check(protocol, config);
        proxy.unwrap_or_default()
    }

    /// How targets are checked: TCP at the node port, unless anything else is said.
    fn check(&mut self, spoken: Protocol, config: &config::Balancers) {
        let protocol = self.get(&key::HEALTH_CHECK_PROTOCOL);
        let port = self.get(&key::HEALTH_CHECK_PORT);
        let interval = self.get(&key::HEALTH_CHECK_INTERVAL).or(config.health_check_interval);
        let timeout = self.get(&key::HEALTH_CHECK_TIMEOUT).or(config.health_check_timeout);
        let retries = self.get(&key::HEALTH_CHECK_RETRIES).or(config.health_check_retries);
        let stated = [
            protocol.is_some(),
            self.state("health_check.port", port),
            self.state("health_check.interval", interval.map(|it| it.as_secs())),
            self.state("health_check.timeout", timeout.map(|it| it.as_secs())),
            self.state("health_check.retries", retries),
        ];
        let protocol = if stated.contains(&true) { protocol.unwrap_or(spoken) } else { Protocol::Tcp };
        self.state("health_check.protocol", Some(protocol.as_str()));
        let (key, is_spoken) = (key::HEALTH_CHECK_PROTOCOL.key(), protocol != Protocol::Tcp);
        let http = Http { key, protocols: "http or https", is_spoken };
        self.state_http(http, "health_check.http.domain", &key::HEALTH_CHECK_HTTP_DOMAIN, |it| json!(it));
        self.state_http(http, "health_check.http.path", &key::HEALTH_CHECK_HTTP_PATH, |it| json!(it));
        self.state_http(http, "health_check.http.tls", &key::HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE, |it| json!(it));
        let codes = |codes| in_order(json!(codes));
        self.state_http(http, "health_check.http.status_codes", &key::HTTP_STATUS_CODES, codes);
    }

    fn warnings(&mut self) -> Vec<String> {
        self.annotations.unknown(key::PREFIX, key::ALL);
        self.annotations.warnings().to_vec()
    }

    fn certificates(&mut self, service: &Service, protocol: Protocol) -> Certificates {
        let names = self.get(&key::HTTP_CERTIFICATES).filter(|names| !names.is_empty());
        let name = self.text(&key::HTTP_MANAGED_CERTIFICATE_NAME);
        let domains = self.get(&key::HTTP_MANAGED_CERTIFICATE_DOMAINS).unwrap_or_default();
        let is_staging = self.get(&key::HTTP_MANAGED_CERTIFICATE_ACME_STAGING).unwrap_or_default();
        let kind = self.get(&key::CERTIFICATE_TYPE);
        if protocol != Protocol::Https {
            if names.is_some() || kind == Some(CertificateType::Managed) {
                self.only_with(key::HTTP_CERTIFICATES.key(), key::PROTOCOL.key(), "https");
            }
            return Certificates::Unstated;
        }
        let kind_key = key::CERTIFICATE_TYPE.key();
        match kind {
            Some(CertificateType::Uploaded) | None => {
                if !domains.is_empty() {
                    self.only_with(key::HTTP_MANAGED_CERTIFICATE_DOMAINS.key(), kind_key, "managed");
                }
                names.map_or(Certificates::Unstated, Certificates::Uploaded)
            }
            Some(CertificateType::Managed) => {
                if names.is_some() {
                    self.only_with(key::HTTP_CERTIFICATES.key(), kind_key, "uploaded");
                }
                if domains.is_empty() {
                    self.annotations.mistake(format!(
                        "annotation {}: a managed certificate needs at least one domain",
                        key::HTTP_MANAGED_CERTIFICATE_DOMAINS.key()
                    ));
                }
                let uid = service.metadata.uid.as_deref().unwrap_or_default();
                let name = name.unwrap_or_else(|| format!("ccm-managed-certificate-{uid}"));
                Certificates::Managed(ManagedCertificate { name, domains, is_staging })
            }
        }
    }
}

impl ServiceSpec {
    /// Parses a Service's annotations.
    pub(super) fn of(service: &Service, config: &config::Balancers) -> Parsed<Self> {
        let mut reader = Reader { annotations: Annotations::of(service), listener: Attributes::default() };
        let read = &mut reader;
        let protocol = read.get(&key::PROTOCOL).unwrap_or_default();
        let certificates = read.certificates(service, protocol);
        let uses_proxyprotocol = read.listener(protocol, config);
        // An empty text cancels what the environment says.
        let placed = |annotation: Option<String>, default: &Option<String>| {
            annotation.or_else(|| default.clone()).filter(|text| !text.is_empty())
        };
        let location = placed(read.get(&key::LOCATION), &config.location);
        let network_zone = placed(read.get(&key::NETWORK_ZONE), &config.network_zone);
        let algorithm = read.get(&key::ALGORITHM_TYPE).or(config.algorithm);
        let is_private = read.get(&key::DISABLE_PUBLIC_NETWORK).or(config.disable_public_network);
        // An empty type cannot be had, and so states nothing.
        let balancer_type = read.text(&key::TYPE).or_else(|| config.balancer_type.clone());
        let balancer = Attributes::default()
            .set("type", balancer_type.as_deref().unwrap_or(DEFAULT_TYPE))
            .set("name", read.text(&key::NAME))
            .set("network_zone", network_zone.filter(|_| location.is_none()))
            .set("location", location)
            .set("algorithm", algorithm.map(config::Algorithm::as_str))
            .set("public", is_private.map(|is_private| !is_private))
            .set("ipv4_rdns", read.text(&key::IPV4_RDNS).as_deref().map(domain))
            .set("ipv6_rdns", read.text(&key::IPV6_RDNS).as_deref().map(domain))
            .to_make()
            .fixed(&["location", "network_zone"]);
        // A type that nobody chose is not a reason to make a load balancer smaller.
        let balancer = if balancer_type.is_none() { balancer.fixed(&["type"]) } else { balancer };
        let spec = Self {
            balancer,
            balancer_type,
            use_private_ip: read.get(&key::USE_PRIVATE_IP).unwrap_or(config.use_private_ip),
            private_ipv4: read.get(&key::PRIVATE_IPV4),
            private_subnet: read.get(&key::PRIVATE_SUBNET_IP_RANGE).or(config.private_subnet),
            node_selector: read.get(&key::NODE_SELECTOR),
            certificates,
            uses_proxyprotocol,
            hostname: read.text(&key::HOSTNAME),
            disable_ipv6: read.get(&key::IPV6_DISABLED).unwrap_or(config.disable_ipv6),
            disable_private_ingress: read.get(&key::DISABLE_PRIVATE_INGRESS).unwrap_or(config.disable_private_ingress),
            listener: std::mem::take(&mut read.listener),
            warnings: read.warnings(),
        };
        reader.annotations.parsed(spec)
    }

    /// Where a Service is reached, by its load balancer.
    pub(super) fn status(&self, actual: &Actual) -> LoadBalancerStatus {
        let tree = actual.tree.as_ref();
        let balancer = tree.and_then(|tree| tree.balancer_attributes());
        let is_public = balancer.and_then(|it| it.get("public")?.as_bool()).unwrap_or_default();
        let public = ["ipv4", "ipv6"].into_iter().filter_map(|key| balancer.filter(|_| is_public)?.text(key));
        let parts = tree.filter(|_| !self.disable_private_ingress).into_iter().flat_map(|tree| tree.parts.iter());
        let private =
            parts.filter(|(part, _)| part.is_of_kind(NETWORK)).filter_map(|(_, settings)| settings.text("ip"));
        Status::default()
            .hostname(self.hostname.as_deref())
            .proxied(self.uses_proxyprotocol)
            .without_ipv6(self.disable_ipv6)
            .addresses(public.chain(private))
            .build()
    }
}
