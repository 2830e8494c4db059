//! Finds work that hangs (P-35): the pulse of a controller as a health check.

use std::time::Duration;

use runtime::pulse::{Oldest, Pulse};

use crate::health::Check;

/// Fails as a check while a piece of work has been running for longer than its limit. Idle is well.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::{sync::Arc, time::Duration};
/// use runtime::pulse::Pulse;
/// use serving::{health::{Check, Health}, watchdog::Watchdog};
///
/// let (health, pulse) = (Health::new(), Pulse::default());
/// let watchdog = Watchdog::new("node-controller", pulse.clone(), Duration::from_secs(900));
/// assert!(watchdog.check().is_ok());
/// health.add("node-controller", Arc::new(watchdog));
/// // The controller is given `pulse`, and says when it begins and ends.
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Watchdog {
    name: String,
    pulse: Pulse,
    limit: Duration,
}

impl Watchdog {
    /// Watches the work that `pulse` hears of; none of its pieces may take longer than `limit`.
    #[must_use]
    pub fn new(name: impl Into<String>, pulse: Pulse, limit: Duration) -> Self {
        Self { name: name.into(), pulse, limit }
    }
}

impl Check for Watchdog {
    fn check(&self) -> Result<(), String> {
        verdict(self.pulse.oldest(), self.limit).map_err(|problem| format!("{}: {problem}", self.name))
    }
}

/// What is to be said of the oldest piece of work.
fn verdict(oldest: Option<Oldest>, limit: Duration) -> Result<(), String> {
    match oldest {
        Some(Oldest { what, age }) if age > limit => Err(format!(
            "{what:?} has been at one piece of work for {} s; more than {} s means that it hangs",
            age.as_secs(),
            limit.as_secs()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use runtime::limiter::RateLimiter;
    use runtime::queue::{NoMetrics, Queue};
    use runtime::workers::run_workers;
    use tokio_util::sync::CancellationToken;

    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn only_work_beyond_the_limit_is_red() {
        let oldest = |age| Some(Oldest { what: "pass", age: s(age) });
        assert_eq!(verdict(None, s(5)), Ok(()), "idle");
        assert_eq!(verdict(oldest(5), s(5)), Ok(()), "not yet");
        let said = "\"pass\" has been at one piece of work for 6 s; more than 5 s means that it hangs";
        assert_eq!(verdict(oldest(6), s(5)), Err(said.to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wedged_worker_turns_the_check_red_and_its_end_green_again() {
        let (pulse, shutdown) = (Pulse::default(), CancellationToken::new());
        let watchdog = Watchdog::new("service-controller", pulse.clone(), s(60));
        let queue: Queue<u8> = Queue::new("service", RateLimiter::standard(), Arc::new(NoMetrics));
        for key in 0..3 {
            queue.add(key);
        }
        let (wedge, stop) = (CancellationToken::new(), shutdown.clone());
        let (work, free) = (queue.clone(), wedge.clone());
        let task = tokio::spawn(async move {
            run_workers(&work, 2, stop, move |claim| {
                let (free, pulse) = (free.clone(), pulse.clone());
                async move {
                    let _busy = pulse.begin("service");
                    if *claim.key() == 1 {
                        free.cancelled().await;
                    }
                    claim.succeed();
                }
            })
            .await;
        });
        tokio::time::sleep(s(60)).await;
        assert_eq!(watchdog.check(), Ok(()), "within the limit");
        tokio::time::sleep(s(30)).await;
        let said = watchdog.check().unwrap_err();
        assert!(said.starts_with("service-controller: \"service\" has been at one piece of work for 90 s"), "{said}");
        wedge.cancel();
        tokio::time::sleep(s(1)).await;
        assert_eq!(watchdog.check(), Ok(()));
        shutdown.cancel();
        task.await.unwrap();
    }
}
