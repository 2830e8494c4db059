//! The Service, parsed into the objects of its load balancer. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{Error, Service};
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::health_check::HealthCheck;
use provider_kit::load_balancers::{ServicePort, filled, service_ports};
use provider_kit::source_ranges::{allows_all, configured_source_ranges};

use super::objects::{
    Acl, Group, LABEL_CLUSTER, LABEL_KEEP_ON_DELETE, LABEL_MANAGED_BY, LABEL_SERVICE, LABEL_UID,
    Listener, MANAGED, PRESERVED, Settings,
};
use crate::annotations as key;
use crate::config::Config;

/// The most entries of an access list.
const MOST_ENTRIES: usize = 300;

/// The load balancer configuration of a Service.
#[derive(Default)]
pub(crate) struct Spec {
    pub(super) settings: Settings,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ports: Vec<PortSpec>,
    /// Entries of the managed access list; empty if there is no list.
    pub(super) ranges: Vec<String>,
    pub(super) selector: String,
    pub(super) group: Option<String>,
    pub(super) weight: u32,
    pub(super) hostname: Option<String>,
    pub(super) drain: Duration,
    pub(super) allows_recreation: bool,
    pub(super) allows_interruption: bool,
    /// Warnings about annotations, for events.
    pub(super) warnings: Vec<String>,
}

/// A port of a Service: the listener, and the group behind it.
pub(super) struct PortSpec {
    pub(super) port: ServicePort,
    pub(super) listener: Listener,
    pub(super) group: Group,
    /// Name of the Secret with the certificate.
    pub(super) secret: Option<String>,
}

impl Spec {
    pub(super) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let mut read = Annotations::of(service).over(&config.settings);
        let mut settings: Settings = filled(&mut read);
        if settings.ip.is_none() {
            settings.ip = service
                .spec
                .as_ref()
                .and_then(|spec| spec.load_balancer_ip.clone())
                .filter(|ip| !ip.is_empty());
        }
        settings.ip_family = settings
            .ip_family
            .or_else(|| Some(family(service).to_owned()));
        if settings.bandwidth_mbps.is_some() && settings.network_type.as_deref() != Some("internet")
        {
            read.mistake(format!(
                "annotation {} needs {}: internet",
                key::BANDWIDTH.key(),
                key::NETWORK_TYPE.key()
            ));
        }
        let ports = service_ports(service, &["TCP", "UDP"]).unwrap_or_else(|error| {
            read.mistake(error.to_string());
            Vec::new()
        });
        warn_of_unknown(service, &mut read);
        let ranges = ranges(service, &mut read);
        let acl = acl(&ranges, &mut read);
        let port_spec = |port: &ServicePort| port_spec(port, service, config, &acl, &mut read);
        let ports = ports.iter().map(port_spec).collect();
        let spec = Self {
            settings,
            labels: labels(service, config, &mut read),
            ports,
            ranges,
            selector: read.get(&key::BACKEND_SELECTOR).unwrap_or_default(),
            group: read.get(&key::BACKEND_GROUP),
            weight: read.get(&key::BACKEND_WEIGHT).unwrap_or_default(),
            hostname: read.get(&key::HOSTNAME).filter(|name| !name.is_empty()),
            drain: read.get(&key::DRAIN_TIMEOUT).unwrap_or_default(),
            allows_recreation: read.get(&key::ALLOW_RECREATE).unwrap_or_default(),
            allows_interruption: read.get(&key::ALLOW_INTERRUPTION).unwrap_or_default(),
            warnings: Vec::new(),
        };
        let _ = read.get(&key::ADOPT);
        let spec = Self {
            warnings: read.warnings().to_vec(),
            ..spec
        };
        // The ingress annotation, the weight and the labels of Nodes decide.
        read.parsed(spec).targets_follow_labels(true)
    }
}

