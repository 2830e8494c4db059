//! A Kubernetes API and a cloud on loopback, and the program as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use embedded_apiserver::{ApiServer, kubeconfig};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A cluster and its cloud, served until it is dropped.
pub(crate) struct Served {
    pub(crate) api: ApiServer,
    pub(crate) cloud: Cloud,
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
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let api = ApiServer::new();
        let cloud = Cloud::default();
        let shutdown = CancellationToken::new();
        let directory = TempDir::with_prefix("ccm-plan-").unwrap();
        runtime.block_on(async {
            let listen = || TcpListener::bind("127.0.0.1:0");
            let for_api = listen().await.unwrap();
            let for_cloud = listen().await.unwrap();
            let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
            std::fs::write(
                directory.path().join("kubeconfig"),
                kubeconfig(&url(&for_api), None, None),
            )
            .unwrap();
            let config = format!("endpoint: {}\ntoken: {DEFAULT_TOKEN}\n", url(&for_cloud));
            std::fs::write(directory.path().join("cloud.yaml"), config).unwrap();
            let served = api.clone();
            let stop = shutdown.clone();
            tokio::spawn(async move { served.serve_tcp(for_api, stop).await });
            let served = cloud.clone();
            let stop = shutdown.clone();
            tokio::spawn(async move { served.serve(for_cloud, stop).await });
        });
        Self {
            api,
            cloud,
            directory,
            shutdown,
            _runtime: runtime,
        }
    }

    /// Returns the directory with `kubeconfig` and `cloud.yaml`.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Adds a machine with its Node, which is not initialised, and a Service that waits for its load balancer.
    pub(crate) fn seed_untouched_objects(&self, namespace: &str) {
        self.cloud.create_machines("worker-", 1);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"},
            "spec": {"podCIDRs": ["10.244.1.0/24"], "taints": [
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": namespace},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
        });
        [node, service]
            .into_iter()
            .for_each(|object| drop(self.api.seed(object).unwrap()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program with the flags for this cluster and cloud, and with `flags`.
    pub(crate) fn run(&self, subcommand: Option<&str>, flags: &[&str]) -> Output {
        run(self.directory(), subcommand, flags)
    }
}

/// Runs the program with `kubeconfig` and `cloud.yaml` of this directory, and these flags.
pub(crate) fn run(directory: &Path, subcommand: Option<&str>, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    command.args(subcommand).arg("--cloud-provider=simulated");
    command
        .arg("--kubeconfig")
        .arg(directory.join("kubeconfig"));
    command
        .arg("--cloud-config")
        .arg(directory.join("cloud.yaml"));
    command.args(flags).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
