//! The provider against moto, an emulation of AWS that verifies signatures and permissions.
//!
//! `AWS_TESTBED` names a folder with `cloud.conf` and `ids.json` of a seeded moto; its endpoint and the keys are in the usual
//! variables.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, Caches, CloudMetrics, CloudProvider, Cluster, ConfigFile, Context, Environment, Error,
    LoadBalancerRequest, LookupRequest, Node, NodeAddress, Result, Route, Service, Setup,
};
use parking_lot::Mutex;
use provider_aws::Ec2;
use serde_json::{Value, json};

const TYPE: &str = "service.beta.kubernetes.io/aws-load-balancer-type";
const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

/// The requests to the cloud.
#[derive(Default)]
struct Requests(Mutex<Vec<String>>);

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, _status: Option<u16>, _took: Duration) {
        self.0.lock().push(operation.to_owned());
    }
}

impl Requests {
    /// Returns the changes since the last call.
    fn changes(&self) -> Vec<String> {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().filter(|it| !it.contains(" Describe")).collect()
    }
}

/// A provider that has just started, over a seeded moto.
struct Started {
    provider: Ec2,
    cluster: ScriptedCluster,
    requests: Arc<Requests>,
}

fn cluster() -> Cluster {
    Cluster { name: "kubernetes".into(), id: Some("testbed".into()) }
}

