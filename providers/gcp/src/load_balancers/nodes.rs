//! The Nodes of load balancers: their targets and network tags, and those that are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud_provider::{Error, EventSubject, Node, Result, Service};
use provider_kit::inventory::{Found, Machine};
use provider_kit::load_balancers::{Attributes, ResourceGraph, Targets, machine_ids};
use provider_kit::transport::Priority;

use super::names::{LbNames, denial, traffic};
use super::objects::Firewall;
use super::spec::{Backend, Frontend, Spec};
use super::{GceLoadBalancers, target};
use crate::api::{Place, name};
use crate::instances::IDS;

/// The label of Nodes in another subnetwork than the cluster's.
const SUBNET_LABEL: &str = "cloud.google.com/gke-node-pool-subnet";
/// Most instances of an instance group.
const MOST_OF_A_GROUP: usize = 1000;
/// The reason of events on a Node that load balancers leave out.
const LEFT_OUT: &str = "LoadBalancerNodeLeftOut";

impl GceLoadBalancers {
    /// Returns the targets that the Nodes are; `None` if no instance is known.
    pub(super) fn targets(
        &self,
        nodes: &[Arc<Node>],
        backend: Backend,
        place: &Place,
    ) -> Option<Targets> {
        let own_subnet = place.subnetwork.as_deref().map(name);
        let is_in_subnet = |node: &&Arc<Node>| match node.labels.get(SUBNET_LABEL) {
            Some(subnet) if backend.has_groups() && !subnet.is_empty() => {
                own_subnet.is_none_or(|own_subnet| own_subnet == subnet)
            }
            _ => true,
        };
        let nodes = nodes
            .iter()
            .filter(is_in_subnet)
            .filter(|node| self.is_of_project(node));
        let nodes: Vec<_> = nodes.cloned().collect();
        let known = machine_ids(&nodes, &IDS)?;
        let limit = if backend.has_groups() {
            MOST_OF_A_GROUP
        } else {
            usize::MAX
        };
        let mut zones = BTreeMap::<String, usize>::new();
        let mut all = known.iter().filter_map(target).collect::<Vec<_>>();
        all.sort();
        all.retain(|target| {
            let count = zones
                .entry(target.split(':').next().unwrap_or_default().to_owned())
                .or_default();
            *count += 1;
            *count <= limit
        });
        Some(all.into_iter().collect())
    }

    /// Returns `false` for a Node whose instance is in another project: only instances of the load balancer's own project
    /// can be targets.
    fn is_of_project(&self, node: &Node) -> bool {
        let project = IDS
            .read(&node.provider_id)
            .ok()
            .and_then(|path| path.split('/').next());
        let own_project = self.api.known_project().unwrap_or_default();
        let Some(other) =
            project.filter(|project| !own_project.is_empty() && *project != own_project)
        else {
            return true;
        };
        self.warn_of_node(
            node,
            &format!("its instance is in project {other}, and load balancers are in {own_project}"),
        );
        false
    }

    /// Returns the network tags of the Nodes: the configured ones, or of each instance the longest that begins its name. A
    /// Node without one is left out.
    ///
    /// # Errors
    /// The cloud's answer. *Invalid* if no instance has a tag.
    pub(super) async fn tags(&self, nodes: &[Arc<Node>]) -> Result<Vec<String>> {
        if !self.api.config.node_tags.is_empty() {
            return Ok(self.api.config.node_tags.clone());
        }
        let found = self
            .instances
            .find_all(nodes, false, Priority::Ordinary)
            .await;
        let mut tags = BTreeSet::new();
        let mut without = None;
        for (node, found) in nodes.iter().zip(found) {
            let instance = match found {
                Ok(Found::Present(instance)) => instance,
                Ok(Found::Gone(_)) => continue,
                Err(error) if error.is_invalid() => {
                    self.warn_of_node(node, &error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let name = instance.name();
            let own_tag = instance
                .tags
                .iter()
                .filter(|tag| name.starts_with(&***tag))
                .max_by_key(|tag| tag.len());
            if let Some(own_tag) = own_tag {
                tags.insert(own_tag.to_string());
                continue;
            }
            let text = format!(
                "instance {name} has no network tag that begins its name; add one, or set node-tags in the cloud configuration"
            );
            self.warn_of_node(node, &text);
            without.get_or_insert(text);
        }
        match without.filter(|_| tags.is_empty()) {
            Some(text) => Err(Error::invalid(text)),
            None => Ok(tags.into_iter().collect()),
        }
    }

    /// Adds the firewalls that name the tags of the Nodes: they are updated when Nodes join or leave.
    pub(super) async fn with_tags(
        &self,
        graph: ResourceGraph,
        nodes: &[Arc<Node>],
        names: &LbNames,
        spec: &Spec,
    ) -> Result<ResourceGraph> {
        if !self.api.config.node_tags.is_empty() {
            return Ok(graph);
        }
        // Tags that cannot be read keep no Node from becoming a target.
        let tags = self
            .tags(nodes)
            .await
            .inspect_err(|error| tracing::warn!(%error, "network tags stay as they are"));
        let tags = tags.ok().filter(|tags| !tags.is_empty());
        let settings = Attributes::desired(&Firewall {
            target_tags: tags,
            ..Firewall::default()
        })?;
        let settings = settings.only(&["targetTags"]);
        Ok(spec
            .frontends()
            .fold(graph, |graph, Frontend { is_ipv6, backend }| {
                let check = names.check_of(spec, backend);
                let firewalls = [
                    names.check_firewall_resource(&check, is_ipv6),
                    traffic(names.firewall(is_ipv6)),
                    denial(names.denial(is_ipv6)),
                ];
                { firewalls }.into_iter().fold(graph, |graph, resource| {
                    graph.resource_of_nodes(resource, settings.clone())
                })
            }))
    }

    /// Reports targets whose instances do not exist, on their Nodes.
    pub(super) fn warn_of_left_out(&self, left_out: &Targets, service: &Service) {
        if left_out.is_empty() {
            return;
        }
        let nodes = self.kubernetes.cluster.nodes().unwrap_or_default();
        tracing::warn!(service = service.metadata.name, %left_out, "instances that do not exist are no targets");
        let is_left_out = |node: &&Arc<Node>| {
            IDS.read(&node.provider_id)
                .ok()
                .and_then(target)
                .is_some_and(|target| left_out.contains(&target))
        };
        for node in nodes.iter().filter(is_left_out) {
            self.warn_of_node(
                node,
                &format!("instance {} does not exist", node.provider_id),
            );
        }
    }

    fn warn_of_node(&self, node: &Node, text: &str) {
        let subject = EventSubject::Node(node);
        let text = format!("load balancers leave the Node out: {text}");
        if self.deduplicator.is_first(subject, LEFT_OUT, &text) {
            self.kubernetes
                .cluster
                .events()
                .warning(subject, LEFT_OUT, text);
        }
    }
}
