//! A load balancer and its listeners, groups, members and access lists, as the API reads and writes them.

use std::collections::BTreeMap;

use cloud_provider::Result;
use provider_kit::load_balancers::{
    Attributes, Field, ObservedLoadBalancer, OwnerTags, Port, Resource, ResourceGraph, ResourceKey,
    State, Targets,
};
use serde::{Deserialize, Serialize};

use crate::annotations as key;
use crate::config::Config;

/// Labels that name the owner of a load balancer, for people and for searches, in addition to the owner tags of the
/// kit.
pub(super) const LABEL_CLUSTER: &str = "kubernetes.io/cluster-id";
pub(super) const LABEL_SERVICE: &str = "kubernetes.io/service";
pub(super) const LABEL_UID: &str = "kubernetes.io/service-uid";
pub(super) const LABEL_MANAGED_BY: &str = "kubernetes.io/managed-by";
/// Label of a load balancer that is not deleted with its Service: it was taken over, or is to be preserved.
pub(super) const LABEL_KEEP_ON_DELETE: &str = "kubernetes.io/kept";
/// The value of that label on a load balancer that is to be preserved.
pub(super) const PRESERVED: &str = "preserved";
/// The kind of the resource for a managed access list.
pub(super) const ACCESS_LIST: &str = "access list";
/// The kind of the resource for an uploaded certificate.
pub(super) const CERTIFICATE: &str = "certificate";
/// The prefix of the placeholder for the ID of an uploaded certificate.
pub(super) const UPLOADED: &str = "uploaded ";
/// The placeholder for the ID of the managed access list.
pub(super) const MANAGED: &str = "managed";

/// The settings of a load balancer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Settings {
    pub(super) spec: Option<String>,
    pub(super) network_type: Option<String>,
    pub(super) vpc_id: Option<String>,
    pub(super) subnet_id: Option<String>,
    pub(super) ip: Option<String>,
    pub(super) ip_family: Option<String>,
    pub(super) bandwidth_mbps: Option<u32>,
    pub(super) delete_protection: Option<bool>,
}

impl Resource for Settings {
    const FIELDS: &'static [Field] = &[
        Field::update("spec").filled_by(&key::SPEC),
        Field::update("network_type").filled_by(&key::NETWORK_TYPE),
        Field::update("vpc_id").filled_by(&key::VPC_ID),
        Field::update("subnet_id").filled_by(&key::SUBNET_ID),
        Field::update("ip").filled_by(&key::IP),
        Field::update("ip_family").filled_by(&key::IP_FAMILY),
        Field::update("bandwidth_mbps").filled_by(&key::BANDWIDTH),
        Field::update("delete_protection").filled_by(&key::DELETE_PROTECTION),
    ];
}

impl Settings {
    /// Settings that the cloud does not change in place.
    pub(super) const FIXED: [&'static str; 5] =
        ["network_type", "vpc_id", "subnet_id", "ip", "ip_family"];
}

/// A listener of a load balancer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Listener {
    pub(super) id: Option<String>,
    #[serde(skip_serializing)]
    pub(super) port: u16,
    #[serde(skip_serializing)]
    pub(super) group_id: String,
    #[serde(skip_serializing)]
    pub(super) owner: String,
    pub(super) protocol: Option<String>,
    pub(super) max_qps: Option<u32>,
    pub(super) max_connections: Option<u32>,
    pub(super) bandwidth_mbps: Option<u32>,
    pub(super) scheduler: Option<String>,
    pub(super) idle_timeout: Option<u32>,
    pub(super) request_timeout: Option<u32>,
    pub(super) sticky: Sticky,
    pub(super) proxy_protocol: Option<String>,
    pub(super) xff: Option<bool>,
    pub(super) http2: Option<bool>,
    pub(super) tls_policy: Option<String>,
    pub(super) certificate_ids: Option<Vec<String>>,
    pub(super) redirect_port: Option<u16>,
    pub(super) acl: Acl,
}

