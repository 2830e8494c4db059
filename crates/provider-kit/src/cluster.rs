//! The cluster as a provider sees it: Nodes, ranges of Pods, and where events about both go.

use std::sync::{Arc, OnceLock};

use cloud_provider::{Caches, ClientBuilder, Context, Error, KubernetesApi, Node, Result};
use ipnet::IpNet;

use crate::events::EventWriter;

/// What the controllers know of the cluster. Made with the provider, for all of its parts, before anything is known; clones
/// learn together.
///
/// ```
/// use provider_kit::cluster::ClusterView;
///
/// let cluster = ClusterView::new("acme-cloud-controller-manager");
/// // In `CloudProvider::initialize`: cluster.connect(context);
/// // In `CloudProvider::set_caches`: cluster.set_caches(caches);
/// cluster.learn_ranges(&["10.244.0.0/16".to_owned()]);
/// assert!(cluster.owns_route("10.244.7.0/24", None));
/// assert!(!cluster.owns_route("0.0.0.0/0", None));
/// ```
#[derive(Clone)]
pub struct ClusterView {
    events: EventWriter,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    ranges: Arc<OnceLock<Vec<IpNet>>>,
    clients: Arc<OnceLock<Arc<dyn ClientBuilder>>>,
    /// Opened when it is first needed: most providers never ask the Kubernetes API.
    api: Arc<OnceLock<Arc<dyn KubernetesApi>>>,
}

impl ClusterView {
    /// One of which nothing is known. `component`: the source of events.
    #[must_use]
    pub fn new(component: &'static str) -> Self {
        let (caches, ranges) = (Arc::default(), Arc::default());
        Self { events: EventWriter::new(component), caches, ranges, clients: Arc::default(), api: Arc::default() }
    }

    /// From now on events are written, the ranges of Pods are known, and the Kubernetes API can be asked if there is access.
    pub fn connect(&self, context: &Context) {
        self.events.connect(&context.events);
        self.learn_ranges(&context.cluster_cidrs);
        self.clients.get_or_init(|| Arc::clone(&context.clients));
    }

    /// Returns access to the Kubernetes API.
    ///
    /// # Errors
    /// *Other*, before the program is connected; the error of opening the access.
    pub fn api(&self) -> Result<&dyn KubernetesApi> {
        if let Some(api) = self.api.get() {
            return Ok(&**api);
        }
        let missing = || Error::other("there is no access to the Kubernetes API yet");
        let api = self.clients.get().ok_or_else(missing)?.client(self.events.component())?;
        Ok(&**self.api.get_or_init(|| api))
    }

    /// From now on these are the ranges of Pods; what is no range does not count.
    pub fn learn_ranges(&self, cluster_cidrs: &[String]) {
        self.ranges.get_or_init(|| cluster_cidrs.iter().filter_map(|range| range.parse().ok()).collect());
    }

    /// From now on the Nodes are known.
    pub fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.caches.get_or_init(|| caches);
    }

    /// Where events go.
    #[must_use]
    pub fn events(&self) -> &EventWriter {
        &self.events
    }

    /// All Nodes; `None` as long as they are not known, which is not the same as none.
    #[must_use]
    pub fn nodes(&self) -> Option<Vec<Arc<Node>>> {
        self.caches.get().map(|caches| caches.nodes())
    }

    /// The Node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.caches.get()?.node(name)
    }

    /// The ranges of Pods (`--cluster-cidr`); none as long as they are not known.
    #[must_use]
    pub fn ranges(&self) -> &[IpNet] {
        self.ranges.get().map_or(&[], Vec::as_slice)
    }

    /// Whether a route to `destination` is the cluster's, and not somebody else's in the same network: it begins or ends in a
    /// range of Pods, or leads to the Node (`target`) whose Pod CIDR it is.
    #[must_use]
    pub fn owns_route(&self, destination: &str, target: Option<&Node>) -> bool {
        let Ok(destination) = destination.parse::<IpNet>() else { return false };
        let begins_or_ends =
            |range: &IpNet| range.contains(&destination.network()) || range.contains(&destination.broadcast());
        let is_its = |node: &Node| node.pod_cidrs.iter().any(|cidr| cidr.parse() == Ok(destination));
        self.ranges().iter().any(begins_or_ends) || target.is_some_and(is_its)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> ClusterView {
        ClusterView::new("test")
    }

    #[test]
    fn a_route_is_ours_by_the_ranges_of_pods_or_by_the_node_that_it_leads_to() {
        let (cluster, node) = (view(), Node { pod_cidrs: ["10.9.0.0/24".into()].into(), ..Node::default() });
        let before = cluster.clone();
        assert!(!cluster.owns_route("10.244.7.0/24", None), "nothing is known yet");
        cluster.learn_ranges(&["10.244.0.0/16".to_owned(), "odd".to_owned()]);
        let table = [
            ("10.244.7.0/24", None, true),
            ("10.244.0.0/15", None, true),
            ("10.243.0.0/16", None, false),
            ("0.0.0.0/0", None, false),
            ("10.9.0.0/24", None, false),
            ("10.9.0.0/24", Some(&node), true),
            ("10.9.1.0/24", Some(&node), false),
            ("odd", Some(&node), false),
        ];
        for (destination, target, is_ours) in table {
            assert_eq!(before.owns_route(destination, target), is_ours, "{destination}");
        }
        cluster.learn_ranges(&["10.0.0.0/8".to_owned()]);
        assert_eq!(cluster.ranges().len(), 1, "they do not change while the program runs");
    }

    #[test]
    fn nodes_that_are_not_known_yet_are_not_none() {
        assert!(view().nodes().is_none() && view().node("worker-1").is_none());
    }
}
