//! Targets of load balancers. A thousand load balancers mostly have the same thousand targets: each distinct set is
//! kept once.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use cloud_provider::Node;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::provider_id::ProviderIds;
use crate::streamed;

/// A set of targets, in order. Cheap to clone.
///
/// A target is a text that describes it completely: a machine's ID, or `10.0.0.5:31177` where a cloud wants addresses.
/// A target that changes is a different target.
///
/// ```
/// use provider_kit::load_balancers::Targets;
///
/// let (before, after): (Targets, Targets) = (["b", "a"].into_iter().collect(), ["b", "c", "c"].into_iter().collect());
/// assert_eq!(after.without(&before).iter().collect::<Vec<_>>(), ["c"]);
/// assert_eq!(after.with(&before).len(), 3);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Targets(Arc<Packed>);

/// The targets of a set in one string, in order: a thousand strings would take four times as much memory, and a page of
/// a list has fifty such sets.
#[derive(PartialEq, Eq, Hash, Default)]
struct Packed {
    text: Box<str>,
    /// End offset of each target in `text`.
    ends: Box<[u32]>,
}

impl Packed {
    fn get(&self, number: usize) -> &str {
        let from = number
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        &self.text[from..self.ends[number] as usize]
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|number| self.get(number))
    }
}

/// Builder that packs targets in the order in which they are added.
#[derive(Default)]
struct Packing {
    text: String,
    ends: Vec<u32>,
    /// If set, each target is greater than the one before.
    is_sorted: bool,
}

impl Packing {
    fn push(&mut self, target: &str) {
        let last = self.ends.len().checked_sub(1).map(|last| {
            let from = last
                .checked_sub(1)
                .map_or(0, |before| self.ends[before] as usize);
            &self.text[from..]
        });
        self.is_sorted = last.is_none_or(|last| self.is_sorted && last < target);
        self.text.push_str(target);
        self.ends.push(
            u32::try_from(self.text.len())
                .expect("the targets of a load balancer are less than 4 GiB"),
        );
    }

    fn finish(self) -> Targets {
        let packed = Packed {
            text: self.text.into(),
            ends: self.ends.into(),
        };
        if self.is_sorted || packed.ends.is_empty() {
            return Targets(Arc::new(packed));
        }
        let mut targets: Vec<&str> = packed.iter().collect();
        targets.sort_unstable();
        targets.dedup();
        targets.into_iter().collect()
    }
}

impl Targets {
    /// Returns the targets, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter()
    }
    /// Returns the number of targets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }
    /// Returns `true` if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }
    /// Returns `true` if the set contains the target.
    #[must_use]
    pub fn contains(&self, target: &str) -> bool {
        let mut low = 0;
        let mut high = self.len();
        while low < high {
            let middle = low.midpoint(high);
            match self.0.get(middle).cmp(target) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return true,
                Ordering::Greater => high = middle,
            }
        }
        false
    }
    /// Returns the targets that are not among `others`.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        if Arc::ptr_eq(&self.0, &others.0) {
            return Self::default();
        }
        self.iter()
            .filter(|target| !others.contains(target))
            .collect()
    }
    /// Returns the union of the two sets.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        match (self.is_empty(), others.is_empty()) {
            (_, true) => return self.clone(),
            (true, _) => return others.clone(),
            _ => {}
        }
        self.iter().chain(others.iter()).collect()
    }
}

impl<T: AsRef<str>> FromIterator<T> for Targets {
    fn from_iter<I: IntoIterator<Item = T>>(targets: I) -> Self {
        let mut packing = Packing::default();
        targets
            .into_iter()
            .for_each(|target| packing.push(target.as_ref()));
        packing.finish()
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Displays the targets as `a, b, c and 997 more`.
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
        streamed::collect::<_, Text<'_>, _>(deserializer)
    }
}

/// A string that is borrowed if it has no escape sequences, and copied otherwise.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The distinct sets of targets, each kept once.
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
    /// Returns an equal set that is already in memory, or keeps this one.
    #[must_use]
    pub fn shared(&self, targets: Targets) -> Targets {
        let mut sets = self.0.lock();
        if let Some(kept) = sets.get(&targets) {
            return kept.clone();
        }
        sets.insert(targets.clone());
        targets
    }

    /// Drops sets that have no other owner.
    pub(super) fn forget_unused(&self) {
        let mut sets = self.0.lock();
        sets.retain(|targets| Arc::strong_count(&targets.0) > 1);
    }
}

/// Returns the machine IDs of `nodes`, for clouds whose targets are machines.
///
/// A Node without a provider ID is not a target *yet*, a Node of another cloud is never one (P-15), and a Node whose
/// provider ID is malformed is logged: none of them may keep the others from being targets. Returns `None` if there are
/// Nodes, but no machine of any of them is known. Then leave the targets as they are, because removing all of them
/// would be an outage (P-25); the first provider ID triggers the next sync. An empty list of Nodes is applied as such.
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
    let targets: Targets = nodes
        .iter()
        .filter(known)
        .filter_map(|node| machine_id(node, ids))
        .collect();
    (nodes.is_empty() || !targets.is_empty()).then_some(targets)
}

fn machine_id<'a>(node: &'a Node, ids: &ProviderIds) -> Option<&'a str> {
    match ids.read(&node.provider_id) {
        Ok(id) => Some(id),
        Err(err) => {
            tracing::warn!(node = &*node.name, %err, "Node is not a target of load balancers");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn some() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[ab\\\\é]{0,3}", 0..8)
    }

    proptest! {
        #[test]
        fn targets_are_an_ordered_set_in_any_input_order(one in some(), other in some()) {
            let (a, b): (Targets, Targets) = (one.iter().collect(), other.iter().collect());
            let (x, y): (BTreeSet<_>, BTreeSet<_>) = (one.iter().collect(), other.iter().collect());
            prop_assert!(a.iter().eq(x.iter().map(|text| text.as_str())));
            prop_assert!(a.with(&b).iter().eq(x.union(&y).map(|text| text.as_str())));
            prop_assert!(a.without(&b).iter().eq(x.difference(&y).map(|text| text.as_str())));
            prop_assert!(other.iter().all(|target| a.contains(target) == x.contains(target)));
            let read: Targets = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
            prop_assert_eq!((read.len(), &read), (x.len(), &a));
        }
    }
}
