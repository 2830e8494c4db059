//! One virtual time over several lives of a process.
//!
//! A life is a tokio runtime of one thread with a paused clock. When it ends, all its tasks are dropped wherever they
//! stand, as by `kill -9`; what survives is what is not in it: the Kubernetes API and the cloud. The next life's clock
//! goes on where the last one stood, so that what they remember of time stays true.

use std::time::Duration;

use tokio::time::Instant;

/// Far enough ahead of real time that the first virtual moment never depends on how fast the machine is.
const HEAD_START: Duration = Duration::from_secs(24 * 3600);

/// The virtual time.
#[derive(Debug, Default)]
pub struct VirtualTime {
    now: Option<Instant>,
}

impl VirtualTime {
    /// Runs one life to the end of `life`; then everything that it spawned is dropped.
    ///
    /// # Panics
    /// If there is no runtime to be had.
    pub fn live<T>(&mut self, life: impl AsyncFnOnce() -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O");
        let (outcome, now) = runtime.block_on(async {
            let start = self.now.unwrap_or_else(|| Instant::now() + HEAD_START);
            // Whole milliseconds, as timers have; otherwise each life would round differently.
            let ahead = start.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            tokio::time::advance(Duration::from_millis(u64::try_from(ahead).unwrap_or(u64::MAX))).await;
            let outcome = life().await;
            (outcome, Instant::now())
        });
        self.now = Some(now);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_life_goes_on_where_the_last_one_stood() {
        let mut time = VirtualTime::default();
        let first = time.live(async || {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Instant::now()
        });
        let second = time.live(async || Instant::now());
        assert!(second >= first && second - first < Duration::from_millis(2));
    }

    #[test]
    fn what_a_life_spawned_ends_with_it() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        VirtualTime::default().live(async || {
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(sender);
            });
            tokio::task::yield_now().await;
        });
        assert!(receiver.recv().is_err(), "the task and what it held are gone");
    }
}
