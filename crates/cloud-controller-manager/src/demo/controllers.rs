//! The cloud controller manager of the demo, started like the program and able to be killed.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use cloud_provider::Node;
use manager::flags::{Flags, Parsed};
use manager::{Handles, launch};
use provider_simulated::provider::NAME;
use runtime::cache::Cache;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::pod_ranges::CLUSTER_CIDR;

/// Flags that shorten the intervals of the lifecycle and the route controller to less than a tenth of the defaults. All
/// other settings are the defaults, including the five minutes for which a mass deletion is held.
const PERIODS: [&str; 2] = [
    "--node-monitor-period=400ms",
    "--route-reconciliation-period=400ms",
];
/// Number of worker threads, as few as in the program.
const THREADS: usize = 2;
/// Timeout for killing the controllers. A killed task ends at its next await, long before this.
const END: Duration = Duration::from_secs(60);

/// The running controllers. They have a tokio runtime of their own, so that they can be killed like a process: every
/// task and connection is dropped where it is.
pub(super) struct Controllers {
    runtime: Option<Runtime>,
    handles: Handles,
}

impl Controllers {
    /// Starts the controllers like the program does.
    ///
    /// # Errors
    /// The program's error message.
    pub(super) async fn start(
        kubeconfig: &Path,
        cloud_config: &Path,
        shutdown: CancellationToken,
    ) -> Result<Self> {
        let flags = match Flags::parse(arguments(kubeconfig, cloud_config)) {
            Parsed::Flags(flags) => *flags,
            Parsed::Say(text) | Parsed::Wrong(text) => bail!("the controllers' flags: {text}"),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()?;
        let launched = runtime
            .spawn(async move { launch(&flags, &crate::providers(), shutdown).await })
            .await;
        match launched.map_err(anyhow::Error::from).flatten() {
            Ok(handles) => Ok(Self {
                runtime: Some(runtime),
                handles,
            }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Returns the controllers' cache of Nodes.
    pub(super) fn nodes(&self) -> &Cache<Node> {
        self.handles.nodes()
    }

    /// Kills the controllers like SIGKILL does. Returns when all of their tasks have ended.
    ///
    /// # Errors
    /// If the thread that waits for the runtime panics.
    pub(super) async fn kill(mut self) -> Result<()> {
        if let Some(runtime) = self.runtime.take() {
            tokio::task::spawn_blocking(move || runtime.shutdown_timeout(END)).await?;
        }
        Ok(())
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        // Waiting for a runtime within another runtime would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn arguments(kubeconfig: &Path, cloud_config: &Path) -> Vec<OsString> {
    let flag = |name: &str, value: &Path| {
        let mut flag = OsString::from(name);
        flag.push(value);
        flag
    };
    let mut arguments = vec![
        OsString::from("cloud-controller-manager"),
        OsString::from(format!("--cloud-provider={NAME}")),
        flag("--cloud-config=", cloud_config),
        flag("--kubeconfig=", kubeconfig),
    ];
    arguments.push(OsString::from(format!("--cluster-cidr={CLUSTER_CIDR}")));
    arguments.extend(PERIODS.map(OsString::from));
    arguments
}
