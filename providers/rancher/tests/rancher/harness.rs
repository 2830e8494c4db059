//! Harness: an environment, a cluster, and the provider between them, configured by variables like the program.

use std::sync::Arc;

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, CloudProvider, Cluster, ConfigFile, Context, Environment, LoadBalancerStatus,
    Node, NodeAddress, Result, Service, Setup,
};
use provider_rancher::config::Config;
use provider_rancher::{Rancher, annotations, cloud};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use rancher_fake::{ENVIRONMENT, Handle, Rancher as Fake};

use crate::profile::{text, variables};

pub(crate) struct Harness {
    pub(crate) fake: Handle<Fake>,
    pub(crate) cluster: ScriptedCluster,
    pub(crate) shutdown: CancellationToken,
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) file: Option<String>,
}

impl Harness {
    /// Creates an environment with two hosts, and a Node for each.
    pub(crate) fn new() -> Self {
        let harness = Self {
            fake: Handle::new(Fake::default()),
            cluster: ScriptedCluster::default(),
            shutdown: CancellationToken::new(),
            variables: variables("http://rancher").into(),
            file: None,
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name));
        harness
    }

    pub(crate) fn set(mut self, name: &'static str, value: &str) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.to_owned()));
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let config = self.file.clone().map(|text| ConfigFile {
            path: "rancher.conf".to_owned(),
            text,
        });
        Setup {
            environment: Environment::of(self.variables.clone()),
            config,
            ..Setup::default()
        }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Rancher {
        self.started_in(cluster()).await
    }

    pub(crate) async fn started_in(&self, cluster: Cluster) -> Rancher {
        let setup = self.setup();
        let config = Config::read(&setup).unwrap();
        let provider = Rancher::new(
            config.clone(),
            cloud(&config, &setup)
                .service(self.fake.router())
                .build()
                .unwrap(),
        );
        let context = Context {
            shutdown: self.shutdown.clone(),
            ..self.cluster.context(cluster)
        };
        provider.initialize(&context).await.unwrap();
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        provider
    }

    /// Adds a host and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        let uuid = self.fake.lock().add_host(ENVIRONMENT, name);
        let address = self.host(name)["addresses"][0].clone();
        self.set_node(name, &uuid, address.as_str().unwrap());
    }

    pub(crate) fn set_node(&self, name: &str, uuid: &str, address: &str) {
        let (uid, provider_id) = (
            format!("uid-{name}").into(),
            format!("rancher://{uuid}").into(),
        );
        let addresses = [NodeAddress::new(AddressType::InternalIP, address)].into();
        self.cluster.set_node(Node {
            name: name.into(),
            uid,
            provider_id,
            addresses,
            ..Node::default()
        });
    }

    pub(crate) fn host(&self, name: &str) -> Value {
        self.fake
            .lock()
            .hosts
            .iter()
            .find(|host| host["hostname"] == name)
            .cloned()
            .unwrap()
    }

    /// Syncs a Service, which gets the annotations and the status that follow.
    pub(crate) async fn ensure(
        &self,
        provider: &Rancher,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.cluster.ensure(provider, &cluster(), service).await
    }

    pub(crate) async fn delete(&self, provider: &Rancher, service: &Service) -> Result<()> {
        self.cluster.delete(provider, &cluster(), service).await
    }

    /// Returns the services of this type that exist.
    pub(crate) fn live(&self, kind: &str) -> Vec<Value> {
        let mut cloud = self.fake.lock();
        cloud.finish();
        cloud
            .services
            .iter()
            .filter(|service| service["type"] == kind && service["removed"].is_null())
            .cloned()
            .collect()
    }

    pub(crate) fn balancer(&self) -> Value {
        let all = self.live("loadBalancerService");
        assert_eq!(all.len(), 1, "{all:#?}");
        all[0].clone()
    }

    /// Returns the names of the external services that exist.
    pub(crate) fn externals(&self) -> Vec<String> {
        self.live("externalService")
            .iter()
            .map(|object| text(&object["name"]))
            .collect()
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

/// Returns a Service with these ports, annotations without their prefix, and further fields in its spec.
pub(crate) fn service(ports: &[u16], all: &[(&str, &str)], more: Value) -> Service {
    let all = all
        .iter()
        .map(|(key, value)| (format!("{}{key}", annotations::PREFIX), json!(value)));
    let port = |port: &u16| json!({"name": format!("p{port}"), "port": port, "nodePort": 30000 + port, "protocol": "TCP"});
    let mut spec =
        json!({"type": "LoadBalancer", "ports": ports.iter().map(port).collect::<Vec<_>>()});
    let Value::Object(more) = more else {
        panic!("fields of a spec are an object")
    };
    for (key, value) in more {
        spec[key] = value;
    }
    let all: Value = all.collect::<serde_json::Map<_, _>>().into();
    let metadata = json!({"name": "web", "namespace": "default", "uid": "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11", "annotations": all});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}
