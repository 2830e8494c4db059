//! Retries of Services (SVC-30, SVC-31).

use std::time::Duration;

use cloud_provider::Result;

/// Back-off of the queue: 5, 10, 20, 40, 80, 160, 300, 300 … seconds (SVC-30).
pub(super) const BASE: Duration = Duration::from_secs(5);
pub(super) const CAP: Duration = Duration::from_secs(300);

/// The retry of a key after its sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// The key is not retried, and its failures are forgotten.
    Never,
    /// The key is retried after this time, which the cloud asked for. Its failures are neither counted nor forgotten.
    After(Duration),
    /// The key is retried after its back-off.
    BackOff,
}

impl Retry {
    /// Returns the retry for a result. A retry time from the cloud is respected wherever it occurs in the error
    /// (SVC-31); the Go program respects it on two paths only.
    pub(super) fn of(result: &Result<()>) -> Self {
        match result {
            Ok(()) => Self::Never,
            // A retry time of zero would repeat the request without a pause.
            Err(error) => error
                .retry_after()
                .filter(|d| !d.is_zero())
                .map_or(Self::BackOff, Self::After),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::Error;

    #[test]
    fn a_cloud_that_says_when_is_heard_through_other_errors() {
        let later = Error::retry_in("still deleting", Duration::from_secs(9))
            .context("failed to delete load balancer");
        assert_eq!(Retry::of(&Err(later)), Retry::After(Duration::from_secs(9)));
        assert_eq!(
            Retry::of(&Err(Error::retry_in("now", Duration::ZERO))),
            Retry::BackOff
        );
        assert_eq!(Retry::of(&Err(Error::other("boom"))), Retry::BackOff);
        assert_eq!(Retry::of(&Ok(())), Retry::Never);
    }
}
