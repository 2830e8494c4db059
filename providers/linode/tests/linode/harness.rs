//! Harness: an account, a cluster, and the provider between them, configured by variables and flags like the program.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{
    About, AddressType, Caches, ClientBuilder, CloudProvider, Cluster, Context, Environment, EventKind, Events,
    KubernetesApi, LoadBalancerRequest, LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup, async_trait,
};
use provider_kit::transport::Builder;
use provider_linode::config::Config;
use provider_linode::{Linode, annotations, cloud};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use linode_fake::{ACCOUNT, Handle, Linodes, TOKEN};

#[derive(Default)]
pub(crate) struct ClusterObjects {
    pub(crate) nodes: Mutex<Vec<Arc<Node>>>,
    services: Mutex<Vec<Arc<Service>>>,
    events: Mutex<Vec<String>>,
    pub(crate) secrets: Mutex<Vec<(String, String)>>,
    pub(crate) patches: Mutex<Vec<(String, Value)>>,
}

impl Caches for ClusterObjects {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap().clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().into_iter().find(|node| &*node.name == name)
    }
    fn services(&self) -> Vec<Arc<Service>> {
        self.services.lock().unwrap().clone()
    }
}

impl Events for ClusterObjects {
    fn record(&self, _: &str, _: About<'_>, _: EventKind, reason: &str, message: &str) {
        self.events.lock().unwrap().push(format!("{reason}: {message}"));
    }
}

/// The key of all certificates.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n";

struct Kubernetes(Arc<ClusterObjects>);

impl ClientBuilder for Kubernetes {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(Self(Arc::clone(&self.0))))
    }
}

#[async_trait]
impl KubernetesApi for Kubernetes {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let path = request.uri().path().to_owned();
        if request.method() == "PATCH" {
            let patch = serde_json::from_slice(request.body()).unwrap();
            self.0.patches.lock().unwrap().push((path, patch));
            return Ok(http::Response::new(b"{}".to_vec()));
        }
        let secrets = self.0.secrets.lock().unwrap();
        let found = secrets.iter().find(|(name, _)| path == format!("/api/v1/namespaces/default/secrets/{name}"));
        let status = if found.is_some() { 200 } else { 404 };
        let body =
            found.map(|(_, pem)| json!({"data": {"tls.crt": STANDARD.encode(pem), "tls.key": STANDARD.encode(KEY)}}));
        let answer = http::Response::builder().status(status);
        Ok(answer.body(body.unwrap_or_default().to_string().into_bytes()).unwrap())
    }
}

pub(crate) struct Harness {
    pub(crate) fake: Handle<Linodes>,
    pub(crate) objects: Arc<ClusterObjects>,
    pub(crate) shutdown: CancellationToken,
    variables: Vec<(String, String)>,
    flags: Vec<(String, String)>,
}

impl Harness {
    /// Creates an account with two Linodes, and the Nodes that they are.
    pub(crate) fn new() -> Self {
        let fake = Handle::new(Linodes::default());
        let variables = [("LINODE_API_TOKEN", TOKEN), ("LINODE_REGION", "us-east"), ("LINODE_URL", "http://linode")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let harness =
            Self { fake, objects: Arc::default(), shutdown: CancellationToken::new(), variables, flags: Vec::new() };
        ["worker-1", "worker-2"].into_iter().for_each(|name| harness.add_node(name));
        harness
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        let all = if name.starts_with("--") { &mut self.flags } else { &mut self.variables };
        all.retain(|(known, _)| known != name);
        all.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let (environment, flags) = (Environment::of(self.variables.clone()), Environment::of(self.flags.clone()));
        let cluster_cidr = Some("10.244.0.0/16".to_owned());
        Setup { environment, flags, cluster_cidr, ..Setup::default() }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Linode {
        self.started_with(|it| it.service(self.fake.router())).await
    }

    /// Returns the started provider over changed connections.
    pub(crate) async fn started_with(&self, connect: impl Fn(Builder) -> Builder) -> Linode {
        let setup = self.setup();
        let config = Config::read(&setup).unwrap();
        let [http, lists] = [(); 2].map(|()| connect(cloud(&config, &setup)).build().unwrap());
        let provider = Linode::new(config, http, lists);
        let (clients, events) = (Arc::new(Kubernetes(Arc::clone(&self.objects))), Arc::clone(&self.objects));
        let context = Context {
            cluster: cluster(),
            cluster_cidrs: vec!["10.244.0.0/16".to_owned(), "fd00::/48".to_owned()],
            clients,
            events,
            shutdown: self.shutdown.clone(),
        };
        provider.initialize(&context).await.unwrap();
        provider.set_caches(Arc::clone(&self.objects) as Arc<dyn Caches>);
        self.fake.gate().forget_requests();
        provider
    }

    /// Adds a Linode and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        let id = self.fake.lock().add_linode(ACCOUNT, name);
        let linode = self.linode(name);
        let address = |it: &Value| NodeAddress::new(AddressType::InternalIP, it.as_str().unwrap());
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: format!("linode://{id}").into(),
            addresses: [address(&linode["ipv4"][1])].into(),
            ..Node::default()
        };
        self.objects.nodes.lock().unwrap().push(Arc::new(node));
    }

