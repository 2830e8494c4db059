//! Nodes whose missing provider ID was reported (P-8).

use std::collections::HashSet;

use parking_lot::Mutex;

/// The UIDs of Nodes that have neither a provider ID nor the start-up taint, and of which an event was recorded.
#[derive(Default)]
pub(super) struct Unidentified(Mutex<HashSet<Box<str>>>);

impl Unidentified {
    /// Records whether the provider ID of a Node is missing. Returns `true` if that is new.
    pub(super) fn record(&self, uid: &str, is_missing: bool) -> bool {
        match is_missing {
            true => self.0.lock().insert(uid.into()),
            false => {
                self.forget(uid);
                false
            }
        }
    }

    /// Forgets a Node that was deleted or has a provider ID now.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