/// The rule by which clients keep their backend.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Sticky {
    pub(super) mode: Option<String>,
    pub(super) timeout: Option<u32>,
    pub(super) cookie_name: Option<String>,
}

/// The access list of a listener.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Acl {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) id: Option<String>,
}

impl Resource for Listener {
    const FIELDS: &'static [Field] = &[
        Field::observed("id"),
        Field::create_only("protocol").filled_by(&key::LISTENER_PROTOCOL),
        Field::update("max_qps").filled_by(&key::LISTENER_MAX_QPS),
        Field::update("max_connections").filled_by(&key::LISTENER_MAX_CONNECTIONS),
        Field::update("bandwidth_mbps").filled_by(&key::LISTENER_BANDWIDTH),
        Field::update("scheduler").filled_by(&key::LISTENER_SCHEDULER),
        Field::update("idle_timeout").filled_by(&key::LISTENER_IDLE_TIMEOUT),
        Field::update("request_timeout").filled_by(&key::LISTENER_REQUEST_TIMEOUT),
        Field::update("sticky.mode").filled_by(&key::LISTENER_STICKY),
        Field::update("sticky.timeout").filled_by(&key::LISTENER_STICKY_TIMEOUT),
        Field::update("sticky.cookie_name")
            .filled_by(&key::LISTENER_COOKIE_NAME)
            .null_removes(),
        Field::update("proxy_protocol").filled_by(&key::LISTENER_PROXY_PROTOCOL),
        Field::update("xff").filled_by(&key::LISTENER_XFF),
        Field::update("http2").filled_by(&key::LISTENER_HTTP2),
        Field::update("tls_policy").filled_by(&key::LISTENER_TLS_POLICY),
        Field::update("certificate_ids").filled_by(&key::LISTENER_CERTIFICATES),
        Field::update("redirect_port")
            .filled_by(&key::LISTENER_REDIRECT)
            .null_removes(),
        Field::update("acl.type").setting(&key::ACL_TYPE),
        Field::update("acl.id").setting(&key::ACL_ID).null_removes(),
    ];
}

/// A group of members, and the check of their health.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Group {
    pub(super) id: Option<String>,
    #[serde(skip_serializing)]
    pub(super) name: String,
    #[serde(skip_serializing)]
    pub(super) owner: String,
    pub(super) health_check: Check,
    #[serde(skip_serializing)]
    pub(super) members: Vec<Member>,
}

/// A check of the health of members.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Check {
    pub(super) enabled: Option<bool>,
    pub(super) protocol: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) path: Option<String>,
    pub(super) host: Option<String>,
    pub(super) codes: Option<Vec<String>>,
    pub(super) interval: Option<u32>,
    pub(super) timeout: Option<u32>,
    pub(super) healthy_threshold: Option<u32>,
    pub(super) unhealthy_threshold: Option<u32>,
}

impl Resource for Group {
    const FIELDS: &'static [Field] = &[
        Field::observed("id"),
        Field::update("health_check.enabled").filled_by(&key::HEALTH_CHECK),
        Field::update("health_check.protocol").filled_by(&key::HEALTH_CHECK_PROTOCOL),
        Field::update("health_check.port").setting(&key::HEALTH_CHECK_PORT),
        Field::update("health_check.path").filled_by(&key::HEALTH_CHECK_PATH),
        Field::update("health_check.host").filled_by(&key::HEALTH_CHECK_HOST),
        Field::update("health_check.codes")
            .filled_by(&key::HEALTH_CHECK_CODES)
            .unordered_list(),
        Field::update("health_check.interval").filled_by(&key::HEALTH_CHECK_INTERVAL),
        Field::update("health_check.timeout").filled_by(&key::HEALTH_CHECK_TIMEOUT),
        Field::update("health_check.healthy_threshold").filled_by(&key::HEALTHY_THRESHOLD),
        Field::update("health_check.unhealthy_threshold").filled_by(&key::UNHEALTHY_THRESHOLD),
    ];
}

