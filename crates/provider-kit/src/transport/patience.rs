//! Time-outs and retries.

use std::time::Duration;

/// How patient a [`Transport`](super::Transport) is.
///
/// ```
/// use std::time::Duration;
/// use provider_kit::transport::{Jitter, Patience};
///
/// // Five retries, after up to 1, 2, 4, 8 and 16 seconds.
/// let patience = Patience {
///     timeout: Duration::from_secs(15),
///     tries: 6,
///     total: Duration::from_secs(120),
///     backoff: Duration::from_secs(1),
///     longest_backoff: Duration::from_secs(60),
///     jitter: Jitter::Full,
///     ..Patience::default()
/// };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For one try, the body included.
    pub timeout: Duration,
    /// Tries in all, the first included.
    pub tries: u32,
    /// For one call with all its tries and pauses. What would take longer fails at once.
    pub total: Duration,
    /// Before the second try; doubled for each further one, and jittered.
    pub backoff: Duration,
    /// The longest time between two tries, unless the cloud asks for a longer one.
    pub longest_backoff: Duration,
    /// How times between tries are spread.
    pub jitter: Jitter,
    /// The longest pause, or turn in the [budget](super::Budget), that a call sits out itself; a longer one is the caller's
    /// to schedule.
    pub longest_pause: Duration,
}

/// How times between tries are spread, so that those who failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Between half of the time and all of it.
    Half,
    /// Between nothing and all of it.
    Full,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            tries: 4,
            total: Duration::from_secs(60),
            backoff: Duration::from_millis(250),
            longest_backoff: Duration::from_secs(10),
            jitter: Jitter::Half,
            longest_pause: Duration::from_secs(10),
        }
    }
}

impl Patience {
    /// Returns the patience of one try that takes at most so long.
    pub(super) fn once(self, longest: Duration) -> Self {
        Self {
            timeout: self.timeout.min(longest),
            total: self.total.min(longest),
            longest_pause: self.longest_pause.min(longest),
            tries: 1,
            ..self
        }
    }

    /// Before the try that follows the one of this number, counted from 1. `dice`: 0 to 1.
    pub(super) fn backoff(&self, attempt: u32, dice: f64) -> Duration {
        let whole = self.backoff.saturating_mul(2_u32.saturating_pow(attempt - 1)).min(self.longest_backoff);
        whole.mul_f64(match self.jitter {
            Jitter::Half => 0.5 + dice / 2.0,
            Jitter::Full => dice,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_tries_double_up_to_a_limit_and_are_spread() {
        let patience = Patience {
            backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            jitter: Jitter::Full,
            ..Patience::default()
        };
        let times = [1, 2, 3, 6, 7, 40].map(|attempt| patience.backoff(attempt, 1.0).as_secs());
        assert_eq!(times, [1, 2, 4, 32, 60, 60]);
        assert_eq!(patience.backoff(3, 0.0), Duration::ZERO);
        assert_eq!(Patience { jitter: Jitter::Half, ..patience }.backoff(3, 0.0), Duration::from_secs(2));
    }
}
