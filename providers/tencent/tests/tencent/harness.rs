//! Harness: a region on the fake, a cluster, and the provider between them.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, AdoptableTag, Caches, CloudProvider, Cluster, ConfigFile, Context, Environment,
    LoadBalancerRequest, LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use provider_kit::transport::{Connector, in_process};
use provider_tencent::Tencent;
use serde_json::{Value, json};
use tencent_fake::{ACCOUNT, Handle, KEY_ID, REGION, SECRET, TABLE, VPC, World, router};
use tokio_util::sync::CancellationToken;

use crate::profile::{provider_id, text};

pub(crate) const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";

pub(crate) struct Harness {
    pub(crate) fake: Handle<World>,
    pub(crate) cluster: ScriptedCluster,
    pub(crate) shutdown: CancellationToken,
    config: Value,
    environment: Vec<(String, String)>,
    adoptable_tag: Option<AdoptableTag>,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

impl Harness {
    /// Creates a region with two instances, and a Node for each. Tasks end at once.
    pub(crate) fn new() -> Self {
        let config = json!({"region": REGION, "vpc_id": VPC, "secret_id": KEY_ID, "secret_key": SECRET,
            "cluster_route_table": TABLE, "endpoint_domain": "http://tencent", "metadata_endpoint": "http://tencent"});
        let fake = Handle::new(World::default());
        let cluster = ScriptedCluster::default();
        fake.lock().task = Duration::ZERO;
        fake.lock().limit = 1_000_000;
        let shutdown = CancellationToken::new();
        let environment = Vec::new();
        let harness = Self {
            fake,
            cluster,
            shutdown,
            config,
            environment,
            adoptable_tag: None,
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name));
        harness
    }

