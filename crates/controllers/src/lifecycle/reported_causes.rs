//! Explanations that were recorded on held Nodes: one per Node and cause (D-2).

use std::collections::{HashMap, HashSet};

use cloud_provider::{Error, Node};

/// Number of passes after which an unanswered look-up is reported. A refused credential is reported at once.
const UNANSWERED_PASSES: u32 = 3;

/// The reported causes and the number of unanswered look-ups, by Node UID.
#[derive(Debug, Default)]
pub(super) struct ReportedCauses {
    causes: HashMap<Box<str>, HashSet<&'static str>>,
    unanswered: HashMap<Box<str>, u32>,
}

impl ReportedCauses {
    /// Returns `true` if this cause is not reported yet for this Node, and records the report.
    pub(super) fn record_if_new(&mut self, node: &Node, cause: &'static str) -> bool {
        self.causes
            .entry(node.uid.clone())
            .or_default()
            .insert(cause)
    }

    /// Removes the record of a report that failed, so that the next pass reports the cause.
    pub(super) fn forget_report(&mut self, node: &Node, cause: &'static str) {
        if let Some(causes) = self.causes.get_mut(&node.uid) {
            causes.remove(cause);
        }
    }

    /// Counts a pass in which the cloud did not answer for this Node. Returns `true` if an event is due.
    pub(super) fn count_unanswered(&mut self, node: &Node, error: &Error) -> bool {
        let passes = self.unanswered.entry(node.uid.clone()).or_default();
        *passes += 1;
        *passes >= UNANSWERED_PASSES || error.chain().any(Error::is_unauthorized)
    }

    /// Keeps only the Nodes whose instance still seems not to exist, or that are still unanswered. Returns the UIDs of
    /// the others that were held until now.
    pub(super) fn retain(
        &mut self,
        suspects: &HashSet<&str>,
        unanswered: &HashSet<&str>,
    ) -> HashSet<Box<str>> {
        let is_held = |uid: &str| suspects.contains(uid) || unanswered.contains(uid);
        let released = self
            .causes
            .extract_if(|uid, _| !is_held(uid))
            .filter(|(_, causes)| !causes.is_empty());
        let released = released.map(|(uid, _)| uid).collect();
        self.unanswered.retain(|uid, _| unanswered.contains(&**uid));
        released
    }
}
