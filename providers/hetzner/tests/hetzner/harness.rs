//! Harness: a project in the cloud, a cluster, and the provider between them, configured by variables.

use std::sync::Arc;

use cloud_provider::{
    AddressType, Caches, ClientBuilder, CloudMetrics, CloudProvider, Cluster, Context, Environment,
    Error, EventKind, EventSubject, Events, KubernetesApi, Node, NodeAddress, ProviderSeries,
    Result, Route, Service, Setup,
};
use hetzner_fake::{Fake, ROBOT_PASSWORD, ROBOT_USER, TOKEN};
use parking_lot::Mutex;
use provider_hetzner::config::Config;
use provider_hetzner::{Hetzner, transports};
use provider_kit::transport::Transport;

/// The range of the Pods.
pub(crate) const RANGE: &str = "10.244.0.0/16";

/// Nodes and Services of a cluster, and what the provider reported.
#[derive(Default)]
pub(crate) struct ACluster {
    pub(crate) nodes: Mutex<Vec<Arc<Node>>>,
    pub(crate) services: Mutex<Vec<Arc<Service>>>,
    events: Mutex<Vec<String>>,
    series: Mutex<Vec<String>>,
}

impl ACluster {
    /// Returns the events since the last call, as `object reason: message`.
    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock())
    }

    /// Returns the series since the last call, as `name labels`.
    pub(crate) fn series(&self) -> Vec<String> {
        std::mem::take(&mut self.series.lock())
    }
}

impl Caches for ACluster {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().into_iter().find(|node| &*node.name == name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        self.services.lock().clone()
    }
}

impl Events for ACluster {
    fn record(
        &self,
        component: &str,
        about: EventSubject<'_>,
        kind: EventKind,
        reason: &str,
        message: &str,
    ) {
        assert_eq!(
            (component, kind),
            ("hcloud-cloud-controller-manager", EventKind::Warning)
        );
        let about = match about {
            EventSubject::Node(node) => node.name.to_string(),
            EventSubject::Service(service) => service.metadata.name.clone().unwrap(),
        };
        self.events
            .lock()
            .push(format!("{about} {reason}: {message}"));
    }
}

impl CloudMetrics for ACluster {
    fn record(&self, series: &'static ProviderSeries, labels: &[&str], _value: f64) {
        self.series
            .lock()
            .push(format!("{} {}", series.name, labels.join(" ")));
    }
}

struct NoKubernetes;

impl ClientBuilder for NoKubernetes {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Err(Error::not_implemented())
    }
}

/// Returns the program's set-up: the token and the endpoint, and these variables.
pub(crate) fn setup<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Setup {
    let all = [
        ("HCLOUD_TOKEN", TOKEN),
        ("HCLOUD_ENDPOINT", "http://hetzner/v1"),
    ];
    Setup {
        environment: Environment::of(all.into_iter().chain(variables)),
        ..Setup::default()
    }
}

/// The variables for access to Robot.
pub(crate) const WITH_ROBOT: [(&str, &str); 3] = [
    ("ROBOT_ENABLED", "true"),
    ("ROBOT_USER", ROBOT_USER),
    ("ROBOT_PASSWORD", ROBOT_PASSWORD),
];

/// Returns the provider over the fake. Nothing is sent yet.
pub(crate) fn provider(config: &Config, setup: &Setup, fake: &Fake) -> Hetzner {
    let cloud = transports::cloud(config, setup)
        .service(fake.router())
        .build()
        .unwrap();
    let robot = config
        .robot
        .as_ref()
        .and_then(|robot| Some((robot, robot.credential.as_ref()?)));
    let robot = robot.map(|(robot, credential)| {
        transports::robot(robot, credential, setup)
            .service(fake.router())
            .build()
            .unwrap()
    });
    let metadata = Transport::builder("http://metadata/hetzner/v1/metadata").service(fake.router());
    Hetzner::over(config.clone(), cloud, robot, metadata.build().unwrap())
}

pub(crate) fn context(cluster: &Arc<ACluster>) -> Context {
    let clients = Arc::new(NoKubernetes);
    let events = Arc::clone(cluster) as Arc<dyn Events>;
    let shutdown = Default::default();
    Context {
        cluster: kubernetes(),
        cluster_cidrs: vec![RANGE.to_owned()],
        clients,
        events,
        shutdown,
    }
}

/// Returns the provider over the fake, started; the requests of the start are forgotten.
pub(crate) async fn started(config: &Config, fake: &Fake, cluster: &Arc<ACluster>) -> Hetzner {
    let setup = Setup {
        metrics: Arc::clone(cluster) as Arc<dyn CloudMetrics>,
        ..Setup::default()
    };
    let provider = provider(config, &setup, fake);
    provider.initialize(&context(cluster)).await.unwrap();
    provider.set_caches(Arc::clone(cluster) as Arc<dyn Caches>);
    fake.forget_requests();
    provider
}

/// A provider that is configured by variables alone, as the program configures it.
#[derive(Default)]
pub(crate) struct Harness {
    pub(crate) fake: Fake,
    pub(crate) cluster: Arc<ACluster>,
    variables: Vec<(String, String)>,
    cluster_cidr: Option<String>,
}

impl Harness {
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the value of `--cluster-cidr`.
    pub(crate) fn pods_in(self, range: &str) -> Self {
        Self {
            cluster_cidr: Some(range.to_owned()),
            ..self
        }
    }

    pub(crate) fn with_robot(self) -> Self {
        WITH_ROBOT
            .iter()
            .fold(self, |this, (name, value)| this.set(name, value))
    }

    fn setup(&self) -> Setup {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        Setup {
            cluster_cidr: self.cluster_cidr.clone(),
            ..setup(variables)
        }
    }

    pub(crate) fn provider(&self) -> Hetzner {
        let setup = self.setup();
        provider(&Config::read(&setup).unwrap(), &setup, &self.fake)
    }

    pub(crate) fn context(&self) -> Context {
        context(&self.cluster)
    }

    pub(crate) async fn started(&self) -> Hetzner {
        started(
            &Config::read(&self.setup()).unwrap(),
            &self.fake,
            &self.cluster,
        )
        .await
    }

    /// Adds a Node on this machine, with this InternalIP and Pod CIDR.
    pub(crate) fn add_node(&self, name: &str, provider_id: &str, ip: &str, pods: &str) {
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: provider_id.into(),
            addresses: [NodeAddress::new(AddressType::InternalIP, ip)].into(),
            pod_cidrs: [pods.into()].into(),
            ..Node::default()
        };
        self.cluster.nodes.lock().push(Arc::new(node));
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.cluster.events()
    }
}

pub(crate) fn kubernetes() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

/// Returns the route that the controller requests: to this Node, at its InternalIP.
pub(crate) fn wanted(node: &str, ip: &str, pods: &str) -> Route {
    Route {
        target_node: node.into(),
        target_node_addresses: vec![NodeAddress::new(AddressType::InternalIP, ip)],
        destination_cidr: pods.into(),
        ..Route::default()
    }
}
