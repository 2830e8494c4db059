//! A load balancer, as the API reads and writes it.

use provider_kit::load_balancers::{Actual, Field, Marks, Object, Paths, Resource, State, Targets, numeric};
use serde::{Deserialize, Deserializer, Serialize};

use crate::annotations as key;
use crate::annotations::{Network, NetworkStack, Protocol};
use crate::config::LoadBalancerType;

/// A load balancer. What is `None` or empty is left out of requests, and stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LoadBalancer {
    #[serde(skip_serializing)]
    pub(crate) id: String,
    #[serde(skip_serializing)]
    pub(crate) status: String,
    #[serde(skip_serializing)]
    pub(crate) ipv6: String,
    /// The address that it has, or that a new one shall have.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) ip: String,
    pub(crate) name: String,
    #[serde(deserialize_with = "slug", skip_serializing_if = "String::is_empty")]
    pub(crate) region: String,
    #[serde(rename = "type")]
    pub(crate) kind: LoadBalancerType,
    pub(crate) network: Network,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network_stack: Option<NetworkStack>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vpc_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subnet_uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) algorithm: Option<String>,
    #[serde(deserialize_with = "unless_empty", skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size_unit: Option<u32>,
    pub(crate) forwarding_rules: Vec<ForwardingRule>,
    #[serde(deserialize_with = "normal")]
    pub(crate) health_check: HealthCheck,
    #[serde(deserialize_with = "normal")]
    pub(crate) sticky_sessions: StickySessions,
    pub(crate) redirect_http_to_https: bool,
    pub(crate) enable_proxy_protocol: bool,
    pub(crate) enable_backend_keepalive: bool,
    pub(crate) disable_lets_encrypt_dns_records: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_idle_timeout_seconds: Option<u32>,
    #[serde(deserialize_with = "normal")]
    pub(crate) firewall: Sources,
    /// Nothing here sets it; it must not be lost when the whole is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_cipher_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project_id: Option<String>,
    #[serde(with = "numeric")]
    pub(crate) droplet_ids: Targets,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
}

/// A port that clients see, and where its traffic goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ForwardingRule {
    pub(crate) entry_protocol: Protocol,
    pub(crate) entry_port: u16,
    pub(crate) target_protocol: Protocol,
    pub(crate) target_port: u16,
    #[serde(deserialize_with = "unless_empty", skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_id: Option<String>,
    pub(crate) tls_passthrough: bool,
}

/// How targets are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HealthCheck {
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    pub(crate) check_interval_seconds: u32,
    pub(crate) response_timeout_seconds: u32,
    pub(crate) unhealthy_threshold: u32,
    pub(crate) healthy_threshold: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proxy_protocol: Option<bool>,
}

/// How a client stays at its target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StickySessions {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "unless_empty", skip_serializing_if = "Option::is_none")]
    pub(crate) cookie_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cookie_ttl_seconds: Option<u32>,
}

/// Which clients are admitted and refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sources {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
}

impl Resource for LoadBalancer {
    const FIELDS: &'static [Field] = &[
        Field::update("name").setting(&key::NAME),
        Field::create_only("ip").setting(&key::IP),
        Field::create_only("region"),
        Field::update("type").setting(&key::TYPE),
        Field::update("network").setting(&key::NETWORK),
        Field::create_only("network_stack").setting(&key::NETWORK_STACK),
        Field::create_only("vpc_uuid"),
        Field::create_only("subnet_uuid").setting(&key::SUBNET),
        Field::create_only("algorithm").setting(&key::ALGORITHM),
        Field::update("size").setting(&key::SIZE_SLUG),
        Field::update("size_unit").setting(&key::SIZE_UNIT),
        Field::listeners("forwarding_rules", "entry_port", "entry_protocol"),
        Field::update("health_check"),
        Field::update("sticky_sessions").setting(&key::STICKY_TYPE),
        Field::update("redirect_http_to_https").setting(&key::REDIRECT),
        Field::update("enable_proxy_protocol").setting(&key::PROXY_PROTOCOL),
        Field::update("enable_backend_keepalive").setting(&key::KEEPALIVE),
        Field::update("disable_lets_encrypt_dns_records").setting(&key::DISABLE_DNS_RECORDS),
        Field::update("http_idle_timeout_seconds").setting(&key::IDLE_TIMEOUT),
        Field::update("firewall"),
        Field::observed("tls_cipher_policy"),
        Field::observed("project_id"),
        Field::create_only("tags"),
    ];
}

