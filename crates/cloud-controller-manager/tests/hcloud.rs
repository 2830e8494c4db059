//! Tests of the binary with Hetzner Cloud: real processes, and the APIs of the cloud and of Kubernetes on loopback.

#![cfg(feature = "hcloud")]
#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use embedded_apiserver::{ApiServer, kubeconfig};
use hetzner_fake::{Fake, PROJECT, Port, Served, TOKEN};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

/// Timeout of every wait in these tests.
const SOON: Duration = Duration::from_secs(60);
/// A second token of the same project, with the same length.
const NEW_TOKEN: &str = "another-fake-token-of-sixty-four-characters-which-replaces-it-ok";

struct World {
    api: ApiServer,
    fake: Fake,
    endpoint: String,
    directory: TempDir,
    _served: Served,
    _until: tokio_util::sync::DropGuard,
}

impl World {
    async fn new() -> Self {
        let api = ApiServer::new();
        let fake = Fake::default();
        let stop = CancellationToken::new();
        let directory = TempDir::with_prefix("ccm-hcloud-").unwrap();
        let for_api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api_url = format!("http://{}", for_api.local_addr().unwrap());
        std::fs::write(
            directory.path().join("kubeconfig"),
            kubeconfig(&api_url, None, None),
        )
        .unwrap();
        let api_server = api.clone();
        let token = stop.clone();
        tokio::spawn(async move { api_server.serve_tcp(for_api, token).await });
        let cloud = Port::open("127.0.0.1:0")
            .await
            .unwrap()
            .serve(fake.router());
        let endpoint = format!("{}/v1", cloud.url());
        Self {
            api,
            fake,
            endpoint,
            directory,
            _served: cloud,
            _until: stop.drop_guard(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the program under this name, with these variables and flags and no others except those for the cluster.
    fn start(&self, name: &str, variables: &[(&str, &str)], flags: &[&str]) -> Process {
        let called = self.file(name);
        _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cloud-controller-manager"), &called);
        let mut command = Command::new(called);
        command
            .env_clear()
            .env("HCLOUD_ENDPOINT", &self.endpoint)
            .env("HCLOUD_METRICS_ENABLED", "false");
        command
            .env("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")
            .envs(variables.iter().copied());
        let kubeconfig = self.file("kubeconfig");
        let log = std::fs::File::create(self.file("log")).unwrap();
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--secure-port=0")
            .args(flags);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Process {
            child: command.spawn().unwrap(),
            log: self.file("log"),
        }
    }

    /// Registers a Node like its kubelet does.
    fn register(&self, name: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
        });
        self.api.seed(node).unwrap();
    }

    fn node(&self, name: &str) -> Value {
        self.api.get("nodes", None, name).unwrap_or_default()
    }

    async fn until_initialized(&self, name: &str, process: &mut Process) {
        let id = self.fake.server(name).unwrap().id;
        process
            .until(name, || {
                self.node(name)["spec"]["providerID"] == format!("hcloud://{id}")
            })
            .await;
        process
            .until("no taint", || {
                self.node(name)["spec"]["taints"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
            })
            .await;
    }
}

/// A running binary; killed when dropped.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    async fn until(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < SOON,
                "waited for {what}; ended: {ended:?}\n{}",
                self.text()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the exit code and the output of the process.
    async fn ended(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.text());
            }
            assert!(start.elapsed() < SOON, "it did not end\n{}", self.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Returns the answer of a plain HTTP server; empty if there is no server yet.
fn get(address: SocketAddr, path: &str) -> String {
    let mut text = String::new();
    let Ok(mut stream) = TcpStream::connect(address) else {
        return text;
    };
    _ = stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
    );
    _ = stream.read_to_string(&mut text);
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn called_as_hetzners_own_program_it_needs_no_flag_and_has_its_metrics_where_they_were() {
    let world = World::new().await;
    world.fake.add_server("worker-1");
    world.register("worker-1");
    // The port is reserved for the program: a bound socket that does not listen does not conflict with it.
    let held = TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let metrics = held.local_addr().unwrap();
    let address = metrics.to_string();
    let variables = [
        ("HCLOUD_TOKEN", TOKEN),
        ("HCLOUD_METRICS_ENABLED", "true"),
        ("HCLOUD_METRICS_ADDRESS", address.as_str()),
    ];
    let mut process = world.start("hcloud-cloud-controller-manager", &variables, &[]);
    world.until_initialized("worker-1", &mut process).await;
    let labels = world.node("worker-1")["metadata"]["labels"].clone();
    assert_eq!(labels["topology.kubernetes.io/region"], "fsn1");
    assert_eq!(labels["topology.kubernetes.io/zone"], "fsn1-dc14");
    assert_eq!(labels["instance.hetzner.cloud/provided-by"], "cloud");

    process
        .until("metrics", || !get(metrics, "/metrics").is_empty())
        .await;
    let text = get(metrics, "/metrics");
    for line in [
        "hcloud_api_requests_total{code=\"200\",method=\"get\",api_endpoint=\"/locations\"} 1\n",
        "hcloud_api_request_duration_seconds_count{method=\"get\"} ",
        "hcloud_api_in_flight_requests ",
        "cloud_controller_manager_operations_total{op=\"hcloud/instancesv2.InstanceMetadata\"} ",
        "cloud_controller_manager_server_cache_requests_total{subsystem=\"instances_v2\",mode=\"all\",result=\"miss\"} ",
    ] {
        // The order of labels is not guaranteed.
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let parts: Vec<_> = rest
            .split(['{', ',', '}'])
            .filter(|part| part.contains('='))
            .collect();
        let shown = text
            .lines()
            .any(|line| line.starts_with(name) && parts.iter().all(|part| line.contains(part)));
        assert!(shown, "{line:?} is missing in:\n{text}");
    }
    assert!(!process.text().contains(TOKEN), "no secret in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_is_made_and_what_the_provider_says_becomes_an_event() {
    let world = World::new().await;
    world.fake.add_server("worker-1");
    world.register("worker-1");
    let flags = ["--cloud-provider=hcloud", "--leader-elect=false"];
    let mut process = world.start(
        "cloud-controller-manager",
        &[("HCLOUD_TOKEN", TOKEN)],
        &flags,
    );
    world.until_initialized("worker-1", &mut process).await;
    let mut node = world.node("worker-1");
    node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    world.api.seed(node).unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]},
    });
    world.api.seed(service).unwrap();
    let ip = || {
        let service = world
            .api
            .get("services", Some("default"), "web")
            .unwrap_or_default();
        service["status"]["loadBalancer"]["ingress"][0]["ip"]
            .as_str()
            .map(str::to_owned)
    };
    process.until("an address", || ip().is_some()).await;
    assert_eq!(
        ip().unwrap(),
        world.fake.load_balancers()[0].ipv4.ip.to_string()
    );
    let told = || {
        let events = world.api.list("events");
        events.iter().any(|event| {
            event["reason"] == "LoadBalancerTypeUnconfigured"
                && event["source"]["component"] == "hcloud-cloud-controller-manager"
                && event["involvedObject"]["name"] == "web"
        })
    };
    process.until("the provider's event", told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_in_the_file_is_used_without_a_restart() {
    let world = World::new().await;
    let file = world.file("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    world.fake.add_server("worker-1");
    world.register("worker-1");
    let file_name = file.display().to_string();
    let variables = [("HCLOUD_TOKEN_FILE", file_name.as_str())];
    let mut process = world.start(
        "hcloud-cloud-controller-manager",
        &variables,
        &["--leader-elect=false"],
    );
    world.until_initialized("worker-1", &mut process).await;

    world.fake.set_token(NEW_TOKEN, PROJECT);
    std::fs::write(&file, format!("{NEW_TOKEN}\n")).unwrap();
    world.fake.revoke_token(TOKEN);
    world.fake.add_server("worker-2");
    world.register("worker-2");
    world.until_initialized("worker-2", &mut process).await;
    let text = process.text();
    assert!(
        !text.contains(TOKEN) && !text.contains(NEW_TOKEN),
        "no secret in the log"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_work_says_what_to_correct_and_ends_with_255() {
    let world = World::new().await;
    let start = async |variables: &[(&str, &str)]| {
        world
            .start(
                "hcloud-cloud-controller-manager",
                variables,
                &["--leader-elect=false"],
            )
            .ended()
            .await
    };
    let refused = start(&[("HCLOUD_TOKEN", NEW_TOKEN)]).await;
    assert_eq!(refused.0, Some(255), "{}", refused.1);
    assert!(
        refused.1.contains("check HCLOUD_TOKEN") && !refused.1.contains(NEW_TOKEN),
        "{}",
        refused.1
    );

    let missing = start(&[
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv5"),
        ("ROBOT_ENABLED", "maybe"),
    ])
    .await;
    assert_eq!(missing.0, Some(255), "{}", missing.1);
    for name in [
        "HCLOUD_TOKEN",
        "HCLOUD_INSTANCES_ADDRESS_FAMILY",
        "ROBOT_ENABLED",
    ] {
        assert!(missing.1.contains(name), "{name}: {}", missing.1);
    }

    let network = start(&[("HCLOUD_TOKEN", TOKEN), ("HCLOUD_NETWORK", "nowhere")]).await;
    assert_eq!(network.0, Some(255), "{}", network.1);
    assert!(
        network.1.contains("--cluster-cidr"),
        "routes need it: {}",
        network.1
    );
    let routes = ("HCLOUD_NETWORK_ROUTES_ENABLED", "false");
    let network = start(&[
        ("HCLOUD_TOKEN", TOKEN),
        ("HCLOUD_NETWORK", "nowhere"),
        routes,
    ])
    .await;
    assert_eq!(network.0, Some(255), "{}", network.1);
    assert!(
        network.1.contains("\"nowhere\"") && network.1.contains("HCLOUD_NETWORK"),
        "{}",
        network.1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_and_plan_read_the_variables_and_change_nothing() {
    let world = World::new().await;
    world.fake.add_server("worker-1");
    world.register("worker-1");
    let before = format!("{:?}", world.fake.objects());
    let run = async |subcommand: &str| {
        // The first argument is the subcommand.
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
        command.arg(subcommand).arg("--cloud-provider=hcloud");
        command
            .arg("--kubeconfig")
            .arg(world.file("kubeconfig"))
            .env_clear()
            .env("HCLOUD_TOKEN", TOKEN);
        command
            .env("HCLOUD_ENDPOINT", &world.endpoint)
            .env("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (_, text) = run("doctor").await;
    for part in [
        "cloud token: it may read and write",
        "cloud load balancer type: lb11",
        "cloud rate limit: ",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    let (code, text) = run("plan").await;
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("worker-1") && text.contains("hcloud://"),
        "{text}"
    );
    assert_eq!(format!("{:?}", world.fake.objects()), before);
}
