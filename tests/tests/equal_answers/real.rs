//! The real kube-apiserver: how to reach it, and how to bring it into the state that scenarios need.

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::time::{Duration, Instant};

/// Returns a client for the kubeconfig's current context that repeats nothing by itself.
pub(crate) async fn client(kubeconfig: &str) -> Result<Client> {
    let file =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {kubeconfig}"))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Returns `true` if the storage (events have no watch cache) and the watch caches have compacted revision 1.
pub(crate) async fn is_compacted(client: &Client) -> Result<bool> {
    for resource in ["events", "nodes"] {
        let path = format!("/api/v1/{resource}?watch=true&resourceVersion=1&timeoutSeconds=1");
        let request = http::Request::get(path).body(Vec::new())?;
        let text = client
            .request_text(request)
            .await
            .context("asking how far back the server remembers")?;
        if !text.contains("\"code\":410") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compacts the history and restarts the server with the test bed's `fault.sh`, then waits until it is ready.
pub(crate) async fn compact(client: &Client, script: &str) -> Result<()> {
    for argument in ["compact", "restart"] {
        let status = std::process::Command::new(script)
            .arg(argument)
            .stdout(std::process::Stdio::null())
            .status()
            .with_context(|| format!("running {script} {argument}"))?;
        ensure!(status.success(), "{script} {argument}: {status}");
    }
    let start = Instant::now();
    loop {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        match client.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(60) => {
                return Err(error).context("the server was not ready a minute after its restart");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
