//! What is under way when the process stops.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// It may take that long to end well. What it leaves behind is found again.
const GRACE: Duration = Duration::from_secs(5);

/// The output of `work`; `None` if it did not end within seconds of the shutdown, and was given up.
pub(crate) async fn within_grace<T>(shutdown: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    let out_of_time = async {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        output = work => Some(output),
        () = out_of_time => None,
    }
}
