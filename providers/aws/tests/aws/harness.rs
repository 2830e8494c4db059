//! Harness: an account of the fake, a cluster, and the provider between them.

use std::sync::Arc;
use std::time::Duration;

use aws_fake::{ACCOUNT, CLUSTER, Handle, KEY_ID, REGION, SECRET, VPC, World};
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, Caches, CloudProvider, Cluster, ConfigFile, Context, Environment, Error, LoadBalancerRequest,
    LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use provider_aws::Ec2;
use serde_json::{Value, json};

pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

/// Variables and flags of the program, or fields of a spec: names and values.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

pub(crate) struct Harness {
    pub(crate) fake: Handle<World>,
    pub(crate) cluster: ScriptedCluster,
}

pub(crate) fn cluster() -> Cluster {
    Cluster { name: "kubernetes".into(), id: Some(CLUSTER.into()) }
}

impl Harness {
    /// Creates an account without limits, in which everything happens at once.
    pub(crate) fn new() -> Self {
        let mut world = World::default();
        (world.page, world.limits) = (1000, [(1_000_000, 1); 2]);
        (world.provisioning, world.detaching) = (Duration::ZERO, Duration::ZERO);
        Self { fake: Handle::new(world), cluster: ScriptedCluster::default() }
    }

    /// Adds an instance and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        let id = self.fake.lock().add_instance(ACCOUNT, name);
        self.add_node_of(name, &format!("aws:///{REGION}a/{id}"), "10.0.0.1");
    }

    pub(crate) fn add_node_of(&self, name: &str, provider_id: &str, address: &str) {
        self.cluster.set_node(Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: provider_id.into(),
            addresses: [NodeAddress::new(AddressType::InternalIP, address)].into(),
            labels: [("kubernetes.io/hostname".to_owned(), name.to_owned())].into_iter().collect(),
            ..Node::default()
        });
    }

    /// Returns the provider as the program starts it, with more lines of the section `[Global]`.
    pub(crate) async fn started(&self, more: &str, flags: Pairs<'_>) -> Result<Ec2> {
        let text = format!(
            "[Global]\nZone = {REGION}a\nVPC = {VPC}\nSubnetID = subnet-00000000\nKubernetesClusterID = {CLUSTER}\n{more}\n"
        );
        let variables =
            [("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_EC2_METADATA_DISABLED", "true")];
        let (environment, flags) = (Environment::of(variables), Environment::of(flags.iter().copied()));
        let setup = Setup { environment, flags, ..Setup::of(ConfigFile { path: "cloud.conf".into(), text }) };
        let router = aws_fake::router(&self.fake);
        let provider = Ec2::new(&setup, move |http| http.service(router.clone()))?;
        let context = Context { cluster_cidrs: vec!["10.244.0.0/14".to_owned()], ..self.cluster.context(cluster()) };
        provider.initialize(&context).await?;
        provider.set_caches(Arc::new(self.cluster.clone()));
        Ok(provider)
    }

    /// Syncs a Service until it is done, with all Nodes that have an instance.
    pub(crate) async fn ensure(&self, provider: &Ec2, service: &Service) -> Result<LoadBalancerStatus> {
        self.cluster.set_services([service.clone()]);
        let (nodes, cluster) = (self.cluster.nodes(), cluster());
        let nodes: Vec<_> = nodes.into_iter().filter(|it| !it.provider_id.contains("fargate")).collect();
        let request = LoadBalancerRequest { cluster: &cluster, service, nodes: &nodes, callbacks: &() };
        for _ in 0..30 {
            match provider.load_balancers().unwrap().ensure(request).await {
                Err(error) if error.retry_after().is_some() => tokio::time::sleep(Duration::from_secs(5)).await,
                status => return status.map(Option::unwrap_or_default),
            }
        }
        Err(Error::other("the load balancer is not ready after 30 polls"))
    }

    pub(crate) async fn delete(&self, provider: &Ec2, service: &Service) -> Result<()> {
        let (mut service, cluster) = (service.clone(), cluster());
        service.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-21T20:00:00Z")).unwrap();
        self.cluster.set_services([service.clone()]);
        let request = LoadBalancerRequest { cluster: &cluster, service: &service, nodes: &[], callbacks: &() };
        for _ in 0..30 {
            match provider.load_balancers().unwrap().delete(request).await {
                Err(error) if error.retry_after().is_some() => tokio::time::sleep(Duration::from_secs(5)).await,
                done => return done,
            }
        }
        Err(Error::other("the load balancer is not deleted after 30 polls"))
    }
}

/// Returns a Service of this name and UID, with these annotations without their prefix, ports and further fields of its spec.
pub(crate) fn service(name: &str, annotations: Pairs<'_>, ports: &[u16], more: &Value) -> Service {
    let annotations: Value = annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), json!(value))).collect();
    let port = |port: &u16| json!({"name": format!("p{port}"), "port": port, "nodePort": 30000 + port % 1000, "protocol": "TCP"});
    let mut spec = json!({"type": "LoadBalancer", "ports": ports.iter().map(port).collect::<Vec<_>>()});
    more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
    let uid = format!("{name:0<8}-1111-4111-8111-111111111111");
    let metadata = json!({"name": name, "namespace": "default", "uid": uid, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}
