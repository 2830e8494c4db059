//! The Node as controllers and providers see it: only the fields that they read.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::StringMap;
use crate::names::{ANNOTATION_NODE_IP, TAINT_UNINITIALIZED};

/// A Kubernetes Node, reduced to the fields that a cloud controller manager reads.
///
/// A Node is deserialized from the API form, and fields that no code reads (images, managed fields, capacity …) are
/// skipped during parsing. Several threads share it with the cache, so it is read-only by convention: take `&Node` or
/// `Arc<Node>` (PROV-22).
///
/// ```
/// use cloud_provider::Node;
///
/// let node: Node = serde_json::from_str(r#"{
///     "metadata": {"name": "worker-1", "uid": "6e2b", "labels": {"pool": "blue"}},
///     "spec": {"providerID": "acme://i-17"},
///     "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.4"}], "images": [{"names": ["big"]}]}
/// }"#)?;
/// assert_eq!(node.provider_id(), Some("acme://i-17"));
/// assert_eq!(node.labels.get("pool"), Some("blue"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Value of `metadata.name`.
    pub name: Box<str>,
    /// Value of `metadata.uid`, which distinguishes a Node from an earlier one of the same name (P-10).
    pub uid: Box<str>,
    /// Value of `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// Value of `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// If set, `metadata.deletionTimestamp` is set: the Node waits for its finalizers.
    pub terminating: bool,
    /// Value of `metadata.labels`.
    pub labels: StringMap,
    /// Value of `metadata.annotations`, without kubectl's copy of the last applied object.
    pub annotations: StringMap,
    /// Value of `spec.providerID`; empty if unset. [`provider_id`](Self::provider_id) is the safer way to read it.
    pub provider_id: Box<str>,
    /// Value of `status.nodeInfo.systemUUID`, the machine's ID in its firmware. Only kept if there is no provider ID;
    /// otherwise empty.
    pub system_uuid: Box<str>,
    /// Value of `spec.unschedulable`: if set, the Node is cordoned.
    pub unschedulable: bool,
    /// Value of `spec.podCIDRs`; the singular `spec.podCIDR` is never read (ROUTE-22).
    pub pod_cidrs: Box<[Box<str>]>,
    /// Value of `spec.taints`, in order.
    pub taints: Box<[Taint]>,
    /// Value of `status.addresses`, in order.
    pub addresses: Box<[NodeAddress]>,
    /// Status of the first condition `Ready`; `Unknown` if there is none (LIFE-11).
    pub ready: ConditionStatus,
    /// The first condition `NetworkUnavailable`, if there is one (ROUTE-44).
    pub network_unavailable: Option<NetworkCondition>,
}

impl Node {
    /// Returns `spec.providerID`, if it is set and not empty.
    #[must_use]
    pub fn provider_id(&self) -> Option<&str> {
        Some(&*self.provider_id).filter(|id| !id.is_empty())
    }

    /// Returns the part of the provider ID before `://`.
    #[must_use]
    pub fn provider_id_scheme(&self) -> Option<&str> {
        self.provider_id()
            .and_then(|id| id.split_once("://"))
            .map(|(scheme, _)| scheme)
    }

    /// Returns `true` if the Node carries the uninitialized taint, with any value and effect (NODE-14).
    #[must_use]
    pub fn is_uninitialized(&self) -> bool {
        self.taints.iter().any(|t| &*t.key == TAINT_UNINITIALIZED)
    }

    /// Returns the kubelet's `--node-ip` as text; present even if empty (NODE-18).
    #[must_use]
    pub fn requested_ip(&self) -> Option<&str> {
        self.annotations.get(ANNOTATION_NODE_IP)
    }
}

/// The condition `NetworkUnavailable` of a Node.
///
/// ```
/// use cloud_provider::{ConditionStatus, NetworkCondition};
///
/// let routed = NetworkCondition { status: ConditionStatus::False, reason: "RouteCreated".into() };
/// assert_ne!(routed, NetworkCondition { reason: "CalicoIsUp".into(), ..routed.clone() });
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkCondition {
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason of the condition, which identifies its author: a network plug-in has other reasons than the route
    /// controller.
    pub reason: Box<str>,
}

/// A taint of a Node.
///
/// ```
/// use cloud_provider::Taint;
///
/// let shutdown = Taint::new("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule");
/// let with_value = Taint { value: "x".into(), ..shutdown.clone() };
/// assert!(shutdown.matches(&with_value) && shutdown != with_value);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint, with its prefix.
    #[serde(default)]
    pub key: Box<str>,
    /// Value of the taint; empty if there is none.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "str::is_empty"
    )]
    pub value: Box<str>,
    /// Effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(default)]
    pub effect: Box<str>,
    /// Time at which the taint was added, as in the API; only for `NoExecute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Box<str>>,
}

impl Taint {
    /// Returns a taint without a value.
    #[must_use]
    pub fn new(key: &str, effect: &str) -> Self {
        Self {
            key: key.into(),
            effect: effect.into(),
            ..Self::default()
        }
    }

    /// Returns `true` if key and effect are equal; the value is ignored (HELP-30).
    #[must_use]
    pub fn matches(&self, other: &Taint) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

/// An address of a Node.
///
/// ```
/// use cloud_provider::{AddressType, NodeAddress};
///
/// let address = NodeAddress::new(AddressType::InternalIP, "10.0.0.4");
/// assert_eq!(address.to_string(), "InternalIP 10.0.0.4");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct NodeAddress {
    /// Type of the address.
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// IP address, host name or DNS name, as text.
    pub address: Box<str>,
}

