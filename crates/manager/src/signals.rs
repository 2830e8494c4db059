//! The signals that end the process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::logging;

/// Cancels `stop` on SIGTERM or SIGINT; a second signal ends the process at once with exit code 1 (APP-162).
pub(crate) fn stop_on_signal(stop: CancellationToken, log: logging::Handle) {
    tokio::spawn(async move {
        let (Ok(mut term), Ok(mut interrupt)) = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        ) else {
            tracing::error!("signals cannot be received; stop the process with SIGKILL");
            return;
        };
        for first in [true, false] {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !first {
                let failure = Failure::SecondSignal;
                tracing::error!("{failure}");
                log.flush();
                std::process::exit(failure.code().into());
            }
            tracing::info!("stopping: work in progress is finished, then the lease is released");
            stop.cancel();
        }
    });
}
