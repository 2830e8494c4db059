//! Harness: an account, a cluster, and the provider between them, configured by variables like the program.

use std::sync::Arc;

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, AdoptableTag, Caches, CloudProvider, Cluster, Context, Environment,
    LoadBalancerRequest, LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use digitalocean_fake::{Droplet, Fake, Options, REGION, TOKEN};
use provider_digitalocean::config::Config;
use provider_digitalocean::{DigitalOcean, cloud};
use provider_kit::transport::Transport;
use serde_json::{Value, json};

/// The prefix of most annotations.
pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/do-loadbalancer-";

pub(crate) struct Harness {
    pub(crate) fake: Fake,
    pub(crate) cluster: ScriptedCluster,
    variables: Vec<(String, String)>,
    adoptable_tag: Option<AdoptableTag>,
}

impl Harness {
    /// Creates an account with two droplets, and a Node for each.
    pub(crate) fn new() -> Self {
        let fake = Fake::new(Options {
            change_time: std::time::Duration::ZERO,
            ..Options::default()
        });
        let variables = [
            ("DO_ACCESS_TOKEN", TOKEN),
            ("DO_OVERRIDE_URL", "http://digitalocean"),
            ("REGION", REGION),
        ];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let harness = Self {
            fake,
            cluster: ScriptedCluster::default(),
            variables,
            adoptable_tag: None,
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(&harness.fake.add_droplet(name)));
        harness
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Requires a tag on load balancers that Services adopt.
    pub(crate) fn requiring(mut self, tag: &str) -> Self {
        self.adoptable_tag = Some(tag.parse().unwrap());
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let environment = Environment::of(self.variables.clone());
        let adoptable_tag = self.adoptable_tag.clone();
        Setup {
            environment,
            adoptable_tag,
            ..Setup::default()
        }
    }

    /// Returns the provider as the program creates it; nothing is sent yet.
    pub(crate) fn provider(&self) -> DigitalOcean {
        let setup = self.setup();
        let config = Config::read(&setup).unwrap();
        let transport = cloud(&config, &setup)
            .unwrap()
            .service(self.fake.router())
            .build()
            .unwrap();
        let metadata = Transport::builder("http://metadata")
            .service(self.fake.router())
            .build()
            .unwrap();
        DigitalOcean::new(config, transport, metadata)
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> DigitalOcean {
        let provider = self.provider();
        self.start(&provider).await;
        provider
    }

    pub(crate) async fn start(&self, provider: &DigitalOcean) {
        provider.initialize(&self.context()).await.unwrap();
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.forget_requests();
    }

    pub(crate) fn context(&self) -> Context {
        self.cluster.context(cluster())
    }

    pub(crate) fn add_node(&self, droplet: &Droplet) {
        let public = [
            droplet.public_v4.map(|ip| ip.to_string()),
            droplet.public_v6.map(|ip| ip.to_string()),
        ];
        let addresses = public
            .into_iter()
            .flatten()
            .map(|ip| NodeAddress::new(AddressType::ExternalIP, &ip));
        let private = droplet
            .private_v4
            .iter()
            .map(|ip| NodeAddress::new(AddressType::InternalIP, &ip.to_string()));
        let node = Node {
            name: droplet.name.as_str().into(),
            uid: format!("uid-{}", droplet.name).into(),
            provider_id: format!("digitalocean://{}", droplet.id).into(),
            addresses: addresses.chain(private).collect(),
            ..Node::default()
        };
        self.cluster.set_node(node);
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
        provider: &DigitalOcean,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.cluster.ensure(provider, &cluster(), service).await
    }

    /// Syncs a Service while other Services exist.
    pub(crate) async fn ensure_beside(
        &self,
        provider: &DigitalOcean,
        service: &Service,
        others: &[Service],
    ) -> Result<Option<LoadBalancerStatus>> {
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
        provider.load_balancers().unwrap().ensure(request).await
    }

    /// Sets the targets of a Service to the Nodes.
    pub(crate) async fn update_targets(
        &self,
        provider: &DigitalOcean,
        service: &Service,
    ) -> Result<()> {
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

    pub(crate) async fn delete(&self, provider: &DigitalOcean, service: &Service) -> Result<()> {
        self.cluster.delete(provider, &cluster(), service).await
    }

    /// Returns the only load balancer.
    pub(crate) fn load_balancer(&self) -> Value {
        let mut all = self.fake.load_balancers();
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

/// Sets an annotation: without the prefix, unless the key has a slash.
pub(crate) fn set(service: &mut Service, key: &str, value: &str) {
    let full = if key.contains('/') {
        key.to_owned()
    } else {
        format!("{PREFIX}{key}")
    };
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(full, value.to_owned());
}

/// Returns a Service with ports 80 and 443, and these annotations: without the prefix, unless they have a slash.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(annotations: &[(&str, &str)], more: Value) -> Service {
    let full = |key: &str| {
        if key.contains('/') {
            key.to_owned()
        } else {
            format!("{PREFIX}{key}")
        }
    };
    let annotations: Value = annotations
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
    let metadata = json!({"name": "web", "namespace": "default", "uid": "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}
