//! `plan` and the checks at start, as a user runs them: a real process, a Kubernetes API and a cloud on loopback.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::path::PathBuf;
use std::process::{Command, Output};

use embedded_apiserver::{ApiServer, kubeconfig};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A cluster and its cloud, served until it is dropped.
struct Served {
    api: ApiServer,
    cloud: Cloud,
    directory: TempDir,
    shutdown: CancellationToken,
    _runtime: tokio::runtime::Runtime,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Served {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (api, cloud, shutdown) = (ApiServer::new(), Cloud::default(), CancellationToken::new());
        let directory = TempDir::with_prefix("ccm-plan-").unwrap();
        runtime.block_on(async {
            let listen = || TcpListener::bind("127.0.0.1:0");
            let (for_api, for_cloud) = (listen().await.unwrap(), listen().await.unwrap());
            let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
            std::fs::write(directory.path().join("kubeconfig"), kubeconfig(&url(&for_api), None, None)).unwrap();
            let config = format!("endpoint: {}\ntoken: {DEFAULT_TOKEN}\n", url(&for_cloud));
            std::fs::write(directory.path().join("cloud.yaml"), config).unwrap();
            let (served, stop) = (api.clone(), shutdown.clone());
            tokio::spawn(async move { served.serve_tcp(for_api, stop).await });
            let (served, stop) = (cloud.clone(), shutdown.clone());
            tokio::spawn(async move { served.serve(for_cloud, stop).await });
        });
        Self { api, cloud, directory, shutdown, _runtime: runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program with the flags that lead here, and these.
    fn run(&self, subcommand: Option<&str>, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
        command.args(subcommand).arg("--cloud-provider=simulated");
        command.arg("--kubeconfig").arg(self.path("kubeconfig")).arg("--cloud-config").arg(self.path("cloud.yaml"));
        command.args(flags).output().unwrap()
    }

    fn plan(&self, flags: &[&str]) -> (i32, String, String) {
        let output = self.run(Some("plan"), &[&["--cluster-cidr=10.244.0.0/16"], flags].concat());
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_exit_code_says_whether_there_is_anything_to_do_and_nothing_is_changed() {
    let served = Served::start();
    let (code, stdout, stderr) = served.plan(&[]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "Nothing to do: 0 Nodes, 0 Routes, 0 Services.\n", ""));

    served.cloud.create_machines("worker-", 1);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"},
        "spec": {"podCIDRs": ["10.244.1.0/24"], "taints": [
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
    });
    served.api.seed(node).unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
    });
    served.api.seed(service).unwrap();
    let revision = served.api.revision();
    let (code, stdout, stderr) = served.plan(&[]);
    assert_eq!((code, stderr.as_str()), (2, ""), "{stdout}");
    for part in
        ["Node worker-1\n  kubernetes  create  provider id", "cloud       create  route", "Service default/web\n"]
    {
        assert!(stdout.contains(part), "{part:?} is missing in:\n{stdout}");
    }
    assert!(stdout.trim_end().ends_with("Nothing was changed."), "{stdout}");

    let (code, stdout, _) = served.plan(&["--output=json", "--controllers=*,-service"]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &value["version"]), (2, &json!(1)));
    assert!(value["objects"].as_array().unwrap().iter().all(|object| object["kind"] != "Service"));

    assert_eq!(served.api.revision(), revision);
    assert_eq!(served.api.requests().writes().len(), 0, "no write reached the API server");
    let changes = served.cloud.requests().into_keys().filter(|route| !route.starts_with("GET ")).collect::<Vec<_>>();
    assert_eq!(changes, [""; 0], "no change was asked of the cloud");
}

#[test]
fn what_keeps_a_plan_from_being_made_is_said_with_what_to_do() {
    let served = Served::start();
    let missing = served.run(Some("plan"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("--configure-cloud-routes=false"), "{}", text(&missing.stderr));
    let (code, stdout, stderr) = served.plan(&["--output=yaml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(stderr, "Error: invalid argument \"yaml\" for \"--output\" flag: \"yaml\" is not one of text, json\n");
    let (code, _, stderr) = served.plan(&["--outputs=json"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("unknown flag: --outputs; did you mean --output?"), "{stderr}");
    assert!(stderr.contains("cloud-controller-manager plan --help"), "{stderr}");
    let (code, _, stderr) = served.plan(&["--master=http://127.0.0.1:1"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("the Kubernetes API server gave no answer; check its address"), "{stderr}");
    std::fs::write(served.path("cloud.yaml"), "endpoint: http://127.0.0.1:1\ntoken: t\n").unwrap();
    let (code, _, stderr) = served.plan(&[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("cannot start") && stderr.contains("check endpoint"), "{stderr}");
}

#[test]
fn a_start_without_the_ranges_of_the_cluster_fails_at_once_and_names_the_flag() {
    let served = Served::start();
    for flags in [&[][..], &["--cluster-cidr=10.244.0.0"], &["--cluster-cidr=10.0.0.0/8,11.0.0.0/8"]] {
        let output = served.run(None, &[&["--secure-port=0"], flags].concat());
        // As the reference's, but before anybody is asked and before the lease is taken (FLAG-21).
        assert_eq!(output.status.code(), Some(255));
        let stderr = text(&output.stderr);
        assert!(stderr.contains("--cluster-cidr=\"") && stderr.contains("--configure-cloud-routes=false"), "{stderr}");
    }
    assert_eq!(served.api.requests().all().len(), 0, "nobody was asked");
}
