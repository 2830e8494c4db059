//! Wall-clock time that can be set.
//!
//! Use a [`Clock`] only for timestamps that are shown or stored (events, conditions, leases). Measure durations with
//! [`tokio::time::Instant`], which tests can pause and advance.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

/// The time of day.
///
/// ```
/// use runtime::clock::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new("2026-01-01T00:00:00Z".parse()?);
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
/// # Ok::<(), jiff::Error>(())
/// ```
pub trait Clock: Send + Sync {
    /// Returns the current time in UTC.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until a test sets it. Clones show the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<Mutex<Timestamp>>,
}

impl ManualClock {
    /// Creates a clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            now: Arc::new(Mutex::new(start)),
        }
    }

    /// Sets the clock, forwards or backwards.
    pub fn set(&self, to: Timestamp) {
        *self.now.lock() = to;
    }

    /// Moves the clock forwards; it stops at the end of time.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock();
        *now = now.checked_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Default for ManualClock {
    /// Starts at the beginning of 1970.
    fn default() -> Self {
        Self::new(Timestamp::UNIX_EPOCH)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock()
    }
}
