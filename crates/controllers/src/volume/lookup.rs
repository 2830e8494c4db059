//! Calls to the provider about a volume, guarded so that no failure of the provider stops a controller.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use cloud_provider::{CloudProvider, Error, PersistentVolume, Result};
use futures::FutureExt;

/// Returns the provider's answer, or an error if the provider panics or takes longer than `limit`. A provider that does
/// not implement this call has no volumes.
pub(super) async fn look_up(
    provider: &dyn CloudProvider,
    volume: &PersistentVolume,
    limit: Duration,
) -> Result<Option<BTreeMap<String, String>>> {
    let Some(volumes) = provider.volumes() else {
        return Ok(None);
    };
    let answer = AssertUnwindSafe(async { volumes.labels(volume).await }).catch_unwind();
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(Err(error))) if error.is_not_implemented() => Ok(None),
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Error::other(format!(
            "cloud provider {} panicked",
            provider.name()
        ))),
        Err(_) => Err(Error::other(format!(
            "cloud provider {} gave no answer within {} s",
            provider.name(),
            limit.as_secs()
        ))),
    }
}
