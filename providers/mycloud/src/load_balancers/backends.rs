//! The Nodes that are backends of a Service. Pure.

use std::sync::Arc;

use cloud_provider::{AddressType, Node};
use provider_kit::events::PendingEvents;
use provider_kit::inventory::MachineSource;
use provider_kit::load_balancers::Targets;

use super::objects::Member;
use super::spec::Spec;
use crate::api::Api;
use crate::config::EMPTY_BACKEND_POLICY;

/// A Node that is a backend.
pub(super) struct Backend {
    instance_id: String,
    address: String,
    weight: u32,
}

impl Backend {
    /// Returns the target for the backend at a node port.
    pub(super) fn target(&self, port: u16) -> String {
        let instance_id = self.instance_id.clone();
        let address = self.address.clone();
        Member {
            instance_id,
            address,
            port,
            weight: self.weight,
        }
        .target()
    }
}

/// Returns the members of a group on this node port.
pub(super) fn targets(backends: &[Backend], port: u16) -> Targets {
    backends
        .iter()
        .map(|backend| backend.target(port))
        .collect()
}

/// Returns the backends, and adds events to `pending_events`. `None` if the present backends are to stay.
pub(super) fn backends(
    nodes: &[Arc<Node>],
    spec: &Spec,
    api: &Api,
    pending_events: &mut PendingEvents,
) -> Option<Vec<Backend>> {
    let mut selected: Vec<&Arc<Node>> = nodes
        .iter()
        .filter(|node| is_selected(node, spec, api))
        .collect();
    if selected.is_empty() {
        let policy = api.config.word(&EMPTY_BACKEND_POLICY);
        let text = format!(
            "no Node is selected as a backend: annotate Nodes with {}; policy: {policy}",
            ingress(api)
        );
        pending_events.warn("NoIngressNodes", text);
        match policy {
            "all" => selected = nodes.iter().collect(),
            "keep" => return None,
            _ => {}
        }
    }
    let is_any_selected = !selected.is_empty();
    let backends: Vec<Backend> = selected
        .into_iter()
        .filter_map(|node| backend(node, spec, api, pending_events))
        .collect();
    // If no selected Node has a known machine yet, the present backends stay, so that the load balancer is not emptied.
    (!is_any_selected || !backends.is_empty()).then_some(backends)
}

fn ingress(api: &Api) -> &str {
    &api.config.node_annotations[0]
}

fn is_selected(node: &Node, spec: &Spec, api: &Api) -> bool {
    let group = node.annotations.get(ingress(api)).unwrap_or_default();
    if spec.group.as_ref().is_some_and(|wanted| wanted != group) {
        return false;
    }
    let has = |item: &str| {
        item.split_once('=')
            .is_some_and(|(key, value)| node.labels.get(key) == Some(value))
    };
    match &*spec.selector {
        "all" => true,
        "annotated" => !matches!(group, "" | "false"),
        labels => labels.split(',').all(has),
    }
}

fn backend(
    node: &Arc<Node>,
    spec: &Spec,
    api: &Api,
    pending_events: &mut PendingEvents,
) -> Option<Backend> {
    let id = node.provider_id()?;
    let instance_id = match api.machine_id(id) {
        Ok(id) => id.to_owned(),
        Err(error) => {
            pending_events.warn_node(
                node,
                "InvalidProviderID",
                format!("the Node is no backend of load balancers: {error}"),
            );
            return None;
        }
    };
    let is_ipv6 = spec.settings.ip_family.as_deref() == Some("ipv6");
    let internal = node
        .addresses
        .iter()
        .filter(|address| address.kind == AddressType::InternalIP);
    let Some(address) = internal
        .map(|address| address.address.to_string())
        .find(|address| address.contains(':') == is_ipv6)
    else {
        let family = if is_ipv6 { "IPv6" } else { "IPv4" };
        let text = format!(
            "the Node is no backend of load balancers: it has no InternalIP of family {family}"
        );
        pending_events.warn_node(node, "NoAddress", text);
        return None;
    };
    let weight = &*api.config.node_annotations[1];
    let weight = match node.annotations.get(weight).map(|text| {
        (
            text,
            text.parse::<u32>().ok().filter(|number| *number <= 256),
        )
    }) {
        None => spec.weight,
        Some((_, Some(own_value))) => own_value,
        Some((text, None)) => {
            let text = format!(
                "annotation {weight}: {text:?} is not a number from 0 to 256; it has the default weight"
            );
            pending_events.warn_node(node, "InvalidWeight", text);
            spec.weight
        }
    };
    Some(Backend {
        instance_id,
        address,
        weight,
    })
}