fn read(name: &str) -> String {
    let folder = std::env::var("AWS_TESTBED").unwrap();
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// Returns the IDs of two subnets and of the security group that the seed created.
fn subnets_and_group() -> ([String; 2], Value) {
    let ids: Value = serde_json::from_str(&read("ids.json")).unwrap();
    let subnet = |name: &str| ids["subnets"][name].as_str().unwrap().to_owned();
    (["public-a", "private-b"].map(subnet), ids["node_security_group_id"].clone())
}

async fn start() -> Started {
    let text = read("cloud.conf").replace("[Global]", "[Global]\nNLBSecurityGroupMode = Managed");
    let ids: Value = serde_json::from_str(&read("ids.json")).unwrap();
    let nodes = ids["nodes"].as_object().unwrap().iter().filter(|(name, _)| name.starts_with("worker"));
    let text_of = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
    let node = |(_, it): (&String, &Value)| Node {
        name: text_of(it, "node_name").into(),
        uid: text_of(it, "node_name").into(),
        provider_id: text_of(it, "provider_id").into(),
        addresses: [NodeAddress::new(AddressType::InternalIP, &text_of(it, "private_ip"))].into(),
        ..Node::default()
    };
    let objects = ScriptedCluster::default();
    nodes.for_each(|it| objects.set_node(node(it)));
    let (requests, environment) = (Arc::new(Requests::default()), Environment::of_process());
    let setup = Setup {
        environment,
        metrics: Arc::clone(&requests) as Arc<dyn CloudMetrics>,
        ..Setup::of(ConfigFile { path: "cloud.conf".into(), text })
    };
    let provider = Ec2::new(&setup, |http| http).unwrap();
    let context = Context { cluster_cidrs: vec!["10.244.0.0/16".to_owned()], ..objects.context(cluster()) };
    provider.initialize(&context).await.unwrap();
    provider.set_caches(Arc::new(objects.clone()));
    Started { provider, cluster: objects, requests }
}

impl Started {
    async fn ensure(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<String> {
        self.cluster.set_services([service.clone()]);
        let cluster = cluster();
        let request = LoadBalancerRequest { cluster: &cluster, service, nodes, callbacks: &() };
        let balancers = self.provider.load_balancers().unwrap();
        for _ in 0..30 {
            match balancers.ensure(request).await {
                Ok(status) => return Ok(status.unwrap().ingress.unwrap()[0].hostname.clone().unwrap()),
                // The cloud works on in the background.
                Err(error) if error.retry_after().is_some() => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::other("the load balancer is not ready after 30 polls"))
    }

    async fn delete(&self, service: &Service) {
        let mut service = service.clone();
        service.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-21T20:00:00Z")).unwrap();
        let cluster = cluster();
        let request = LoadBalancerRequest { cluster: &cluster, service: &service, nodes: &[], callbacks: &() };
        let balancers = self.provider.load_balancers().unwrap();
        for _ in 0..30 {
            match balancers.delete(request).await {
                Ok(()) => break,
                Err(error) if error.retry_after().is_some() => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(balancers.get(request).await.unwrap().is_none());
    }
}

fn service(uid: &str, annotations: &Value, ports: &Value) -> Service {
    let object = json!({
        "metadata": {"name": format!("web-{uid}"), "namespace": "default", "uid": uid, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": ports},
    });
    serde_json::from_value(object).unwrap()
}

/// Creates, changes and deletes a load balancer, and expects no change in between.
async fn life(uid: &str, first: &Value, second: &Value) {
    let ports = json!([{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}]);
    let more = json!([
        {"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"},
        {"name": "alt", "port": 8080, "nodePort": 30082, "protocol": "TCP"},
    ]);
    // Ports of instances stay: moto forgets policies and target groups of later ones.
    let steps = [(first, &ports, 2), (first, &more, 1), (second, &ports, 1), (first, &ports, 2)];
    for (annotations, ports, nodes) in steps {
        let service = service(uid, annotations, ports);
        let started = start().await;
        let nodes = &started.cluster.nodes()[..nodes];
        let hostname = started.ensure(&service, nodes).await.unwrap();
        let changes = started.requests.changes();
        assert!(hostname.contains("elb") && !changes.is_empty(), "{hostname} {changes:?}");
        let again = start().await;
        again.ensure(&service, nodes).await.unwrap();
        assert_eq!(again.requests.changes(), Vec::<String>::new(), "steady state of {annotations}");
    }
    start().await.delete(&service(uid, first, &ports)).await;
}

#[tokio::test]
#[ignore = "needs a seeded moto: AWS_TESTBED, AWS_ENDPOINT_URL, AWS_REGION and keys"]
async fn classic_load_balancers_live_and_die_on_moto() {
    let uid = format!("c{:07}-1111-4111-8111-111111111111", std::process::id());
    let (subnets, group) = subnets_and_group();
    let first = json!({format!("{PREFIX}additional-resource-tags"): "team=a"});
    let second = json!({
        format!("{PREFIX}additional-resource-tags"): "team=b",
        format!("{PREFIX}proxy-protocol"): "*",
        format!("{PREFIX}healthcheck-interval"): "20",
        format!("{PREFIX}connection-idle-timeout"): "120",
        format!("{PREFIX}subnets"): subnets[0],
        format!("{PREFIX}extra-security-groups"): group,
    });
    life(&uid, &first, &second).await;
}

#[tokio::test]
#[ignore = "needs a seeded moto: AWS_TESTBED, AWS_ENDPOINT_URL, AWS_REGION and keys"]
async fn network_load_balancers_live_and_die_on_moto() {
    let uid = format!("d{:07}-1111-4111-8111-111111111111", std::process::id());
    let (subnets, group) = subnets_and_group();
    let first = json!({TYPE: "nlb"});
    let second = json!({
        TYPE: "nlb",
        format!("{PREFIX}cross-zone-load-balancing-enabled"): "true",
        format!("{PREFIX}healthcheck-healthy-threshold"): "5",
        format!("{PREFIX}additional-resource-tags"): "team=b",
        format!("{PREFIX}subnets"): subnets.join(","),
        format!("{PREFIX}security-groups"): group,
    });
    life(&uid, &first, &second).await;
}

#[tokio::test]
#[ignore = "needs a seeded moto: AWS_TESTBED, AWS_ENDPOINT_URL, AWS_REGION and keys"]
async fn nodes_and_routes_are_those_of_moto() {
    let started = start().await;
    let (provider, nodes) = (&started.provider, &started.cluster.nodes());
    let states = provider.instances().unwrap().lookup(nodes, LookupRequest::METADATA).await;
    for (node, state) in nodes.iter().zip(states) {
        println!("{} {:?}", node.name, state.unwrap());
    }
    let (routes, cluster) = (provider.routes().unwrap(), cluster());
    let route = Route {
        target_node: nodes[0].name.to_string(),
        destination_cidr: "10.244.7.0/24".to_owned(),
        ..Route::default()
    };
    routes.create(&cluster, "hint", &route).await.unwrap();
    let moved = Route { target_node: nodes[1].name.to_string(), ..route.clone() };
    routes.create(&cluster, "hint", &moved).await.unwrap();
    let own = |all: Vec<Route>| all.into_iter().find(|it| it.destination_cidr == route.destination_cidr);
    let listed = own(routes.list(&cluster).await.unwrap()).unwrap();
    assert_eq!((&*listed.target_node, listed.blackhole), (&*nodes[1].name, false));
    routes.delete(&cluster, &listed).await.unwrap();
    assert!(own(routes.list(&cluster).await.unwrap()).is_none());
}
