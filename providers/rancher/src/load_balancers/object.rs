//! Load balancer services and external services, as the API reads them.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::Result;
use provider_kit::load_balancers::{
    Attributes, Field, ObservedLoadBalancer, OwnerTags, Resource, ResourceGraph, State, Targets,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::annotations as key;
use crate::api::Links;

/// The name of the only pool: each port has the same backends, on its own node port.
pub(crate) const POOL: &str = "main";
/// States of a service that the API is not about to leave.
const SETTLED: [&str; 3] = ["active", "inactive", "upgraded"];
/// States of a service that only a user leaves, and in which Rancher accepts no change.
const STUCK: [&str; 3] = ["error", "canceled-upgrade", "canceled-rollback"];
/// States of a service that does not run.
const STOPPED: [&str; 5] = [
    "requested",
    "registering",
    "inactive",
    "deactivating",
    "updating-inactive",
];
/// States of a resource that no longer exists.
const REMOVED: [&str; 3] = ["removed", "purging", "purged"];

/// A load balancer service.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LoadBalancerService {
    #[serde(flatten)]
    pub(crate) resource: Links,
    name: String,
    pub(crate) state: String,
    transitioning: Option<String>,
    transitioning_message: Option<String>,
    created: Option<String>,
    pub(crate) stack_id: Option<String>,
    scale: Option<u32>,
    pub(crate) launch_config: Option<LaunchConfig>,
    pub(crate) lb_config: Option<LbConfig>,
    pub(crate) metadata: Option<Map<String, Value>>,
    public_endpoints: Option<Vec<PublicEndpoint>>,
    /// IDs of services that this service is linked to, by the names of the links.
    pub(crate) linked_services: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct LaunchConfig {
    ports: Option<Vec<String>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LbConfig {
    pub(crate) port_rules: Option<Vec<PortRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stickiness_policy: Option<Value>,
    /// Other settings, such as a configuration of HAProxy: they stay.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// A rule: which service gets the traffic of a port.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PortRule {
    pub(crate) source_port: Option<u16>,
    pub(crate) target_port: Option<u16>,
    pub(crate) service_id: Option<String>,
    pub(crate) protocol: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PublicEndpoint {
    ip_address: Option<String>,
}

/// A service outside of Rancher's own networks: the address of a Node.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExternalService {
    #[serde(flatten)]
    pub(crate) resource: Links,
    pub(crate) name: String,
    pub(crate) state: String,
    external_ip_addresses: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
}

impl ExternalService {
    pub(crate) fn address(&self) -> Option<&str> {
        self.external_ip_addresses
            .as_deref()
            .and_then(<[String]>::first)
            .map(String::as_str)
    }

    /// Returns the cluster in the owner tags.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.metadata.as_ref()?.get(OwnerTags::CLUSTER)?.as_str()
    }
}

/// The settings of a load balancer.
#[derive(Serialize)]
pub(crate) struct Settings {
    pub(crate) active: bool,
    /// If set, old containers wait for the end of an upgrade, and Rancher accepts no other change.
    pub(crate) upgraded: bool,
    pub(crate) ports: Vec<String>,
    pub(crate) scale: Option<u32>,
    pub(crate) certificates: Option<Vec<String>>,
    pub(crate) cookie: Option<String>,
}

impl Resource for Settings {
    const FIELDS: &'static [Field] = &[
        Field::update("active"),
        Field::update("upgraded"),
        Field::update("ports").unordered_list(),
        Field::update("scale").setting(&key::SCALE),
        Field::update("certificates").setting(&key::CERTIFICATES),
        Field::update("cookie").setting(&key::COOKIE),
    ];
}

/// Returns `true` for the message of a load balancer for which Rancher finds no host.
pub(crate) fn is_scheduling_failure(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["scheduling failed", "allocation failed"]
        .iter()
        .any(|failure| message.contains(failure))
}

/// Returns the published port in the form of the Go program.
pub(crate) fn published_port(number: u16) -> String {
    format!("{number}:{number}/tcp")
}

/// Returns a policy that keeps a client at one backend by a cookie.
pub(crate) fn stickiness(cookie: &str) -> Value {
    json!({"name": cookie, "cookie": cookie, "mode": "insert", "indirect": true, "nocache": true, "postonly": false})
}

