//! A load balancer, as the API reads and writes it.

use provider_kit::load_balancers::{
    Field, Object, ObservedLoadBalancer, Paths, Resource, State, Targets, numeric,
};
use provider_kit::text_tags::{ADOPTED, TextTags};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::annotations as key;
use crate::annotations::{Network, NetworkStack, Protocol};
use crate::config::LoadBalancerType;

/// A load balancer. A field that is `None` is left out of requests, and stays unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub(crate) struct LoadBalancer {
    /// The part that this program does not know, if the load balancer cannot be read as a whole. Such a load balancer is
    /// never written.
    #[serde(skip)]
    pub(super) unknown: Option<Unknown>,
    #[serde(skip_serializing)]
    pub(crate) id: String,
    #[serde(skip_serializing)]
    pub(crate) status: String,
    #[serde(skip_serializing)]
    pub(crate) ipv6: String,
    #[serde(skip_serializing)]
    pub(crate) created_at: String,
    /// The address that it has, or that a new one shall have.
    #[serde(deserialize_with = "unless_empty")]
    pub(crate) ip: Option<String>,
    pub(crate) name: String,
    #[serde(deserialize_with = "slug")]
    pub(crate) region: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: LoadBalancerType,
    pub(crate) network: Network,
    pub(crate) network_stack: Option<NetworkStack>,
    pub(crate) vpc_uuid: Option<String>,
    #[serde(deserialize_with = "unless_empty")]
    pub(crate) subnet_uuid: Option<String>,
    pub(crate) algorithm: Option<String>,
    #[serde(deserialize_with = "unless_empty")]
    pub(crate) size: Option<String>,
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
    pub(crate) http_idle_timeout_seconds: Option<u32>,
    #[serde(deserialize_with = "normal")]
    pub(crate) firewall: Sources,
    /// Policy that the provider never sets; it is preserved when the whole object is written.
    pub(crate) tls_cipher_policy: Option<String>,
    pub(crate) project_id: Option<String>,
    #[serde(with = "numeric")]
    pub(crate) droplet_ids: Targets,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
}

/// A part of a load balancer that this program does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The type: a load balancer of another product, such as `GLOBAL`, which no Service has.
    Type,
    /// Any other value, with the error of the parser.
    Value(String),
}

/// [`ObservedLoadBalancer::kind`] of load balancers of another product.
pub(crate) const OTHER_PRODUCT: &str = "other";

impl Serialize for LoadBalancer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Reads any load balancer that the API shows, which has an ID: one that this program cannot read must not fail the list
/// of all.
impl<'de> Deserialize<'de> for LoadBalancer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = without_nulls(Value::deserialize(deserializer)?);
        let is_shown = object["id"].is_string();
        // Both say the same, and a request states only one.
        if is_shown
            && object["size_unit"].as_u64() > Some(0)
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("size");
        }
        let error = match Self::deserialize(&object) {
            Ok(load_balancer) => return Ok(load_balancer),
            Err(error) if is_shown => error,
            Err(error) => return Err(serde::de::Error::custom(error)),
        };
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let is_known = object
            .get("type")
            .is_none_or(|kind| LoadBalancerType::deserialize(kind).is_ok());
        let unknown = if is_known {
            Unknown::Value(error.to_string())
        } else {
            Unknown::Type
        };
        let tags = object["tags"].as_array().into_iter().flatten();
        Ok(Self {
            unknown: Some(unknown),
            id: text("id"),
            name: text("name"),
            status: text("status"),
            ip: Some(text("ip")).filter(|ip| !ip.is_empty()),
            tags: tags
                .filter_map(|tag| Some(tag.as_str()?.to_owned()))
                .collect(),
            ..Self::default()
        })
    }
}

/// Removes `null` members: they count as absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let stated = fields.into_iter().filter(|(_, value)| !value.is_null());
            stated
                .map(|(key, value)| (key, without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items
            .into_iter()
            .filter(|item| !item.is_null())
            .map(without_nulls)
            .collect(),
        plain => plain,
    }
}

/// A port of the load balancer, and the port of the targets that its traffic goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ForwardingRule {
    pub(crate) entry_protocol: Protocol,
    pub(crate) entry_port: u16,
    pub(crate) target_protocol: Protocol,
    pub(crate) target_port: u16,
    #[serde(deserialize_with = "unless_empty")]
    pub(crate) certificate_id: Option<String>,
    pub(crate) tls_passthrough: bool,
}

/// Health check of a load balancer's targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HealthCheck {
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    pub(crate) path: Option<String>,
    pub(crate) check_interval_seconds: u32,
    pub(crate) response_timeout_seconds: u32,
    pub(crate) unhealthy_threshold: u32,
    pub(crate) healthy_threshold: u32,
    pub(crate) proxy_protocol: Option<bool>,
}

/// Sticky sessions: the means by which a client stays at its target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StickySessions {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "unless_empty")]
    pub(crate) cookie_name: Option<String>,
    pub(crate) cookie_ttl_seconds: Option<u32>,
}

/// Addresses of admitted and refused clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sources {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
}

