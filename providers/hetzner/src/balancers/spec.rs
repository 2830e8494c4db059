//! A Service, parsed once: its annotations, and the variables to which they fall back.

use std::net::Ipv4Addr;

use cloud_provider::{LoadBalancerStatus, Service};
use ipnet::IpNet;
use provider_kit::annotations::{Annotation, Annotations, Parsed};
use provider_kit::declared::Defaults;
use provider_kit::load_balancers::{
    Attributes, ObservedLoadBalancer, ServicePort, service_ports, sorted_set,
};
use provider_kit::node_selector::NodeSelector;
use provider_kit::source_ranges::{allows_all, source_ranges};
use provider_kit::status::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::wire::{BalancerSettings, NETWORK};
use crate::annotations::{self as key, CertificateRef, CertificateType, DEFAULT_TYPE, Protocol};

/// The settings of a Service, without its ports.
#[derive(Default)]
pub(crate) struct ServiceSpec {
    /// Settings of the load balancer itself.
    pub(super) balancer: Attributes,
    /// `None` if neither annotation nor variable states one.
    pub(super) balancer_type: Option<String>,
    pub(super) use_private_ip: bool,
    pub(super) private_ipv4: Option<Ipv4Addr>,
    pub(super) private_subnet: Option<IpNet>,
    pub(super) node_selector: Option<NodeSelector>,
    /// Settings of every listener that do not depend on its port.
    pub(super) listener: Attributes,
    pub(super) certificates: Certificates,
    /// TCP ports of the Service.
    pub(super) ports: Vec<ServicePort>,
    /// Warnings about settings that probably do not do what the user intends: reason and text of each event.
    pub(super) warnings: Vec<(&'static str, String)>,
    hostname: Option<String>,
    disable_ipv6: bool,
    disable_private_ingress: bool,
    uses_proxyprotocol: bool,
}

/// The certificates of every listener.
#[derive(Default)]
pub(super) enum Certificates {
    /// No statement: certificates of the load balancer stay.
    #[default]
    Unstated,
    /// Certificates that a user uploaded.
    Uploaded(Vec<CertificateRef>),
    /// A certificate that is created for the Service.
    Managed(ManagedCertificate),
}

/// A certificate to create.
pub(super) struct ManagedCertificate {
    pub(super) name: String,
    pub(super) domains: Vec<String>,
    pub(super) is_staging: bool,
}

/// Reads annotations, and collects the settings of every listener.
struct Reader<'a> {
    service: &'a Service,
    annotations: Annotations<'a>,
    listener: Attributes,
}

/// Reason of events about annotations.
const QUESTIONABLE: &str = "QuestionableAnnotation";