/// Warns about unknown annotations. Annotations with the suffix of a port are matched without it.
fn warn_of_unknown(service: &Service, read: &mut Annotations<'_>) {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let names = ports.iter().filter_map(|port| port.name.clone());
    let suffixes: Vec<_> = names
        .chain(ports.iter().map(|port| port.port.to_string()))
        .map(|suffix| format!(".{suffix}"))
        .collect();
    let plain = |key: &String| {
        suffixes
            .iter()
            .find_map(|suffix| key.strip_suffix(&**suffix))
            .unwrap_or(key)
            .to_owned()
    };
    let annotations = service.metadata.annotations.iter().flatten();
    let mut view = Service::default();
    view.metadata.annotations = Some(
        annotations
            .map(|(key, value)| (plain(key), value.clone()))
            .collect(),
    );
    let mut annotations = Annotations::of(&view);
    annotations.unknown(key::PREFIX, &[key::OWN, key::LOAD_BALANCER].concat());
    annotations
        .warnings()
        .iter()
        .for_each(|warning| read.warning(warning));
}

/// Returns the address families of the Service.
fn family(service: &Service) -> &'static str {
    let families = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ip_families.as_deref())
        .unwrap_or_default();
    match families {
        [_, _, ..] => "dual",
        [family] if family == "IPv6" => "ipv6",
        _ => "ipv4",
    }
}

/// Returns the entries of the managed access list, in order.
fn ranges(service: &Service, read: &mut Annotations<'_>) -> Vec<String> {
    let ranges = configured_source_ranges(service).unwrap_or_else(|error| {
        read.mistake(error.to_string());
        BTreeSet::new()
    });
    if ranges.len() > MOST_ENTRIES {
        read.mistake(format!(
            "{} source ranges are more than the {MOST_ENTRIES} of an access list",
            ranges.len()
        ));
    }
    ranges
        .iter()
        .filter(|_| !allows_all(&ranges))
        .map(ToString::to_string)
        .collect()
}

/// Returns type and ID of the access list of all listeners.
fn acl(ranges: &[String], read: &mut Annotations<'_>) -> Acl {
    let stated = read.get(&key::ACL_ID).filter(|id| !id.is_empty());
    if stated.is_some() && !ranges.is_empty() {
        read.mistake(format!(
            "annotation {} does not go with source ranges; remove one of the two",
            key::ACL_ID.key()
        ));
    }
    let id = stated.or_else(|| (!ranges.is_empty()).then(|| MANAGED.to_owned()));
    let default = if id.is_some() { "white" } else { "off" };
    let kind = read.get(&key::ACL_TYPE).map_or(default, |kind| kind.0);
    Acl {
        kind: Some(kind.to_owned()),
        id: id.filter(|_| kind != "off"),
    }
}

/// Returns the labels of the load balancer, in addition to the owner tags.
fn labels(
    service: &Service,
    config: &Config,
    read: &mut Annotations<'_>,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for tag in read.get(&key::TAGS).unwrap_or_default() {
        match tag.split_once('=') {
            Some((name, value))
                if !name.contains("kubernetes.io/") && !name.starts_with("ccm-rs/") =>
            {
                labels.insert(name.to_owned(), value.to_owned());
            }
            _ => read.mistake(format!(
                "annotation {}: {tag:?} is not k=v with a key of your own",
                key::TAGS.key()
            )),
        }
    }
    labels.insert(LABEL_CLUSTER.to_owned(), config.cluster_id.clone());
    labels.insert(LABEL_SERVICE.to_owned(), full_name(service));
    labels.insert(
        LABEL_UID.to_owned(),
        service.metadata.uid.clone().unwrap_or_default(),
    );
    labels.insert(
        LABEL_MANAGED_BY.to_owned(),
        "cloud-controller-manager".to_owned(),
    );
    if read.get(&key::PRESERVE) == Some(true) {
        labels.insert(LABEL_KEEP_ON_DELETE.to_owned(), PRESERVED.to_owned());
    }
    labels
}

