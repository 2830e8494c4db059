//! The health checks of the running controllers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::names::ControllerNames;
use runtime::pulse::Pulse;
use serving::health::Check;
use tokio_util::sync::CancellationToken;

/// A controller whose loop runs.
#[derive(Clone, Debug)]
pub(crate) struct RunningController {
    pub(crate) names: ControllerNames,
    /// Progress of the controller's work.
    pub(crate) pulse: Pulse,
    /// If set, the controller's loop has ended.
    pub(crate) has_ended: Arc<AtomicBool>,
    /// Token of the shutdown, after which the loop may end.
    pub(crate) shutdown: CancellationToken,
}

/// Returns the controllers that work on an object, with the kind and the age of the oldest work.
pub(super) fn busy_controllers(running: &[RunningController]) -> String {
    let busy = running
        .iter()
        .filter_map(|one| Some((one.names.canonical, one.pulse.oldest()?)));
    let texts: Vec<_> = busy
        .map(|(name, oldest)| format!("{name} ({}, {:.1?})", oldest.what, oldest.age))
        .collect();
    if texts.is_empty() {
        "no known work".to_owned()
    } else {
        texts.join(", ")
    }
}

/// The health check of a controller: fails if the controller makes no progress (P-35). An idle controller is healthy.
pub(crate) struct Liveness {
    pub(crate) controller: RunningController,
    /// Time after which work on one object fails the check.
    pub(crate) wedged_after: Duration,
}

impl Check for Liveness {
    fn check(&self) -> Result<(), String> {
        if self.controller.has_ended.load(Ordering::Relaxed)
            && !self.controller.shutdown.is_cancelled()
        {
            return Err(
                "the controller's loop has ended, which is a defect; restart the process"
                    .to_owned(),
            );
        }
        match self
            .controller
            .pulse
            .oldest()
            .filter(|oldest| oldest.age > self.wedged_after)
        {
            None => Ok(()),
            Some(oldest) => Err(format!(
                "work of kind {:?} has run for {} s (at most {} s are expected): a call to the cloud probably hangs",
                oldest.what,
                oldest.age.as_secs(),
                self.wedged_after.as_secs()
            )),
        }
    }
}
