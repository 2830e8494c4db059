//! A project, a cluster, and the provider between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    Caches, ClientBuilder, CloudMetrics, CloudProvider, Cluster, ConfigFile, Context, Environment,
    EventKind, EventSubject, Events, KubernetesApi, LoadBalancerRequest, LoadBalancerStatus, Node,
    ProviderSeries, Result, Service, Setup, async_trait,
};
use gcp_fake::{Gcp, Handle, PROJECT, REGION, ZONE};
use parking_lot::Mutex;
use provider_gcp::Gce;
use provider_gcp::config::Config;
use provider_kit::transport::{Connector, in_process};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";
/// The name of the load balancer of that Service.
pub(crate) const LB: &str = "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1";
pub(crate) const CLUSTER_ID: &str = "0123456789abcdef";

#[derive(Default)]
pub(crate) struct ClusterObjects {
    pub(crate) nodes: Mutex<Vec<Arc<Node>>>,
    pub(crate) services: Mutex<Vec<Arc<Service>>>,
    events: Mutex<Vec<String>>,
    pub(crate) patches: Mutex<Vec<(String, Value)>>,
    pub(crate) config_map: Mutex<Option<Value>>,
}

impl Caches for ClusterObjects {
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

impl Events for ClusterObjects {
    fn record(&self, _: &str, _: EventSubject<'_>, _: EventKind, reason: &str, message: &str) {
        self.events.lock().push(format!("{reason}: {message}"));
    }
}

/// The provider's own series, by name and labels.
#[derive(Default)]
pub(crate) struct Series(Mutex<BTreeMap<String, f64>>);

impl CloudMetrics for Series {
    fn record(&self, series: &'static ProviderSeries, labels: &[&str], value: f64) {
        *self
            .0
            .lock()
            .entry(format!("{}{labels:?}", series.name).replace('"', ""))
            .or_default() += value;
    }
}

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
        let body = request.body();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut map = self.0.config_map.lock();
        let (status, answer) = match request.method().as_str() {
            "PATCH" => {
                self.0.patches.lock().push((path, body));
                (200, json!({}))
            }
            "POST" => {
                *map = Some(body.clone());
                (201, body)
            }
            _ => map.clone().map_or((404, json!({})), |map| (200, map)),
        };
        Ok(http::Response::builder()
            .status(status)
            .body(answer.to_string().into_bytes())
            .unwrap())
    }
}

pub(crate) struct Harness {
    pub(crate) fake: Handle<Gcp>,
    pub(crate) objects: Arc<ClusterObjects>,
    series: Arc<Series>,
    keys: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    flags: Vec<(String, String)>,
}