/// Protocols for which settings of HTTP have an effect, and the annotation that sets them.
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

    /// Returns the text of an annotation; `None` if it is unset or empty.
    fn text(&mut self, annotation: &Annotation<String>) -> Option<String> {
        self.get(annotation).filter(|text| !text.is_empty())
    }

    /// Returns the value of an annotation; an empty text, an empty list and, in a variable, zero count as unset.
    fn value<T: Serialize>(&mut self, annotation: &Annotation<T>) -> Option<Value> {
        let is_set = self.annotations.is_set(annotation);
        let value = self.get(annotation).map(|value| sorted_set(json!(value)));
        value.filter(|object| {
            *object != json!("") && *object != json!([]) && (is_set || *object != json!(0))
        })
    }

    fn set(&mut self, setting: &'static str, value: impl Serialize) {
        self.listener = std::mem::take(&mut self.listener).set(setting, value);
    }

    /// Sets a setting of the listeners. Returns `true` if the annotation states one.
    fn state<T: Serialize>(&mut self, setting: &'static str, annotation: &Annotation<T>) -> bool {
        self.value(annotation)
            .map(|value| self.set(setting, value))
            .is_some()
    }

    /// Sets a setting of HTTP, or warns that it has no effect.
    fn state_http<T: Serialize>(
        &mut self,
        http: Http,
        setting: &'static str,
        annotation: &Annotation<T>,
    ) {
        match self.value(annotation) {
            Some(value) if http.is_spoken => self.set(setting, value),
            Some(_) => self.only_with(annotation.key(), http.key, http.protocols),
            None => {}
        }
    }

    /// Returns `true` if the Service has a text in this annotation.
    fn is_stated(&self, key: &str) -> bool {
        self.service
            .metadata
            .annotations
            .iter()
            .flatten()
            .any(|(annotation, text)| annotation == key && !text.is_empty())
    }

    fn only_with(&mut self, key: &str, other: &str, value: &str) {
        self.annotations.warning(format!(
            "annotation {key} has no effect unless {other} is {value}"
        ));
    }

    fn listener(&mut self, protocol: Protocol) {
        self.set("protocol", protocol);
        self.state("proxyprotocol", &key::USES_PROXYPROTOCOL);
        let key = key::PROTOCOL.key();
        let http = Http {
            key,
            protocols: "http or https",
            is_spoken: protocol != Protocol::Tcp,
        };
        let https = Http {
            key,
            protocols: "https",
            is_spoken: protocol == Protocol::Https,
        };
        if http.is_spoken && self.get(&key::HTTP_STICKY_SESSIONS) != Some(true) {
            let sticky = key::HTTP_STICKY_SESSIONS.key();
            for cookie in [key::HTTP_COOKIE_NAME.key(), key::HTTP_COOKIE_LIFETIME.key()] {
                if self.is_stated(cookie) {
                    self.only_with(cookie, sticky, "true");
                }
            }
        }
        self.state_http(http, "http.cookie_name", &key::HTTP_COOKIE_NAME);
        self.state_http(http, "http.cookie_lifetime", &key::HTTP_COOKIE_LIFETIME);
        self.state_http(http, "http.timeout_idle", &key::HTTP_TIMEOUT_IDLE);
        self.state_http(https, "http.redirect_http", &key::HTTP_REDIRECT_HTTP);
        self.state_http(http, "http.sticky_sessions", &key::HTTP_STICKY_SESSIONS);
        self.check(protocol);
    }

    /// Sets the health check: TCP at the node port, unless an annotation sets something else.
    fn check(&mut self, spoken: Protocol) {
        let protocol = self.get(&key::HEALTH_CHECK_PROTOCOL);
        let stated = [
            protocol.is_some(),
            self.state("health_check.port", &key::HEALTH_CHECK_PORT),
            self.state("health_check.interval", &key::HEALTH_CHECK_INTERVAL),
            self.state("health_check.timeout", &key::HEALTH_CHECK_TIMEOUT),
            self.state("health_check.retries", &key::HEALTH_CHECK_RETRIES),
        ];
        let protocol = if stated.contains(&true) {
            protocol.unwrap_or(spoken)
        } else {
            Protocol::Tcp
        };
        self.set("health_check.protocol", protocol);
        let key = key::HEALTH_CHECK_PROTOCOL.key();
        let is_spoken = protocol != Protocol::Tcp;
        let http = Http {
            key,
            protocols: "http or https",
            is_spoken,
        };
        self.state_http(
            http,
            "health_check.http.domain",
            &key::HEALTH_CHECK_HTTP_DOMAIN,
        );
        self.state_http(http, "health_check.http.path", &key::HEALTH_CHECK_HTTP_PATH);
        self.state_http(
            http,
            "health_check.http.tls",
            &key::HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE,
        );
        self.state_http(
            http,
            "health_check.http.status_codes",
            &key::HTTP_STATUS_CODES,
        );
    }

    fn certificates(&mut self, service: &Service, protocol: Protocol) -> Certificates {
        let names = self
            .get(&key::HTTP_CERTIFICATES)
            .filter(|names| !names.is_empty());
        let name = self.text(&key::HTTP_MANAGED_CERTIFICATE_NAME);
        let domains = self
            .get(&key::HTTP_MANAGED_CERTIFICATE_DOMAINS)
            .unwrap_or_default();
        let is_staging = self
            .get(&key::HTTP_MANAGED_CERTIFICATE_ACME_STAGING)
            .unwrap_or_default();
        let kind = self.get(&key::CERTIFICATE_TYPE);
        let of_managed = [
            key::HTTP_MANAGED_CERTIFICATE_NAME.key(),
            key::HTTP_MANAGED_CERTIFICATE_DOMAINS.key(),
            key::HTTP_MANAGED_CERTIFICATE_ACME_STAGING.key(),
        ];
        if protocol != Protocol::Https {
            for unused in [key::HTTP_CERTIFICATES.key(), key::CERTIFICATE_TYPE.key()]
                .into_iter()
                .chain(of_managed)
            {
                if self.is_stated(unused) {
                    self.only_with(unused, key::PROTOCOL.key(), "https");
                }
            }
            return Certificates::Unstated;
        }
        let kind_key = key::CERTIFICATE_TYPE.key();
        match kind {
            Some(CertificateType::Uploaded) | None => {
                for unused in of_managed {
                    if self.is_stated(unused) {
                        self.only_with(unused, kind_key, "managed");
                    }
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
                Certificates::Managed(ManagedCertificate {
                    name,
                    domains,
                    is_staging,
                })
            }
        }
    }
}

