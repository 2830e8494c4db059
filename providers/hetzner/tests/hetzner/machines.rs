//! Lookups of machines: Nodes on machines of the fake, and the requests about them.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, CloudProvider, InstanceMetadata, InstanceState, LookupRequest, Node, NodeAddress,
    Result, Taint,
};
use hetzner_fake::Fake;
use provider_hetzner::Hetzner;
use provider_hetzner::config::{self, Config};

use crate::harness::{self, ACluster, WITH_ROBOT};

pub(super) const FRESH: LookupRequest = LookupRequest::EXISTENCE.and_shutdown().fresh();
/// Longer than any list is believed.
pub(super) const LATER: Duration = Duration::from_secs(601);

pub(super) struct Machines {
    pub(super) fake: Fake,
    pub(super) config: Config,
    cluster: Arc<ACluster>,
    provider: Option<Hetzner>,
}

impl Machines {
    fn with(variables: &[(&str, &str)]) -> Self {
        let config = Config::read(&harness::setup(variables.iter().copied())).unwrap();
        Self {
            fake: Fake::default(),
            config,
            cluster: Arc::default(),
            provider: None,
        }
    }

    /// Creates a project with access to Robot.
    pub(super) fn with_robot() -> Self {
        Self::with(&WITH_ROBOT)
    }

    pub(super) fn robot(&mut self) -> &mut config::Robot {
        self.config.robot.as_mut().unwrap()
    }

    /// Creates a project with this number of servers, `worker-0` and on.
    pub(super) fn of(servers: usize) -> Self {
        let this = Self::with(&[]);
        (0..servers).for_each(|n| drop(this.fake.add_server(&format!("worker-{n}"))));
        this
    }

    /// Tells the provider of the cluster's Nodes.
    pub(super) fn cluster(&self, nodes: &[Arc<Node>]) {
        *self.cluster.nodes.lock() = nodes.to_vec();
    }

    /// Starts over: a provider that knows nothing, and has been started.
    pub(super) async fn start(&mut self) -> &Hetzner {
        self.provider
            .insert(harness::started(&self.config, &self.fake, &self.cluster).await)
    }

    pub(super) async fn look_up(
        &mut self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        if self.provider.is_none() {
            self.start().await;
        }
        self.provider
            .as_ref()
            .unwrap()
            .instances()
            .unwrap()
            .lookup(nodes, request)
            .await
    }

    pub(super) async fn state(
        &mut self,
        node: &Arc<Node>,
        request: LookupRequest,
    ) -> Result<InstanceState> {
        self.look_up(std::slice::from_ref(node), request)
            .await
            .pop()
            .unwrap()
    }

    /// Returns `true` if the Node's machine exists, by a fresh read.
    pub(super) async fn exists(&mut self, node: &Arc<Node>) -> Result<bool> {
        Ok(matches!(
            self.state(node, LookupRequest::EXISTENCE.fresh()).await?,
            InstanceState::Present { .. }
        ))
    }

    pub(super) async fn is_shut_down(&mut self, node: &Arc<Node>) -> Result<bool> {
        match self.state(node, FRESH).await? {
            InstanceState::Present {
                shutdown: Some(shutdown),
                ..
            } => Ok(shutdown),
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn metadata(&mut self, node: &Arc<Node>) -> InstanceMetadata {
        match self.state(node, LookupRequest::METADATA).await.unwrap() {
            InstanceState::Present {
                metadata: Some(metadata),
                ..
            } => *metadata,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the Node's addresses, as `Type address`.
    pub(super) async fn addresses(&mut self, node: &Arc<Node>) -> Vec<String> {
        self.metadata(node)
            .await
            .node_addresses
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Requests since the last call, as `3 × GET /servers`.
    pub(super) fn requests(&self) -> Vec<String> {
        let counts = self
            .fake
            .counts()
            .into_iter()
            .map(|(route, count)| format!("{count} × {route}"))
            .collect();
        self.fake.forget_requests();
        counts
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.cluster.events()
    }

    /// Returns the lookups of servers since the last call, as `subsystem mode result`.
    pub(super) fn cache_results(&self) -> Vec<String> {
        let name = "cloud_controller_manager_server_cache_requests_total ";
        self.cluster
            .series()
            .iter()
            .filter_map(|series| series.strip_prefix(name))
            .map(str::to_owned)
            .collect()
    }
}

/// Returns a Node without a provider id if that is empty.
pub(super) fn node(name: &str, provider_id: &str) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        uid: name.into(),
        provider_id: provider_id.into(),
        ..Node::default()
    })
}

/// Returns a Node that waits for its provider ID.
pub(super) fn new_node(name: &str) -> Arc<Node> {
    let taint = Taint::new(
        "node.cloudprovider.kubernetes.io/uninitialized",
        "NoSchedule",
    );
    Arc::new(Node {
        taints: [taint].into(),
        ..(*node(name, "")).clone()
    })
}

/// Returns the Nodes of the fake's servers, with their provider ids.
pub(super) fn nodes_of(fake: &Fake) -> Vec<Arc<Node>> {
    fake.servers()
        .iter()
        .map(|server| node(&server.name, &format!("hcloud://{}", server.id)))
        .collect()
}

/// Returns a Node that reports these InternalIPs.
pub(super) fn with_internal_ips(node: &Node, ips: &[&str]) -> Arc<Node> {
    let addresses = ips
        .iter()
        .map(|ip| NodeAddress::new(AddressType::InternalIP, ip))
        .collect();
    Arc::new(Node {
        addresses,
        ..node.clone()
    })
}

pub(super) fn gone(answer: &Result<InstanceState>) -> Option<&str> {
    match answer {
        Ok(InstanceState::Gone(gone)) => Some(gone.reason()),
        _ => None,
    }
}
