//! A cloud, a cluster, and the provider between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{
    About, AddressType, Caches, ClientBuilder, CloudProvider, Cluster, Context, Environment, EventKind, Events,
    KubernetesApi, LoadBalancerRequest, LoadBalancerStatus, Node, NodeAddress, Plan, Result, Service, SyncObserver,
    async_trait,
};
use provider_mycloud::Mycloud;
use provider_mycloud::config::Config;
use serde_json::{Map, Value, json};

use crate::fake::ACCOUNT;
use crate::profile::{MycloudCloud, configuration, setup};

pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/dlb-";
pub(crate) const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";

#[derive(Default)]
pub(crate) struct ClusterObjects {
    pub(crate) nodes: Mutex<Vec<Arc<Node>>>,
    pub(crate) services: Mutex<Vec<Arc<Service>>>,
    events: Mutex<Vec<String>>,
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

/// A Kubernetes API that knows Secrets of namespace `default`.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<Mutex<BTreeMap<String, Value>>>);

impl Secrets {
    /// Sets a Secret with this text in its certificate.
    pub(crate) fn set(&self, name: &str, text: &str) {
        let pem = |what: &str| STANDARD.encode(format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----"));
        let data = json!({"tls.crt": pem("CERTIFICATE"), "tls.key": pem("PRIVATE KEY")});
        let path = format!("/api/v1/namespaces/default/secrets/{name}");
        self.0.lock().unwrap().insert(path, json!({ "data": data }));
    }
}

impl ClientBuilder for Secrets {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl KubernetesApi for Secrets {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let found = self.0.lock().unwrap().get(request.uri().path()).cloned();
        let status = if found.is_some() { 200 } else { 404 };
        let body = found.unwrap_or_default().to_string().into_bytes();
        Ok(http::Response::builder().status(status).body(body).unwrap())
    }
}

/// Remembers the annotations that the provider writes.
#[derive(Default)]
struct Annotator(Mutex<Vec<(&'static str, Option<String>)>>);

impl SyncObserver for Annotator {
    fn planned(&self, _plan: &Plan) {}
    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.0.lock().unwrap().push((key, value));
    }
}

pub(crate) struct Harness {
    pub(crate) cloud: MycloudCloud,
    pub(crate) objects: Arc<ClusterObjects>,
    pub(crate) secrets: Secrets,
    pub(crate) provider: Mycloud,
}

pub(crate) fn cluster() -> Cluster {
    Cluster { name: "kubernetes".into(), id: Some("5c1d".into()) }
}

impl Harness {
    /// Returns a started provider with three annotated Nodes: `blue`, `green` and `true`.
    pub(crate) async fn new(more: &str) -> Self {
        let harness = Self::with_variables(more, &[]).await;
        for (name, group) in [("worker-1", "blue"), ("worker-2", "green"), ("worker-3", "true")] {
            harness.cloud.add_instance(ACCOUNT, name);
            harness.set_node(name, &[("node.mycloud.io/ingress", group)], &[]);
        }
        harness
    }

    /// Returns a started provider without Nodes.
    pub(crate) async fn with_variables(more: &str, variables: &[(&str, &str)]) -> Self {
        let (cloud, objects) = (MycloudCloud::default(), Arc::new(ClusterObjects::default()));
        let mut setup = setup(configuration("http://mycloud") + more);
        setup.environment = Environment::of(variables.iter().copied());
        let (config, http) = Config::read(&setup).unwrap();
        let provider = Mycloud::new(config, http.service(cloud.0.router())).unwrap();
        let harness = Self { cloud, objects, secrets: Secrets::default(), provider };
        harness.provider.initialize(&harness.context()).await.unwrap();
        harness.provider.set_caches(Arc::clone(&harness.objects) as Arc<dyn Caches>);
        harness.cloud.0.gate().forget_requests();
        harness
    }

    pub(crate) fn context(&self) -> Context {
        let (clients, events) = (Arc::new(self.secrets.clone()), Arc::clone(&self.objects) as Arc<dyn Events>);
        Context { cluster: cluster(), cluster_cidrs: Vec::new(), clients, events, shutdown: Default::default() }
    }

    /// Sets annotations and labels of the Node of an instance.
    pub(crate) fn set_node(&self, name: &str, annotations: &[(&str, &str)], labels: &[(&str, &str)]) {
        let cloud = self.cloud.0.lock();
        let instance = cloud.instances.iter().find(|it| it["hostname"] == name).unwrap();
        let address =
            |field: &str| NodeAddress::new(AddressType::InternalIP, instance["nics"][0][field].as_str().unwrap());
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: format!("mycloud://cn-north-1/{}", instance["id"].as_str().unwrap()).into(),
            annotations: annotations.iter().copied().collect(),
            labels: labels.iter().copied().collect(),
            addresses: [address("ipv4"), address("ipv6")].into(),
            ..Node::default()
        };
        let mut nodes = self.objects.nodes.lock().unwrap();
        nodes.retain(|it| it.name != node.name);
        nodes.push(Arc::new(node));
    }

    pub(crate) fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.objects.events.lock().unwrap())
    }

