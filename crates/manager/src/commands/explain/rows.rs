//! Facts about an object in Kubernetes and in the cloud, as rows of a table.

use cloud_provider::names::{
    ANNOTATION_NODE_IP, CONDITION_NETWORK_UNAVAILABLE, CONDITION_READY, FINALIZER_LOAD_BALANCER,
    LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE,
};
use cloud_provider::{InstanceMetadata, Node, NodeAddress, Service, counted};
use serde_json::Value;

use super::facts::{Balancers, Machine, NodeFacts, ServiceFacts};
use super::node::{condition_text, texts};
use super::service::{condition, finalizers};

/// A row: a name and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the fact.
    pub name: &'static str,
    /// Values of the fact; empty if the fact is not set.
    pub values: Vec<String>,
}

impl Row {
    pub(super) fn of(
        name: &'static str,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let values = values
            .into_iter()
            .map(Into::into)
            .filter(|value: &String| !value.is_empty());
        Self {
            name,
            values: values.collect(),
        }
    }
}

/// Maximum length of an annotation's value; longer values are cut.
const LONGEST: usize = 100;
/// Annotation with the copy of the object that kubectl keeps.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum number of Nodes shown by name.
const NAMED: usize = 5;

/// Returns the facts that Kubernetes has about a Service.
pub(super) fn of_service(service_facts: &ServiceFacts, service: &Service) -> Vec<Row> {
    let spec = service.spec.clone().unwrap_or_default();
    let port = |port: k8s_openapi::api::core::v1::ServicePort| {
        let node_port = port
            .node_port
            .map(|node_port| format!(" → {node_port}"))
            .unwrap_or_default();
        format!(
            "{}/{}{node_port}",
            port.port,
            port.protocol.unwrap_or_else(|| "TCP".to_owned())
        )
    };
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = status
        .and_then(|status| status.ingress.clone())
        .unwrap_or_default();
    let addresses = ingress
        .into_iter()
        .filter_map(|entry| entry.ip.or(entry.hostname));
    let annotations = service
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| *key != LAST_APPLIED);
    let annotation = |(key, value): (&String, &String)| {
        format!("{key}={}", value.chars().take(LONGEST).collect::<String>())
    };
    let condition = condition(service).map(|condition| {
        format!(
            "{}={}, {}",
            condition.type_, condition.status, condition.reason
        )
    });
    let finalizer = |name: String| match name == FINALIZER_LOAD_BALANCER {
        true => format!("{name} (of load balancer controllers)"),
        false => name,
    };
    let excluded = service_facts
        .excluded
        .iter()
        .take(NAMED)
        .map(|(node, why)| format!("not {node}: {why}"));
    let more = service_facts
        .excluded
        .len()
        .checked_sub(NAMED + 1)
        .map(|more| format!("and {}", counted(more + 1, "more Node")));
    let count = match service_facts.targets {
        1 => "1 Node can be a target".to_owned(),
        count => format!("{count} Nodes can be targets"),
    };
    vec![
        Row::of("Type", spec.type_),
        Row::of("Class", spec.load_balancer_class),
        Row::of("Ports", spec.ports.into_iter().flatten().map(port)),
        Row::of("Addresses", addresses),
        Row::of("Finalizers", finalizers(service).map(finalizer)),
        Row::of("Condition", condition),
        Row::of("Annotations", annotations.map(annotation)),
        Row::of("Nodes", std::iter::once(count).chain(excluded).chain(more)),
        Row::of(
            "Created",
            service
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0.to_string()),
        ),
        Row::of(
            "Deleted",
            service
                .metadata
                .deletion_timestamp
                .as_ref()
                .map(|time| time.0.to_string()),
        ),
    ]
}

