//! The cluster that the API server belongs to.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cloud_provider::Cluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use runtime::api_error::{api_error, is_answer, is_forbidden, is_not_found};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum time to wait for the API server at the start (D-15).
pub(crate) const API_SERVER_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between attempts to reach the API server.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Returns the cluster: `name` (`--cluster-name`) and the UID of namespace `kube-system` (D-11). Waits up to `timeout`
/// for the API server (D-15); zero makes one attempt.
///
/// # Errors
/// If the API server does not answer in time, or refuses to show the namespace with an error that may be temporary.
pub(crate) async fn read_cluster(
    name: &str,
    client: &kube::Client,
    timeout: Duration,
    shutdown: &CancellationToken,
) -> Result<Cluster> {
    let named = |id| Cluster {
        name: name.to_owned(),
        id,
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let deadline = Instant::now() + timeout;
    loop {
        let error = match namespaces.get("kube-system").await {
            Ok(namespace) => return Ok(named(namespace.metadata.uid)),
            Err(error) => error,
        };
        // Any other error may be temporary, because a starting API server or a proxy in front of it returns many kinds.
        if is_forbidden(&error) || is_not_found(&error) {
            tracing::warn!(
                error = %api_error(&error), name,
                "namespace kube-system cannot be read, so only --cluster-name identifies this cluster, and the \
                 resources of another cluster of that name in the same account count as its own: allow this identity \
                 to get the namespace, or give each cluster a different --cluster-name"
            );
            return Ok(named(None));
        }
        if Instant::now() >= deadline {
            let within = if timeout.is_zero() {
                String::new()
            } else {
                format!(" within {} s", timeout.as_secs())
            };
            let problem = if is_answer(&error) {
                format!(
                    "namespace kube-system, whose UID tells clusters apart, could not be read{within}; check the \
                     permissions of this process, and any proxy between it and the API server"
                )
            } else {
                format!(
                    "the Kubernetes API server gave no answer{within}; check its address, the network and the DNS"
                )
            };
            return Err(error).context(problem);
        }
        tracing::warn!(error = %api_error(&error), "waiting for the Kubernetes API server");
        tokio::select! {
            () = shutdown.cancelled() => bail!("stopped while waiting for the Kubernetes API server"),
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }
}
