//! Services that wait until the cloud accepts the credential.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result};
use parking_lot::Mutex;

/// Keys of the Services whose last sync failed because the cloud refused the credential.
#[derive(Default)]
pub(super) struct Refused(Mutex<BTreeSet<String>>);

impl Refused {
    /// Records the result of a sync.
    pub(super) fn note(&self, key: &str, outcome: &Result<()>) {
        let is_refused = outcome
            .as_ref()
            .is_err_and(|error| error.chain().any(Error::is_unauthorized));
        let mut keys = self.0.lock();
        match is_refused {
            true => _ = keys.insert(key.to_owned()),
            false => _ = keys.remove(key),
        }
    }

    /// Removes and returns all keys.
    pub(super) fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refused_credential_is_waited_for() {
        let refused = Refused::default();
        let error = || Error::unauthorized("401").context("failed to ensure load balancer");
        for (key, outcome) in [
            ("a", Err(error())),
            ("b", Err(Error::quota("full"))),
            ("c", Err(error())),
            ("c", Ok(())),
        ] {
            refused.note(key, &outcome);
        }
        assert_eq!(refused.take(), BTreeSet::from(["a".to_owned()]));
        assert!(refused.take().is_empty());
    }
}
