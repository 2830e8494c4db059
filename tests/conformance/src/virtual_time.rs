//! Virtual time across several runs of a process.
//!
//! A run is a tokio runtime of one thread with a paused clock. When it ends, all its tasks are dropped at once, as by
//! `kill -9`; only what lies outside of the runtime survives: the Kubernetes API and the cloud. The clock of the next
//! run continues at the end of the last one, so that their stored times stay valid.

use std::time::Duration;

use tokio::time::Instant;

/// Far enough ahead of real time that the first virtual moment never depends on how fast the machine is.
const HEAD_START: Duration = Duration::from_secs(24 * 3600);

/// Virtual clock across the runs.
#[derive(Debug, Default)]
pub struct VirtualTime {
    beginning: Option<Instant>,
    elapsed: Duration,
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
        runtime.block_on(async {
            let beginning = *self
                .beginning
                .get_or_insert_with(|| Instant::now() + HEAD_START);
            // Whole milliseconds, as timers have; otherwise each life would round differently.
            let ahead = (beginning + self.elapsed)
                .saturating_duration_since(Instant::now())
                .as_micros()
                .div_ceil(1000);
            tokio::time::advance(Duration::from_millis(
                u64::try_from(ahead).unwrap_or(u64::MAX),
            ))
            .await;
            let begun = Instant::now();
            let outcome = life().await;
            self.elapsed += Duration::from_millis(
                u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            );
            outcome
        })
    }

    /// Returns the time of all runs so far, in whole milliseconds.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
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
        assert!(
            receiver.recv().is_err(),
            "the task and what it held are gone"
        );
    }
}
