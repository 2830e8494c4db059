//! A project in the cloud, a cluster, and the provider between them, made from variables as the program makes it.

use std::sync::{Arc, Mutex};

use cloud_provider::{
    About, AddressType, Caches, ClientBuilder, CloudProvider, Cluster, Context, Environment, Error, EventKind, Events,
    KubernetesApi, Node, NodeAddress, Result, Route, Service, Setup,
};
use hetzner_fake::{Fake, ROBOT_PASSWORD, ROBOT_USER, TOKEN};
use provider_hetzner::config::Config;
use provider_hetzner::{Hetzner, transports};
use provider_kit::transport::Transport;

/// The range of the Pods.
pub(crate) const RANGE: &str = "10.244.0.0/16";

/// Nodes and events of a cluster.
#[derive(Default)]
pub(crate) struct ACluster {
    pub(crate) nodes: Mutex<Vec<Arc<Node>>>,
    pub(crate) events: Mutex<Vec<String>>,
}

impl Caches for ACluster {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap().clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().into_iter().find(|node| &*node.name == name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

impl Events for ACluster {
    fn record(&self, component: &str, about: About<'_>, _: EventKind, reason: &str, message: &str) {
        let About::Node(node) = about else { unreachable!("{reason}") };
        self.events.lock().unwrap().push(format!("{component} {} {reason}: {message}", node.name));
    }
}

struct NoKubernetes;

impl ClientBuilder for NoKubernetes {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Err(Error::not_implemented())
    }
}

pub(crate) struct World {
    pub(crate) fake: Fake,
    pub(crate) cluster: Arc<ACluster>,
    variables: Vec<(String, String)>,
    cluster_cidr: Option<String>,
}

impl World {
    /// With the token, and nothing else.
    pub(crate) fn new() -> Self {
        let variables = [("HCLOUD_TOKEN", TOKEN), ("HCLOUD_ENDPOINT", "http://hetzner/v1")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { fake: Fake::default(), cluster: Arc::default(), variables: variables.into(), cluster_cidr: None }
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this `--cluster-cidr`.
    pub(crate) fn pods_in(self, range: &str) -> Self {
        Self { cluster_cidr: Some(range.to_owned()), ..self }
    }

    pub(crate) fn with_robot(self) -> Self {
        self.set("ROBOT_ENABLED", "true").set("ROBOT_USER", ROBOT_USER).set("ROBOT_PASSWORD", ROBOT_PASSWORD)
    }

    /// As the program makes it. Nothing is sent yet.
    pub(crate) fn provider(&self) -> Hetzner {
        let (environment, cluster_cidr) = (Environment::of(self.variables.clone()), self.cluster_cidr.clone());
        let setup = Setup { environment, cluster_cidr, ..Setup::default() };
        let config = Config::read(&setup).unwrap();
        let cloud = transports::cloud(&config, &setup).service(self.fake.router()).build().unwrap();
        let robot = config.robot.as_ref().and_then(|robot| Some((robot, robot.credential.as_ref()?)));
        let robot = robot.map(|(robot, credential)| {
            transports::robot(robot, credential, &setup).service(self.fake.router()).build().unwrap()
        });
        let metadata = Transport::builder("http://metadata/hetzner/v1/metadata").service(self.fake.router());
        Hetzner::over(config, cloud, robot, metadata.build().unwrap())
    }

    pub(crate) fn context(&self) -> Context {
        let (clients, events) = (Arc::new(NoKubernetes), Arc::clone(&self.cluster) as Arc<dyn Events>);
        let shutdown = Default::default();
        Context { cluster: cluster(), cluster_cidrs: vec![RANGE.to_owned()], clients, events, shutdown }
    }

    /// As the program starts it; what was asked for that is forgotten.
    pub(crate) async fn started(&self) -> Hetzner {
        let provider = self.provider();
        provider.initialize(&self.context()).await.unwrap();
        provider.set_caches(Arc::clone(&self.cluster) as Arc<dyn Caches>);
        self.fake.forget_requests();
        provider
    }

    /// A Node on this machine, with this InternalIP and Pod CIDR.
    pub(crate) fn add_node(&self, name: &str, provider_id: &str, ip: &str, pods: &str) {
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: provider_id.into(),
            addresses: [NodeAddress::new(AddressType::InternalIP, ip)].into(),
            pod_cidrs: [pods.into()].into(),
            ..Node::default()
        };
        self.cluster.nodes.lock().unwrap().push(Arc::new(node));
    }

    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.cluster.events.lock().unwrap())
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster { name: "kubernetes".into(), id: Some("5c1d".into()) }
}

/// What the controller asks for: a route to this Node, at its InternalIP.
pub(crate) fn wanted(node: &str, ip: &str, pods: &str) -> Route {
    Route {
        target_node: node.into(),
        target_node_addresses: vec![NodeAddress::new(AddressType::InternalIP, ip)],
        destination_cidr: pods.into(),
        ..Route::default()
    }
}