impl NodeAddress {
    /// Returns an address of the given type.
    #[must_use]
    pub fn new(kind: AddressType, address: &str) -> Self {
        Self {
            kind,
            address: address.into(),
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.address)
    }
}

/// The type of a Node's address.
///
/// ```
/// use cloud_provider::AddressType;
///
/// assert_eq!(AddressType::from("InternalIP"), AddressType::InternalIP);
/// assert_eq!(AddressType::from("Odd").as_str(), "Odd");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum AddressType {
    /// The Node's own host name.
    Hostname,
    /// An IP address reachable inside the cluster's network.
    InternalIP,
    /// An IP address reachable from outside the cluster's network.
    ExternalIP,
    /// A DNS name that resolves inside the cluster's network.
    InternalDNS,
    /// A DNS name that resolves outside the cluster's network.
    ExternalDNS,
    /// A type that this version does not know, kept unchanged.
    Other(Box<str>),
}

impl AddressType {
    /// Returns the name in the Kubernetes API.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Hostname => "Hostname",
            Self::InternalIP => "InternalIP",
            Self::ExternalIP => "ExternalIP",
            Self::InternalDNS => "InternalDNS",
            Self::ExternalDNS => "ExternalDNS",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for AddressType {
    fn from(name: &str) -> Self {
        match name {
            "Hostname" => Self::Hostname,
            "InternalIP" => Self::InternalIP,
            "ExternalIP" => Self::ExternalIP,
            "InternalDNS" => Self::InternalDNS,
            "ExternalDNS" => Self::ExternalDNS,
            other => Self::Other(other.into()),
        }
    }
}

impl Serialize for AddressType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AddressType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*Box::<str>::deserialize(deserializer)?))
    }
}

/// Status of a condition.
///
/// ```
/// use cloud_provider::ConditionStatus;
///
/// assert_eq!(ConditionStatus::from("False"), ConditionStatus::False);
/// assert_eq!(ConditionStatus::default(), ConditionStatus::Unknown);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The status is unknown or not reported.
    #[default]
    Unknown,
}

impl From<&str> for ConditionStatus {
    fn from(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wire::Node::deserialize(deserializer).map(Node::from)
    }
}

/// The API form of a Node, with the fields that are read. The parser skips all other fields.
mod wire {
    use super::{ConditionStatus, NodeAddress, StringMap, Taint, Timestamp, null_is_default};
    use crate::names::{CONDITION_NETWORK_UNAVAILABLE, CONDITION_READY};
    use serde::Deserialize;

    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

    #[derive(Deserialize)]
    pub(super) struct Node {
        #[serde(default)]
        metadata: Metadata,
        #[serde(default, deserialize_with = "null_is_default")]
        spec: Spec,
        #[serde(default, deserialize_with = "null_is_default")]
        status: Status,
    }

    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        name: Box<str>,
        uid: Box<str>,
        resource_version: Box<str>,
        creation_timestamp: Option<Timestamp>,
        deletion_timestamp: Option<serde::de::IgnoredAny>,
        labels: StringMap,
        annotations: StringMap,
    }

    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        #[serde(rename = "providerID")]
        provider_id: Box<str>,
        unschedulable: bool,
        #[serde(rename = "podCIDRs", deserialize_with = "null_is_default")]
        pod_cidrs: Vec<Box<str>>,
        #[serde(deserialize_with = "null_is_default")]
        taints: Vec<Taint>,
    }

    #[derive(Deserialize, Default)]
    #[serde(default)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        #[serde(deserialize_with = "null_is_default")]
        addresses: Vec<NodeAddress>,
        #[serde(deserialize_with = "null_is_default")]
        conditions: Vec<Condition>,
        #[serde(deserialize_with = "null_is_default")]
        node_info: NodeInfo,
    }

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct NodeInfo {
        #[serde(rename = "systemUUID", deserialize_with = "null_is_default")]
        system_uuid: Box<str>,
    }

    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        kind: Box<str>,
        #[serde(default)]
        status: Box<str>,
        #[serde(default, deserialize_with = "null_is_default")]
        reason: Box<str>,
    }

    impl From<Node> for super::Node {
        fn from(
            Node {
                metadata,
                spec,
                status,
            }: Node,
        ) -> Self {
            let condition = |kind: &str| status.conditions.iter().find(|c| &*c.kind == kind);
            let annotations = if metadata.annotations.contains_key(LAST_APPLIED) {
                metadata
                    .annotations
                    .iter()
                    .filter(|(key, _)| *key != LAST_APPLIED)
                    .collect()
            } else {
                metadata.annotations
            };
            Self {
                ready: condition(CONDITION_READY)
                    .map(|c| ConditionStatus::from(&*c.status))
                    .unwrap_or_default(),
                network_unavailable: condition(CONDITION_NETWORK_UNAVAILABLE).map(|c| {
                    super::NetworkCondition {
                        status: ConditionStatus::from(&*c.status),
                        reason: c.reason.clone(),
                    }
                }),
                name: metadata.name,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                created: metadata.creation_timestamp,
                terminating: metadata.deletion_timestamp.is_some(),
                labels: metadata.labels,
                annotations,
                system_uuid: if spec.provider_id.is_empty() {
                    status.node_info.system_uuid
                } else {
                    "".into()
                },
                provider_id: spec.provider_id,
                unschedulable: spec.unschedulable,
                pod_cidrs: spec.pod_cidrs.into(),
                taints: spec.taints.into(),
                addresses: status.addresses.into(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