impl LoadBalancerService {
    /// Returns `false` if the API only remembers the load balancer.
    pub(crate) fn exists(&self) -> bool {
        !REMOVED.contains(&&*self.state)
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    /// Returns the UID of the Service in the owner tags.
    pub(crate) fn service(&self) -> Option<&str> {
        self.metadata.as_ref()?.get(OwnerTags::SERVICE)?.as_str()
    }

    fn rules(&self) -> impl Iterator<Item = &PortRule> {
        self.lb_config
            .iter()
            .flat_map(|config| config.port_rules.iter().flatten())
    }

    /// Returns the IDs of the services that get traffic or are linked.
    pub(crate) fn services(&self) -> impl Iterator<Item = &String> {
        let linked = self.linked_services.iter().flat_map(BTreeMap::values);
        self.rules()
            .filter_map(|rule| rule.service_id.as_ref())
            .chain(linked)
    }

    fn state(&self) -> State {
        let message = || {
            self.transitioning_message
                .clone()
                .unwrap_or_else(|| format!("state {}", self.state))
        };
        match &*self.state {
            state if STUCK.contains(&state) => State::Failed(message()),
            _ if self.is_unscheduled() => State::Failed(message()),
            _ if self.transitioning.as_deref() == Some("error") => State::Failed(message()),
            // The containers of the load balancer have no addresses yet.
            "active" if self.public_endpoints.iter().all(Vec::is_empty) => State::Busy,
            state if SETTLED.contains(&state) => State::Ready,
            _ => State::Busy,
        }
    }

    /// Returns `false` in a state in which Rancher accepts no change: the error of this state says more than a refusal.
    pub(crate) fn accepts_changes(&self) -> bool {
        !STUCK.contains(&&*self.state) && !self.is_unscheduled()
    }

    /// Returns `true` if Rancher finds no host for the load balancer, for example because another service has its port.
    fn is_unscheduled(&self) -> bool {
        let is_failure = |message: &String| is_scheduling_failure(message);
        self.state == "activating" && self.transitioning_message.as_ref().is_some_and(is_failure)
    }

    fn settings(&self) -> Settings {
        let with_protocol = |port: &String| {
            if port.contains('/') {
                port.clone()
            } else {
                format!("{port}/tcp")
            }
        };
        let ports = self
            .launch_config
            .iter()
            .flat_map(|launch_config| launch_config.ports.iter().flatten());
        let config = self.lb_config.as_ref();
        let policy = config.and_then(|config| config.stickiness_policy.as_ref());
        Settings {
            active: !STOPPED.contains(&&*self.state),
            upgraded: self.state == "upgraded",
            ports: ports.map(with_protocol).collect(),
            scale: self.scale,
            certificates: config.and_then(|config| config.certificate_ids.clone()),
            cookie: policy
                .and_then(|policy| policy["cookie"].as_str())
                .map(str::to_owned),
        }
    }

    /// Converts the load balancer to what the engine compares. A backend is known by its address, which `address`
    /// returns for the ID of a service; a service that no longer exists is a backend of its own, to be removed.
    pub(crate) fn observed(
        &self,
        address: impl Fn(&str) -> Option<String>,
    ) -> Result<ObservedLoadBalancer> {
        let mut ports: BTreeMap<u16, Vec<&PortRule>> = BTreeMap::new();
        for rule in self.rules().filter(|rule| rule.service_id.is_some()) {
            ports
                .entry(rule.source_port.unwrap_or_default())
                .or_default()
                .push(rule);
        }
        let backend = |rule: &PortRule| {
            let id = rule.service_id.as_deref().unwrap_or_default();
            address(id).unwrap_or_else(|| id.to_owned())
        };
        let targets: BTreeSet<_> = self
            .rules()
            .filter(|rule| rule.service_id.is_some())
            .map(backend)
            .collect();
        let mut graph = ResourceGraph::default().balancer(Attributes::observed(&self.settings())?);
        for (number, rules) in ports {
            let is_same = |port_rule: &PortRule| {
                port_rule.target_port == rules[0].target_port
                    && port_rule.protocol == rules[0].protocol
            };
            let has_all = rules
                .iter()
                .map(|rule| backend(rule))
                .collect::<BTreeSet<_>>()
                == targets;
            // A port of which some backends differ is written as a whole.
            let node_port = rules[0]
                .target_port
                .filter(|_| has_all && rules.iter().all(|port_rule| is_same(port_rule)));
            let settings = Attributes::default()
                .set("node_port", node_port)
                .set("protocol", &rules[0].protocol);
            graph = graph.listener(number, "TCP", POOL, settings);
        }
        let mut owner = OwnerTags::default();
        let tag = |key: &str| Some(self.metadata.as_ref()?.get(key)?.as_str()?.to_owned());
        (owner.cluster, owner.service) = (tag(OwnerTags::CLUSTER), tag(OwnerTags::SERVICE));
        let mut ingress = Vec::new();
        for ip in self
            .public_endpoints
            .iter()
            .flatten()
            .filter_map(|public_endpoint| public_endpoint.ip_address.as_deref())
        {
            let entry = ObservedLoadBalancer::ip(ip);
            if !ingress.contains(&entry) {
                ingress.push(entry);
            }
        }
        Ok(ObservedLoadBalancer {
            id: self.resource.id().to_owned(),
            name: self.name.clone(),
            owner_tags: owner,
            legacy_owner: self.name.starts_with("lb-a").then(|| self.name.clone()),
            state: self.state(),
            ingress,
            graph: Some(graph.pool(
                POOL,
                Attributes::default(),
                Some(targets.into_iter().collect::<Targets>()),
            )),
            created: self.created.as_ref().and_then(|time| time.parse().ok()),
            ..ObservedLoadBalancer::default()
        })
    }

    /// Returns the configuration of the containers with other published ports.
    pub(crate) fn launch_config_with(&self, ports: &Value) -> Value {
        let mut config = json!(self.launch_config);
        config["ports"] = ports.clone();
        config
    }
}