/// A member of a group. In the kit, the target is `<instance>=<address>:<port>*<weight>`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Member {
    pub(super) instance_id: String,
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) weight: u32,
}

impl Member {
    pub(super) fn target(&self) -> String {
        format!(
            "{}={}:{}*{}",
            self.instance_id, self.address, self.port, self.weight
        )
    }

    pub(super) fn of(target: &str) -> Option<Self> {
        let (instance_id, rest) = target.split_once('=')?;
        let (rest, weight) = rest.rsplit_once('*')?;
        let (address, port) = rest.rsplit_once(':')?;
        let instance_id = instance_id.to_owned();
        let address = address.to_owned();
        Some(Self {
            instance_id,
            address,
            port: port.parse().ok()?,
            weight: weight.parse().ok()?,
        })
    }

    /// Returns `true` if both are the same backend, whatever their weights are.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.instance_id == other.instance_id
            && self.address == other.address
            && self.port == other.port
    }
}

/// The managed access list of a load balancer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct AccessList {
    pub(super) id: Option<String>,
    pub(super) entries: Vec<String>,
    #[serde(skip_serializing)]
    pub(super) owner: String,
}

impl Resource for AccessList {
    const FIELDS: &'static [Field] = &[
        Field::observed("id"),
        Field::update("entries").unordered_list(),
    ];
}

/// A certificate that was uploaded for a load balancer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Certificate {
    pub(super) id: Option<String>,
    /// The beginning of the digest of its content.
    #[serde(skip_serializing)]
    pub(super) name: String,
    #[serde(skip_serializing)]
    pub(super) owner: String,
}

impl Resource for Certificate {
    const FIELDS: &'static [Field] = &[Field::observed("id")];
}

/// A load balancer with everything that belongs to it.
#[derive(Deserialize)]
pub(crate) struct LoadBalancer {
    id: String,
    name: String,
    status: String,
    #[serde(default)]
    vips: Vec<Vip>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    listeners: Vec<Listener>,
    #[serde(default)]
    groups: Vec<Group>,
    #[serde(default)]
    access_lists: Vec<AccessList>,
    #[serde(default)]
    certificates: Vec<Certificate>,
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Deserialize)]
struct Vip {
    address: String,
}

/// Returns the name of a label among the settings of a load balancer.
pub(super) fn label_setting(label: &str) -> String {
    format!("label {label}")
}

/// Returns the resource for the managed access list.
pub(super) fn access_list_resource() -> ResourceKey {
    ResourceKey::created_before(0, ACCESS_LIST, MANAGED)
}

/// Returns the resource for an uploaded certificate of this name.
pub(super) fn certificate_resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(1, CERTIFICATE, name)
}

/// Returns the placeholder for the ID of an uploaded certificate of this name.
pub(super) fn uploaded(name: &str) -> String {
    format!("{UPLOADED}{name}")
}

/// Returns the name of the group of a port.
pub(super) fn group_name(port: u16, protocol: &str) -> String {
    format!("{port}-{protocol}")
}

impl LoadBalancer {
    /// Converts the load balancer to the form that the kit compares.
    pub(super) fn into_actual(mut self, config: &Config) -> ObservedLoadBalancer {
        self.settings.ip = self.vips.first().map(|vip| vip.address.clone());
        let mut labels = self.labels.clone();
        let owner_tags = OwnerTags::take_from(&mut labels);
        let is_of_cluster = labels.get(LABEL_CLUSTER) == Some(&config.cluster_id);
        ObservedLoadBalancer {
            owner_tags,
            legacy_owner: labels.get(LABEL_UID).filter(|_| is_of_cluster).cloned(),
            adopted: labels.contains_key(LABEL_KEEP_ON_DELETE),
            labels,
            state: match &*self.status {
                "ACTIVE" => State::Ready,
                "ERROR" => State::Failed("its status is ERROR".to_owned()),
                _ => State::Busy,
            },
            ingress: self
                .vips
                .iter()
                .map(|vip| ObservedLoadBalancer::ip(&vip.address))
                .collect(),
            foreign: self.foreign(config),
            graph: self.graph(config).ok(),
            id: self.id,
            name: self.name,
            ..ObservedLoadBalancer::default()
        }
    }