    /// Sets a key of the file; null removes it.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config[key] = value.into();
        self
    }

    /// Sets an environment variable.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Requires a tag on load balancers that Services adopt.
    pub(crate) fn requiring(mut self, tag: &str) -> Self {
        self.adoptable_tag = Some(tag.parse().unwrap());
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let adoptable_tag = self.adoptable_tag.clone();
        let environment = Environment::of(self.environment.iter().cloned());
        Setup {
            environment,
            adoptable_tag,
            ..Setup::of(ConfigFile {
                path: "cloud-config".into(),
                text: self.config.to_string(),
            })
        }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Tencent {
        self.started_with(in_process(router(&self.fake)))
            .await
            .unwrap()
    }

    /// Returns the started provider over another connection.
    pub(crate) async fn started_with(&self, connector: Arc<dyn Connector>) -> Result<Tencent> {
        let provider = Tencent::new(&self.setup(), connector)?;
        let cluster_cidrs = vec!["10.244.0.0/16".to_owned()];
        let context = Context {
            cluster_cidrs,
            shutdown: self.shutdown.clone(),
            ..self.cluster.context(cluster())
        };
        provider.initialize(&context).await?;
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        Ok(provider)
    }

    /// Adds an instance and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        self.fake.lock().add_instance(ACCOUNT, name);
        let instance = self.instance(name);
        self.cluster.set_node(Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: provider_id(&instance).into(),
            addresses: [NodeAddress::new(
                AddressType::InternalIP,
                &text(&instance["PrivateIpAddresses"][0]),
            )]
            .into(),
            ..Node::default()
        });
    }

    pub(crate) fn instance(&self, name: &str) -> Value {
        self.fake
            .lock()
            .all("instance")
            .iter()
            .find(|object| object["InstanceName"] == name)
            .cloned()
            .unwrap()
    }

    /// Returns the only object of a kind.
    pub(crate) fn only(&self, kind: &str) -> Value {
        let cloud = self.fake.lock();
        assert_eq!(cloud.all(kind).len(), 1, "{:#?}", cloud.all(kind));
        cloud.all(kind)[0].clone()
    }

    /// Returns the objects of a kind, as texts of these fields, sorted.
    pub(crate) fn texts(&self, kind: &str, fields: &[&str]) -> Vec<String> {
        let cloud = self.fake.lock();
        let field = |object: &Value, key: &&str| {
            object[*key]
                .as_str()
                .map_or_else(|| object[*key].to_string(), str::to_owned)
        };
        let line = |object: &Value| {
            fields
                .iter()
                .map(|key| field(object, key))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let mut all: Vec<_> = cloud.all(kind).iter().map(line).collect();
        all.sort();
        all
    }

    /// Returns the targets of all listeners: port of the listener, ID or address, port and weight of the target.
    pub(crate) fn targets(&self) -> Vec<String> {
        let cloud = self.fake.lock();
        let of = |object: &Value| -> Vec<String> {
            let target = |target: &Value| {
                let id = if target["Type"] == "CVM" {
                    &target["InstanceId"]
                } else {
                    &target["PrivateIpAddresses"][0]
                };
                format!(
                    "{} {} {} {}",
                    object["Port"],
                    text(id),
                    target["Port"],
                    target["Weight"]
                )
            };
            object["Targets"]
                .as_array()
                .into_iter()
                .flatten()
                .map(target)
                .collect()
        };
        let mut all: Vec<_> = cloud.all("listener").iter().flat_map(of).collect();
        all.sort();
        all
    }

    /// Syncs a Service, which gets the annotations and the status that follow.
    pub(crate) async fn ensure(
        &self,
        provider: &Tencent,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.cluster.ensure(provider, &cluster(), service).await
    }

    /// Sets the targets of a Service.
    pub(crate) async fn update(&self, provider: &Tencent, service: &Service) -> Result<()> {
        let nodes = self.cluster.nodes();
        let cluster = cluster();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        provider
            .load_balancers()
            .unwrap()
            .update_targets(request)
            .await
    }

    pub(crate) async fn delete(&self, provider: &Tencent, service: &Service) -> Result<()> {
        self.cluster.delete(provider, &cluster(), service).await
    }

    /// Returns the actions that changed something since the last call.
    pub(crate) fn changes(&self) -> Vec<String> {
        let injector = self.fake.fault_injector();
        let changes = injector
            .changes()
            .into_iter()
            .map(|(route, _)| route.rsplit('/').next().unwrap().to_owned());
        let changes = changes.collect();
        injector.forget_requests();
        changes
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.cluster
            .take_events()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Lets the Service `default/web` have these endpoints: address, ready, terminating and Node.
    pub(crate) fn set_endpoints(&self, all: &[(&str, bool, bool, &str)]) {
        let endpoint = |(ip, ready, terminating, node): &(&str, bool, bool, &str)| json!({"addresses": [ip], "conditions": {"ready": ready, "terminating": terminating}, "nodeName": node});
        let endpoints: Vec<_> = all.iter().map(endpoint).collect();
        let slice = json!({"addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "protocol": "TCP", "port": 8080}]});
        let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        self.cluster
            .set_document(path, json!({"items": [slice]}).to_string());
        // The answer to the list and to the watch: a change of the Service's slice.
        let labels = json!({"kubernetes.io/service-name": "web"});
        let object =
            json!({"metadata": {"namespace": "default", "labels": labels, "resourceVersion": "8"}});
        let event =
            json!({"metadata": {"resourceVersion": "7"}, "type": "MODIFIED", "object": object});
        self.cluster.set_document(
            "/apis/discovery.k8s.io/v1/endpointslices",
            event.to_string(),
        );
    }
}

/// Returns a Service with port 80, and these annotations.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(all: &[(&str, &str)], more: Value) -> Service {
    let all: serde_json::Map<_, _> = all
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let mut spec = json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]});
    let Value::Object(more) = more else {
        panic!("no fields: {more}")
    };
    more.into_iter().for_each(|(key, value)| spec[key] = value);
    let metadata = json!({"name": "web", "namespace": "default", "uid": UID, "annotations": all});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Sets an annotation of the Service.
pub(crate) fn annotate(service: &mut Service, key: &str, value: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(key.to_owned(), value.to_owned());
}