impl Object for LoadBalancer {
    const PATHS: Paths =
        Paths { collection: "/v2/load_balancers", item: "/v2/load_balancers/{id}", envelope: Some("load_balancer") };

    fn head(&self) -> Actual {
        let state = match self.status.as_str() {
            "new" => State::Busy,
            "errored" => State::Failed("the cloud could not create it (status errored)".to_owned()),
            _ => State::Ready,
        };
        let addresses = [&self.ip, &self.ipv6].into_iter().filter(|ip| !ip.is_empty());
        Actual {
            id: self.id.clone(),
            name: self.name.clone(),
            marks: owner_of(&self.tags),
            // The Go program writes the ID into an annotation of the Service.
            sign: Some(self.id.clone()),
            // An address that is asked for is shown before traffic can reach it.
            ingress: if state == State::Busy { Vec::new() } else { addresses.map(|ip| Actual::ip(ip)).collect() },
            state,
            ..Actual::default()
        }
    }

    fn set_owner(&mut self, head: &Actual) {
        if self.name.is_empty() {
            self.name.clone_from(&head.name);
        }
        self.tags.retain(|tag| owner_of(std::slice::from_ref(tag)) == Marks::default());
        self.tags.extend(owner_tags(&head.marks));
        // Only a new one can have an address of one's own.
        if !head.id.is_empty() {
            self.ip.clear();
        }
    }

    fn targets(&mut self) -> &mut Targets {
        &mut self.droplet_ids
    }
}

/// The path under which kube-proxy answers health checks.
pub(crate) const KUBE_PROXY_PATH: &str = "/healthz";

const CLUSTER_TAG: &str = "ccm-rs-cluster:";
const SERVICE_TAG: &str = "ccm-rs-service:";

/// The tags that say whose a load balancer is.
pub(crate) fn owner_tags(owner: &Marks) -> impl Iterator<Item = String> {
    let tags = [(CLUSTER_TAG, &owner.cluster), (SERVICE_TAG, &owner.service)];
    tags.into_iter().filter_map(|(prefix, value)| Some(format!("{prefix}{}", value.as_ref()?)))
}

fn owner_of(tags: &[String]) -> Marks {
    let value = |prefix: &str| tags.iter().find_map(|tag| tag.strip_prefix(prefix).map(str::to_owned));
    Marks { cluster: value(CLUSTER_TAG), service: value(SERVICE_TAG) }
}

/// A part whose equal values can be written in several ways.
pub(crate) trait Normal {
    /// Returns the one way in which it is compared and sent.
    #[must_use]
    fn normal(self) -> Self;
}

impl Normal for HealthCheck {
    /// A check of kube-proxy is made without the PROXY protocol, which the API does not always show.
    fn normal(self) -> Self {
        let path = self.path.filter(|path| !path.is_empty() && self.protocol != Protocol::Tcp);
        let is_kube_proxy = self.protocol == Protocol::Http && path.as_deref() == Some(KUBE_PROXY_PATH);
        Self { path, proxy_protocol: is_kube_proxy.then_some(false), ..self }
    }
}

impl Normal for StickySessions {
    fn normal(self) -> Self {
        if self.kind == "cookies" { self } else { Self { kind: "none".to_owned(), ..Self::default() } }
    }
}

impl Normal for Sources {
    fn normal(mut self) -> Self {
        for list in [&mut self.allow, &mut self.deny] {
            list.sort_unstable();
            list.dedup();
        }
        self
    }
}

fn normal<'de, D: Deserializer<'de>, T: Normal + Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default().normal())
}

/// Reads a region, which is written as its slug and answered as an object.
fn slug<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Region {
        Slug(String),
        Whole { slug: String },
    }
    Ok(match Option::<Region>::deserialize(from)? {
        Some(Region::Slug(slug) | Region::Whole { slug }) => slug,
        None => String::new(),
    })
}

fn unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}
