//! Load balancers of the Cloud API, by what changes about them.

mod adoption;
mod annotations;
mod certificates;
mod changes;
mod made;
mod owners;
mod refusals;
mod removed;
mod targets;

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    CloudProvider, Cluster, Error, Goal, LoadBalancerIngress, LoadBalancerRequest, LoadBalancers,
    Node, Plan, Result, Service,
};
use hetzner_fake::{Balancer, Fake, Options, Target};
use parking_lot::Mutex;
use provider_hetzner::Hetzner;
use provider_hetzner::config::{self, Config};
use provider_hetzner::variables::HCLOUD;
use serde_json::{Value, json};

use crate::harness::{self, ACluster, kubernetes};

pub(super) const CREATE: &str = "POST /load_balancers";
pub(super) const PREFIX: &str = "load-balancer.hetzner.cloud/";
pub(super) const LEGACY_OWNER_LABEL: &str = "hcloud-ccm/service-uid";
pub(super) const UID: &str = "17c0a5c8-2d1f-4b52-9d0c-000000000001";
pub(super) const NAME: &str = "a17c0a5c82d1f4b529d0c00000000000";

/// Returns the route of an action.
pub(super) fn action(name: &str) -> String {
    format!("POST /load_balancers/{{id}}/actions/{name}")
}

/// Harness: a Service `web` of a cluster, and a project in the cloud.
pub(super) struct Scene {
    pub(super) fake: Fake,
    pub(super) config: Config,
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) service: Service,
    cluster: Arc<ACluster>,
    provider: Option<Hetzner>,
}

