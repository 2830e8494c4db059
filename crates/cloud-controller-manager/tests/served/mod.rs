//! A Kubernetes API and a cloud on loopback, and the program as a user runs it.

use std::path::PathBuf;
use std::process::{Command, Output};

use embedded_apiserver::{ApiServer, kubeconfig};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program with the flags for this cluster and cloud, and with `flags`.
    pub(crate) fn run(&self, subcommand: Option<&str>, flags: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
        command.args(subcommand).arg("--cloud-provider=simulated");
        command.arg("--kubeconfig").arg(self.path("kubeconfig")).arg("--cloud-config").arg(self.path("cloud.yaml"));
        command.args(flags).output().unwrap()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
