//! A cloud, a cluster, and the provider between them.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, Caches, CloudProvider, Cluster, Context, Environment, LoadBalancerRequest,
    LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use provider_mycloud::Mycloud;
use provider_mycloud::config::Config;
use serde_json::{Map, Value, json};

use crate::fake::ACCOUNT;
use crate::profile::{MycloudCloud, configuration, setup};

pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/dlb-";
pub(crate) const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";

pub(crate) struct Harness {
    pub(crate) cloud: MycloudCloud,
    pub(crate) cluster: ScriptedCluster,
    pub(crate) provider: Mycloud,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

impl Harness {
    /// Returns a started provider with three annotated Nodes: `blue`, `green` and `true`.
    pub(crate) async fn new(more: &str) -> Self {
        let harness = Self::with_variables(more, &[]).await;
        for (name, group) in [
            ("worker-1", "blue"),
            ("worker-2", "green"),
            ("worker-3", "true"),
        ] {
            harness.cloud.add_instance(ACCOUNT, name);
            harness.set_node(name, &[("node.mycloud.io/ingress", group)], &[]);
        }
        harness
    }

    /// Returns a started provider without Nodes.
    pub(crate) async fn with_variables(more: &str, variables: &[(&str, &str)]) -> Self {
        let mut setup = setup(configuration("http://mycloud") + more);
        setup.environment = Environment::of(variables.iter().copied());
        Self::with_setup(&setup).await
    }

    /// Returns a started provider, without Nodes, for which adopted load balancers need this tag.
    pub(crate) async fn requiring(tag: &str) -> Self {
        let adoptable_tag = Some(tag.parse().unwrap());
        Self::with_setup(&Setup {
            adoptable_tag,
            ..setup(configuration("http://mycloud"))
        })
        .await
    }

    async fn with_setup(setup: &Setup) -> Self {
        let cloud = MycloudCloud::default();
        let (config, http) = Config::read(setup).unwrap();
        let provider = Mycloud::new(config, http.service(cloud.0.router())).unwrap();
        let harness = Self {
            cloud,
            cluster: ScriptedCluster::default(),
            provider,
        };
        harness
            .provider
            .initialize(&harness.context())
            .await
            .unwrap();
        harness
            .provider
            .set_caches(Arc::new(harness.cluster.clone()));
        harness.cloud.0.fault_injector().forget_requests();
        harness
    }

    pub(crate) fn context(&self) -> Context {
        self.cluster.context(cluster())
    }

    /// Sets a Secret of namespace `default` with this text in its certificate.
    pub(crate) fn set_secret(&self, name: &str, text: &str) {
        let pem = |what: &str| {
            STANDARD.encode(format!(
                "-----BEGIN {what}-----\n{text}\n-----END {what}-----"
            ))
        };
        let data = json!({"tls.crt": pem("CERTIFICATE"), "tls.key": pem("PRIVATE KEY")});
        let path = format!("/api/v1/namespaces/default/secrets/{name}");
        self.cluster
            .set_document(&path, json!({ "data": data }).to_string());
    }

    /// Sets annotations and labels of the Node of an instance.
    pub(crate) fn set_node(
        &self,
        name: &str,
        annotations: &[(&str, &str)],
        labels: &[(&str, &str)],
    ) {
        let cloud = self.cloud.0.lock();
        let instance = cloud
            .instances
            .iter()
            .find(|instance| instance["hostname"] == name)
            .unwrap();
        let address = |field: &str| {
            NodeAddress::new(
                AddressType::InternalIP,
                instance["nics"][0][field].as_str().unwrap(),
            )
        };
        let node = Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: format!("mycloud://cn-north-1/{}", instance["id"].as_str().unwrap())
                .into(),
            annotations: annotations.iter().copied().collect(),
            labels: labels.iter().copied().collect(),
            addresses: [address("ipv4"), address("ipv6")].into(),
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
    pub(crate) async fn ensure(&self, service: &mut Service) -> Result<LoadBalancerStatus> {
        self.cluster
            .ensure(&self.provider, &cluster(), service)
            .await
    }

    pub(crate) async fn update_targets(&self, service: &Service) -> Result<()> {
        let nodes = self.cluster.nodes();
        let request = LoadBalancerRequest {
            cluster: &cluster(),
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        self.provider
            .load_balancers()
            .unwrap()
            .update_targets(request)
            .await
    }

    pub(crate) async fn delete(&self, service: &Service) -> Result<()> {
        self.cluster
            .delete(&self.provider, &cluster(), service)
            .await
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
        crate::profile::list(&all)
            .find(|object| object["port"] == port)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the names of the Nodes behind port 80, with their weights.
    pub(crate) fn members(&self) -> Vec<String> {
        let balancer = self.load_balancer();
        let instances = self.cloud.0.lock().instances.clone();
        let group = crate::profile::list(&balancer["groups"])
            .find(|group| group["name"] == "80-TCP")
            .cloned()
            .unwrap();
        let name = |id: &Value| {
            instances
                .iter()
                .find(|instance| instance["id"] == *id)
                .map(|instance| instance["hostname"].clone())
        };
        let member = |object: &Value| {
            format!(
                "{}*{}",
                name(&object["instance_id"]).unwrap().as_str().unwrap(),
                object["weight"]
            )
        };
        let mut members: Vec<_> = crate::profile::list(&group["members"])
            .map(member)
            .collect();
        members.sort();
        members
    }

    /// Returns the changes that were requested since the last call.
    pub(crate) fn changes(&self) -> Vec<String> {
        let changes = self
            .cloud
            .0
            .fault_injector()
            .changes()
            .into_iter()
            .map(|(route, _)| route)
            .collect();
        self.cloud.0.fault_injector().forget_requests();
        changes
    }
}

/// Returns a Service with ports 80 and 443 and these annotations, whose prefix is added.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service with further fields in its spec.
pub(crate) fn service_of(annotations: &[(&str, &str)], more: Value) -> Service {
    let annotations: Map<_, _> = annotations
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect();
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "nodePort": 30000 + port, "protocol": "TCP"});
    let mut spec = json!({"type": "LoadBalancer", "ports": [port("http", 80), port("https", 443)]});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    let metadata =
        json!({"name": "web", "namespace": "default", "uid": UID, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Sets an annotation, whose prefix is added.
pub(crate) fn annotate(service: &mut Service, key: &str, value: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(format!("{PREFIX}{key}"), value.to_owned());
}