    /// Syncs a Service, which gets the annotations and the status that follow.
    pub(crate) async fn ensure(&self, service: &mut Service) -> Result<LoadBalancerStatus> {
        *self.objects.services.lock().unwrap() = vec![Arc::new(service.clone())];
        let (nodes, observer) = (self.objects.nodes(), Annotator::default());
        let request = LoadBalancerRequest { cluster: &cluster(), service, nodes: &nodes, observer: &observer };
        let outcome = self.provider.load_balancers().unwrap().ensure(request).await;
        let annotations = service.metadata.annotations.get_or_insert_default();
        annotations.extend(observer.0.into_inner().unwrap().into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))));
        let status = outcome?.unwrap_or_default();
        service.status = Some(serde_json::from_value(json!({"loadBalancer": status})).unwrap());
        Ok(status)
    }

    pub(crate) async fn update_targets(&self, service: &Service) -> Result<()> {
        let nodes = self.objects.nodes();
        let request = LoadBalancerRequest { cluster: &cluster(), service, nodes: &nodes, observer: &() };
        self.provider.load_balancers().unwrap().update_targets(request).await
    }

    pub(crate) async fn delete(&self, service: &Service) -> Result<()> {
        let request = LoadBalancerRequest { cluster: &cluster(), service, nodes: &[], observer: &() };
        self.provider.load_balancers().unwrap().delete(request).await
    }

    /// Returns the only load balancer.
    pub(crate) fn load_balancer(&self) -> Value {
        let all = self.cloud.0.lock().load_balancers.clone();
        assert_eq!(all.len(), 1, "{all:#?}");
        all[0].clone()
    }

    /// Returns the listener of a port.
    pub(crate) fn listener(&self, port: u16) -> Value {
        let all = self.load_balancer()["listeners"].clone();
        crate::profile::list(&all).find(|it| it["port"] == port).cloned().unwrap_or_default()
    }

    /// Returns the names of the Nodes behind port 80, with their weights.
    pub(crate) fn members(&self) -> Vec<String> {
        let (balancer, instances) = (self.load_balancer(), self.cloud.0.lock().instances.clone());
        let group = crate::profile::list(&balancer["groups"]).find(|it| it["name"] == "80-TCP").cloned().unwrap();
        let name = |id: &Value| instances.iter().find(|it| it["id"] == *id).map(|it| it["hostname"].clone());
        let member = |it: &Value| format!("{}*{}", name(&it["instance_id"]).unwrap().as_str().unwrap(), it["weight"]);
        let mut members: Vec<_> = crate::profile::list(&group["members"]).map(member).collect();
        members.sort();
        members
    }

    /// Returns the changes that were requested since the last call.
    pub(crate) fn changes(&self) -> Vec<String> {
        let changes = self.cloud.0.gate().changes().into_iter().map(|(route, _)| route).collect();
        self.cloud.0.gate().forget_requests();
        changes
    }
}

/// Returns a Service with ports 80 and 443 and these annotations, whose prefix is added.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(annotations: &[(&str, &str)], more: Value) -> Service {
    let annotations: Map<_, _> =
        annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), json!(value))).collect();
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "nodePort": 30000 + port, "protocol": "TCP"});
    let mut spec = json!({"type": "LoadBalancer", "ports": [port("http", 80), port("https", 443)]});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    let metadata = json!({"name": "web", "namespace": "default", "uid": UID, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Sets an annotation, whose prefix is added.
pub(crate) fn annotate(service: &mut Service, key: &str, value: &str) {
    service.metadata.annotations.get_or_insert_default().insert(format!("{PREFIX}{key}"), value.to_owned());
}
