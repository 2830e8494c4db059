//! Grace period of work in progress when the process stops.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time that work in progress may take after the shutdown. The next run of the process continues unfinished work.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Returns the output of `work`; `None` if the work did not end within the grace period and was cancelled.
pub(crate) async fn within_grace<T>(
    shutdown: &CancellationToken,
    work: impl Future<Output = T>,
) -> Option<T> {
    let out_of_time = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE_PERIOD).await;
    };
    tokio::select! {
        biased;
        output = work => Some(output),
        () = out_of_time => None,
    }
}
