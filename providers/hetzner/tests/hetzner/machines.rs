//! A cluster whose Nodes are machines of the fake's, and what it asks of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud_provider::{
    About, AddressType, Caches, ClientBuilder, CloudMetrics, CloudProvider, Cluster, Context, Error, EventKind, Events,
    InstanceMetadata, InstanceState, KubernetesApi, Node, NodeAddress, ProviderSeries, Result, Service, Setup, Want,
};
use hetzner_fake::{Fake, ROBOT_PASSWORD, ROBOT_USER, TOKEN};
use provider_hetzner::config::{self, AddressFamily, Cache, Config, Instances};
use provider_hetzner::{Hetzner, transports};
use provider_kit::transport::{Credential, Transport};

pub(super) const FRESH: Want = Want::EXISTENCE.and_shutdown().fresh();
/// Longer than any list is believed.
pub(super) const LATER: Duration = Duration::from_secs(601);

/// What was told: events as `node reason: message`, series as `name labels`.
#[derive(Default)]
pub(super) struct Heard {
    events: Mutex<Vec<String>>,
    series: Mutex<Vec<String>>,
    nodes: Mutex<Vec<Arc<Node>>>,
}

impl Events for Heard {
    fn record(&self, component: &str, about: About<'_>, kind: EventKind, reason: &str, message: &str) {
        assert_eq!((component, kind), ("hcloud-cloud-controller-manager", EventKind::Warning));
        let About::Node(node) = about else { panic!("an event about a Service") };
        self.events.lock().unwrap().push(format!("{} {reason}: {message}", node.name));
    }
}

impl CloudMetrics for Heard {
    fn record(&self, series: &'static ProviderSeries, labels: &[&str], _value: f64) {
        self.series.lock().unwrap().push(format!("{} {}", series.name, labels.join(" ")));
    }
}

impl Caches for Heard {
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

pub(super) struct Machines {
    pub(super) fake: Fake,
    pub(super) config: Config,
    heard: Arc<Heard>,
    provider: Option<Hetzner>,
}

impl Machines {
    /// No machine yet; everything at its default.
    pub(super) fn new() -> Self {
        let instances = Instances { address_family: AddressFamily::Ipv4, zone_label: true, cache: Cache::Shared };
        let config = Config {
            token: Credential::token(TOKEN),
            endpoint: "http://hetzner/v1".to_owned(),
            debug: false,
            rate_limit_left_to_others: 10,
            network: None,
            instances,
            metrics_address: None,
            balancers: None,
            robot: None,
        };
        Self { fake: Fake::default(), config, heard: Arc::default(), provider: None }
    }

    /// With access to Robot.
    pub(super) fn with_robot() -> Self {
        let mut this = Self::new();
        this.config.robot = Some(config::Robot {
            credential: Some(Credential::basic(ROBOT_USER, ROBOT_PASSWORD)),
            endpoint: "http://robot".to_owned(),
            cache_timeout: Duration::from_secs(300),
            rate_limit_wait: Duration::ZERO,
            forward_internal_ips: true,
        });
        this
    }

    pub(super) fn robot(&mut self) -> &mut config::Robot {
        self.config.robot.as_mut().unwrap()
    }

    /// A project with so many servers, `worker-0` and on.
    pub(super) fn of(servers: usize) -> Self {
        let this = Self::new();
        (0..servers).for_each(|n| drop(this.fake.add_server(&format!("worker-{n}"))));
        this
    }

    /// Tells the provider of the cluster's Nodes.
    pub(super) fn cluster(&self, nodes: &[Arc<Node>]) {
        *self.heard.nodes.lock().unwrap() = nodes.to_vec();
    }

    /// Starts over: a provider that knows nothing, and has been started.
    pub(super) async fn start(&mut self) -> &Hetzner {
        let setup = Setup { metrics: Arc::clone(&self.heard) as Arc<dyn CloudMetrics>, ..Setup::default() };
        let cloud = transports::cloud(&self.config, &setup).service(self.fake.router()).build().unwrap();
        let metadata = Transport::builder("http://metadata").service(self.fake.router()).build().unwrap();
        let robot = self.config.robot.as_ref().and_then(|robot| Some((robot, robot.credential.as_ref()?)));
        let robot = robot.map(|(robot, credential)| {
            transports::robot(robot, credential, &setup).service(self.fake.router()).build().unwrap()
        });
        let provider = Hetzner::over(self.config.clone(), cloud, robot, metadata);
        provider.initialize(&context(Arc::clone(&self.heard) as Arc<dyn Events>)).await.unwrap();
        provider.set_caches(Arc::clone(&self.heard) as Arc<dyn Caches>);
        self.fake.forget_requests();
        self.provider.insert(provider)
    }

