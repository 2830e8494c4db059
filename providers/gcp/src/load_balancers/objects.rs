//! The objects of a load balancer, as the API reads and writes them.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::Result;
use provider_kit::load_balancers::{Attributes, Field, OwnerTags, Resource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::annotations as key;
use crate::api::{short, tail};

/// Keys of labels, which allow no slash and no capital letter.
const LABELS: [&str; 2] = ["ccm-rs-cluster", "ccm-rs-service"];
/// Values of a health check.
const INTERVAL: u32 = 8;
const TIMEOUT: u32 = 1;
const HEALTHY: u32 = 1;
const UNHEALTHY: u32 = 3;

/// Declares objects of the API with the rules by which their fields change.
macro_rules! resources {
    ($($(#[$of:meta])* struct $name:ident { $($(#[$meta:meta])* $field:ident: $kind:ty $(= [$($rule:expr),*])?),* $(,)? })*) => {
        $(
            $(#[$of])*
            #[derive(Clone, Debug, Default, Deserialize, Serialize)]
            #[serde(rename_all = "camelCase", default)]
            pub(super) struct $name { $($(#[$meta])* pub(super) $field: $kind),* }

            impl Resource for $name {
                const FIELDS: &'static [Field] = &[$($($($rule,)*)?)*];
            }
        )*
    };
}

resources! {
    /// A forwarding rule. Each change replaces it.
    struct Rule {
        #[serde(skip_serializing)] name: String,
        #[serde(rename = "IPAddress")] ip: Option<String> = [Field::update("IPAddress")],
        #[serde(rename = "IPProtocol")] protocol: Option<String> = [Field::update("IPProtocol")],
        ip_version: Option<String> = [Field::update("ipVersion")],
        port_range: Option<String> = [Field::update("portRange").null_removes()],
        ports: Option<Vec<String>> = [Field::update("ports").unordered_list().null_removes()],
        all_ports: Option<bool> = [Field::update("allPorts").null_removes()],
        load_balancing_scheme: Option<String> = [Field::update("loadBalancingScheme").setting(&key::TYPE)],
        network_tier: Option<String> = [Field::update("networkTier").setting(&key::NETWORK_TIER)],
        allow_global_access: Option<bool> = [Field::update("allowGlobalAccess").setting(&key::GLOBAL_ACCESS).null_removes()],
        subnetwork: Option<String> = [Field::update("subnetwork").setting(&key::SUBNET)],
        #[serde(skip_serializing)] target: Option<String>,
        #[serde(skip_serializing)] backend_service: Option<String>,
        #[serde(skip_serializing)] description: String,
        #[serde(skip_serializing)] labels: BTreeMap<String, String>,
        label_fingerprint: Option<String> = [Field::observed("labelFingerprint")],
        creation_timestamp: Option<String> = [Field::observed("creationTimestamp")],
    }

    /// A target pool, or a regional backend service.
    struct Pool {
        #[serde(skip_serializing)] name: String,
        session_affinity: Option<String> = [Field::update("sessionAffinity")],
        health_checks: Vec<String> = [Field::update("healthChecks").unordered_list()],
        protocol: Option<String> = [Field::update("protocol")],
        load_balancing_scheme: Option<String> = [Field::update("loadBalancingScheme").setting(&key::TYPE)],
        description: Option<String> = [Field::update("description")],
        fingerprint: Option<String> = [Field::observed("fingerprint")],
        #[serde(skip_serializing)] instances: Vec<String>,
        #[serde(skip_serializing)] backends: Vec<Backend>,
    }

    /// An instance group of a backend service.
    struct Backend { group: String = [Field::update("group")] }

    /// A health check, of the legacy kind or with its settings for HTTP in a part of their own.
    struct Check {
        #[serde(skip_serializing)] name: String,
        port: Option<i32> = [Field::update("port")],
        request_path: Option<String> = [Field::update("requestPath")],
        http_health_check: HttpCheck = [
            Field::update("httpHealthCheck.port"), Field::update("httpHealthCheck.requestPath")
        ],
        #[serde(rename = "type")] kind: Option<String> = [Field::create_only("type")],
        description: Option<String> = [Field::update("description")],
        check_interval_sec: u32 = [Field::update("checkIntervalSec")],
        timeout_sec: u32 = [Field::update("timeoutSec")],
        healthy_threshold: u32 = [Field::update("healthyThreshold")],
        unhealthy_threshold: u32 = [Field::update("unhealthyThreshold")],
    }

    /// The settings for HTTP of a health check.
    struct HttpCheck { port: Option<i32>, request_path: Option<String> }

    /// A firewall rule of the network.
    struct Firewall {
        #[serde(skip_serializing)] name: String,
        description: Option<String> = [Field::update("description")],
        source_ranges: Vec<String> = [Field::update("sourceRanges").unordered_list()],
        destination_ranges: Option<Vec<String>> = [Field::update("destinationRanges").unordered_list()],
        /// `None` makes no statement: a firewall without tags is for the whole network.
        target_tags: Option<Vec<String>> = [Field::update("targetTags").unordered_list()],
        allowed: Option<Vec<Ports>> = [Field::update("allowed").unordered_list()],
        denied: Option<Vec<Ports>> = [Field::update("denied").unordered_list()],
        priority: Option<u32> = [Field::update("priority")],
    }

    /// An address that is held while a forwarding rule is replaced.
    struct Address {
        #[serde(skip_serializing)] name: String,
        address: Option<String> = [Field::observed("address")],
        address_type: Option<String> = [Field::observed("addressType")],
        prefix_length: Option<u8> = [Field::observed("prefixLength")],
        network_tier: Option<String> = [Field::observed("networkTier")],
    }
}

/// The JSON in the description of a forwarding rule, or of the firewall of a deleted Service: the Service, as the Go program
/// writes it, and owner tags.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Description {
    #[serde(rename = "kubernetes.io/service-name")]
    pub(super) service: String,
    #[serde(rename = "ccm-rs/cluster", skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    #[serde(rename = "ccm-rs/service", skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
}

impl Description {
    fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns the description of an object of this Service with these owner tags.
    pub(super) fn text(service: &str, tags: OwnerTags) -> String {
        let description = Self {
            service: service.to_owned(),
            cluster: tags.cluster,
            uid: tags.service,
        };
        serde_json::to_string(&description).unwrap_or_default()
    }

    pub(super) fn tags(self) -> OwnerTags {
        OwnerTags {
            cluster: self.cluster,
            service: self.uid,
        }
    }
}

impl Rule {
    pub(super) fn description(&self) -> Description {
        Description::read(&self.description)
    }

    /// Returns the owner tags: labels, which a change adds, or the description with which the rule was created.
    pub(super) fn owner_tags(&self) -> OwnerTags {
        let OwnerTags { cluster, service } = self.description().tags();
        let [labelled_cluster, labelled_uid] = LABELS.map(|key| self.labels.get(key).cloned());
        OwnerTags {
            cluster: labelled_cluster.or(cluster),
            service: labelled_uid.or(service),
        }
    }

    /// Returns the labels with these owner tags; `None` if a label cannot hold one of them.
    pub(super) fn labelled(&self, owner: &OwnerTags) -> Option<BTreeMap<String, String>> {
        let mut labels = self.labels.clone();
        for (key, value) in LABELS.into_iter().zip([&owner.cluster, &owner.service]) {
            let value = value.as_ref()?;
            let is_inner = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
            };
            labels.insert(
                key.to_owned(),
                Some(value)
                    .filter(|text| text.len() <= 63 && text.bytes().all(is_inner))?
                    .clone(),
            );
        }
        Some(labels)
    }

    /// Returns the target pool or backend service.
    pub(super) fn backend(&self) -> Option<&str> {
        self.target.as_deref().or(self.backend_service.as_deref())
    }

    pub(super) fn observed(&self) -> Result<Attributes> {
        let mut rule = self.clone();
        rule.subnetwork = rule.subnetwork.map(|url| short(&url).to_owned());
        rule.ip_version = rule.ip_version.or(Some("IPV4".to_owned()));
        rule.all_ports = rule.all_ports.filter(|all| *all);
        rule.allow_global_access = rule.allow_global_access.filter(|has| *has);
        Attributes::observed(&rule)
    }
}

impl Pool {
    pub(super) fn observed(&self, is_target_pool: bool) -> Result<Attributes> {
        let mut pool = self.clone();
        pool.health_checks = pool.health_checks.iter().map(|url| tail(url)).collect();
        pool.description = pool
            .description
            .or(Some(String::new()))
            .filter(|_| !is_target_pool);
        pool.protocol = pool.protocol.filter(|_| !is_target_pool);
        pool.load_balancing_scheme = pool.load_balancing_scheme.filter(|_| !is_target_pool);
        pool.session_affinity = pool.session_affinity.or(Some("NONE".to_owned()));
        Attributes::observed(&pool)
    }
}

impl Check {
    /// Returns the check of a path and a port on each Node.
    pub(super) fn new(is_legacy: bool, path: &str, port: i32, description: String) -> Self {
        let port = Some(port);
        let path = Some(path.to_owned());
        let if_own = |flag: bool| {
            if flag {
                (port, path.clone())
            } else {
                (None, None)
            }
        };
        let ((port, request_path), (http_port, http_path)) =
            (if_own(is_legacy), if_own(!is_legacy));
        Self {
            port,
            request_path,
            http_health_check: HttpCheck {
                port: http_port,
                request_path: http_path,
            },
            kind: (!is_legacy).then(|| "HTTP".to_owned()),
            description: Some(description),
            check_interval_sec: INTERVAL,
            timeout_sec: TIMEOUT,
            healthy_threshold: HEALTHY,
            unhealthy_threshold: UNHEALTHY,
            ..Self::default()
        }
    }

    /// Larger values than ours are a user's, and stay.
    pub(super) fn observed(&self) -> Result<Attributes> {
        let mut object = self.clone();
        object.description = Some(object.description.unwrap_or_default());
        object.check_interval_sec = object.check_interval_sec.min(INTERVAL);
        object.timeout_sec = object.timeout_sec.min(TIMEOUT);
        object.healthy_threshold = object.healthy_threshold.min(HEALTHY);
        object.unhealthy_threshold = object.unhealthy_threshold.min(UNHEALTHY);
        Attributes::observed(&object)
    }
}

/// Ports of a protocol in a firewall.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub(super) struct Ports {
    #[serde(rename = "IPProtocol")]
    pub(super) protocol: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<String>,
}

impl Ports {
    /// Returns the ports of one protocol, adjacent ones as a range: a firewall has room for 100.
    pub(super) fn new(protocol: &str, ports: impl IntoIterator<Item = u16>) -> Self {
        let ports: BTreeSet<u16> = ports.into_iter().collect();
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for port in ports {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(port) => *last = port,
                _ => ranges.push((port, port)),
            }
        }
        let text = |(first, last): (u16, u16)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        };
        Self {
            protocol: protocol.to_lowercase(),
            ports: ranges.into_iter().map(text).collect(),
        }
    }

    /// Returns the ports of each protocol.
    pub(super) fn of(ports: &[(&'static str, u16)]) -> Vec<Self> {
        let protocols: BTreeSet<_> = ports.iter().map(|(protocol, _)| *protocol).collect();
        let numbers = |wanted| {
            ports
                .iter()
                .filter(move |(port, _)| *port == wanted)
                .map(|(_, number)| *number)
        };
        protocols
            .into_iter()
            .map(|protocol| Self::new(protocol, numbers(protocol)))
            .collect()
    }

    /// Returns the ports one by one, whichever form they have.
    pub(super) fn each(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().flat_map(|text| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last): (u16, u16) = (first.parse().unwrap_or(1), last.parse().unwrap_or(0));
            first..=last
        })
    }
}

impl Firewall {
    /// Returns the owner, which a firewall only names while the load balancer of a deleted Service is deleted.
    pub(super) fn owner(&self) -> Description {
        Description::read(self.description.as_deref().unwrap_or_default())
    }

    pub(super) fn observed(&self) -> Result<Attributes> {
        let mut firewall = self.clone();
        for ports in firewall.allowed.iter_mut().flatten() {
            *ports = Ports::new(&ports.protocol, ports.each());
        }
        for range in firewall.destination_ranges.iter_mut().flatten() {
            let address = range.strip_suffix("/32").or(range.strip_suffix("/128"));
            *range = address.unwrap_or(range).to_owned();
        }
        firewall.description = Some(firewall.description.unwrap_or_default());
        Attributes::observed(&firewall)
    }
}

/// Returns the description by which the Go program names a Service.
pub(super) fn service_description(service: &str) -> String {
    format!(r#"{{"kubernetes.io/service-name":"{service}"}}"#)
}

/// Returns the description of the firewall of a Service, as the Go program writes it: with a blank.
pub(super) fn firewall_description(service: &str, ip: &str) -> String {
    format!(r#"{{"kubernetes.io/service-name":"{service}", "kubernetes.io/service-ip":"{ip}"}}"#)
}

/// Returns an object without the fields that have no value.
pub(super) fn without_nulls(mut body: Value) -> Value {
    body.as_object_mut()
        .into_iter()
        .for_each(|fields| fields.retain(|_, value| !value.is_null()));
    body
}

/// Returns the value of settings as a request has them, with a name.
pub(super) fn body(name: &str, settings: &Attributes) -> Value {
    let mut body = settings.nested();
    body["name"] = name.into();
    for observed in [
        "fingerprint",
        "labelFingerprint",
        "creationTimestamp",
        "pool",
    ] {
        body[observed] = Value::Null;
    }
    if body["ipVersion"] == "IPV4" {
        body["ipVersion"] = Value::Null;
    }
    without_nulls(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_rule_and_every_rule_has_a_field() {
        let unknown = [
            Rule::undeclared_fields(&Rule::default()),
            Pool::undeclared_fields(&Pool::default()),
            Check::undeclared_fields(&Check::default()),
            Firewall::undeclared_fields(&Firewall::default()),
            Address::undeclared_fields(&Address::default()),
        ];
        assert!(
            unknown
                .iter()
                .all(|entry| entry.as_ref().is_ok_and(Vec::is_empty)),
            "{unknown:?}"
        );
    }

    #[test]
    fn adjacent_ports_become_ranges() {
        let table: [(&[u16], &[&str]); 3] = [
            (&[80, 443], &["80", "443"]),
            (&[8083, 8081, 8082], &["8081-8083"]),
            (&[65535, 1], &["1", "65535"]),
        ];
        for (ports, ranges) in table {
            let compact = Ports::new("TCP", ports.iter().copied());
            assert_eq!(
                (compact.ports.as_slice(), &*compact.protocol),
                (
                    ranges
                        .iter()
                        .map(|range| (*range).to_owned())
                        .collect::<Vec<_>>()
                        .as_slice(),
                    "tcp"
                )
            );
            assert_eq!(compact.each().count(), ports.len());
        }
    }
}
