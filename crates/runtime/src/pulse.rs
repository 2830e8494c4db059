//! Liveness of work: detects work that began and does not end. Controllers carry a [`Pulse`] and report each pass and
//! each key to it; the process's health check reads [`Pulse::oldest`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Work that is in progress in one controller, with its start times. An idle controller is healthy; work that never
/// ends is a defect, mostly of a cloud's client, which would otherwise go unnoticed. Clones are handles to the same
/// pulse.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use runtime::pulse::Pulse;
///
/// let pulse = Pulse::default();
/// assert!(pulse.oldest().is_none(), "idle");
/// let pass = pulse.begin("pass");
/// assert_eq!(pulse.oldest().map(|busy| busy.what), Some("pass"));
/// drop(pass);
/// assert!(pulse.oldest().is_none());
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    state: Arc<Mutex<PulseState>>,
}

#[derive(Debug, Default)]
struct PulseState {
    begun: u64,
    /// Work in progress, in the order in which it began.
    busy: BTreeMap<u64, (&'static str, Instant)>,
    gave_up: bool,
}

/// The oldest work in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Name of the queue or pass.
    pub what: &'static str,
    /// Time since the work began.
    pub age: Duration,
}

/// Guard of work in progress. The work counts as ended when the guard is dropped, also by a panic or a cancellation.
#[derive(Debug)]
#[must_use]
pub struct Busy {
    number: u64,
    pulse: Pulse,
}

impl Pulse {
    /// Registers work as begun, until the returned guard is dropped.
    pub fn begin(&self, what: &'static str) -> Busy {
        let mut state = self.lock();
        state.begun += 1;
        let number = state.begun;
        state.busy.insert(number, (what, Instant::now()));
        drop(state);
        Busy {
            number,
            pulse: self.clone(),
        }
    }

    /// Returns the oldest work in progress; `None` while idle.
    #[must_use]
    pub fn oldest(&self) -> Option<Oldest> {
        self.lock()
            .busy
            .values()
            .next()
            .map(|(what, since)| Oldest {
                what,
                age: since.elapsed(),
            })
    }

    /// Records that a change was cancelled before it ended, because the process stops. The cloud may still carry it
    /// out.
    pub fn give_up(&self) {
        self.lock().gave_up = true;
    }

    /// Returns `true` if [`give_up`](Self::give_up) was called.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.lock().gave_up
    }

    fn lock(&self) -> MutexGuard<'_, PulseState> {
        self.state.lock()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.pulse.lock().busy.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_age_is_that_of_what_began_first_and_has_not_ended() {
        let pulse = Pulse::default();
        let first = pulse.begin("first");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let second = pulse.begin("second");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(
            pulse.oldest(),
            Some(Oldest {
                what: "first",
                age: Duration::from_secs(7)
            })
        );
        drop(first);
        assert_eq!(
            pulse.oldest(),
            Some(Oldest {
                what: "second",
                age: Duration::from_secs(2)
            })
        );
        drop(second);
        assert_eq!(pulse.oldest(), None);
    }
}
