//! A container as a process, between an embedded API server and a cloud that does not answer.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ccm_tests::wait::until;
use embedded_apiserver::ApiServer;
use parking_lot::Mutex;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::files::{Content, Generated};
use crate::image::Image;
use crate::manifest::Manifest;

/// Time for a process to serve its health.
const LIMIT: Duration = Duration::from_secs(90);
/// Address where nothing listens: the proxy to every cloud, and the services of machines.
const NOWHERE: &str = "http://127.0.0.1:1";
/// Variables with the addresses of the services that clouds offer to their machines.
const MACHINE_SERVICES: [&str; 4] = [
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "GCE_METADATA_HOST",
    "METADATA_ENDPOINT",
    "OCI_METADATA_BASE_URL",
];

/// A container of a manifest that runs as a process.
pub(crate) struct Harness {
    process: Mutex<std::process::Child>,
    /// URL of the health that the manifest probes.
    probe: String,
    /// If set, the manifest has a probe, which must succeed. Otherwise any answer shows that the port is served.
    is_probed: bool,
    /// Mounted files, and the log.
    mounts: TempDir,
    /// Reserves the ports: a bound socket that does not listen does not conflict with the program.
    _ports: [TcpSocket; 2],
    _until: DropGuard,
}

impl Harness {
    /// Starts the container of a manifest. Mounted files lie in a temporary directory, to which their paths are rewritten;
    /// the ports are free ones; the API server is reached by a kubeconfig, because there is no Pod.
    pub(crate) async fn new(image: &Image, manifest: &Manifest) -> Result<Self> {
        let stop = CancellationToken::new();
        let mounts = tempfile::tempdir()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let api_server = format!("http://{}", listener.local_addr()?);
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let generated = Generated {
            api_server,
            certificate: (cert.pem(), signing_key.serialize_pem()),
        };
        let api = api_server_with_secrets(&generated)?;
        let token = stop.clone();
        tokio::spawn(async move { api.serve_tcp(listener, token).await });

        let mounted = |path: &str| mounts.path().join(path.trim_start_matches('/'));
        for (path, content) in &manifest.files {
            let file = mounted(path);
            std::fs::create_dir_all(file.parent().context("a directory")?)?;
            std::fs::write(&file, content.text(&generated))?;
        }
        let rewritten = |text: &str| {
            let text = text.replace("$(API_SERVER)", &generated.api_server);
            let path = manifest
                .files
                .keys()
                .find(|path| text.ends_with(path.as_str()));
            path.map_or(text.clone(), |path| {
                text.replace(path.as_str(), &mounted(path).display().to_string())
            })
        };

        let secure = reserved()?;
        let health = reserved()?;
        let words = manifest.words();
        let called = words.first().context("a command")?;
        let executable = image
            .resolve(called)
            .with_context(|| format!("the image has no {called}"))?;
        let mut command = Command::new(executable);
        command
            .arg0(called)
            .args(words.iter().skip(1).map(|word| rewritten(word)))
            .env_clear();
        command.args(overrides(
            manifest, &generated, &mounts, secure.1, health.1,
        )?);
        command
            .env("PATH", image.search_path())
            .env("CCM_CLOUD_PROVIDER", &manifest.image_provider);
        command.envs(MACHINE_SERVICES.map(|name| (name, NOWHERE)));
        // A droplet's metadata service has no variable.
        command.env("REGION", "fra1");
        command
            .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, NOWHERE)))
            .env("NO_PROXY", "127.0.0.1,localhost");
        command.envs(
            manifest
                .env
                .iter()
                .map(|(name, value)| (name, rewritten(value))),
        );
        let log = std::fs::File::create(mounts.path().join("log"))?;
        let process = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;

        let is_plain = manifest
            .probe
            .as_ref()
            .is_some_and(|probe| probe.scheme == "HTTP");
        let port = if manifest.configuration().health_listener.is_some() {
            health.1
        } else {
            secure.1
        };
        let probe = format!(
            "{}://127.0.0.1:{port}/healthz",
            if is_plain { "http" } else { "https" }
        );
        let process = Mutex::new(process);
        let is_probed = manifest.probe.is_some();
        Ok(Self {
            process,
            probe,
            is_probed,
            mounts,
            _ports: [secure.0, health.0],
            _until: stop.drop_guard(),
        })
    }

    /// Waits until the probe succeeds.
    ///
    /// # Errors
    /// The end of the process or the last answer, with the end of the log.
    pub(crate) async fn until_healthy(&self) -> Result<()> {
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .no_proxy()
            .build()?;
        let healthy = until("the health of the container", LIMIT, async || {
            if self.process.lock().try_wait()?.is_some() {
                return Ok(false);
            }
            let answer = client.get(&self.probe).send().await?;
            ensure!(
                answer.status() == 200 || !self.is_probed,
                "the probe got {}",
                answer.status()
            );
            Ok(true)
        });
        let log = self.mounts.path().join("log");
        let is_running = healthy.await.with_context(|| end_of(&log))?;
        ensure!(is_running, "the process ended: {}", end_of(&log));
        Ok(())
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let mut process = self.process.lock();
        // The process may have ended already.
        _ = process.kill();
        _ = process.wait();
    }
}

/// Returns an API server with the Secret that a manifest of Azure names instead of a file.
fn api_server_with_secrets(generated: &Generated) -> Result<ApiServer> {
    let api = ApiServer::new();
    let configuration = STANDARD.encode(Content::Azure.text(generated));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "azure-cloud-provider", "namespace": "kube-system"},
        "data": {"cloud-config": configuration},
    });
    api.seed(secret)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(api)
}

/// Returns the flags that lead to this harness: the API server, and free ports instead of those of the manifest.
fn overrides(
    manifest: &Manifest,
    generated: &Generated,
    mounts: &TempDir,
    secure: u16,
    health: u16,
) -> Result<Vec<String>> {
    let kubeconfig = mounts.path().join("kubeconfig-of-the-harness");
    std::fs::write(
        &kubeconfig,
        embedded_apiserver::kubeconfig(&generated.api_server, None, None),
    )?;
    let kubeconfig = kubeconfig.display();
    let mut flags = vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={secure}"),
    ];
    if manifest.configuration().health_listener.is_some() {
        flags.push(format!("--health-bind-address=127.0.0.1:{health}"));
    }
    Ok(flags)
}

/// Returns a bound socket that does not listen, and its port.
fn reserved() -> Result<(TcpSocket, u16)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

/// Returns the last lines of the log.
fn end_of(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(8).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
