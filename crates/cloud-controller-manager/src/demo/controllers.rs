//! The cloud controller manager of the demo: as the program, and it can be killed.

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

/// The pauses of the lifecycle and the route controller: less than a tenth of the defaults, so that nobody waits. All
/// other settings are the product's; the five minutes for which a landslide is held, too.
const PERIODS: [&str; 2] = ["--node-monitor-period=400ms", "--route-reconciliation-period=400ms"];
/// Worker threads: few, as the program has.
const THREADS: usize = 2;
/// A killed task ends at its next await: long before this.
const END: Duration = Duration::from_secs(60);

/// Running controllers. They have a tokio runtime of their own, so that they can be killed as a process can: every task
/// and connection is dropped where it is.
pub(super) struct Controllers {
    runtime: Option<Runtime>,
    handles: Handles,
}

impl Controllers {
    /// Starts them as the program does.
    ///
    /// # Errors
    /// What the program would say.
    pub(super) async fn start(kubeconfig: &Path, cloud_config: &Path, shutdown: CancellationToken) -> Result<Self> {
        let flags = match Flags::parse(arguments(kubeconfig, cloud_config)) {
            Parsed::Flags(flags) => *flags,
            Parsed::Say(text) | Parsed::Wrong(text) => bail!("the controllers' flags: {text}"),
        };
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let launched = runtime.spawn(async move { launch(&flags, &crate::providers(), shutdown).await }).await;
        match launched.map_err(anyhow::Error::from).flatten() {
            Ok(handles) => Ok(Self { runtime: Some(runtime), handles }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// What they know of Nodes.
    pub(super) fn nodes(&self) -> &Cache<Node> {
        self.handles.nodes()
    }

    /// Ends them as SIGKILL does; returns when nothing of them runs any more.
    ///
    /// # Errors
    /// If the thread that waits for it panics.
    pub(super) async fn kill(mut self) -> Result<()> {
        if let Some(runtime) = self.runtime.take() {
            tokio::task::spawn_blocking(move || runtime.shutdown_timeout(END)).await?;
        }
        Ok(())
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        // A runtime must not be waited for in another one.
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
