//! Nodes that share one provider ID, of which at most one can run on that machine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cloud_provider::Node;

/// A Node whose provider ID an older Node has, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedId {
    /// The Node that is younger.
    pub(crate) node: Arc<Node>,
    /// The name of the older Node.
    pub(crate) older: Box<str>,
}

/// Returns the Nodes whose provider ID an older Node has, too.
pub(crate) fn shared_ids<'a>(nodes: impl IntoIterator<Item = &'a Arc<Node>>) -> Vec<SharedId> {
    let mut oldest: HashMap<&str, &Arc<Node>> = HashMap::new();
    let mut shared = Vec::new();
    for node in nodes {
        let Some(id) = node.provider_id() else {
            continue;
        };
        let Some(other) = oldest.get(id).copied() else {
            oldest.insert(id, node);
            continue;
        };
        let age = |node: &Arc<Node>| (node.created.is_none(), node.created, node.name.clone());
        let (older, younger) = if age(other) <= age(node) {
            (other, node)
        } else {
            (node, other)
        };
        oldest.insert(id, older);
        shared.push(SharedId {
            node: Arc::clone(younger),
            older: older.name.clone(),
        });
    }
    shared
}

/// The UIDs of Nodes whose shared provider ID was reported.
#[derive(Debug, Default)]
pub(crate) struct ReportedIds(HashSet<Box<str>>);

impl ReportedIds {
    /// Returns those of `shared` that are not reported yet, and records them. Nodes that share no ID any more are
    /// forgotten.
    pub(crate) fn record(&mut self, shared: Vec<SharedId>) -> Vec<SharedId> {
        let current: HashSet<&str> = shared.iter().map(|shared| &*shared.node.uid).collect();
        self.0.retain(|uid| current.contains(&**uid));
        shared
            .into_iter()
            .filter(|shared| self.0.insert(shared.node.uid.clone()))
            .collect()
    }

    /// Removes the record of a report that failed, so that the next pass reports the Node.
    pub(crate) fn forget(&mut self, node: &Node) {
        self.0.remove(&node.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn node(name: &str, id: &str, created: i64) -> Arc<Node> {
        let created = Timestamp::from_second(created).ok();
        Arc::new(Node {
            name: name.into(),
            uid: name.into(),
            provider_id: id.into(),
            created,
            ..Node::default()
        })
    }

    #[test]
    fn younger_nodes_with_the_id_of_an_older_one_are_reported_once() {
        let nodes = [
            node("c", "acme://1", 9),
            node("a", "acme://1", 5),
            node("b", "acme://1", 7),
            node("e", "acme://2", 1),
            node("f", "", 1),
            node("g", "", 2),
        ];
        let names = |shared: &[SharedId]| -> Vec<String> {
            shared
                .iter()
                .map(|shared| format!("{} {}", shared.node.name, shared.older))
                .collect()
        };
        assert_eq!(names(&shared_ids(&nodes)), ["c a", "b a"]);
        let mut reported = ReportedIds::default();
        assert_eq!(reported.record(shared_ids(&nodes)).len(), 2);
        assert_eq!(reported.record(shared_ids(&nodes)), []);
        assert_eq!(
            reported.record(shared_ids(&nodes[1..])),
            [],
            "the Node b is known"
        );
        assert_eq!(
            names(&reported.record(shared_ids(&nodes))),
            ["c a"],
            "the Node c is new again"
        );
    }
}