    /// Returns the listeners that others created, which stay.
    fn foreign(&self, config: &Config) -> BTreeMap<ResourceKey, String> {
        let of_others = self
            .listeners
            .iter()
            .filter(|listener| listener.owner != config.owner());
        of_others
            .map(|listener| {
                (
                    ResourceKey::Listener(listener.port()),
                    format!("a listener of {:?}", listener.owner),
                )
            })
            .collect()
    }

    fn graph(&self, config: &Config) -> Result<ResourceGraph> {
        let owner = config.owner();
        let settings = self.labels.iter().fold(
            Attributes::observed(&self.settings)?,
            |settings, (label, value)| settings.set(label_setting(label), value),
        );
        let mut graph = ResourceGraph::default().balancer(settings);
        let managed = self.access_lists.iter().find(|list| list.owner == owner);
        if let Some(list) = managed {
            graph = graph.resource(access_list_resource(), Attributes::observed(list)?);
        }
        let uploads: Vec<_> = self
            .certificates
            .iter()
            .filter(|certificate| certificate.owner == owner)
            .collect();
        for certificate in &uploads {
            graph = graph.resource(
                certificate_resource(&certificate.name),
                Attributes::observed(*certificate)?,
            );
        }
        for group in self.groups.iter().filter(|group| group.owner == owner) {
            let members: Targets = group.members.iter().map(Member::target).collect();
            graph = graph.pool(&group.name, Attributes::observed(group)?, Some(members));
        }
        for listener in self
            .listeners
            .iter()
            .filter(|listener| listener.owner == owner)
        {
            let mut listener = listener.clone();
            if listener.acl.id.is_some()
                && listener.acl.id == managed.and_then(|list| list.id.clone())
            {
                listener.acl.id = Some(MANAGED.to_owned());
            }
            for id in listener.certificate_ids.iter_mut().flatten() {
                if let Some(upload) = uploads
                    .iter()
                    .find(|certificate| certificate.id.as_ref() == Some(id))
                {
                    *id = uploaded(&upload.name);
                }
            }
            let group = self
                .groups
                .iter()
                .find(|group| group.id.as_ref() == Some(&listener.group_id));
            let group = group.map(|group| &*group.name).unwrap_or_default();
            let Port { number, protocol } = listener.port();
            graph = graph.listener(number, protocol, group, Attributes::observed(&listener)?);
        }
        Ok(graph)
    }
}

impl Listener {
    fn port(&self) -> Port {
        let protocol = if self.protocol.as_deref() == Some("udp") {
            "UDP"
        } else {
            "TCP"
        };
        Port {
            number: self.port,
            protocol: protocol.into(),
        }
    }

    /// Returns `true` if the load balancer terminates connections, so that backends get packets of the proxy and not of
    /// clients.
    pub(super) fn is_proxy(&self) -> bool {
        let is_plain = matches!(self.protocol.as_deref(), Some("tcp" | "udp"));
        !is_plain
            || self
                .proxy_protocol
                .as_deref()
                .is_some_and(|version| version != "off")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_rule_and_every_rule_has_a_field() {
        let unknown = [
            Settings::undeclared_fields(&Settings::default()),
            Listener::undeclared_fields(&Listener::default()),
            Group::undeclared_fields(&Group::default()),
            AccessList::undeclared_fields(&AccessList::default()),
            Certificate::undeclared_fields(&Certificate::default()),
        ];
        assert!(
            unknown
                .iter()
                .all(|entry| entry.as_ref().is_ok_and(Vec::is_empty)),
            "{unknown:?}"
        );
    }
}
