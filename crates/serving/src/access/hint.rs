//! A hint that is given once, not for each request that would need it (P-38).

use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers whether the hint was already given.
#[derive(Debug, Default)]
pub(super) struct Hint(AtomicBool);

impl Hint {
    /// Returns `true` the first time that something is missing; again only after it was present in between.
    pub(super) fn is_due(&self, missing: bool) -> bool {
        let before = self.0.swap(missing, Ordering::Relaxed);
        missing && !before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_given_once_until_it_was_heeded() {
        let hint = Hint::default();
        let due: Vec<_> = [false, true, true, false, true]
            .into_iter()
            .map(|missing| hint.is_due(missing))
            .collect();
        assert_eq!(due, [false, true, false, false, true]);
    }
}
