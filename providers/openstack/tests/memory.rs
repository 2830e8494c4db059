//! Memory use while load balancers with thousands of members are created. The cloud is a separate process, so that its
//! memory does not count.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it does not find what it expects"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use cloud_provider::{
    CloudProvider, Cluster, ConfigFile, LoadBalancerRequest, Node, Service, Setup,
};
use futures::future::join_all;
use parking_lot::Mutex;
use provider_openstack::OpenStack;
use provider_openstack::config::Config;
use provider_openstack::services::Services;
use serde_json::{Value, json};

const NAME: &str =
    "load_balancers_of_ten_thousand_members_take_few_mebibytes_however_many_there_are";
/// Tells the process that it is the cloud.
const IS_CLOUD: &str = "CCM_TEST_IS_CLOUD";
const NODES: usize = 5_000;
/// Maximum growth of memory, in KiB.
const LIMIT: usize = 11 * 1024;

#[tokio::test]
async fn load_balancers_of_ten_thousand_members_take_few_mebibytes_however_many_there_are() {
    if std::env::var_os(IS_CLOUD).is_some() {
        return serve().await;
    }
    let (_cloud, address) = OtherProcess::start();
    let cluster = Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    };
    let nodes: Vec<_> = (0..NODES).map(node).collect();
    let provider = provider(&address);
    let old = service("old-0");
    let new = ["a", "b", "c"].map(service);
    let balancers = provider.load_balancers().unwrap();
    let request = |service| LoadBalancerRequest {
        cluster: &cluster,
        service,
        nodes: &nodes,
        callbacks: &(),
    };
    let before = forget_peak();
    // All that there are are read.
    assert!(balancers.get(request(&old)).await.unwrap().is_some());
    check("read", before);
    let before = forget_peak();
    for status in join_all(new.iter().map(|service| balancers.ensure(request(service)))).await {
        assert_eq!(
            status.unwrap().unwrap().ingress.unwrap()[0].ip.as_deref(),
            Some("10.6.0.9")
        );
    }
    check("made", before);
}

/// Resets the peak, and returns the resident memory from which the peak is measured; where the reset is not allowed,
/// the peak includes earlier growth.
fn forget_peak() -> usize {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    kib("VmRSS")
}

fn check(what: &str, before: usize) {
    let taken = kib("VmHWM").saturating_sub(before);
    println!(
        "several load balancers of {} members, {what}: {taken} KiB",
        2 * NODES
    );
    assert!(taken < LIMIT, "{what}: {taken} KiB are more than {LIMIT}");
}

/// Returns a value of this process's status, in KiB.
fn kib(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn node(number: usize) -> Arc<Node> {
    let name = format!("worker-{number:05}");
    let address = format!("10.6.{}.{}", number / 250 + 1, number % 250 + 1);
    let node = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"providerID": format!("openstack:///{}", uuid(number))},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

fn service(name: &str) -> Service {
    let service = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {
            "service.beta.kubernetes.io/openstack-internal-load-balancer": "true",
        }},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}]},
    });
    serde_json::from_value(service).unwrap()
}

fn provider(address: &str) -> OpenStack {
    let text = format!(
        "[Global]\nauth-url = {address}/identity/v3\nuser-id = u1\npassword = right\ntenant-id = p1\n\
         [LoadBalancer]\nsubnet-id = {}\n",
        uuid(1)
    );
    let setup = Setup::of(ConfigFile {
        path: "cloud.conf".into(),
        text,
    });
    let config = Config::read(&setup).unwrap();
    let services = Services::new(&config, &setup).unwrap();
    OpenStack::over(config, services, &setup)
}

fn uuid(number: usize) -> String {
    format!("448e3cfe-6e46-4f61-bb4d-{number:012x}")
}

struct OtherProcess(Child);

