//! Harness: an account, a cluster, and the provider between them, configured like the program.

use std::sync::Arc;

use baidu_fake::{ACCOUNT, Baidu as Cloud, Handle};
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, AdoptableTag, CloudProvider, Cluster, ConfigFile, Context, Environment,
    LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use provider_baidu::config::Config;
use provider_baidu::{Baidu, PRODUCTS, cloud};
use provider_kit::transport::Builder;
use serde_json::{Value, json};

use crate::profile::{DESCRIPTION, file};

pub(crate) const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";
pub(crate) const BLB: &str = "service.beta.kubernetes.io/cce-load-balancer-";
pub(crate) const EIP: &str = "service.beta.kubernetes.io/cce-elastic-ip-";

pub(crate) struct Harness {
    pub(crate) fake: Handle<Cloud>,
    pub(crate) cluster: ScriptedCluster,
    file: Value,
    variables: Vec<(String, String)>,
    adoptable_tag: Option<AdoptableTag>,
}

impl Harness {
    /// Creates an account with two instances, and a Node for each.
    pub(crate) fn new() -> Self {
        let variables = vec![("BCE_ENDPOINT".to_owned(), "http://baidu".to_owned())];
        let harness = Self {
            fake: Handle::new(Cloud::default()),
            cluster: ScriptedCluster::default(),
            file: file(),
            variables,
            adoptable_tag: None,
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| drop(harness.add_node(name)));
        harness
    }

    /// Sets a key of the file, or a variable; null removes a key.
    pub(crate) fn set(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if name.contains('_') {
            self.variables.retain(|(known, _)| known != name);
            self.variables.push((
                name.to_owned(),
                value.as_str().unwrap_or_default().to_owned(),
            ));
        } else {
            self.file[name] = value;
        }
        self
    }

    /// Requires a tag on load balancers that Services adopt.
    pub(crate) fn requiring(mut self, tag: &str) -> Self {
        self.adoptable_tag = Some(tag.parse().unwrap());
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let adoptable_tag = self.adoptable_tag.clone();
        let file = ConfigFile {
            path: "cloud.config".into(),
            text: self.file.to_string(),
        };
        Setup {
            environment: Environment::of(self.variables.clone()),
            adoptable_tag,
            ..Setup::of(file)
        }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Baidu {
        self.started_with(|builder| builder.service(self.fake.router()))
            .await
    }

    /// Returns the provider before its start, over another connection.
    pub(crate) fn provider_with(&self, connect: impl Fn(Builder) -> Builder) -> Baidu {
        let setup = self.setup();
        let config = Config::read(&setup).unwrap();
        let connections =
            PRODUCTS.map(|product| connect(cloud(&config, &setup, product)).build().unwrap());
        Baidu::new(config, connections, setup.fence)
    }

    pub(crate) async fn started_with(&self, connect: impl Fn(Builder) -> Builder) -> Baidu {
        let provider = self.provider_with(connect);
        let cluster_cidrs = ["10.244.0.0/16", "fd00::/48"].map(str::to_owned).into();
        let context = Context {
            cluster_cidrs,
            ..self.cluster.context(cluster())
        };
        provider.initialize(&context).await.unwrap();
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        provider
    }

    /// Adds an instance and its Node, and returns the instance's ID.
    pub(crate) fn add_node(&self, name: &str) -> String {
        let id = self.fake.lock().add_instance(ACCOUNT, name);
        let ip = self.instance(name)["internalIp"]
            .as_str()
            .unwrap()
            .to_owned();
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: format!("cce://{id}").into(),
            addresses: [NodeAddress::new(AddressType::InternalIP, &ip)].into(),
            ..Node::default()
        };
        self.cluster.set_node(node);
        id
    }

    pub(crate) fn instance(&self, name: &str) -> Value {
        self.fake
            .lock()
            .instances
            .iter()
            .find(|instance| instance["name"] == name)
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
        provider: &Baidu,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.cluster.ensure(provider, &cluster(), service).await
    }

    pub(crate) async fn delete(&self, provider: &Baidu, service: &Service) -> Result<()> {
        self.cluster.delete(provider, &cluster(), service).await
    }

    /// Makes the BLB and the EIP look as the Go program leaves them.
    pub(crate) fn go_program_left(&self, name: &str) {
        let mut cloud = self.fake.lock();
        cloud.blbs[0]["name"] = name.into();
        cloud.blbs[0]["desc"] = format!("cce_auto_create_eip{DESCRIPTION}").into();
        cloud.eips[0]["name"] = name.into();
        cloud.eips[0]["tags"] = json!([]);
    }

    /// Returns the only BLB.
    pub(crate) fn blb(&self) -> Value {
        let cloud = self.fake.lock();
        assert_eq!(cloud.blbs.len(), 1, "{:#?}", cloud.blbs);
        cloud.blbs[0].clone()
    }

    pub(crate) fn eips(&self) -> Vec<Value> {
        self.fake.lock().eips.clone()
    }

    /// Returns the requests that changed something, by route.
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

/// Returns a Service with ports 80 and 443, and these annotations.
pub(crate) fn service(annotations: &[(String, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(all: &[(String, &str)], more: Value) -> Service {
    let all: Value = all
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
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
    let metadata = json!({"name": "web", "namespace": "default", "uid": UID, "annotations": all});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Returns the key of an annotation of the BLB.
pub(crate) fn blb(key: &str) -> String {
    format!("{BLB}{key}")
}

/// Returns the key of an annotation of the EIP.
pub(crate) fn eip(key: &str) -> String {
    format!("{EIP}{key}")
}

/// Sets an annotation of the Service.
pub(crate) fn annotate(service: &mut Service, key: String, value: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(key, value.to_owned());
}