/// Returns a Service on which the annotations with the suffix of a port stand in place of the plain ones; `None` if there are
/// none.
fn of_port(port: &ServicePort, service: &Service) -> Option<Service> {
    let mut of_port = service.clone();
    let annotations = of_port.metadata.annotations.as_mut()?;
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let name = ports.iter().find_map(|other_port| {
        let is_this_port = other_port.port == i32::from(port.number)
            && other_port.protocol.as_deref().unwrap_or("TCP") == port.protocol;
        other_port.name.clone().filter(|_| is_this_port)
    });
    let name = name.unwrap_or_default();
    let suffixes = [format!(".{name}"), format!(".{}", port.number)];
    let mut port_settings = BTreeMap::new();
    for suffix in suffixes.iter().filter(|suffix| suffix.len() > 1) {
        let found = annotations
            .iter()
            .filter(|(key, _)| key.starts_with(key::PREFIX));
        port_settings.extend(found.filter_map(|(key, value)| {
            Some((key.strip_suffix(&**suffix)?.to_owned(), value.clone()))
        }));
    }
    let is_any = !port_settings.is_empty();
    annotations.extend(port_settings);
    is_any.then_some(of_port)
}

fn port_spec(
    port: &ServicePort,
    service: &Service,
    config: &Config,
    acl: &Acl,
    read: &mut Annotations<'_>,
) -> PortSpec {
    let of_port = of_port(port, service);
    let Some(view) = &of_port else {
        return stated(port, service, acl, read);
    };
    let mut port_annotations = Annotations::of(view).over(&config.settings);
    let stated = stated(port, view, acl, &mut port_annotations);
    if let Err(error) = port_annotations.finish() {
        read.mistake(format!("port {}: {error}", port.number));
    }
    stated
}

fn stated(
    port: &ServicePort,
    service: &Service,
    acl: &Acl,
    read: &mut Annotations<'_>,
) -> PortSpec {
    let listener = listener(port, service, acl, read);
    let group = group(port, service, read);
    let is_tls = matches!(listener.protocol.as_deref(), Some("https" | "tls"));
    let secret = read.get(&key::LISTENER_SECRET).filter(|_| is_tls);
    let has_ids = listener
        .certificate_ids
        .as_ref()
        .is_some_and(|ids| !ids.is_empty());
    let ids = key::LISTENER_CERTIFICATES.key();
    let secret_key = key::LISTENER_SECRET.key();
    match &secret {
        None if is_tls && !has_ids => {
            read.mistake(format!(
                "port {}: TLS needs annotation {ids} or {secret_key}",
                port.number
            ));
        }
        Some(_) if has_ids => {
            read.mistake(format!(
                "annotation {secret_key}: port {} has {ids} too; remove one of the two",
                port.number
            ));
        }
        _ => {}
    }
    PortSpec {
        port: *port,
        listener,
        group,
        secret,
    }
}

fn listener(
    port: &ServicePort,
    service: &Service,
    acl: &Acl,
    read: &mut Annotations<'_>,
) -> Listener {
    let mut listener: Listener = filled(read);
    let protocol = listener
        .protocol
        .take()
        .unwrap_or_else(|| port.protocol.to_lowercase());
    let is_http = matches!(&*protocol, "http" | "https");
    let is_tls = matches!(&*protocol, "https" | "tls");
    let mut refuse = |key: &str, why: &str| {
        read.mistake(format!("annotation {key}: port {}: {why}", port.number));
    };
    if (port.protocol == "UDP") != (protocol == "udp") {
        refuse(
            key::LISTENER_PROTOCOL.key(),
            &format!("{protocol:?} does not run over {}", port.protocol),
        );
    }
    let proxy = listener
        .proxy_protocol
        .take()
        .filter(|_| matches!(&*protocol, "tcp" | "tls"));
    if proxy.is_none()
        && key::LISTENER_PROXY_PROTOCOL
            .text_on(service)
            .is_some_and(|text| text != "off")
    {
        refuse(
            key::LISTENER_PROXY_PROTOCOL.key(),
            "the PROXY protocol needs tcp or tls",
        );
    }
    let spec = service.spec.as_ref();
    let has_affinity = spec.and_then(|spec| spec.session_affinity.as_deref()) == Some("ClientIP");
    let sticky = listener
        .sticky
        .mode
        .take()
        .unwrap_or_else(|| if has_affinity { "source-ip" } else { "off" }.to_owned());
    if sticky.starts_with("cookie") && !is_http {
        refuse(
            key::LISTENER_STICKY.key(),
            &format!("{sticky} needs http or https"),
        );
    }
    if sticky == "cookie-rewrite" && listener.sticky.cookie_name.is_none() {
        refuse(
            key::LISTENER_COOKIE_NAME.key(),
            "cookie-rewrite needs the name of the cookie",
        );
    }
    if listener.redirect_port.is_some() && protocol != "http" {
        refuse(key::LISTENER_REDIRECT.key(), "only http redirects");
    }
    let affinity = spec.and_then(|spec| {
        spec.session_affinity_config
            .as_ref()?
            .client_ip
            .as_ref()?
            .timeout_seconds
    });
    let affinity = affinity.and_then(|seconds| u32::try_from(seconds).ok());
    let timeout = listener.sticky.timeout.take().or(affinity).unwrap_or(1000);
    listener.sticky.timeout = Some(timeout).filter(|_| sticky != "off");
    listener.sticky.mode = Some(sticky);
    listener.idle_timeout = listener
        .idle_timeout
        .or(Some(if is_http { 60 } else { 900 }));
    listener.request_timeout = listener.request_timeout.filter(|_| is_http);
    listener.xff = listener.xff.filter(|_| is_http);
    listener.http2 = listener.http2.filter(|_| protocol == "https");
    listener.tls_policy = listener.tls_policy.filter(|_| is_tls);
    listener.certificate_ids = listener.certificate_ids.filter(|_| is_tls);
    Listener {
        protocol: Some(protocol),
        proxy_protocol: proxy,
        acl: acl.clone(),
        ..listener
    }
}

