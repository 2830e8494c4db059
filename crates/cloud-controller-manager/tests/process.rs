//! Tests of the binary as a process: exit codes (APP-162), signals, and endpoints over HTTPS.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

use std::collections::HashMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use embedded_apiserver::{ApiServer, Options, User, kubeconfig};
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use kube::{Client, Config};
use provider_simulated::cloud::{Cloud, DEFAULT_PROJECT, DEFAULT_TOKEN};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

/// Timeout of every wait in these tests.
const SOON: Duration = Duration::from_secs(60);
const TOKEN: &str = "an-administrators-token";

/// A cluster and a cloud on loopback ports, and the files with their addresses.
struct World {
    api: ApiServer,
    cloud: Cloud,
    directory: TempDir,
    _until: tokio_util::sync::DropGuard,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tokens: HashMap<_, _> = [(TOKEN.to_owned(), User::admin())].into();
        let api = ApiServer::with_options(Options {
            tokens,
            ..Options::default()
        });
        let cloud = Cloud::default();
        let stop = CancellationToken::new();
        let for_api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let for_cloud = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        std::fs::write(
            directory.path().join("kubeconfig"),
            kubeconfig(&url(&for_api), None, Some(TOKEN)),
        )
        .unwrap();
        let config = format!(
            "endpoint: {}\ntoken: {DEFAULT_TOKEN}\nproject: {DEFAULT_PROJECT}\n",
            url(&for_cloud)
        );
        std::fs::write(directory.path().join("cloud.yaml"), config).unwrap();
        let served = api.clone();
        let token = stop.clone();
        tokio::spawn(async move { served.serve_tcp(for_api, token).await });
        let served = cloud.clone();
        let token = stop.clone();
        tokio::spawn(async move { served.serve(for_cloud, token).await });
        Self {
            api,
            cloud,
            directory,
            _until: stop.drop_guard(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the binary with the flags for this cluster and cloud, and with `flags`.
    fn start(&self, flags: &[&str]) -> Process {
        let kubeconfig = self.file("kubeconfig").display().to_string();
        let own = [
            "--cloud-provider=simulated".to_owned(),
            format!("--cloud-config={}", self.file("cloud.yaml").display()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--configure-cloud-routes=false".to_owned(),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        Process::start(&[&own[..], flags].concat())
    }

    fn holder(&self) -> String {
        let lease = self
            .api
            .get("leases", Some("kube-system"), "cloud-controller-manager")
            .unwrap_or_default();
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// A running binary; killed when dropped.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
        command
            .args(arguments)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null());
        Self(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.0.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Returns the exit status and the output of the process.
    async fn ended(mut self) -> (ExitStatus, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < SOON, "it did not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut text = String::new();
        self.0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        (status, text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < SOON, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn code_of(arguments: &[&str]) -> (Option<i32>, String) {
    let (status, text) = Process::start(arguments).ended().await;
    (status.code(), text)
}

#[tokio::test]
async fn help_and_version_are_no_failures_and_bad_flags_are_told_with_1() {
    for good in ["--help", "--version", "man"] {
        let (code, text) = code_of(&[good]).await;
        assert_eq!(code, Some(0), "{good}: {text}");
    }
    let (code, text) = code_of(&["--no-such-flag"]).await;
    assert_eq!(code, Some(1));
    assert!(
        text.contains("--no-such-flag") && text.lines().count() < 6,
        "no page of usage: {text}"
    );
    let timings = [
        "--cloud-provider=simulated",
        "--leader-elect-renew-deadline=20s",
    ];
    assert_eq!(
        code_of(&timings).await.0,
        Some(1),
        "impossible timings are told before anything is asked"
    );
}

#[tokio::test]
async fn mistake_before_the_provider_is_created_ends_with_1() {
    let world = World::new().await;
    let missing = world.start(&["--kubeconfig=/no/such/file"]).ended().await;
    assert_eq!(missing.0.code(), Some(1));
    assert!(missing.1.contains("/no/such/file"), "{}", missing.1);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--secure-port={}", taken.local_addr().unwrap().port());
    let clash = world
        .start(&[&port, "--bind-address=127.0.0.1"])
        .ended()
        .await;
    assert_eq!(clash.0.code(), Some(1));
    assert!(clash.1.contains("--secure-port"), "{}", clash.1);

    let file = world.file("migration.yaml");
    std::fs::write(&file, "kind: Something\n").unwrap();
    let migration = format!("--leader-migration-config={}", file.display());
    let wrong = world
        .start(&["--secure-port=0", "--enable-leader-migration", &migration])
        .ended()
        .await;
    assert_eq!(wrong.0.code(), Some(1), "{}", wrong.1);
}

#[tokio::test]
async fn a_provider_that_cannot_work_ends_with_255() {
    let world = World::new().await;
    let unknown = world
        .start(&["--secure-port=0", "--cloud-provider=nimbus"])
        .ended()
        .await;
    assert_eq!(unknown.0.code(), Some(255));
    assert!(
        unknown.1.contains("unknown cloud provider \"nimbus\""),
        "{}",
        unknown.1
    );

    let unreadable = world
        .start(&["--secure-port=0", "--cloud-config=/no/such/cloud.yaml"])
        .ended()
        .await;
    assert_eq!(unreadable.0.code(), Some(255));
    assert!(
        unreadable.1.contains("/no/such/cloud.yaml"),
        "{}",
        unreadable.1
    );

    world.cloud.revoke_token(DEFAULT_TOKEN);
    let refused = world.start(&["--secure-port=0"]).ended().await;
    assert_eq!(refused.0.code(), Some(255), "{}", refused.1);
    assert_eq!(
        world.holder(),
        "",
        "it gave the lease back, so that another may try"
    );
}

#[tokio::test]
async fn a_stop_is_0_a_second_signal_1_and_a_lost_lease_1() {
    let world = World::new().await;
    let process = world.start(&["--secure-port=0"]);
    until("it leads", async || !world.holder().is_empty()).await;
    process.signal("TERM");
    let (status, text) = process.ended().await;
    assert_eq!(status.code(), Some(0), "{text}");
    assert_eq!(world.holder(), "", "{text}");

    let process = world.start(&["--secure-port=0"]);
    until("it leads", async || !world.holder().is_empty()).await;
    let mut lease = world
        .api
        .get("leases", Some("kube-system"), "cloud-controller-manager")
        .unwrap();
    lease["spec"]["holderIdentity"] = json!("somebody-else");
    world.api.seed(lease.clone()).unwrap();
    let (status, text) = process.ended().await;
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("leaderelection lost"), "{text}");

    lease["spec"]["holderIdentity"] = json!("");
    world.api.seed(lease).unwrap();
    // The cloud hangs, so that work is in progress.
    world.cloud.create_machines("worker-", 1);
    world
        .cloud
        .inject(provider_simulated::cloud::Fault::latency(60_000).on("POST /v1/load-balancers"));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
    });
    world.api.seed(service).unwrap();
    let process = world.start(&["--secure-port=0"]);
    let asked = async || {
        world
            .cloud
            .requests()
            .iter()
            .any(|(route, count)| route.starts_with("POST") && *count > 0)
    };
    until("a load balancer is being made", asked).await;
    process.signal("TERM");
    process.signal("INT");
    let (status, text) = process.ended().await;
    assert_eq!(status.code(), Some(1), "{text}");
}

#[tokio::test]
async fn the_endpoints_are_there_for_those_who_may() {
    manager::install_crypto();
    let world = World::new().await;
    // The port is reserved for the program: a bound socket that does not listen does not conflict with it.
    let held = TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = held.local_addr().unwrap().port();
    let process = world.start(&[&format!("--secure-port={port}"), "--bind-address=127.0.0.1"]);
    let client = |token: Option<&str>| -> Client {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.accept_invalid_certs = true;
        config.default_retry = false;
        if let Some(token) = token {
            config.auth_info = AuthInfo {
                token: Some(token.to_owned().into()),
                ..AuthInfo::default()
            };
        }
        ClientBuilder::try_from(config).unwrap().build()
    };
    let get = async |token: Option<&str>, path: &str| {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client(token).request_text(request).await
    };
    until("it is ready", async || get(None, "/readyz").await.is_ok()).await;
    for path in [
        "/metrics",
        "/metrics/slis",
        "/configz",
        "/debug/pprof/",
        "/debug/flags/v",
    ] {
        let refused = get(None, path).await.unwrap_err();
        assert!(
            matches!(&refused, kube::Error::Api(status) if status.code == 403),
            "{path}: {refused}"
        );
    }
    assert!(
        get(Some(TOKEN), "/metrics")
            .await
            .unwrap()
            .contains("process_start_time_seconds")
    );
    let configuration: Value =
        serde_json::from_str(&get(Some(TOKEN), "/configz").await.unwrap()).unwrap();
    let shown = &configuration["cloudcontrollermanager.config.k8s.io"]["KubeCloudShared"]["CloudProvider"]
        ["Name"];
    assert_eq!(shown, "simulated");
    drop(process);
}
