//! Settings of a Service, read from its annotations and fields for the kind of load balancer that it asks for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cloud_provider::Service;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::health_check::{HealthCheck, requests_only_local_traffic};
use provider_kit::key_pair::{is_namespace, is_object_name};
use provider_kit::load_balancers::{ReservedTags, ServicePort, service_ports};
use provider_kit::node_selector::NodeSelector;
use provider_kit::source_ranges::configured_source_ranges;
use serde_json::{Value, json};

use super::objects::Form;
use super::spec::{Families, PortSpec};
use crate::annotations::{self as key, GroupIds, LoadBalancerKind, SecurityMode};
use crate::config::{Config, Tags};

/// Freeform tags by which this program and the Go program know load balancers and network security groups.
const RESERVED_TAGS: ReservedTags = ReservedTags {
    prefixes: &[],
    keys: &["CreatedBy", "ServiceUid", "ManagedBy"],
};
/// The port at which kube-proxy tells if a Node is healthy.
const KUBE_PROXY_HEALTH: u16 = 10_256;

/// The annotations of one Service, of the kind that it asks for.
pub(super) struct Reader<'a> {
    pub(super) annotations: Annotations<'a>,
    pub(super) service: &'a Service,
    pub(super) is_network: bool,
}

impl Reader<'_> {
    /// Returns the value of the annotation for this kind.
    pub(super) fn pick<T>(
        &mut self,
        load_balancer: &Annotation<T>,
        network: &Annotation<T>,
    ) -> Option<T> {
        self.annotations.get(if self.is_network {
            network
        } else {
            load_balancer
        })
    }

    /// Returns the value of an annotation that only load balancers have.
    pub(super) fn proxied<T>(&mut self, annotation: &Annotation<T>) -> Option<T> {
        if self.is_network {
            None
        } else {
            self.annotations.get(annotation)
        }
    }

    /// Returns the value of an annotation that only network load balancers have.
    pub(super) fn network<T>(&mut self, annotation: &Annotation<T>) -> Option<T> {
        if self.is_network {
            self.annotations.get(annotation)
        } else {
            None
        }
    }

    /// Returns the value of an annotation that only load balancers have, and that counts as unset if it is empty.
    pub(super) fn filled<T>(&mut self, annotation: &Annotation<T>) -> Option<T> {
        annotation.text_on(self.service)?;
        self.proxied(annotation)
    }

    /// Returns namespace and name of the Secret that an annotation names: one of the Service's namespace, or of a namespace
    /// that the configuration shares. Otherwise the author of a Service could use any certificate of the cluster.
    pub(super) fn secret(
        &mut self,
        annotation: &Annotation<String>,
        config: &Config,
    ) -> Option<(String, String)> {
        let text = self
            .proxied(annotation)
            .filter(|proxied| !proxied.is_empty())?;
        let own_service = self
            .service
            .metadata
            .namespace
            .as_deref()
            .unwrap_or("default");
        let (namespace, name) = text.split_once('/').unwrap_or((own_service, &text));
        let key = annotation.key();
        let is_shared = config
            .secret_namespaces
            .iter()
            .any(|secret_namespace| secret_namespace == namespace || secret_namespace == "*");
        if !is_namespace(namespace) || !is_object_name(name) {
            self.annotations.mistake(format!(
                "annotation {key}: {text:?} is not the name of a Secret, or NAMESPACE/NAME"
            ));
        } else if namespace != own_service && !is_shared {
            self.annotations.mistake(format!(
                "annotation {key}: Secret {text} is not in namespace {own_service} of the Service; copy the Secret there, or add \
                 {namespace:?} to loadBalancer.secretNamespaces of the cloud configuration"
            ));
        } else {
            return Some((namespace.to_owned(), name.to_owned()));
        }
        None
    }

    pub(super) fn shape(&mut self) -> Option<(String, Option<(u32, u32)>)> {
        let shape = self.proxied(&key::SHAPE);
        if let Some(shape) = shape
            .as_ref()
            .filter(|shape| !shape.eq_ignore_ascii_case("flexible"))
        {
            return Some((shape.clone(), None));
        }
        let limits = [&key::SHAPE_MIN, &key::SHAPE_MAX];
        let [min, max] = limits.map(|annotation| self.filled(annotation));
        if shape.is_none() && min.or(max).is_none() {
            return None;
        }
        for annotation in limits {
            if shape.is_some() && annotation.text_on(self.service).is_none() {
                self.annotations.mistake(format!(
                    "annotation {} is missing: shape flexible needs it",
                    annotation.key()
                ));
            }
        }
        let min = min.unwrap_or(10);
        let max = max.unwrap_or(100);
        Some(("flexible".to_owned(), Some((min, max.max(min)))))
    }

    pub(super) fn ports(&mut self) -> Vec<PortSpec> {
        let ports = service_ports(self.service, &["TCP", "UDP"]).unwrap_or_else(|error| {
            self.annotations.mistake(error.to_string());
            Vec::new()
        });
        if !self.is_network && ports.iter().any(|port| port.protocol == "UDP") {
            let text = format!(
                "a load balancer serves no UDP port; set annotation {}: nlb",
                key::KIND.key()
            );
            self.annotations.mistake(text);
        }
        let protocol = self
            .proxied(&key::BACKEND_PROTOCOL_KEY)
            .map_or("TCP", |word| word.0);
        let tls = self.proxied(&key::TLS_PORTS).unwrap_or_default();
        let certificate = key::TLS_SECRET
            .text_on(self.service)
            .or(key::TLS_CERTIFICATE_IDS.text_on(self.service));
        let timeout = self.filled(&key::IDLE_TIMEOUT);
        let version = self.filled(&key::PROXY_PROTOCOL);
        let ppv2 = self.network(&key::PPV2);
        let port = |(port, transport): (ServicePort, &'static str)| {
            let is_tls = tls.contains(&port.number);
            if protocol == "GRPC" && !(is_tls && certificate.is_some()) {
                self.annotations.mistake(format!(
                    "port {}: protocol GRPC needs TLS; add the port to annotation {}, and a certificate with annotation {}",
                    port.number,
                    key::TLS_PORTS.key(),
                    key::TLS_SECRET.key()
                ));
            }
            let default = if protocol == "HTTP" { 60 } else { 300 };
            let timeout = timeout.or(version.map(|_| default));
            let mut listener = json!({});
            if let Some(timeout) = timeout {
                listener["connectionConfiguration"] = json!({ "idleTimeout": timeout });
                if let Some(version) = version {
                    listener["connectionConfiguration"]["backendTcpProxyProtocolVersion"] =
                        version.into();
                }
            }
            if let Some(ppv2) = ppv2 {
                listener["isPpv2Enabled"] = ppv2.into();
            }
            let protocol = if self.is_network { transport } else { protocol };
            PortSpec {
                number: port.number,
                node_port: port.node_port,
                transport,
                protocol,
                is_tls,
                listener,
            }
        };
        merged(&ports, self.is_network)
            .into_iter()
            .map(port)
            .collect()
    }

    /// Returns the mode of security rules. Each kind has an annotation and a default of its own.
    pub(super) fn mode(&mut self, config: &Config) -> SecurityMode {
        let list = self.pick(&key::LIST_MODE, &key::NETWORK_LIST_MODE);
        let default = if self.is_network {
            SecurityMode::None
        } else {
            config.security_mode
        };
        self.annotations
            .get(&key::RULE_MODE)
            .or(list)
            .unwrap_or(default)
    }

    /// Returns the settings of all backend sets, whether clients' addresses are preserved, and the port of health checks.
    pub(super) fn set(&mut self) -> (Value, bool, u16) {
        let port = health_port(self.service);
        let retries = self.pick(&key::CHECK_RETRIES, &key::NETWORK_CHECK_RETRIES);
        let timeout = self.pick(&key::CHECK_TIMEOUT, &key::NETWORK_CHECK_TIMEOUT);
        let interval = self.pick(&key::CHECK_INTERVAL, &key::NETWORK_CHECK_INTERVAL);
        let policy = self
            .pick(&key::POLICY, &key::NETWORK_POLICY)
            .unwrap_or_default()
            .0;
        let mut set = json!({"policy": policy, "healthChecker": {
            "protocol": "HTTP", "port": port, "urlPath": "/healthz", "returnCode": 200,
            "retries": retries, "timeoutInMillis": timeout, "intervalInMillis": interval,
        }});
        let is_local = requests_only_local_traffic(self.service);
        let preserves = self.network(&key::PRESERVE_SOURCE);
        if preserves.is_some() && !is_local {
            let text = "is possible only with externalTrafficPolicy: Local";
            self.annotations
                .mistake(format!("annotation {}: {text}", key::PRESERVE_SOURCE.key()));
        }
        let preserves = self.is_network && is_local && preserves.unwrap_or(true);
        if self.is_network {
            set["isPreserveSource"] = preserves.into();
        }
        (set, preserves, port)
    }

    /// Reports annotations of the other kind of load balancer. The one that makes it internal is a mistake: without it, the
    /// load balancer would be public.
    pub(super) fn check_kind(&mut self, is_internal: bool) {
        let (own_key, other, others) = match self.is_network {
            true => (&key::NETWORK_INTERNAL, &key::INTERNAL, key::LOAD_BALANCER),
            false => (&key::INTERNAL, &key::NETWORK_INTERNAL, key::NETWORK),
        };
        let kind = if self.is_network { "nlb" } else { "lb" };
        let is_closed = other
            .text_on(self.service)
            .is_some_and(|text| !text.trim().eq_ignore_ascii_case("false"));
        if is_closed && !is_internal {
            self.annotations.mistake(format!(
                "annotation {} has no effect on a load balancer of type {kind}, which would be public; use annotation {}",
                other.key(),
                own_key.key()
            ));
        }
        let annotations = self.service.metadata.annotations.as_ref();
        let keys = others.iter().map(|setting| setting.row().key);
        let set = keys.filter(|key| annotations.is_some_and(|all| all.contains_key(*key)));
        let texts: Vec<_> = set
            .filter(|key| *key != other.key())
            .map(|key| format!("annotation {key} has no effect on a load balancer of type {kind}"))
            .collect();
        texts
            .into_iter()
            .for_each(|text| self.annotations.warning(text));
    }

    /// Returns the subnets, and whether an annotation names that of each position.
    pub(super) fn subnets(&mut self, config: &Config) -> (Vec<Option<String>>, [bool; 2]) {
        let annotations = if self.is_network {
            [&key::NETWORK_SUBNET; 2]
        } else {
            [&key::SUBNET1, &key::SUBNET2]
        };
        let subnet = |at: usize, named: Option<&str>| {
            named
                .map(str::to_owned)
                .or_else(|| config.subnets.get(at).cloned())
        };
        let named = annotations.map(|annotation| annotation.text_on(self.service));
        let is_listed = |id: &str| {
            config
                .allowed_subnets
                .as_ref()
                .is_none_or(|all| all.iter().any(|text| text == id))
        };
        let is_refused =
            |id: &str| !is_listed(id) && !config.subnets.iter().any(|subnet| subnet == id);
        for (annotation, id) in
            annotations
                .iter()
                .zip(named)
                .take(if self.is_network { 1 } else { 2 })
        {
            if let Some(id) = id.filter(|id| is_refused(id)) {
                let key = annotation.key();
                self.annotations.mistake(format!(
                    "annotation {key}: {id} is not in loadBalancer.allowedSubnets of the configuration"
                ));
            }
        }
        let mut subnets: Vec<_> = named
            .into_iter()
            .enumerate()
            .map(|(at, named)| subnet(at, named))
            .collect();
        subnets.truncate(if self.is_network { 1 } else { 2 });
        (subnets, named.map(|entry| entry.is_some()))
    }

    /// Returns the network security groups that an annotation names.
    pub(super) fn groups(
        &mut self,
        annotation: &Annotation<GroupIds>,
        config: &Config,
    ) -> BTreeSet<String> {
        let groups = self.annotations.get(annotation).unwrap_or_default().0;
        let is_refused = |id: &&String| {
            config
                .allowed_security_groups
                .as_ref()
                .is_some_and(|allowed| !allowed.contains(id))
        };
        let refused: Vec<_> = groups.iter().filter(is_refused).cloned().collect();
        for id in refused {
            let key = annotation.key();
            self.annotations.mistake(format!(
                "annotation {key}: {id} is not in loadBalancer.allowedSecurityGroups of the configuration"
            ));
        }
        groups
    }

    /// Returns the ranges of clients; without any, all addresses of the Service's families.
    pub(super) fn sources(&mut self) -> BTreeSet<IpNet> {
        let sources = configured_source_ranges(self.service).unwrap_or_else(|error| {
            self.annotations.mistake(error.to_string());
            BTreeSet::new()
        });
        let [ipv4, ipv6] = [
            IpNet::from(Ipv4Net::default()),
            IpNet::from(Ipv6Net::default()),
        ];
        // The range of all addresses of one family stands for those of both.
        if !sources.is_empty() && !sources.iter().eq([&ipv4]) {
            return sources;
        }
        let families = self
            .service
            .spec
            .as_ref()
            .and_then(|spec| spec.ip_families.as_deref())
            .unwrap_or_default();
        let has = |family: &str| families.iter().any(|other_family| other_family == family);
        let all = [(has("IPv4") || !has("IPv6"), ipv4), (has("IPv6"), ipv6)];
        all.into_iter()
            .filter_map(|(is_used, range)| is_used.then_some(range))
            .collect()
    }

    /// Returns the tags of a new load balancer: those of annotations, or else those of the configuration.
    pub(super) fn tags(&mut self, config: &Config) -> Tags {
        let annotation = if self.is_network {
            &key::NETWORK_FREEFORM
        } else {
            &key::FREEFORM_TAGS
        };
        let mut freeform = self.annotations.get(annotation).unwrap_or_default();
        freeform.retain(|tag, _| RESERVED_TAGS.allows(tag, annotation, &mut self.annotations));
        let defined = self
            .pick(&key::DEFINED_TAGS, &key::NETWORK_DEFINED)
            .unwrap_or_default();
        if freeform.is_empty() && defined.0.is_empty() {
            config.tags.clone()
        } else {
            Tags { freeform, defined }
        }
    }

    /// Checks the name of a ServiceAccount and the OCID of a load balancer.
    pub(super) fn check_names(&mut self, kind: LoadBalancerKind) {
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b"-.".contains(&b) || b.is_ascii_alphanumeric())
        };
        if let Some(name) = self
            .annotations
            .get(&key::WORKLOAD_ACCOUNT)
            .filter(|workload_account| !is_name(workload_account))
        {
            let key = key::WORKLOAD_ACCOUNT.key();
            self.annotations.mistake(format!(
                "annotation {key}: {name:?} is not the name of a ServiceAccount"
            ));
        }
        let id = self.annotations.get(&key::LOAD_BALANCER_ID);
        let wanted = Form::of_kind(kind);
        if let Some(id) = id.filter(|id| Form::of_id(id) != wanted) {
            let key = key::LOAD_BALANCER_ID.key();
            let wanted = wanted.name;
            let text = format!(
                "annotation {key}: {id:?} is not the OCID of a load balancer of type {wanted}"
            );
            self.annotations.mistake(text);
        }
    }

    pub(super) fn selector(&mut self) -> Option<NodeSelector> {
        let annotation = if self.is_network {
            &key::NETWORK_SELECTOR
        } else {
            &key::SELECTOR
        };
        let text = self
            .annotations
            .get(annotation)
            .filter(|annotation| !annotation.is_empty())?;
        match NodeSelector::parse(&text) {
            Ok(selector) => Some(selector),
            Err(error) => {
                self.annotations.mistake(format!(
                    "annotation {}: {text:?} is no selector: {error}",
                    annotation.key()
                ));
                None
            }
        }
    }

    pub(super) fn reserved_ip(&mut self, is_internal: bool) -> Option<IpAddr> {
        let text = self
            .service
            .spec
            .as_ref()?
            .load_balancer_ip
            .clone()
            .filter(|load_balancer_ip| !load_balancer_ip.is_empty())?;
        let Ok(ip) = text.parse() else {
            self.annotations
                .mistake(format!("loadBalancerIP {text:?} is not an IP address"));
            return None;
        };
        if is_internal {
            self.annotations.mistake(
                "loadBalancerIP must not be set on an internal load balancer: it is a reserved public address",
            );
        }
        Some(ip)
    }

    pub(super) fn check_service(&mut self, families: Families) {
        let spec = self.service.spec.as_ref();
        if spec
            .and_then(|spec| spec.session_affinity.as_deref())
            .is_some_and(|session_affinity| session_affinity != "None")
        {
            self.annotations
                .mistake("sessionAffinity must be None: the cloud keeps no client at its backend");
        }
        if !self.is_network && families == Families::Ipv6 {
            let text = format!(
                "a load balancer cannot be reached by IPv6 alone; set annotation {}: nlb",
                key::KIND.key()
            );
            self.annotations.mistake(text);
        }
    }
}

/// Returns the port of the Nodes that health checks of a Service use.
pub(super) fn health_port(service: &Service) -> u16 {
    HealthCheck::of(service)
        .and_then(|health_check| u16::try_from(health_check.port).ok())
        .unwrap_or(KUBE_PROXY_HEALTH)
}

/// Merges ports with the same number and node port: a network load balancer serves both protocols with one listener.
fn merged(ports: &[ServicePort], is_network: bool) -> Vec<(ServicePort, &'static str)> {
    let mut all: Vec<(ServicePort, &'static str)> = Vec::new();
    for port in ports {
        match all
            .iter_mut()
            .find(|(other_port, _)| is_network && other_port.number == port.number)
        {
            Some((_, transport)) => *transport = "TCP_AND_UDP",
            None => all.push((*port, port.protocol)),
        }
    }
    all
}
