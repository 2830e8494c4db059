//! Services of a cluster, and a project in the cloud.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cloud_provider::{
    AdoptableTag, Caches, CloudProvider, Cluster, ConfigFile, Context, Error, EventKind,
    EventSubject, Events, KubernetesApi, LoadBalancerRequest, LoadBalancerStatus,
    LoadBalancerWarning, LoadBalancers, Node, Plan, Result, Service, Setup, SyncCallbacks,
    async_trait,
};
use openstack_fake::{Fake, Network, Options};
use parking_lot::Mutex;
use provider_kit::transport::in_process;
use provider_openstack::OpenStack;
use provider_openstack::config::Config;
use provider_openstack::services::Services;
use serde_json::{Value, json};

pub(crate) const PREFIX: &str = "loadbalancer.openstack.org/";
pub(crate) const CREATE: &str = "POST /lbaas/loadbalancers";
pub(crate) const NAME: &str = "kube_service_kubernetes_default_web";

#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Events for Heard {
    fn record(
        &self,
        component: &str,
        about: EventSubject<'_>,
        _kind: EventKind,
        reason: &str,
        message: &str,
    ) {
        assert_eq!(component, provider_openstack::EVENT_SOURCE);
        let about = match about {
            EventSubject::Node(node) => node.name.to_string(),
            EventSubject::Service(service) => service.metadata.name.clone().unwrap(),
        };
        self.0.lock().push(format!("{about} {reason}: {message}"));
    }
}

#[derive(Default)]
struct Listed {
    nodes: Mutex<Vec<Arc<Node>>>,
    services: Mutex<BTreeMap<String, Arc<Service>>>,
}

impl Caches for Listed {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().into_iter().find(|node| &*node.name == name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        self.services.lock().values().cloned().collect()
    }
}

/// The callbacks of a sync, which record the requested annotations, and write addresses to the Service when they are
/// published.
#[derive(Default)]
struct Annotating {
    asked: Mutex<BTreeMap<&'static str, Option<String>>>,
    waits: AtomicUsize,
    published: Mutex<Option<LoadBalancerStatus>>,
    warnings: Mutex<Vec<String>>,
    refuses_status: bool,
}

#[async_trait]
impl SyncCallbacks for Annotating {
    fn on_plan(&self, _plan: &Plan) {}
    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.asked.lock().insert(key, value);
    }
    async fn publish(&self, status: &LoadBalancerStatus) -> Result<()> {
        if self.refuses_status {
            return Err(Error::other("the API server is away"));
        }
        *self.published.lock() = Some(status.clone());
        Ok(())
    }
    fn warn(&self, warning: &LoadBalancerWarning) {
        self.warnings.lock().push(warning.text().to_owned());
    }
    fn release_permit(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }
}

/// A cluster with Services, by their names, and its cloud.
pub(crate) struct Scene {
    pub(crate) fake: Fake,
    pub(crate) network: Network,
    pub(crate) public: Network,
    pub(crate) cluster: Cluster,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) services: BTreeMap<String, Service>,
    /// Number of times at which other work could run during the last [`ensure`](Self::ensure).
    pub(crate) waits: usize,
    /// Time after which the process ends in the next [`ensure`](Self::ensure); `None`: never.
    pub(crate) lifetime: Option<Duration>,
    /// If set, no address can be written to a Service during a sync.
    pub(crate) refuses_status: bool,
    /// Tag that a load balancer needs to be adopted.
    pub(crate) adoptable_tag: Option<AdoptableTag>,
    /// Warnings of the last [`ensure`](Self::ensure).
    pub(crate) warnings: Vec<String>,
    conf: String,
    heard: Arc<Heard>,
    caches: Arc<Listed>,
    provider: Option<OpenStack>,
}