impl OtherProcess {
    /// Starts the cloud, and returns its address.
    fn start() -> (Self, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", NAME, "--nocapture"])
            .env(IS_CLOUD, "true")
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let address = lines
            .find_map(|line| line.find("http://").map(|at| line[at..].to_owned()))
            .unwrap();
        (Self(child), address)
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An Octavia whose load balancers are ready at once.
struct Cloud {
    address: String,
    balancers: Vec<Value>,
    listeners: Vec<Value>,
    pools: Vec<Value>,
}

async fn serve() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    println!("{address}");
    let mut cloud = Cloud {
        address,
        balancers: Vec::new(),
        listeners: Vec::new(),
        pools: Vec::new(),
    };
    for number in 0..3 {
        let name = format!("kube_service_kubernetes_default_old-{number}");
        let members: Vec<_> = (0..NODES)
            .map(|number| {
                json!({"name": format!("worker-{number:05}"),
            "address": format!("10.6.{}.{}", number / 250 + 1, number % 250 + 1), "protocol_port": 30080})
            })
            .collect();
        let listener = |port: u16| {
            json!({"name": "l", "protocol": "TCP", "protocol_port": port, "tags": [name],
            "default_pool": {"name": "p", "protocol": "TCP", "members": members}})
        };
        let balancer =
            json!({"name": name, "tags": [name], "listeners": [listener(80), listener(443)]});
        cloud.make(json!({"loadbalancer": balancer}));
    }
    let cloud = Arc::new(Mutex::new(cloud));
    let answer = move |request: Request| {
        let cloud = Arc::clone(&cloud);
        async move {
            let (parts, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            let asked = serde_json::from_slice(&body).unwrap_or_default();
            cloud
                .lock()
                .answer(parts.method.as_str(), parts.uri.path(), asked)
        }
    };
    axum::serve(listener, Router::new().fallback(any(answer)))
        .await
        .unwrap();
}

impl Cloud {
    fn answer(&mut self, method: &str, path: &str, asked: Value) -> Response {
        let names: Vec<&str> = path.trim_matches('/').split('/').collect();
        let answer = match (method, names.as_slice()) {
            ("POST", [.., "tokens"]) => {
                return ([("x-subject-token", "t1")], self.token().to_string()).into_response();
            }
            ("POST", [.., "loadbalancers"]) => self.make(asked),
            ("GET", ["octavia"]) => json!({"versions": [{"id": "v2.27"}]}),
            ("GET", [.., "loadbalancers", id]) => {
                json!({"loadbalancer": self.balancers.iter().find(|balancer| balancer["id"] == *id)})
            }
            ("GET", [.., "loadbalancers"]) => json!({"loadbalancers": self.balancers}),
            ("GET", [.., "listeners"]) => json!({"listeners": self.listeners}),
            ("GET", [.., "pools"]) => {
                json!({"pools": self.pools.iter().map(without_members).collect::<Value>()})
            }
            ("GET", [.., "pools", id, "members"]) => {
                let pool = self.pools.iter().find(|pool| pool["id"] == *id).unwrap();
                json!({"members": pool["members"].as_array().unwrap().iter().map(in_short).collect::<Value>()})
            }
            ("GET", [.., list]) => json!({list.replace('-', "_"): []}),
            other => panic!("{other:?}"),
        };
        answer.to_string().into_response()
    }

    fn token(&self) -> Value {
        let service = |kind: &str| {
            let url = format!(
                "{}/{}",
                self.address,
                if kind == "load-balancer" {
                    "octavia"
                } else {
                    kind
                }
            );
            json!({"type": kind, "endpoints": [{"interface": "public", "region": "One", "region_id": "One", "url": url}]})
        };
        let catalog = ["compute", "network", "load-balancer"].map(service);
        json!({"token": {
            "issued_at": "2126-11-22T05:00:00.000000Z", "expires_at": "2126-11-22T06:00:00.000000Z",
            "project": {"id": "p1"}, "roles": [], "catalog": catalog,
        }})
    }

    /// Returns the response of Octavia with all created objects.
    fn make(&mut self, mut asked: Value) -> Value {
        let mut balancer = asked["loadbalancer"].take();
        let id = uuid(self.balancers.len());
        for (key, value) in [
            ("id", &*id),
            ("vip_address", "10.6.0.9"),
            ("provisioning_status", "ACTIVE"),
        ] {
            balancer[key] = value.into();
        }
        let mut listeners = balancer["listeners"].take();
        self.balancers.push(balancer.clone());
        for listener in listeners.as_array_mut().unwrap() {
            let pool_id = uuid(self.pools.len());
            let mut pool = listener["default_pool"].take();
            pool["members"] = pool["members"]
                .as_array()
                .unwrap()
                .iter()
                .enumerate()
                .map(member)
                .collect();
            (pool["id"], pool["listeners"]) = (json!(pool_id), json!([{"id": pool_id}]));
            (listener["id"], listener["default_pool_id"]) = (json!(pool_id), json!(pool_id));
            (pool["loadbalancers"], listener["loadbalancers"]) =
                (json!([{"id": id}]), json!([{"id": id}]));
            self.pools.push(pool);
        }
        let listeners = listeners.as_array().unwrap();
        self.listeners.extend(listeners.clone());
        balancer["pools"] = json!(self.pools[self.pools.len() - listeners.len()..]);
        balancer["listeners"] = json!(listeners);
        balancer["provisioning_status"] = json!("PENDING_CREATE");
        json!({ "loadbalancer": balancer })
    }
}

fn without_members(pool: &Value) -> Value {
    let mut pool = pool.clone();
    pool["members"] = Value::Null;
    pool
}

/// Returns a member with the requested fields.
fn in_short(member: &Value) -> Value {
    let fields = [
        "id",
        "name",
        "address",
        "protocol_port",
        "monitor_port",
        "subnet_id",
    ];
    fields
        .into_iter()
        .map(|key| (key.to_owned(), member[key].clone()))
        .collect()
}

fn member((number, asked): (usize, &Value)) -> Value {
    json!({
        "id": uuid(number), "name": asked["name"], "operating_status": "OFFLINE",
        "provisioning_status": "PENDING_CREATE", "admin_state_up": true, "address": asked["address"],
        "protocol_port": asked["protocol_port"], "weight": 1, "backup": false, "subnet_id": asked["subnet_id"],
        "project_id": "9d00b4f98d6b4ab0a2b05461a2ea25ad", "created_at": "2026-11-22T02:00:51", "updated_at": null,
        "monitor_address": null, "monitor_port": asked["monitor_port"], "tags": [], "vnic_type": "normal",
        "tenant_id": "9d00b4f98d6b4ab0a2b05461a2ea25ad",
    })
}
