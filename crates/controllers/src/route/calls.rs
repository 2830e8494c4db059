//! Calls to the cloud about routes, guarded so that no failure of the provider stops the controller (INV-6).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, Error, Result, Route, Routes};
use futures::FutureExt;
use runtime::pulse::Pulse;
use tokio_util::sync::CancellationToken;

use crate::grace::within_grace;

/// Timeout of a call. Providers have shorter timeouts for each of their requests, but some poll the operations that
/// they start.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// Lists all routes of the cluster.
pub(super) async fn list(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    shutdown: &CancellationToken,
) -> Result<Vec<Route>> {
    guarded(provider, shutdown, None, async {
        offered(provider)?.list(cluster).await
    })
    .await
}

/// Creates a route. A timeout is reported to `pulse`.
pub(super) async fn create(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    hint: &str,
    route: &Route,
    pulse: &Pulse,
    shutdown: &CancellationToken,
) -> Result<()> {
    let call = async { offered(provider)?.create(cluster, hint, route).await };
    guarded(provider, shutdown, Some(pulse), call).await
}

/// Deletes a route. A route that no longer exists counts as deleted. A timeout is reported to `pulse`.
pub(super) async fn delete(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    route: &Route,
    pulse: &Pulse,
    shutdown: &CancellationToken,
) -> Result<()> {
    let call = async { offered(provider)?.delete(cluster, route).await };
    match guarded(provider, shutdown, Some(pulse), call).await {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}

/// Returns the provider's routes, or an error. A provider must always return the same (PROV-19), but a violation must
/// not cause a panic.
fn offered(provider: &dyn CloudProvider) -> Result<&dyn Routes> {
    provider
        .routes()
        .ok_or_else(|| Error::other("cloud provider does not support routes"))
}

/// Returns the error for calls that are cancelled, or not begun, because the process stops.
pub(super) fn stopping() -> Error {
    Error::other("cancelled: the process is stopping")
}

async fn guarded<T>(
    provider: &dyn CloudProvider,
    shutdown: &CancellationToken,
    changes: Option<&Pulse>,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let answer = tokio::time::timeout(DEADLINE, AssertUnwindSafe(call).catch_unwind());
    let Some(answer) = within_grace(shutdown, answer).await else {
        if let Some(pulse) = changes {
            pulse.give_up();
        }
        return Err(stopping());
    };
    match answer {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Error::other(format!(
            "cloud provider {} panicked",
            provider.name()
        ))),
        Err(_) => {
            let seconds = DEADLINE.as_secs();
            Err(Error::other(format!(
                "cloud provider {} gave no answer within {seconds} s",
                provider.name()
            )))
        }
    }
}