impl Scene {
    /// Creates a harness with two Nodes, an external network, and a Service `web` with port 80.
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let fake = Fake::new(options);
        let network = fake.add_network("k8s-net", "10.6.0.0/16");
        let public = fake.add_external_network("public", "172.24.0.0/16");
        fake.add_router("router", &network.subnet);
        let mut scene = Self {
            fake,
            network,
            public,
            cluster: Cluster {
                name: "kubernetes".into(),
                id: Some("5c1d".into()),
            },
            nodes: Vec::new(),
            services: BTreeMap::new(),
            waits: 0,
            lifetime: None,
            adoptable_tag: None,
            refuses_status: false,
            warnings: Vec::new(),
            conf: String::new(),
            heard: Arc::default(),
            caches: Arc::default(),
            provider: None,
        };
        scene.conf(&format!("subnet-id = {}", scene.network.subnet.clone()));
        scene.add_service("web");
        scene.add_node("worker-1");
        scene.add_node("worker-2");
        scene
    }

    /// Adds a line to `[LoadBalancer]`.
    pub(crate) fn conf(&mut self, line: &str) {
        self.conf = format!("{}{line}\n", self.conf);
        self.provider = None;
    }

    pub(crate) fn add_node(&mut self, name: &str) {
        let server = self.fake.add_server(name, &self.network);
        let node = json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"providerID": format!("openstack:///{}", server.id)},
            "status": {"addresses": [{"type": "InternalIP", "address": server.ip}]},
        });
        self.nodes
            .push(Arc::new(serde_json::from_value(node).unwrap()));
    }

    pub(crate) fn add_service(&mut self, name: &str) {
        let service = json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid(name), "annotations": {}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
        });
        self.services
            .insert(name.to_owned(), serde_json::from_value(service).unwrap());
    }

    pub(crate) fn service(&mut self, name: &str) -> &mut Service {
        self.services.get_mut(name).unwrap()
    }

    pub(crate) fn annotate(&mut self, name: &str, key: &str, value: &str) {
        let key = if key.contains('/') {
            key.to_owned()
        } else {
            format!("{PREFIX}{key}")
        };
        self.service(name)
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(key, value.to_owned());
    }

    pub(crate) fn annotation(&self, name: &str, key: &str) -> Option<&str> {
        let annotations = self.services[name].metadata.annotations.as_ref()?;
        annotations
            .get(&format!("{PREFIX}{key}"))
            .map(String::as_str)
    }

    pub(crate) fn forget(&mut self, name: &str, key: &str) {
        let annotations = self
            .service(name)
            .metadata
            .annotations
            .get_or_insert_default();
        annotations.remove(&format!("{PREFIX}{key}"));
    }

    pub(crate) fn ports(&mut self, name: &str, ports: Value) {
        self.service(name).spec.get_or_insert_default().ports =
            Some(serde_json::from_value(ports).unwrap());
    }

    /// Restarts the process: replaces the provider by a new one with empty caches.
    pub(crate) async fn start(&mut self) {
        let text = format!(
            "[Global]\nauth-url = http://openstack/identity/v3\nusername = {}\npassword = {}\ndomain-name = {}\n\
             tenant-name = {}\nregion = {}\n[LoadBalancer]\n{}",
            openstack_fake::USER,
            openstack_fake::PASSWORD,
            openstack_fake::DOMAIN,
            openstack_fake::PROJECT,
            openstack_fake::REGION,
            self.conf
        );
        let file = ConfigFile {
            path: "cloud.conf".into(),
            text,
        };
        let setup = Setup {
            adoptable_tag: self.adoptable_tag.clone(),
            ..Setup::of(file)
        };
        let config = Config::read(&setup).unwrap();
        let services = Services::over(&config, &setup, in_process(self.fake.router())).unwrap();
        let provider = OpenStack::over(config, services, &setup);
        provider
            .initialize(&context(
                &self.cluster,
                Arc::clone(&self.heard) as Arc<dyn Events>,
            ))
            .await
            .unwrap();
        provider.set_caches(Arc::clone(&self.caches) as Arc<dyn Caches>);
        self.provider = Some(provider);
        self.fake.forget_requests();
    }

    async fn balancers(&mut self) -> &dyn LoadBalancers {
        if self.provider.is_none() {
            self.start().await;
        }
        *self.caches.nodes.lock() = self.nodes.clone();
        let services = self
            .services
            .iter()
            .map(|(name, service)| (name.clone(), Arc::new(service.clone())));
        *self.caches.services.lock() = services.collect();
        self.provider.as_ref().unwrap().load_balancers().unwrap()
    }

    /// Syncs the Service as the controller does, writes the reported annotations to it, and returns the addresses and
    /// names of the status.
    pub(crate) async fn try_ensure(&mut self, name: &str) -> Result<Vec<String>> {
        let service = self.services[name].clone();
        let nodes = self.nodes.clone();
        let cluster = self.cluster.clone();
        let callbacks = Annotating {
            refuses_status: self.refuses_status,
            ..Annotating::default()
        };
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &nodes,
            callbacks: &callbacks,
        };
        // The finalizer comes before the first request.
        let finalizers = self
            .service(name)
            .metadata
            .finalizers
            .get_or_insert_default();
        *finalizers = vec!["service.kubernetes.io/load-balancer-cleanup".to_owned()];
        let (status, is_alive) = match self.lifetime.take() {
            None => (self.balancers().await.ensure(request).await, true),
            Some(lifetime) => {
                match tokio::time::timeout(lifetime, self.balancers().await.ensure(request)).await {
                    Ok(status) => (status, true),
                    Err(_) => (Err(Error::other("killed")), false),
                }
            }
        };
        self.waits = callbacks.waits.load(Ordering::Relaxed);
        self.warnings = callbacks.warnings.into_inner();
        let published = callbacks.published.into_inner();
        if is_alive || published.is_some() {
            for (key, value) in callbacks.asked.into_inner() {
                let all = self
                    .service(name)
                    .metadata
                    .annotations
                    .get_or_insert_default();
                match value {
                    Some(value) => drop(all.insert(key.to_owned(), value)),
                    None => drop(all.remove(key)),
                }
            }
        }
        if let Some(status) = published {
            self.service(name)
                .status
                .get_or_insert_default()
                .load_balancer = Some(status);
        }
        let status = status?.unwrap();
        self.service(name)
            .status
            .get_or_insert_default()
            .load_balancer = Some(status.clone());
        let ingress = status.ingress.unwrap_or_default();
        Ok(ingress
            .into_iter()
            .map(|ingress| ingress.ip.or(ingress.hostname).unwrap())
            .collect())
    }

    pub(crate) async fn ensure(&mut self, name: &str) -> Vec<String> {
        self.try_ensure(name).await.unwrap()
    }

    /// Syncs two Services concurrently.
    pub(crate) async fn ensure_both(&mut self, one: &str, two: &str) -> (Result<()>, Result<()>) {
        let nodes = self.nodes.clone();
        let cluster = self.cluster.clone();
        let one = self.services[one].clone();
        let two = self.services[two].clone();
        let request = |service| LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        let balancers = self.balancers().await;
        let both = tokio::join!(
            balancers.ensure(request(&one)),
            balancers.ensure(request(&two))
        );
        (both.0.map(drop), both.1.map(drop))
    }

    /// Syncs the Service and returns the error.
    pub(crate) async fn refused(&mut self, name: &str) -> Error {
        self.try_ensure(name).await.unwrap_err()
    }

    pub(crate) async fn update(&mut self, name: &str) {
        let service = self.services[name].clone();
        let nodes = self.nodes.clone();
        let cluster = self.cluster.clone();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &nodes,
            callbacks: &(),
        };
        self.balancers()
            .await
            .update_targets(request)
            .await
            .unwrap();
    }

    pub(crate) async fn get(&mut self, name: &str) -> Option<Vec<String>> {
        let service = self.services[name].clone();
        let cluster = self.cluster.clone();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        let status = self.balancers().await.get(request).await.unwrap();
        status.map(|status| {
            status
                .ingress
                .unwrap_or_default()
                .into_iter()
                .filter_map(|ingress| ingress.ip)
                .collect()
        })
    }

    pub(crate) async fn try_delete(&mut self, name: &str) -> Result<()> {
        let now = serde_json::from_value(json!("2026-11-21T20:00:00Z")).unwrap();
        self.service(name).metadata.deletion_timestamp = now;
        self.try_remove(name).await
    }

    /// Deletes the load balancer of a Service of any type.
    pub(crate) async fn try_remove(&mut self, name: &str) -> Result<()> {
        let service = self.services[name].clone();
        let cluster = self.cluster.clone();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        self.balancers().await.delete(request).await
    }

    /// Deletes the load balancer and then the Service.
    pub(crate) async fn delete(&mut self, name: &str) {
        self.try_delete(name).await.unwrap();
        self.services.remove(name);
    }

    /// Returns the only load balancer.
    pub(crate) fn balancer(&self) -> Value {
        let all = self.fake.load_balancers();
        assert_eq!(all.len(), 1, "{all:#?}");
        all[0].clone()
    }

    /// Returns the routes of the changing requests since the last call, in order, and clears them.
    pub(crate) fn changes(&self) -> Vec<String> {
        let routes = self
            .fake
            .changes()
            .into_iter()
            .map(|(route, _)| route)
            .collect();
        self.fake.forget_requests();
        routes
    }

    /// Events, as `object reason: message`.
    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.0.lock())
    }
}

/// The UID of a Service.
pub(crate) fn uid(name: &str) -> String {
    let number = name.bytes().fold(0_u32, |number, byte| {
        number.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("{number:08x}-2d1f-4b52-9d0c-000000000001")
}

fn context(cluster: &Cluster, events: Arc<dyn Events>) -> Context {
    struct NoKubernetes;
    impl cloud_provider::ClientBuilder for NoKubernetes {
        fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
            Err(Error::not_implemented())
        }
    }
    let clients = Arc::new(NoKubernetes);
    let shutdown = tokio_util::sync::CancellationToken::new();
    Context {
        cluster: cluster.clone(),
        cluster_cidrs: Vec::new(),
        clients,
        events,
        shutdown,
    }
}