fn group(port: &ServicePort, service: &Service, read: &mut Annotations<'_>) -> Group {
    let mut group: Group = filled(read);
    let node_health = HealthCheck::of(service).and_then(|check| u16::try_from(check.port).ok());
    let default = if node_health.is_some() {
        "node-health"
    } else {
        "traffic"
    };
    let stated = read
        .get(&key::HEALTH_CHECK_PORT)
        .unwrap_or_else(|| default.to_owned());
    let number = match &*stated {
        "traffic" => Some(port.node_port),
        "node-health" => node_health,
        number => number.parse().ok(),
    };
    if number.is_none() {
        let key = key::HEALTH_CHECK_PORT.key();
        read.mistake(format!(
            "annotation {key}: node-health needs externalTrafficPolicy: Local"
        ));
    }
    let check = &mut group.health_check;
    check.port = number;
    let is_node_health = stated == "node-health";
    let protocol = check
        .protocol
        .take()
        .unwrap_or_else(|| if is_node_health { "http" } else { "tcp" }.to_owned());
    let path = check
        .path
        .take()
        .unwrap_or_else(|| if is_node_health { "/healthz" } else { "/" }.to_owned());
    check.path = Some(path).filter(|_| protocol == "http");
    check.host = check.host.take().filter(|_| protocol == "http");
    check.codes = check.codes.take().filter(|_| protocol == "http");
    check.protocol = Some(protocol);
    group
}

/// Returns `<namespace>/<name>`.
pub(super) fn full_name(service: &Service) -> String {
    let meta = &service.metadata;
    format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    )
}

/// Returns the name of a Service's load balancer: cluster, namespace and name. A longer one than 80 characters is cut, and
/// ends with a hash of the full name.
pub(super) fn name(service: &Service, config: &Config) -> String {
    let full = format!(
        "{}-{}",
        config.cluster_id,
        full_name(service).replacen('/', "-", 1)
    );
    if full.len() <= 80 {
        return full;
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, full.as_bytes());
    let hash: String = digest
        .as_ref()
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}-{hash}", &full[..71])
}

/// Returns an error about a load balancer whose replacement needs the address that it has.
pub(super) fn needs_interruption(place: &str, changes: &str) -> Error {
    let key = key::ALLOW_INTERRUPTION.key();
    Error::invalid(format!(
        "{place} cannot be replaced while it has the address of the new one ({changes}): set annotation {key}: \"true\" to have \
         it deleted first, which interrupts the Service, or remove the address from the Service"
    ))
}

/// Returns an error about a load balancer that cannot be changed to the Service's spec.
pub(super) fn needs_recreation(place: &str, changes: &str) -> Error {
    let key = key::ALLOW_RECREATE.key();
    Error::invalid(format!(
        "{place} cannot be changed in place ({changes}): set annotation {key}: \"true\" to have it replaced, with another address"
    ))
}
