//! Harness: an account, a cluster, and the provider between them, configured by variables and flags like the program.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, AdoptableTag, Caches, CloudProvider, Cluster, Context, Environment,
    LoadBalancerRequest, LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use provider_kit::transport::Builder;
use provider_linode::config::Config;
use provider_linode::{Linode, annotations, cloud};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use linode_fake::{ACCOUNT, Handle, Linodes, TOKEN};

/// The key of all certificates.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n";

pub(crate) struct Harness {
    pub(crate) fake: Handle<Linodes>,
    pub(crate) cluster: ScriptedCluster,
    pub(crate) shutdown: CancellationToken,
    variables: Vec<(String, String)>,
    flags: Vec<(String, String)>,
    adoptable_tag: Option<AdoptableTag>,
}

impl Harness {
    /// Creates an account with two Linodes, and a Node for each.
    pub(crate) fn new() -> Self {
        let fake = Handle::new(Linodes::default());
        let variables = [
            ("LINODE_API_TOKEN", TOKEN),
            ("LINODE_REGION", "us-east"),
            ("LINODE_URL", "http://linode"),
        ];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let harness = Self {
            fake,
            cluster: ScriptedCluster::default(),
            shutdown: CancellationToken::new(),
            variables,
            flags: Vec::new(),
            adoptable_tag: None,
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name));
        harness
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        let all = if name.starts_with("--") {
            &mut self.flags
        } else {
            &mut self.variables
        };
        all.retain(|(known, _)| known != name);
        all.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Requires a tag on NodeBalancers that Services adopt.
    pub(crate) fn requiring(mut self, tag: &str) -> Self {
        self.adoptable_tag = Some(tag.parse().unwrap());
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let environment = Environment::of(self.variables.clone());
        let flags = Environment::of(self.flags.clone());
        let cluster_cidr = Some("10.244.0.0/16".to_owned());
        let adoptable_tag = self.adoptable_tag.clone();
        Setup {
            environment,
            flags,
            cluster_cidr,
            adoptable_tag,
            ..Setup::default()
        }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Linode {
        self.started_with(|builder| builder.service(self.fake.router()))
            .await
    }

    /// Returns the started provider over changed connections.
    pub(crate) async fn started_with(&self, connect: impl Fn(Builder) -> Builder) -> Linode {
        let setup = self.setup();
        let config = Config::read(&setup).unwrap();
        let [http, lists] = [(); 2].map(|()| connect(cloud(&config, &setup)).build().unwrap());
        let provider = Linode::new(config, http, lists);
        let cluster_cidrs = vec!["10.244.0.0/16".to_owned(), "fd00::/48".to_owned()];
        let context = Context {
            cluster_cidrs,
            shutdown: self.shutdown.clone(),
            ..self.cluster.context(cluster())
        };
        provider.initialize(&context).await.unwrap();
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        provider
    }

    /// Sets the certificate of Secret `web-tls` of namespace `default`, or deletes the Secret.
    pub(crate) fn set_certificate(&self, pem: Option<&str>) {
        let path = "/api/v1/namespaces/default/secrets/web-tls";
        let Some(pem) = pem else {
            return self.cluster.remove_document(path);
        };
        let data = json!({"tls.crt": STANDARD.encode(pem), "tls.key": STANDARD.encode(KEY)});
        self.cluster
            .set_document(path, json!({ "data": data }).to_string());
    }

    /// Returns the patches of Nodes since the last call, as path and document.
    pub(crate) fn patches(&self) -> Vec<(String, Value)> {
        let patches = self.cluster.take_patches().into_iter();
        patches
            .map(|(path, patch)| (path, serde_json::from_slice(&patch).unwrap()))
            .collect()
    }

    /// Adds a Linode and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        let id = self.fake.lock().add_linode(ACCOUNT, name);
        let linode = self.linode(name);
        let address =
            |object: &Value| NodeAddress::new(AddressType::InternalIP, object.as_str().unwrap());
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: format!("linode://{id}").into(),
            addresses: [address(&linode["ipv4"][1])].into(),
            ..Node::default()
        };
        self.cluster.set_node(node);
    }

    pub(crate) fn linode(&self, name: &str) -> Value {
        self.fake
            .lock()
            .linodes
            .iter()
            .find(|linode| linode["label"] == name)
            .cloned()
            .unwrap()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.cluster
            .take_events()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Syncs a Service, which gets the annotations and the status that follow.
    pub(crate) async fn ensure(
        &self,
        provider: &Linode,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.cluster.ensure(provider, &cluster(), service).await
    }

    /// Syncs a Service while other Services exist.
    pub(crate) async fn ensure_beside(
        &self,
        provider: &Linode,
        service: &Service,
        others: &[Service],
    ) -> Result<()> {
        self.cluster
            .set_services([service.clone()].into_iter().chain(others.iter().cloned()));
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
            .ensure(request)
            .await
            .map(drop)
    }

    /// Sets the targets of a Service to the Nodes.
    pub(crate) async fn update_targets(&self, provider: &Linode, service: &Service) -> Result<()> {
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

    pub(crate) async fn delete(&self, provider: &Linode, service: &Service) -> Result<()> {
        self.cluster.delete(provider, &cluster(), service).await
    }

    /// Returns the only NodeBalancer, and its configurations.
    pub(crate) fn nodebalancer(&self) -> (Value, Vec<Value>) {
        let cloud = self.fake.lock();
        assert_eq!(cloud.nodebalancers.len(), 1, "{:#?}", cloud.nodebalancers);
        (cloud.nodebalancers[0].clone(), cloud.configs.clone())
    }

    /// Requests that changed something, by route.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.fake
            .fault_injector()
            .changes()
            .into_iter()
            .map(|(route, _)| route)
            .collect()
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

/// Returns a Service with ports 80 and 443, and these annotations without their prefix.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(all: &[(&str, &str)], more: Value) -> Service {
    let full = |key: &str| format!("{}{key}", annotations::PREFIX);
    let all: Value = all
        .iter()
        .map(|(key, value)| (full(key), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "nodePort": 30000 + port, "protocol": "TCP"});
    let mut spec = json!({"type": "LoadBalancer", "ports": [port("http", 80), port("https", 443)]});
    let Value::Object(more) = more else {
        panic!("fields of a spec are an object")
    };
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
