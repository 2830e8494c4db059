//! A cluster and a cloud in this process, and the binary between them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ccm_conformance::node_object::registration;
use ccm_tests::controller::Controller;
use ccm_tests::profiles::HetznerCloud;
use ccm_tests::served_profile::ServedProfile;
use ccm_tests::wait::{until, until_every};
use embedded_apiserver::{ApiServer, Options, kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

const LIMIT: Duration = Duration::from_secs(120);
/// Interval at which readiness is polled.
const LOOK: Duration = Duration::from_millis(5);
/// There as soon as the cache of Nodes is full.
const OF_NODES: &str = "\nccm_node_uninitialized ";

pub(crate) struct World {
    served: ServedProfile,
    kubeconfig: PathBuf,
    directory: TempDir,
    secure: u16,
    plain: u16,
    started: std::cell::Cell<Option<Instant>>,
    _until: DropGuard,
}

impl World {
    /// Creates a harness with this number of machines, each with an initialised Node.
    pub(crate) async fn new(nodes: usize) -> Result<Self> {
        let directory = TempDir::with_prefix("ccm-process-")?;
        let cloud = HetznerCloud::default();
        let api = ApiServer::with_options(Options {
            taint_new_nodes: false,
            ..Options::default()
        });
        for number in 0..nodes {
            let name = format!("worker-{number}");
            let mut node = registration(&name, 25, true);
            node["spec"] =
                json!({"providerID": format!("hcloud://{}", cloud.fake.add_server(&name).id)});
            api.seed(node).map_err(|error| anyhow::anyhow!("{error}"))?;
        }
        let served = ServedProfile::start(Box::new(cloud), directory.path()).await?;
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let kubeconfig_path = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig_path, kubeconfig(&url, None, None))?;
        let token = stop.clone();
        tokio::spawn(async move { api.serve_tcp(listener, token).await });
        let started = std::cell::Cell::new(None);
        let secure = free_port()?;
        let plain = free_port()?;
        Ok(Self {
            served,
            kubeconfig: kubeconfig_path,
            directory,
            secure,
            plain,
            started,
            _until: stop.drop_guard(),
        })
    }

    pub(crate) fn start(&self, binary: &Path) -> Result<Controller> {
        let kubeconfig = self.kubeconfig.display();
        let own = [
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--cluster-cidr=10.244.0.0/16".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.secure),
            format!("--metrics-bind-address=127.0.0.1:{}", self.plain),
        ];
        self.started.set(Some(Instant::now()));
        let flags = self.served.flags().into_iter().chain(own).map(Into::into);
        Controller::start_with(
            binary,
            flags,
            self.served.environment(),
            &self.directory.path().join("log"),
        )
    }

    /// Waits until the process leads, its controllers run and `/readyz` reports so; returns the time that this took.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.secure).parse()?);
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        until_every(LOOK, "it is ready", LIMIT, async || {
            let text = client
                .request_text(http::Request::get("/readyz?verbose").body(Vec::new())?)
                .await?;
            ensure!(
                text.contains("service-lb-controller ok"),
                "its controllers do not run yet"
            );
            Ok(())
        })
        .await?;
        Ok(self.started.get().context("it was not started")?.elapsed())
    }

    /// Waits until it knows its Nodes.
    pub(crate) async fn counts_nodes(&self) -> Result<()> {
        until("its metrics tell of Nodes", LIMIT, async || {
            ensure!(self.metrics().await?.contains(OF_NODES), "not yet");
            Ok(())
        })
        .await
    }

    /// Reads the metrics; how long that took, and how many bytes they are.
    pub(crate) async fn scrape(&self) -> Result<(Duration, usize)> {
        let start = Instant::now();
        let text = self.metrics().await?;
        Ok((start.elapsed(), text.len()))
    }

    async fn metrics(&self) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.plain)).await?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        ensure!(
            text.starts_with("HTTP/1.1 200"),
            "{}",
            text.lines().next().unwrap_or_default()
        );
        Ok(text)
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}
