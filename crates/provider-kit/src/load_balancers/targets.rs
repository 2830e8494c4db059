//! Where traffic goes to. A thousand load balancers have mostly the same thousand targets: each distinct set is kept once.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::Node;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::provider_id::ProviderIds;

/// A set of targets, in order. Cheap to clone.
///
/// A target is a text that says all there is about it: a machine's id, or `10.0.0.5:31177` where a cloud wants addresses.
/// One that changes is another target.
///
/// ```
/// use provider_kit::load_balancers::Targets;
///
/// let (before, after): (Targets, Targets) = (["b", "a"].into_iter().collect(), ["b", "c", "c"].into_iter().collect());
/// assert_eq!(after.without(&before).iter().collect::<Vec<_>>(), ["c"]);
/// assert_eq!(after.with(&before).len(), 3);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Targets(Arc<[Box<str>]>);

impl Targets {
    /// The targets, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|target| &**target)
    }
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether this target is among them.
    #[must_use]
    pub fn contains(&self, target: &str) -> bool {
        self.0.binary_search_by(|other| (**other).cmp(target)).is_ok()
    }
    /// Those that are not among `others`.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        if Arc::ptr_eq(&self.0, &others.0) {
            return Self::default();
        }
        // Still in order.
        Self(self.iter().filter(|target| !others.contains(target)).map(Box::from).collect())
    }
    /// These and `others`.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        self.iter().chain(others.iter()).collect()
    }
}

impl<T: Into<Box<str>>> FromIterator<T> for Targets {
    fn from_iter<I: IntoIterator<Item = T>>(targets: I) -> Self {
        let mut targets: Vec<Box<str>> = targets.into_iter().map(Into::into).collect();
        targets.sort_unstable();
        targets.dedup();
        Self(targets.into())
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// `a, b, c and 997 more`.
impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let shown: Vec<_> = self.iter().take(SHOWN).collect();
        f.write_str(&shown.join(", "))?;
        match self.len().checked_sub(SHOWN + 1) {
            Some(more) => write!(f, " and {} more", more + 1),
            None => Ok(()),
        }
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Box<str>>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Every distinct set once.
///
/// ```
/// use provider_kit::load_balancers::{TargetSets, Targets};
///
/// let sets = TargetSets::default();
/// let one = sets.shared(["m-1", "m-2"].into_iter().collect());
/// let same = sets.shared(["m-1", "m-2"].into_iter().collect());
/// assert_eq!(one, same);
/// ```
#[derive(Debug, Default)]
pub struct TargetSets(Mutex<HashSet<Targets>>);

impl TargetSets {
    /// The same set, in the memory of the one that was kept before.
    #[must_use]
    pub fn shared(&self, targets: Targets) -> Targets {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = sets.get(&targets) {
            return kept.clone();
        }
        sets.insert(targets.clone());
        targets
    }

    /// Lets go of sets that nobody else holds.
    pub(super) fn forget_unused(&self) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|targets| Arc::strong_count(&targets.0) > 1);
    }
}

/// The machines' ids of `nodes`, for clouds whose targets are machines.
///
/// A Node without a provider id is not a target *yet*, one of another cloud never is (P-15), and one whose id is malformed is
/// told in the log: none of them may keep the others from being targets. `None`: there are Nodes, and nobody knows the
/// machine of any. Then leave the targets as they are, because to take them all away would be an outage (P-25); the first
/// provider id brings the next call. No Node at all is different: the controller means it.
///
/// ```
/// use std::sync::Arc;
/// use cloud_provider::Node;
/// use provider_kit::load_balancers::machine_ids;
/// use provider_kit::provider_id::ProviderIds;
///
/// const IDS: ProviderIds = ProviderIds { scheme: "acme", form: "<number>", valid: |id| id.parse::<u64>().is_ok() };
/// let node = |id: &str| Arc::new(Node { provider_id: id.into(), ..Node::default() });
/// let targets = machine_ids(&[node("acme://2"), node(""), node("other://1")], &IDS).unwrap();
/// assert_eq!(targets.iter().collect::<Vec<_>>(), ["2"]);
/// assert!(machine_ids(&[node("")], &IDS).is_none());
/// assert!(machine_ids(&[], &IDS).unwrap().is_empty());
/// ```
#[must_use]
pub fn machine_ids(nodes: &[Arc<Node>], ids: &ProviderIds) -> Option<Targets> {
    let known = |node: &&Arc<Node>| node.provider_id_scheme() == Some(ids.scheme);
    let id = |node: &Arc<Node>| match ids.read(&node.provider_id) {
        Ok(id) => Some(Box::<str>::from(id)),
        Err(err) => {
            tracing::warn!(node = &*node.name, %err, "this node is no target of load balancers");
            None
        }
    };
    let targets: Targets = nodes.iter().filter(known).filter_map(id).collect();
    (nodes.is_empty() || !targets.is_empty()).then_some(targets)
}