    pub(super) async fn look_up(&mut self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>> {
        if self.provider.is_none() {
            self.start().await;
        }
        self.provider.as_ref().unwrap().instances().unwrap().lookup(nodes, want).await
    }

    pub(super) async fn state(&mut self, node: &Arc<Node>, want: Want) -> Result<InstanceState> {
        self.look_up(std::slice::from_ref(node), want).await.pop().unwrap()
    }

    /// Whether the Node's machine exists, asked now.
    pub(super) async fn exists(&mut self, node: &Arc<Node>) -> Result<bool> {
        Ok(matches!(self.state(node, Want::EXISTENCE.fresh()).await?, InstanceState::Present { .. }))
    }

    pub(super) async fn is_shut_down(&mut self, node: &Arc<Node>) -> Result<bool> {
        match self.state(node, FRESH).await? {
            InstanceState::Present { shutdown: Some(shutdown), .. } => Ok(shutdown),
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn metadata(&mut self, node: &Arc<Node>) -> InstanceMetadata {
        match self.state(node, Want::METADATA).await.unwrap() {
            InstanceState::Present { metadata: Some(metadata), .. } => *metadata,
            other => panic!("{other:?}"),
        }
    }

    /// The Node's addresses, as `Type address`.
    pub(super) async fn addresses(&mut self, node: &Arc<Node>) -> Vec<String> {
        self.metadata(node).await.node_addresses.iter().map(ToString::to_string).collect()
    }

    /// Requests since the last call, as `3 × GET /servers`.
    pub(super) fn requests(&self) -> Vec<String> {
        let counts = self.fake.counts().into_iter().map(|(route, count)| format!("{count} × {route}")).collect();
        self.fake.forget_requests();
        counts
    }

    pub(super) fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.events.lock().unwrap())
    }

    /// Look-ups of servers since the last call, as `subsystem mode result`.
    pub(super) fn cache_results(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.heard.series.lock().unwrap());
        let name = "cloud_controller_manager_server_cache_requests_total ";
        all.iter().filter_map(|it| it.strip_prefix(name)).map(str::to_owned).collect()
    }
}

/// A Node without a provider id if that is empty.
pub(super) fn node(name: &str, provider_id: &str) -> Arc<Node> {
    Arc::new(Node { name: name.into(), uid: name.into(), provider_id: provider_id.into(), ..Node::default() })
}

/// The Nodes of the fake's servers, with their provider ids.
pub(super) fn nodes_of(fake: &Fake) -> Vec<Arc<Node>> {
    fake.servers().iter().map(|server| node(&server.name, &format!("hcloud://{}", server.id))).collect()
}

/// A Node that reports these InternalIPs.
pub(super) fn with_internal_ips(node: &Node, ips: &[&str]) -> Arc<Node> {
    let addresses = ips.iter().map(|ip| NodeAddress::new(AddressType::InternalIP, ip)).collect();
    Arc::new(Node { addresses, ..node.clone() })
}

pub(super) fn gone(answer: &Result<InstanceState>) -> Option<&str> {
    match answer {
        Ok(InstanceState::Gone(gone)) => Some(gone.reason()),
        _ => None,
    }
}

fn context(events: Arc<dyn Events>) -> Context {
    struct NoKubernetes;
    impl ClientBuilder for NoKubernetes {
        fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
            Err(Error::not_implemented())
        }
    }
    let cluster = Cluster { name: "kubernetes".into(), id: Some("5c1d".into()) };
    let (clients, shutdown) = (Arc::new(NoKubernetes), tokio_util::sync::CancellationToken::new());
    Context { cluster, cluster_cidrs: Vec::new(), clients, events, shutdown }
}