/// Returns the TCP ports, and warnings about the others.
fn ports(
    service: &Service,
    read: &mut Annotations<'_>,
) -> (Vec<ServicePort>, Vec<(&'static str, String)>) {
    let ports = service_ports(service, &["TCP", "UDP", "SCTP"]);
    let ports = ports
        .map_err(|error| read.mistake(error.to_string()))
        .unwrap_or_default();
    let (served, others): (Vec<_>, Vec<_>) =
        ports.into_iter().partition(|port| port.protocol == "TCP");
    let unserved = |ServicePort {
                        number, protocol, ..
                    }: ServicePort| {
        let text = format!(
            "port {number}/{protocol} is not served: load balancers of Hetzner Cloud speak TCP only"
        );
        ("UnsupportedProtocolConfigured", text)
    };
    (served, others.into_iter().map(unserved).collect())
}

/// Warns of fields and annotations of the Service that load balancers of Hetzner Cloud do not have.
fn unsupported(service: &Service, read: &mut Annotations<'_>) {
    let spec = service.spec.clone().unwrap_or_default();
    if let Some(ip) = spec.load_balancer_ip.filter(|ip| !ip.is_empty()) {
        read.warning(format!(
            "spec.loadBalancerIP: {ip:?} has no effect: Hetzner Cloud chooses the addresses of load balancers; remove it"
        ));
    }
    if let Some(affinity) = spec
        .session_affinity
        .filter(|session_affinity| !session_affinity.is_empty() && session_affinity != "None")
    {
        let sticky = key::HTTP_STICKY_SESSIONS.key();
        let protocol = key::PROTOCOL.key();
        read.warning(format!(
            "spec.sessionAffinity: {affinity:?} has no effect on the load balancer; use annotation {sticky} with \
             {protocol} http or https"
        ));
    }
    if key::ID.text_on(service).is_some() {
        let id = key::ID.key();
        let name = key::NAME.key();
        read.warning(format!(
            "annotation {id} has no effect; choose a load balancer by its name with annotation {name}"
        ));
    }
}

/// Returns a warning about source ranges that have no effect.
fn unrestricted(service: &Service) -> Option<(&'static str, String)> {
    let text = "loadBalancerSourceRanges have no effect: load balancers of Hetzner Cloud have no firewall, and everybody can \
                reach this one";
    let allows_all = source_ranges(service).is_ok_and(|ranges| allows_all(&ranges));
    (!allows_all).then(|| ("UnsupportedSourceRanges", text.to_owned()))
}

impl ServiceSpec {
    /// Parses a Service's annotations and ports.
    pub(super) fn of(service: &Service, defaults: &Defaults) -> Parsed<Self> {
        let annotations = Annotations::of(service).over(defaults);
        let mut reader = Reader {
            service,
            annotations,
            listener: Attributes::default(),
        };
        let read = &mut reader;
        let protocol = read.get(&key::PROTOCOL).unwrap_or_default();
        let certificates = read.certificates(service, protocol);
        read.listener(protocol);
        // An empty text cancels the variable.
        let location = read.text(&key::LOCATION);
        let network_zone = read.text(&key::NETWORK_ZONE);
        if let (Some(_), Some(_)) = (
            key::LOCATION.text_on(service),
            key::NETWORK_ZONE.text_on(service),
        ) {
            let location = key::LOCATION.key();
            let zone = key::NETWORK_ZONE.key();
            read.annotations.warning(format!(
                "annotation {zone} has no effect beside {location}; remove one"
            ));
        }
        // An empty type counts as unset.
        let balancer_type = read
            .text(&key::TYPE)
            .or_else(|| read.annotations.default(&key::TYPE));
        let balancer = BalancerSettings(json!({
            "type": balancer_type.as_deref().unwrap_or(DEFAULT_TYPE),
            "name": read.text(&key::NAME),
            "network_zone": network_zone.filter(|_| location.is_none()),
            "location": location,
            "algorithm": read.get(&key::ALGORITHM_TYPE),
            "public": read.get(&key::DISABLE_PUBLIC_NETWORK).map(|is_private| !is_private),
            "ipv4_rdns": read.text(&key::IPV4_RDNS),
            "ipv6_rdns": read.text(&key::IPV6_RDNS),
        }));
        let balancer = Attributes::desired(&balancer).unwrap_or_default();
        // A default type must not shrink a load balancer.
        let balancer = if balancer_type.is_none() {
            balancer.fixed(&["type"])
        } else {
            balancer
        };
        read.annotations.unknown(key::PREFIX, key::ALL);
        unsupported(service, &mut read.annotations);
        let (ports, mut warnings) = ports(service, &mut read.annotations);
        warnings.extend(unrestricted(service));
        let disables_private_ingress = read.get(&key::DISABLE_PRIVATE_INGRESS).unwrap_or_default();
        let hostname = read.text(&key::HOSTNAME);
        if disables_private_ingress
            && hostname.is_none()
            && read.get(&key::DISABLE_PUBLIC_NETWORK) == Some(true)
        {
            read.annotations.warning(format!(
                "annotations {} and {} leave the Service without an address; remove one, or set {}",
                key::DISABLE_PUBLIC_NETWORK.key(),
                key::DISABLE_PRIVATE_INGRESS.key(),
                key::HOSTNAME.key()
            ));
        }
        let spec = Self {
            ports,
            balancer,
            balancer_type,
            use_private_ip: read.get(&key::USE_PRIVATE_IP).unwrap_or_default(),
            private_ipv4: read.get(&key::PRIVATE_IPV4),
            private_subnet: read.get(&key::PRIVATE_SUBNET_IP_RANGE),
            node_selector: read.get(&key::NODE_SELECTOR),
            certificates,
            uses_proxyprotocol: read.get(&key::USES_PROXYPROTOCOL).unwrap_or_default(),
            hostname,
            disable_ipv6: read.get(&key::IPV6_DISABLED).unwrap_or_default(),
            disable_private_ingress: disables_private_ingress,
            listener: std::mem::take(&mut read.listener),
            warnings: Vec::new(),
        };
        let questionable = reader
            .annotations
            .warnings()
            .iter()
            .map(|text| (QUESTIONABLE, text.clone()))
            .collect();
        let mut texts: Vec<_> = warnings.iter().map(|(_, text)| text.clone()).collect();
        // An existing load balancer may have certificates that a user added in the cloud, so this is no event.
        if protocol == Protocol::Https && matches!(spec.certificates, Certificates::Unstated) {
            texts.push(super::apply::needs_certificate());
        }
        let spec = Self {
            warnings: [questionable, warnings].concat(),
            ..spec
        };
        reader.annotations.parsed(spec).warned(texts)
    }

    /// Returns the addresses of the load balancer, as the Service publishes them.
    pub(super) fn status(&self, actual: &ObservedLoadBalancer) -> LoadBalancerStatus {
        let graph = actual.graph.as_ref();
        let balancer = graph.and_then(|graph| graph.balancer_attributes());
        let is_public = balancer
            .and_then(|settings| settings.get("public")?.as_bool())
            .unwrap_or_default();
        let public = ["ipv4", "ipv6"]
            .into_iter()
            .filter_map(|key| balancer.filter(|_| is_public)?.text(key));
        let resources = graph
            .filter(|_| !self.disable_private_ingress)
            .into_iter()
            .flat_map(|graph| graph.resources.iter());
        let private = resources
            .filter(|(resource, _)| resource.is_of_kind(NETWORK))
            .filter_map(|(_, settings)| settings.text("ip"));
        Status::default()
            .hostname(self.hostname.as_deref())
            .proxied(self.uses_proxyprotocol)
            .without_ipv6(self.disable_ipv6)
            .addresses(public.chain(private))
            .build()
    }
}
