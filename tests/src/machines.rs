//! The simulated cloud on a port of its own, and the file that leads the binary to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::middleware::from_fn_with_state;
use axum::serve::ListenerExt as _;
use provider_simulated::cloud::{Cloud, DEFAULT_PROJECT, DEFAULT_TOKEN, Options};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::door::{self, Door};

/// A simulated cloud that is served until it is dropped.
pub struct ServedCloud {
    /// The cloud: its machines, faults and counters.
    pub cloud: Cloud,
    /// The way to it.
    pub door: Door,
    config: PathBuf,
    _until: DropGuard,
}

impl ServedCloud {
    /// Serves an empty cloud on a free port and writes its configuration file into `directory`.
    ///
    /// # Errors
    /// No port, or no file.
    pub async fn start(directory: &Path) -> Result<Self> {
        let cloud = Cloud::new(Options::default());
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("a port for the simulated cloud")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let config = directory.join("cloud.yaml");
        let text =
            format!("endpoint: {endpoint}\ntoken: {DEFAULT_TOKEN}\nproject: {DEFAULT_PROJECT}\n");
        std::fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
        let shutdown = CancellationToken::new();
        let door = Door::default();
        let until = shutdown.clone().drop_guard();
        let router = cloud
            .router()
            .layer(from_fn_with_state(door.clone(), door::pass));
        // Without it a small answer may wait for an acknowledgement; it still arrives.
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        tokio::spawn(async move {
            // The server ends with the test; its last error is irrelevant.
            tokio::select! {
                _ = axum::serve(listener, router).into_future() => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(Self {
            cloud,
            door,
            config,
            _until: until,
        })
    }

    /// Returns the file for `--cloud-config`.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the number of requests to the API so far, without those of the controls for tests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cloud.requests().values().sum()
    }

    /// Returns the requests so far that asked for a change, by method and route.
    #[must_use]
    pub fn changes(&self) -> BTreeMap<String, u64> {
        self.cloud
            .requests()
            .into_iter()
            .filter(|(route, _)| !route.starts_with("GET "))
            .collect()
    }
}
