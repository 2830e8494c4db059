//! Take-over from and by the Go cloud controller manager. `go.json` is a recording of version 2.14.0 on this fake.
//!
//! The recording is made by an ignored test, which starts the Go program with a command and an embedded API server:
//! `CCM_TEST_ALIBABA_PEER="run.sh alibaba BINARY"` and `CCM_TEST_ALIBABA_PORTS=23410,23411`, of the fake and of the API
//! server. The command gets the URL of the fake and flags as further arguments.

use std::process::{Child, Command};
use std::time::Duration;

use alibaba_fake::{CLUSTER, Handle, KEY_ID, Port, REGION, SECRET, VPC, World, router};
use base64::Engine;
use cloud_provider::{CloudProvider, Node, Route, Service};
use embedded_apiserver::{ApiServer, Options, kubeconfig};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, cluster};

/// The kinds of objects that are recorded.
const KINDS: [&str; 9] = [
    "instance",
    "interface",
    "classic",
    "vgroup",
    "classic listener",
    "network",
    "group",
    "listener",
    "route",
];
const PREFIX: &str = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-";

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Returns the changes that the provider makes to take over what is recorded.
async fn changes_of_take_over(
    harness: &Harness,
    nodes: &[Value],
    services: &[Value],
) -> Vec<String> {
    for node in nodes {
        let node: Node = serde_json::from_value(node.clone()).unwrap();
        harness.cluster.set_node(node);
    }
    let provider = harness.started().await;
    for service in services {
        let mut service: Service = serde_json::from_value(service.clone()).unwrap();
        let before = service.status.clone();
        harness.ensure(&provider, &mut service).await.unwrap();
        let shown = |status: &Option<_>| {
            let ingress = list(&serde_json::to_value(status).unwrap()["loadBalancer"]["ingress"]);
            ingress
                .iter()
                .map(|ingress| [ingress["ip"].clone(), ingress["hostname"].clone()])
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&service.status), shown(&before), "the address stays");
    }
    let routes = provider.routes().unwrap();
    assert_eq!(routes.list(&cluster()).await.unwrap().len(), nodes.len());
    harness.changes()
}

#[tokio::test(start_paused = true)]
async fn nothing_that_the_go_program_left_is_written() {
    let left: Value = serde_json::from_str(include_str!("go.json")).unwrap();
    let harness = Harness::empty();
    {
        let mut cloud = harness.fake.lock();
        KINDS
            .into_iter()
            .for_each(|kind| *cloud.each(kind) = list(&left[kind]));
    }
    let nodes = list(&left["nodes"]);
    let services = list(&left["services"]);
    assert_eq!(
        changes_of_take_over(&harness, &nodes, &services).await,
        [""; 0]
    );
    assert!(services.len() >= 6, "{}", services.len());
}

/// Name, annotations, ports, and if set, an NLB.
type Recorded<'a> = (&'a str, Vec<(&'static str, String)>, &'a Value, bool);

/// Returns the Services of the recording: annotations without their prefix, and fields of the spec.
fn services() -> Vec<Value> {
    let one = json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]);
    let two = json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
        {"name": "https", "port": 443, "targetPort": 8443, "protocol": "TCP"}]);
    let mixed = json!([{"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "targetPort": 53, "protocol": "TCP"}]);
    let zones = ("zone-maps", format!("{REGION}-a:vsw-a,{REGION}-b:vsw-b"));
    let text = |key: &'static str, value: &str| (key, value.to_owned());
    let all = [
        ("plain", vec![], &one, false),
        (
            "inside",
            vec![
                text("address-type", "intranet"),
                text("spec", "slb.s1.small"),
            ],
            &two,
            false,
        ),
        (
            "mixed",
            vec![text("scheduler", "wrr"), text("name", "mixed")],
            &mixed,
            false,
        ),
        (
            "web",
            vec![
                text("protocol-port", "http:80,https:443"),
                text("cert-id", "cert-1"),
                text("health-check-flag", "on"),
                text("health-check-uri", "/up"),
                text("additional-resource-tags", "team=web"),
            ],
            &two,
            false,
        ),
        ("net", vec![zones.clone()], &two, true),
        (
            "net-udp",
            vec![
                zones.clone(),
                text("scheduler", "wrr"),
                text("idle-timeout", "60"),
            ],
            &mixed,
            true,
        ),
        (
            "reused",
            vec![
                text("id", "lb-users"),
                text("force-override-listeners", "true"),
            ],
            &one,
            false,
        ),
        ("deleted", vec![], &one, false),
    ];
    let service = |(number, (name, annotations, ports, is_network)): (usize, Recorded<'_>)| {
        let annotations: serde_json::Map<_, _> = annotations
            .into_iter()
            .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
            .collect();
        let mut ports = ports.clone();
        for (at, port) in ports.as_array_mut().unwrap().iter_mut().enumerate() {
            port["nodePort"] = json!(30_000 + 10 * number + at);
        }
        let mut spec = json!({"type": "LoadBalancer", "selector": {"app": name}, "ports": ports,
            "clusterIP": format!("10.96.0.{}", number + 10), "externalTrafficPolicy": "Cluster"});
        if is_network {
            spec["loadBalancerClass"] = json!("alibabacloud.com/nlb");
        }
        json!({"apiVersion": "v1", "kind": "Service", "spec": spec,
            "metadata": {"name": name, "namespace": "default", "annotations": annotations}})
    };
    all.into_iter().enumerate().map(service).collect()
}

/// A process that is stopped when it is dropped.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let is_asked = Command::new("kill").arg(self.0.id().to_string()).status();
        is_asked.and_then(|_| self.0.wait()).unwrap();
    }
}

