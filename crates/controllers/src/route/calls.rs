//! Calls to the cloud about routes, so that nothing that it does stops the controller (INV-6).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, Error, Result, Route, Routes};
use futures::FutureExt;
use runtime::pulse::Pulse;
use tokio_util::sync::CancellationToken;

use crate::grace::within_grace;

/// A call that takes longer is given up. Providers have shorter limits for each request of theirs, but some poll the
/// operations that they start.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// All routes of the cluster.
pub(super) async fn list(
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    shutdown: &CancellationToken,
) -> Result<Vec<Route>> {
    guarded(provider, shutdown, None, async { offered(provider)?.list(cluster).await }).await
}

/// Creates a route. `pulse` hears of it if that is given up.
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

/// Deletes a route. One that is gone already is deleted. `pulse` hears of it if that is given up.
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

/// The answer must always be the same (PROV-19); one that is not is no reason to panic.
fn offered(provider: &dyn CloudProvider) -> Result<&dyn Routes> {
    provider.routes().ok_or_else(|| Error::other("cloud provider does not support routes"))
}

/// The error of what was given up, or not begun, because the process stops.
pub(super) fn stopping() -> Error {
    Error::other("given up: the process is stopping")
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
        Ok(Err(_)) => Err(Error::other(format!("cloud provider {} panicked", provider.name()))),
        Err(_) => {
            let seconds = DEADLINE.as_secs();
            Err(Error::other(format!("cloud provider {} gave no answer within {seconds} s", provider.name())))
        }
    }
}