    pub(crate) fn linode(&self, name: &str) -> Value {
        self.fake.lock().linodes.iter().find(|it| it["label"] == name).cloned().unwrap()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.objects.events.lock().unwrap())
    }

    fn request<'a>(
        &self,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
        cluster: &'a Cluster,
    ) -> LoadBalancerRequest<'a> {
        *self.objects.services.lock().unwrap() = vec![Arc::new(service.clone())];
        LoadBalancerRequest { cluster, service, nodes, observer: &() }
    }

    /// Syncs a Service, which gets the status that follows.
    pub(crate) async fn ensure(&self, provider: &Linode, service: &mut Service) -> Result<LoadBalancerStatus> {
        let (nodes, cluster) = (self.objects.nodes(), cluster());
        let before = service.clone();
        let request = self.request(&before, &nodes, &cluster);
        let status = provider.load_balancers().unwrap().ensure(request).await?.unwrap_or_default();
        service.status = Some(serde_json::from_value(json!({"loadBalancer": status})).unwrap());
        Ok(status)
    }

    pub(crate) async fn delete(&self, provider: &Linode, service: &Service) -> Result<()> {
        let cluster = cluster();
        provider.load_balancers().unwrap().delete(self.request(service, &[], &cluster)).await
    }

    /// Returns the only NodeBalancer, and its configurations.
    pub(crate) fn nodebalancer(&self) -> (Value, Vec<Value>) {
        let cloud = self.fake.lock();
        assert_eq!(cloud.nodebalancers.len(), 1, "{:#?}", cloud.nodebalancers);
        (cloud.nodebalancers[0].clone(), cloud.configs.clone())
    }

    /// Requests that changed something, by route.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.fake.gate().changes().into_iter().map(|(route, _)| route).collect()
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster { name: "kubernetes".into(), id: Some("5c1d".into()) }
}

/// Returns a Service with ports 80 and 443, and these annotations without their prefix.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(all: &[(&str, &str)], more: Value) -> Service {
    let full = |key: &str| format!("{}{key}", annotations::PREFIX);
    let all: Value = all.iter().map(|(key, value)| (full(key), json!(value))).collect::<serde_json::Map<_, _>>().into();
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "nodePort": 30000 + port, "protocol": "TCP"});
    let mut spec = json!({"type": "LoadBalancer", "ports": [port("http", 80), port("https", 443)]});
    let Value::Object(more) = more else { panic!("fields of a spec are an object") };
    for (key, value) in more {
        spec[key] = value;
    }
    let metadata = json!({"name": "web", "namespace": "default", "uid": "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11", "annotations": all});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Sets an annotation of the Service.
pub(crate) fn annotate(service: &mut Service, key: &str, value: &str) {
    let all = service.metadata.annotations.get_or_insert_default();
    all.insert(format!("{}{key}", annotations::PREFIX), value.to_owned());
}