impl Resource for LoadBalancer {
    const FIELDS: &'static [Field] = &[
        Field::update("name").setting(&key::NAME),
        Field::create_only("ip").filled_by(&key::IP),
        Field::create_only("region"),
        Field::update("type").setting(&key::TYPE),
        Field::update("network").filled_by(&key::NETWORK),
        Field::create_only("network_stack").filled_by(&key::NETWORK_STACK),
        Field::create_only("vpc_uuid"),
        Field::create_only("subnet_uuid").filled_by(&key::SUBNET),
        Field::create_only("algorithm").filled_by(&key::ALGORITHM),
        Field::update("size").filled_by(&key::SIZE_SLUG),
        Field::update("size_unit").filled_by(&key::SIZE_UNIT),
        Field::listeners("forwarding_rules", "entry_port", "entry_protocol"),
        Field::update("health_check"),
        Field::update("sticky_sessions").setting(&key::STICKY_TYPE),
        Field::update("redirect_http_to_https").filled_by(&key::REDIRECT),
        Field::update("enable_proxy_protocol").filled_by(&key::PROXY_PROTOCOL),
        Field::update("enable_backend_keepalive").filled_by(&key::KEEPALIVE),
        Field::update("disable_lets_encrypt_dns_records").filled_by(&key::DISABLE_DNS_RECORDS),
        Field::update("http_idle_timeout_seconds").filled_by(&key::IDLE_TIMEOUT),
        Field::update("firewall"),
        Field::observed("tls_cipher_policy"),
        Field::observed("project_id"),
        Field::create_only("tags"),
    ];
}

impl Object for LoadBalancer {
    const PATHS: Paths = Paths {
        collection: "/v2/load_balancers",
        item: "/v2/load_balancers/{id}",
        envelope: Some("load_balancer"),
    };

    fn head(&self) -> ObservedLoadBalancer {
        if self.unknown == Some(Unknown::Type) {
            let id = self.id.clone();
            let name = self.name.clone();
            return ObservedLoadBalancer {
                id,
                name,
                kind: OTHER_PRODUCT,
                ..ObservedLoadBalancer::default()
            };
        }
        let state = match (&self.unknown, self.status.as_str()) {
            (Some(Unknown::Value(error)), _) => State::Failed(format!("{UNREADABLE}: {error}")),
            (_, "new") => State::Busy,
            (_, "errored") => {
                State::Failed("the cloud could not create it (status errored)".to_owned())
            }
            _ => State::Ready,
        };
        let addresses = self
            .ip
            .iter()
            .chain([&self.ipv6])
            .filter(|ip| !ip.is_empty());
        ObservedLoadBalancer {
            id: self.id.clone(),
            name: self.name.clone(),
            owner_tags: OWNER_TAGS.take_from(&mut self.tags.clone()),
            adopted: self.tags.iter().any(|tag| tag == ADOPTED),
            // The Go program writes the ID into an annotation of the Service.
            legacy_owner: Some(self.id.clone()),
            // A requested address is shown before traffic can reach it.
            ingress: if state == State::Busy {
                Vec::new()
            } else {
                addresses.map(|ip| ObservedLoadBalancer::ip(ip)).collect()
            },
            state,
            created: self.created_at.parse().ok(),
            ..ObservedLoadBalancer::default()
        }
    }

    fn set_owner(&mut self, head: &ObservedLoadBalancer) {
        if self.name.is_empty() {
            self.name.clone_from(&head.name);
        }
        // Earlier owner tags are replaced.
        let _ = OWNER_TAGS.take_from(&mut self.tags);
        self.tags = OWNER_TAGS.among(&head.owner_tags, std::mem::take(&mut self.tags));
        // The user's own address can only be set at creation.
        if !head.id.is_empty() {
            self.ip = None;
        }
    }

    fn targets(&mut self) -> &mut Targets {
        &mut self.droplet_ids
    }
}

/// The beginning of the state of a load balancer that cannot be read.
pub(crate) const UNREADABLE: &str = "it has a value that this program does not know";

/// The path under which kube-proxy answers health checks.
pub(crate) const KUBE_PROXY_PATH: &str = "/healthz";

/// The owner, among the tags of a load balancer.
pub(crate) const OWNER_TAGS: TextTags = TextTags::of_length(255);

/// A part whose equal values can be written in several ways.
pub(crate) trait Normal {
    /// Returns the one way in which it is compared and sent.
    #[must_use]
    fn normal(self) -> Self;
}

impl Normal for HealthCheck {
    /// Normalizes the check: kube-proxy is checked without the PROXY protocol, which the API does not always show.
    fn normal(self) -> Self {
        let path = self
            .path
            .filter(|path| !path.is_empty() && self.protocol != Protocol::Tcp);
        let is_kube_proxy =
            self.protocol == Protocol::Http && path.as_deref() == Some(KUBE_PROXY_PATH);
        Self {
            path,
            proxy_protocol: is_kube_proxy.then_some(false),
            ..self
        }
    }
}

impl Normal for StickySessions {
    fn normal(self) -> Self {
        if self.kind == "cookies" {
            self
        } else {
            Self {
                kind: "none".to_owned(),
                ..Self::default()
            }
        }
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

fn normal<'de, D: Deserializer<'de>, T: Normal + Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default().normal())
}

/// Reads a region, which is written as its slug and answered as an object.
fn slug<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Region {
        Slug(String),
        Whole { slug: String },
    }
    Ok(Option::<Region>::deserialize(from)?
        .map(|(Region::Slug(slug) | Region::Whole { slug })| slug))
}

fn unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty()))
}