impl Scene {
    /// Creates a harness with two Nodes on cloud servers, load balancers of type `lb11` in `fsn1`, and actions that
    /// take a second.
    pub(super) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(super) fn with(options: Options) -> Self {
        let service = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": UID, "annotations": {}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
        });
        let variables = [
            ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1"),
            ("HCLOUD_LOAD_BALANCERS_TYPE", "lb11"),
        ];
        let config = Config::read(&harness::setup(variables)).unwrap();
        let mut scene = Self {
            fake: Fake::new(options),
            config,
            nodes: Vec::new(),
            service: serde_json::from_value(service).unwrap(),
            cluster: Arc::default(),
            provider: None,
        };
        scene.add_node("worker-1");
        scene.add_node("worker-2");
        scene
    }

    /// Adds a Node on a new cloud server, and returns the server's ID.
    pub(super) fn add_node(&mut self, name: &str) -> u64 {
        let id = self.fake.add_server(name).id;
        self.nodes
            .push(node(name, &format!("hcloud://{id}"), &json!({})));
        id
    }

    /// Adds a configured network to which all servers are attached, and returns its ID.
    pub(super) fn network(&mut self) -> u64 {
        let id = self.fake.add_network("kubernetes", "10.0.0.0/8");
        for server in self.fake.servers() {
            self.fake.attach(&server.name, id);
        }
        let network = config::Network {
            name_or_id: "kubernetes".to_owned(),
            check_attached: false,
            routes: false,
        };
        self.config.network = Some(network);
        id
    }

    /// Sets a variable; an empty value unsets it.
    pub(super) fn env(&mut self, name: &str, value: &str) {
        let name = format!("HCLOUD_LOAD_BALANCERS_{name}");
        let key = HCLOUD
            .iter()
            .map(|setting| setting.row().key)
            .find(|key| *key == name)
            .unwrap();
        self.config.load_balancers = self
            .config
            .load_balancers
            .take()
            .map(|defaults| defaults.set(key, value));
    }

    /// Sets an annotation of the Service.
    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let all = self.service.metadata.annotations.get_or_insert_default();
        all.insert(format!("{PREFIX}{key}"), value.to_owned());
    }

    pub(super) fn forget(&mut self, key: &str) {
        self.service
            .metadata
            .annotations
            .get_or_insert_default()
            .remove(&format!("{PREFIX}{key}"));
    }

    pub(super) fn ports(&mut self, ports: Value) {
        self.service.spec.get_or_insert_default().ports =
            Some(serde_json::from_value(ports).unwrap());
    }

    /// Shows the load balancer in the Service's status, as after `ensure`.
    pub(super) fn publish(&mut self) {
        let status = json!({"loadBalancer": {"ingress": [{"ip": "198.19.0.1"}]}});
        self.service.status = serde_json::from_value(status).unwrap();
    }

    /// Starts over: a provider that knows nothing.
    pub(super) async fn start(&mut self) {
        self.provider = Some(harness::started(&self.config, &self.fake, &self.cluster).await);
    }

    async fn balancers(&mut self) -> &dyn LoadBalancers {
        if self.provider.is_none() {
            self.start().await;
        }
        *self.cluster.nodes.lock() = self.nodes.clone();
        let mut services = self.cluster.services.lock();
        services.retain(|service| service.metadata.uid != self.service.metadata.uid);
        services.push(Arc::new(self.service.clone()));
        drop(services);
        self.provider.as_ref().unwrap().load_balancers().unwrap()
    }

    /// Syncs the Service, and returns the addresses and names of the status.
    pub(super) async fn try_ensure(&mut self) -> Result<Vec<LoadBalancerIngress>> {
        let service = self.service.clone();
        let nodes = self.nodes.clone();
        let cluster = kubernetes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &nodes,
            callbacks: &(),
        };
        let status = self.balancers().await.ensure(request).await?;
        Ok(status.unwrap().ingress.unwrap_or_default())
    }

    /// Plans a sync of the Service.
    pub(super) async fn plan(&mut self) -> Result<Plan> {
        let service = self.service.clone();
        let nodes = self.nodes.clone();
        let cluster = kubernetes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &nodes,
            callbacks: &(),
        };
        self.balancers().await.plan(request, Goal::Ensured).await
    }

    pub(super) async fn ensure(&mut self) -> Vec<String> {
        self.try_ensure().await.unwrap().iter().map(text).collect()
    }

    /// Syncs the Service and returns the error.
    pub(super) async fn refused(&mut self) -> Error {
        self.try_ensure().await.unwrap_err()
    }

    pub(super) async fn try_update(&mut self) -> Result<()> {
        let service = self.service.clone();
        let nodes = self.nodes.clone();
        let cluster = kubernetes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &nodes,
            callbacks: &(),
        };
        self.balancers().await.update_targets(request).await
    }

    pub(super) async fn try_get(&mut self) -> Result<Option<Vec<String>>> {
        let service = self.service.clone();
        let cluster = kubernetes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        let status = self.balancers().await.get(request).await?;
        Ok(status.map(|status| {
            status
                .ingress
                .unwrap_or_default()
                .iter()
                .map(text)
                .collect()
        }))
    }

    pub(super) async fn try_delete(&mut self) -> Result<()> {
        let now = "2026-11-21T20:00:00Z";
        self.service.metadata.deletion_timestamp = serde_json::from_value(json!(now)).unwrap();
        let service = self.service.clone();
        let cluster = kubernetes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        self.balancers().await.delete(request).await
    }

    /// Returns the only load balancer.
    pub(super) fn balancer(&self) -> Balancer {
        let all = self.fake.load_balancers();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    /// Changes the only load balancer behind our back, and lets us forget it.
    pub(super) async fn meddle(&mut self, change: impl FnOnce(&mut Balancer)) {
        let name = self.balancer().name;
        self.fake.change_load_balancer(&name, change);
        self.start().await;
    }

    /// Returns the routes of the changes since the last call, in order, and resets them.
    pub(super) fn changes(&self) -> Vec<String> {
        let routes = self
            .fake
            .changes()
            .into_iter()
            .map(|(route, _)| route)
            .collect();
        self.fake.forget_requests();
        routes
    }

    /// Returns the bodies that were sent on a route.
    pub(super) fn sent(&self, route: &str) -> Vec<Value> {
        self.fake.bodies(route)
    }

    /// Events, as `object reason: message`.
    pub(super) fn events(&self) -> Vec<String> {
        self.cluster.events()
    }

    /// Returns the ids of server targets and the addresses of IP targets.
    pub(super) fn targets(&self) -> Vec<String> {
        let text = |target: &Target| match target {
            Target::Server {
                id,
                use_private_ip: false,
            } => id.to_string(),
            Target::Server {
                id,
                use_private_ip: true,
            } => format!("{id} private"),
            Target::Ip(ip) => ip.to_string(),
            Target::LabelSelector { selector, .. } => selector.clone(),
        };
        let mut all: Vec<_> = self.balancer().targets.iter().map(text).collect();
        all.sort();
        all
    }

    /// Returns the ids of the Nodes' servers.
    pub(super) fn servers(&self) -> Vec<String> {
        self.fake
            .servers()
            .iter()
            .map(|server| server.id.to_string())
            .collect()
    }
}

fn text(ingress: &LoadBalancerIngress) -> String {
    let mode = ingress.ip_mode.as_deref().unwrap_or_default();
    match (&ingress.hostname, &ingress.ip) {
        (Some(hostname), None) => hostname.clone(),
        (None, Some(ip)) => format!("{ip} {mode}"),
        _ => panic!("{ingress:?}"),
    }
}

pub(super) fn node(name: &str, provider_id: &str, more: &Value) -> Arc<Node> {
    let mut node =
        json!({"metadata": {"name": name, "uid": name}, "spec": {"providerID": provider_id}});
    for (key, value) in more.as_object().unwrap() {
        node[key] = value.clone();
        if key == "labels" {
            node["metadata"]["labels"] = value.clone();
        }
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

/// A time longer than the TTL of every cache.
pub(super) const LONG: Duration = Duration::from_secs(120);