/// The Go program, with the fake and an API server.
struct Peer {
    fake: Handle<World>,
    server: ApiServer,
    command: String,
    urls: [String; 2],
}

impl Peer {
    fn start(&self) -> Stopped {
        let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let file = std::env::temp_dir().join("alibaba-peer-kubeconfig");
        std::fs::write(&file, kubeconfig(&self.urls[1], None, None)).unwrap();
        let flags = "--leader-elect=false --configure-cloud-routes=true --allocate-node-cidrs=true --cluster-cidr=10.244.0.0/16";
        let mut command = Command::new("bash");
        command.args([
            "-c",
            &format!("exec {} {} {flags}", self.command, self.urls[0]),
        ]);
        command
            .env("KUBECONFIG", file)
            .env("ACCESS_KEY_ID", encoded(KEY_ID))
            .env("ACCESS_KEY_SECRET", encoded(SECRET));
        command
            .env("CLUSTER", CLUSTER)
            .env("REGION", REGION)
            .env("VPC", VPC)
            .env("SUBNET", format!("{REGION}-a:vsw-a"));
        command
            .env("ROUTE_TABLE", "vtb-main")
            .env("ZONE", format!("{REGION}-a"));
        Stopped(command.spawn().unwrap())
    }

    async fn until(&self, what: &str, is_done: impl Fn() -> bool) {
        for _ in 0..240 {
            if is_done() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let events: Vec<_> = self
            .server
            .list("events")
            .iter()
            .map(|event| format!("{}: {}", event["reason"], event["message"]))
            .collect();
        panic!("{what}; events: {events:#?}");
    }

    fn services(&self) -> Vec<Value> {
        self.server
            .list("services")
            .into_iter()
            .filter(|service| service["spec"]["type"] == "LoadBalancer")
            .collect()
    }

    fn changes(&self) -> Vec<String> {
        let injector = self.fake.fault_injector();
        let changes = injector
            .changes()
            .into_iter()
            .map(|(route, _)| route)
            .collect();
        injector.forget_requests();
        changes
    }
}

fn is_served(service: &Value) -> bool {
    service["status"]["loadBalancer"]["ingress"]
        .as_array()
        .is_some_and(|ingress| !ingress.is_empty())
}

#[tokio::test]
#[ignore = "needs the Go program"]
async fn go_program_is_recorded_and_takes_over_what_the_provider_made() {
    let [command, ports] = ["PEER", "PORTS"].map(|name| {
        std::env::var(format!("CCM_TEST_ALIBABA_{name}")).expect("the variables of this test")
    });
    let (fake_port, api_port) = ports.split_once(',').unwrap();
    let harness = Harness::empty().at_once();
    harness.fake.lock().limit = (1_000_000, 1);
    let _served = Port::open(&format!("127.0.0.1:{fake_port}"))
        .await
        .unwrap()
        .serve(router(&harness.fake));
    let options = Options {
        taint_new_nodes: false,
        ..Options::default()
    };
    let server = ApiServer::with_options(options);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{api_port}"))
        .await
        .unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve_tcp(listener, CancellationToken::new()).await });
    let urls = [fake_port, api_port].map(|port| format!("http://127.0.0.1:{port}"));
    let peer = Peer {
        fake: harness.fake.clone(),
        server,
        command,
        urls,
    };

    for number in 1..=3_u8 {
        let name = format!("worker-{number}");
        let id = harness
            .fake
            .lock()
            .add_instance(alibaba_fake::ACCOUNT, &name);
        let ip =
            harness.instance(&name)["VpcAttributes"]["PrivateIpAddress"]["IpAddress"][0].clone();
        let now = "2026-11-26T00:00:00Z";
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"providerID": format!("{REGION}.{id}"), "podCIDR": format!("10.244.{number}.0/24"),
                "podCIDRs": [format!("10.244.{number}.0/24")],
                "taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
            "status": {"addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now,
                    "lastTransitionTime": now}]}});
        peer.server.seed(node).unwrap();
    }
    harness.fake.lock().add(
        "classic",
        json!({"LoadBalancerId": "lb-users", "LoadBalancerName": "users", "LoadBalancerStatus": "active",
        "Address": "198.19.0.1", "AddressType": "internet", "AddressIPVersion": "ipv4", "DeleteProtection": "off",
        "ModificationProtectionStatus": "NonProtection", "RegionId": REGION, "Tags": {"Tag": []}}),
    );
    services()
        .into_iter()
        .for_each(|service| drop(peer.server.seed(service).unwrap()));

    let child = peer.start();
    peer.until("the Go program serves all Services", || {
        peer.services().iter().all(is_served)
    })
    .await;
    let is_initialised = |node: &Value| {
        list(&node["spec"]["taints"])
            .iter()
            .all(|taint| !taint["key"].to_string().contains("uninitialized"))
    };
    peer.until("the Go program initialises the Nodes", || {
        peer.server.list("nodes").iter().all(is_initialised)
    })
    .await;
    peer.until("the Go program creates routes", || {
        harness.fake.lock().all("route").len() == 3
    })
    .await;
    println!("created by the Go program: {:#?}", peer.changes());
    let mut changed = peer
        .server
        .get("services", Some("default"), "plain")
        .unwrap();
    changed["metadata"]["annotations"][format!("{PREFIX}name")] = json!("renamed");
    changed["spec"]["ports"][0]["port"] = json!(81);
    peer.server.seed(changed).unwrap();
    let mut deleted = peer
        .server
        .get("services", Some("default"), "deleted")
        .unwrap();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-26T00:00:00Z");
    deleted["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    peer.server.seed(deleted).unwrap();
    let is_renamed = || {
        harness
            .fake
            .lock()
            .all("classic")
            .iter()
            .any(|object| object["LoadBalancerName"] == "renamed")
    };
    peer.until("the Go program renames a load balancer", is_renamed)
        .await;
    let is_gone = || {
        let left = peer.server.get("services", Some("default"), "deleted");
        left.is_none_or(|object| list(&object["metadata"]["finalizers"]).is_empty())
    };
    peer.until("the Go program deletes a load balancer", is_gone)
        .await;
    peer.server.remove("services", Some("default"), "deleted");
    tokio::time::sleep(Duration::from_secs(8)).await;
    println!("changed by the Go program: {:#?}", peer.changes());
    drop(child);

    let mut nodes = peer.server.list("nodes");
    let mut services = peer.services();
    for entry in nodes.iter_mut().chain(&mut services) {
        entry["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
    }
    let mut left = json!({"nodes": nodes, "services": services});
    KINDS
        .into_iter()
        .for_each(|kind| left[kind] = harness.fake.lock().all(kind).to_vec().into());
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/alibaba/go.json");
    std::fs::write(
        recording,
        serde_json::to_string_pretty(&left).unwrap() + "\n",
    )
    .unwrap();
    assert_eq!(
        changes_of_take_over(&harness, &nodes, &services).await,
        [""; 0],
        "the provider takes over without a change"
    );

    // The other way round: the provider creates all anew, and the Go program takes over.
    let provider = harness.started().await;
    for service in &services {
        let mut typed: Service = serde_json::from_value(service.clone()).unwrap();
        harness.delete(&provider, &typed).await.unwrap();
        typed.status = None;
        harness.ensure(&provider, &mut typed).await.unwrap();
        let mut service = service.clone();
        service["status"] = serde_json::to_value(&typed.status).unwrap();
        peer.server.seed(service).unwrap();
    }
    let routes = provider.routes().unwrap();
    for route in routes.list(&cluster()).await.unwrap() {
        routes.delete(&cluster(), &route).await.unwrap();
        let target_node = route.target_node.clone();
        routes
            .create(
                &cluster(),
                "",
                &Route {
                    target_node,
                    ..route
                },
            )
            .await
            .unwrap();
    }
    peer.changes();
    let child = peer.start();
    tokio::time::sleep(Duration::from_secs(30)).await;
    drop(child);
    println!(
        "changed by the Go program that takes over: {:#?}",
        peer.changes()
    );
}