/// Returns the facts that the cloud has about a Service, for a provider that describes no load balancers.
pub(super) fn of_balancers(balancers: &Balancers) -> Vec<Row> {
    match balancers {
        Balancers::Described(_) | Balancers::Failed(_) | Balancers::NotAsked => Vec::new(),
        Balancers::Found(None) => vec![Row::of("Load balancer", ["none"])],
        Balancers::Found(Some(addresses)) => {
            vec![
                Row::of("Load balancer", ["there is one"]),
                Row::of("Addresses", addresses.clone()),
            ]
        }
    }
}

fn addresses(all: &[NodeAddress]) -> impl Iterator<Item = String> {
    all.iter()
        .map(|address| format!("{}={}", address.kind.as_str(), address.address))
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the facts that Kubernetes has about a Node.
pub(super) fn of_node(node: &Node, object: &Value) -> Vec<Row> {
    let label = |key: &str| node.labels.get(key).map(str::to_owned);
    let taints = node.taints.iter().map(|taint| match &*taint.value {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    });
    let with_text = |status: String, kind: &str| match condition_text(object, kind) {
        text if text.is_empty() => status,
        text => format!("{status} ({text})"),
    };
    let network = node.network_unavailable.as_ref();
    vec![
        Row::of("Provider ID", [&*node.provider_id]),
        Row::of("Addresses", addresses(&node.addresses)),
        Row::of(
            "Ready",
            [with_text(format!("{:?}", node.ready), CONDITION_READY)],
        ),
        Row::of(
            "No network",
            network.map(|network_condition| {
                with_text(
                    format!("{:?}", network_condition.status),
                    CONDITION_NETWORK_UNAVAILABLE,
                )
            }),
        ),
        Row::of("Taints", taints),
        Row::of("Pod CIDRs", node.pod_cidrs.iter().map(ToString::to_string)),
        Row::of(
            "Type, zone, region",
            [joined(
                [LABEL_INSTANCE_TYPE, LABEL_ZONE, LABEL_REGION]
                    .into_iter()
                    .filter_map(label),
            )],
        ),
        Row::of(
            "kubelet --node-ip",
            node.annotations.get(ANNOTATION_NODE_IP),
        ),
        Row::of("Finalizers", texts(&object["metadata"]["finalizers"])),
        Row::of("Created", node.created.map(|time| time.to_string())),
        Row::of("Deleted", object["metadata"]["deletionTimestamp"].as_str()),
    ]
}

/// Returns the facts that the cloud has about a Node.
pub(super) fn of_machine(node_facts: &NodeFacts) -> Vec<Row> {
    let mut rows = match &node_facts.machine {
        Machine::Present { shutdown, metadata } => {
            let state = match shutdown {
                Some(true) => "there is one, shut down",
                Some(false) => "there is one, running",
                None => "there is one",
            };
            let mut rows = vec![Row::of("Machine", [state])];
            rows.extend(metadata.iter().flat_map(|metadata| of_metadata(metadata)));
            rows
        }
        Machine::Gone(reason) => vec![Row::of("Machine", [format!("none: {reason}")])],
        Machine::Ambiguous(_) | Machine::Failed(_) => {
            vec![Row::of("Machine", ["not known, see the error"])]
        }
        Machine::NotAsked => vec![Row::of("Machine", ["the cloud was not asked"])],
    };
    rows.extend(
        node_facts
            .named
            .iter()
            .map(|id| Row::of("Of this name", [id])),
    );
    if let Some(routes) = &node_facts.routes {
        let none = routes
            .is_empty()
            .then(|| "no route leads to the Node".to_owned());
        rows.push(Row::of("Routes", routes.iter().cloned().chain(none)));
    }
    rows
}

fn of_metadata(metadata: &InstanceMetadata) -> Vec<Row> {
    vec![
        Row::of("Provider ID", [&metadata.provider_id]),
        Row::of(
            "Type, zone, region",
            [joined(
                [&metadata.instance_type, &metadata.zone, &metadata.region]
                    .into_iter()
                    .cloned(),
            )],
        ),
        Row::of("Addresses", addresses(&metadata.node_addresses)),
    ]
}