impl Harness {
    /// A project with two instances, and the Nodes that they are.
    pub(crate) fn new() -> Self {
        let keys = [
            ("project-id", PROJECT),
            ("local-zone", ZONE),
            ("network-name", "default"),
            ("subnetwork-name", "default"),
            ("node-tags", "node"),
            ("api-endpoint", "http://gcp/compute/v1/"),
        ];
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let map = json!({"data": {"uid": CLUSTER_ID}});
        let objects = Arc::new(ClusterObjects {
            config_map: Mutex::new(Some(map)),
            ..ClusterObjects::default()
        });
        let harness = Self {
            fake: Handle::new(Gcp::default()),
            objects,
            series: Arc::default(),
            keys: keys.map(pair).into(),
            variables: vec![pair(("GCE_METADATA_HOST", "gcp"))],
            flags: Vec::new(),
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name, ZONE));
        harness
    }

    /// Sets a key of the file, a flag (`--name`) or a variable (`NAME`).
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        let all = match name {
            name if name.starts_with("--") => &mut self.flags,
            name if name.starts_with(char::is_uppercase) => &mut self.variables,
            _ => &mut self.keys,
        };
        all.retain(|(known, _)| known != name);
        all.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a key out of the file.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.keys.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let lines = self
            .keys
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect::<String>();
        let file = ConfigFile {
            path: "gce.conf".into(),
            text: format!("[global]\n{lines}"),
        };
        let environment = Environment::of(self.variables.clone());
        let flags = Environment::of(self.flags.clone());
        let metrics = Arc::clone(&self.series) as Arc<dyn CloudMetrics>;
        Setup {
            environment,
            flags,
            metrics,
            cluster_cidr: Some("10.244.0.0/16".to_owned()),
            ..Setup::of(file)
        }
    }

    /// The provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Gce {
        self.started_with(in_process(self.fake.router())).await
    }

    pub(crate) async fn started_with(&self, connector: Arc<dyn Connector>) -> Gce {
        let setup = self.setup();
        let provider = Gce::new(Config::read(&setup).unwrap(), &setup, &connector).unwrap();
        let clients = Arc::new(Kubernetes(Arc::clone(&self.objects)));
        let events = Arc::clone(&self.objects);
        let cluster_cidrs = vec!["10.244.0.0/16".to_owned()];
        let context = Context {
            cluster: cluster(),
            cluster_cidrs,
            clients,
            events,
            shutdown: CancellationToken::new(),
        };
        provider.initialize(&context).await.unwrap();
        provider.set_caches(Arc::clone(&self.objects) as Arc<dyn Caches>);
        self.fake.fault_injector().forget_requests();
        provider
    }

    /// Adds an instance and its Node.
    pub(crate) fn add_node(&self, name: &str, zone: &str) {
        let provider_id = self.fake.lock().add_instance(name, zone);
        let uid = format!("uid-{name}");
        let node = Node {
            name: name.into(),
            uid: uid.into(),
            provider_id: provider_id.into(),
            ..Node::default()
        };
        self.objects.nodes.lock().push(Arc::new(node));
    }

    /// The value of a series with these labels: `number_of_l4_ilbs[L4ILBService]`.
    pub(crate) fn series(&self, name: &str) -> Option<f64> {
        self.series.0.lock().get(name).copied()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.objects.events.lock())
    }

    fn request<'a>(
        &self,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
        cluster: &'a Cluster,
    ) -> LoadBalancerRequest<'a> {
        let mut services = self.objects.services.lock();
        services.retain(|other_service| other_service.metadata.uid != service.metadata.uid);
        services.push(Arc::new(service.clone()));
        LoadBalancerRequest {
            cluster,
            service,
            nodes,
            callbacks: &(),
        }
    }

    /// Syncs a Service, which gets the status that follows.
    pub(crate) async fn ensure(
        &self,
        provider: &Gce,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        let nodes = self.objects.nodes();
        let cluster = cluster();
        let before = service.clone();
        let request = self.request(&before, &nodes, &cluster);
        let status = provider
            .load_balancers()
            .unwrap()
            .ensure(request)
            .await?
            .unwrap_or_default();
        service.status = Some(serde_json::from_value(json!({"loadBalancer": status})).unwrap());
        Ok(status)
    }

    pub(crate) async fn update(&self, provider: &Gce, service: &Service) -> Result<()> {
        let nodes = self.objects.nodes();
        let cluster = cluster();
        provider
            .load_balancers()
            .unwrap()
            .update_targets(self.request(service, &nodes, &cluster))
            .await
    }

    pub(crate) async fn delete(&self, provider: &Gce, service: &Service) -> Result<()> {
        let cluster = cluster();
        let mut leaving = service.clone();
        leaving.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-11-23T00:00:00Z")).unwrap();
        provider
            .load_balancers()
            .unwrap()
            .delete(self.request(&leaving, &[], &cluster))
            .await
    }

    /// An object: `targetPools/x` of the region, `global/firewalls/x`, or `zones/z/instanceGroups/x`.
    pub(crate) fn object(&self, path: &str) -> Value {
        let is_regional = !path.starts_with("global/") && !path.starts_with("zones/");
        let path = if is_regional {
            format!("{PROJECT}/regions/{REGION}/{path}")
        } else {
            format!("{PROJECT}/{path}")
        };
        self.fake
            .lock()
            .objects
            .get(&path)
            .cloned()
            .unwrap_or_default()
    }

    /// Requests that changed something, by route.
    pub(crate) fn changes(&self) -> Vec<String> {
        let changes = self.fake.fault_injector().changes().into_iter();
        changes
            .map(|(route, _)| {
                route
                    .replace("/projects/{project}/", "")
                    .replace("regions/{region}/", "")
            })
            .collect()
    }

    /// Paths of what is left of load balancers.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let kinds = [
            "forwardingRules",
            "targetPools",
            "backendServices",
            "ealthChecks",
            "firewalls",
            "addresses",
            "instanceGroups",
        ];
        let cloud = self.fake.lock();
        cloud
            .objects
            .keys()
            .filter(|path| kinds.iter().any(|kind| path.contains(kind)))
            .cloned()
            .collect()
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

/// A Service with port 80, these annotations, and further fields in its spec.
pub(crate) fn service(annotations: &[(&str, &str)], more: Value) -> Service {
    let all: Map<_, _> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let mut spec = json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]});
    if let Value::Object(more) = more {
        more.into_iter().for_each(|(key, value)| spec[key] = value);
    }
    let metadata = json!({"name": "web", "namespace": "default", "uid": UID, "annotations": all});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The ports of a Service.
pub(crate) fn ports(numbers: &[u16]) -> Value {
    numbers
        .iter()
        .map(|number| json!({"name": format!("p{number}"), "port": number, "nodePort": 30000 + number % 2000, "protocol": "TCP"}))
        .collect()
}
