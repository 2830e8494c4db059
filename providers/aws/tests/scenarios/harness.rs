//! Harness: an account, a cluster, and the provider between them.

use std::sync::Arc;
use std::time::Duration;

use aws_fake::{ACCOUNT, CLUSTER, Handle, KEY_ID, Kind, SECRET, VPC, World, router};
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    Caches, CloudProvider, Cluster, ConfigFile, Environment, LoadBalancerRequest, Node, Result, Service, Setup,
};
use provider_aws::Ec2;
use serde_json::{Value, json};

pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

pub(crate) struct Harness {
    pub(crate) fake: Handle<World>,
    pub(crate) cluster: ScriptedCluster,
    config: String,
    flags: Vec<(&'static str, &'static str)>,
    has_metadata: bool,
}

fn cluster() -> Cluster {
    Cluster { name: "kubernetes".into(), id: Some(CLUSTER.into()) }
}

impl Harness {
    /// Creates an account with two instances, a Node for each, and a program that runs outside of the VPC.
    pub(crate) fn new() -> Self {
        let config = format!(
            "[Global]\nZone = us-east-1a\nVPC = {VPC}\nSubnetID = subnet-00000000\nKubernetesClusterID = {CLUSTER}\n"
        );
        let fake = Handle::new(World::default());
        let harness =
            Self { fake, cluster: ScriptedCluster::default(), config, flags: Vec::new(), has_metadata: false };
        ["worker-1", "worker-2"].into_iter().for_each(|name| drop(harness.add_node(name)));
        harness
    }

    /// Adds lines to the configuration file.
    pub(crate) fn with(self, lines: &str) -> Self {
        Self { config: format!("{}{lines}\n", self.config), ..self }
    }

    pub(crate) fn flags(self, flags: &[(&'static str, &'static str)]) -> Self {
        Self { flags: flags.to_vec(), ..self }
    }

    /// Lets the program run on the first instance, which tells it everything.
    pub(crate) fn on_instance(self) -> Self {
        Self { config: "[Global]\n".to_owned(), has_metadata: true, ..self }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn start(&self) -> Result<Ec2> {
        let provider = self.created();
        provider.initialize(&self.cluster.context(cluster())).await?;
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        Ok(provider)
    }

    /// Returns the provider before its start.
    pub(crate) fn created(&self) -> Ec2 {
        let file = ConfigFile { path: "cloud.conf".into(), text: self.config.clone() };
        let no_metadata = if self.has_metadata { "false" } else { "true" };
        let variables = [
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_EC2_METADATA_DISABLED", no_metadata),
        ];
        let (environment, flags) = (Environment::of(variables), Environment::of(self.flags.iter().copied()));
        let setup = Setup { environment, flags, ..Setup::of(file) };
        let fake = self.fake.clone();
        Ec2::new(&setup, move |http| http.service(router(&fake))).unwrap()
    }

    /// Adds an instance and its Node, and returns the ID of the instance.
    pub(crate) fn add_node(&self, name: &str) -> String {
        let id = self.fake.lock().add_instance(ACCOUNT, name);
        self.cluster.set_node(node(name, &id));
        id
    }

    /// Returns a Node of the cluster.
    pub(crate) fn node(&self, name: &str) -> Node {
        (*self.cluster.node(name).unwrap()).clone()
    }

    /// Changes the instances of the fake, by function.
    pub(crate) fn change_instances(&self, change: impl Fn(&mut Value)) {
        self.fake.lock().each(Kind::Instance).iter_mut().for_each(change);
    }

    /// Syncs a Service until its load balancer is ready.
    pub(crate) async fn ensure(&self, provider: &Ec2, service: &Service) -> Result<()> {
        let (cluster, nodes) = (cluster(), self.cluster.nodes());
        let request = LoadBalancerRequest { cluster: &cluster, service, nodes: &nodes, callbacks: &() };
        self.remember(service);
        loop {
            match provider.load_balancers().unwrap().ensure(request).await {
                Err(error) if error.retry_after().is_some() => tokio::time::advance(Duration::from_secs(10)).await,
                answer => return answer.map(drop),
            }
        }
    }

    /// Deletes the load balancer of a Service.
    pub(crate) async fn delete(&self, provider: &Ec2, service: &Service) {
        let (cluster, mut service) = (cluster(), service.clone());
        service.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-21T20:00:00Z")).unwrap();
        self.remember(&service);
        let request = LoadBalancerRequest { cluster: &cluster, service: &service, nodes: &[], callbacks: &() };
        while let Err(error) = provider.load_balancers().unwrap().delete(request).await {
            assert!(error.retry_after().is_some(), "{error}");
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }

    fn remember(&self, service: &Service) {
        let mut all: Vec<_> = self.cluster.services().iter().map(|it| (**it).clone()).collect();
        all.retain(|it| it.metadata.uid != service.metadata.uid);
        all.push(service.clone());
        self.cluster.set_services(all);
    }

    /// Returns the only object of a kind.
    pub(crate) fn only(&self, kind: &str) -> Value {
        let cloud = self.fake.lock();
        assert_eq!(cloud.all(kind).len(), 1, "{kind}");
        cloud.all(kind)[0].clone()
    }

    /// Returns the actions of the changes since the start or the last call, in order.
    pub(crate) fn changes(&self) -> Vec<String> {
        let changes = self.fake.fault_injector().changes();
        self.fake.fault_injector().forget_requests();
        changes.into_iter().map(|(route, _)| route.rsplit('/').next().unwrap().to_owned()).collect()
    }

    /// Returns the groups that the security group of the Nodes admits.
    pub(crate) fn admitted(&self) -> Vec<String> {
        let cloud = self.fake.lock();
        let nodes = cloud.all("group").iter().find(|it| it["groupId"] == "sg-nodes").unwrap();
        let rules = nodes["_rules"].as_array().unwrap().iter();
        rules.filter_map(|it| it["groupId"].as_str().map(str::to_owned)).collect()
    }
}

/// Returns the Node of an instance.
pub(crate) fn node(name: &str, id: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        provider_id: format!("aws:///us-east-1a/{id}").into(),
        ..Node::default()
    }
}

/// Returns a Service with these annotations, as `key=value` without their prefix and with blanks between them.
pub(crate) fn service(uid: &str, annotations: &str, spec: &Value) -> Service {
    let pairs = annotations.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (format!("{PREFIX}{key}"), Value::from(value))
    });
    let annotations: serde_json::Map<_, _> = pairs.collect();
    let mut service = json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "web", "port": 443, "nodePort": 30443, "protocol": "TCP"}]},
    });
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap_or_default());
    serde_json::from_value(service).unwrap()
}

/// Returns the tags of an object, by key.
pub(crate) fn tags(object: &Value) -> std::collections::BTreeMap<String, String> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let list = |key: &str| object[key].as_array().cloned().unwrap_or_default();
    let of_ec2 = list("tagSet").into_iter().map(|it| (text(&it["key"]), text(&it["value"])));
    of_ec2.chain(list("_tags").into_iter().map(|it| (text(&it["Key"]), text(&it["Value"])))).collect()
}
