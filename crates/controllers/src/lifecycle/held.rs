//! What has been said of Nodes that are held back: once per Node and cause (D-2).

use std::collections::{HashMap, HashSet};

use cloud_provider::{Error, Node};

/// An unanswered question is said after this many passes, or at once if the credential is refused.
const PATIENCE: u32 = 3;

/// Remembers, by Node UID, what was said and how often the cloud gave no answer.
#[derive(Debug, Default)]
pub(super) struct Said {
    causes: HashMap<Box<str>, HashSet<&'static str>>,
    unanswered: HashMap<Box<str>, u32>,
}

impl Said {
    /// Whether this is the first time that this cause holds this Node.
    pub(super) fn is_news(&mut self, node: &Node, cause: &'static str) -> bool {
        self.causes.entry(node.uid.clone()).or_default().insert(cause)
    }

    /// It could not be said after all: the next pass says it.
    pub(super) fn unsay(&mut self, node: &Node, cause: &'static str) {
        if let Some(causes) = self.causes.get_mut(&node.uid) {
            causes.remove(cause);
        }
    }

    /// Counts a pass in which the cloud gave no answer for this Node; whether that is worth an event by now.
    pub(super) fn count_unanswered(&mut self, node: &Node, error: &Error) -> bool {
        let passes = self.unanswered.entry(node.uid.clone()).or_default();
        *passes += 1;
        *passes >= PATIENCE || error.chain().any(Error::is_unauthorized)
    }

    /// Keeps only the Nodes that still look gone, or are still unanswered. Returns the UIDs of those whose deletion was held until
    /// now.
    pub(super) fn retain(&mut self, suspects: &HashSet<&str>, unanswered: &HashSet<&str>) -> HashSet<Box<str>> {
        let is_held = |uid: &str| suspects.contains(uid) || unanswered.contains(uid);
        let released = self.causes.extract_if(|uid, _| !is_held(uid)).filter(|(_, causes)| !causes.is_empty());
        let released = released.map(|(uid, _)| uid).collect();
        self.unanswered.retain(|uid, _| unanswered.contains(&**uid));
        released
    }
}
