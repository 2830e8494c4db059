//! Machines of Nodes without a provider ID, guessed from the Node's firmware, because names of Nodes and machines may
//! differ.

use cloud_provider::{Node, Result};

use super::{Inventory, MachineSource, Snapshot};
use crate::transport::Priority;

/// Returns a Node's system UUID in the form of machine IDs, for clouds whose machines have their ID as system UUID.
/// Some firmware has the bytes of the first three groups in reverse order: both forms are returned, the literal one
/// first. Empty if the Node has no system UUID.
///
/// ```
/// use cloud_provider::Node;
/// use provider_kit::inventory::system_uuids;
///
/// let node = Node { system_uuid: "7B9CF879-7146-417C-ABFD-CB4272F0C935".into(), ..Node::default() };
/// assert_eq!(system_uuids(&node), ["7b9cf879-7146-417c-abfd-cb4272f0c935", "79f89c7b-4671-7c41-abfd-cb4272f0c935"]);
/// assert!(system_uuids(&Node { system_uuid: "Not Specified".into(), ..Node::default() }).is_empty());
/// ```
#[must_use]
pub fn system_uuids(node: &Node) -> Vec<String> {
    let uuid = node.system_uuid.to_ascii_lowercase();
    let groups: Vec<&str> = uuid.split('-').collect();
    let is_uuid = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()));
    if !is_uuid {
        return Vec::new();
    }
    let turned = |group: &str| {
        (0..group.len())
            .step_by(2)
            .rev()
            .map(|at| &group[at..at + 2])
            .collect::<String>()
    };
    let (first, rest) = groups.split_at(3);
    let swapped = first
        .iter()
        .map(|group| turned(group))
        .chain(rest.iter().map(|group| (*group).to_owned()));
    let swapped = swapped.collect::<Vec<_>>().join("-");
    if swapped == uuid {
        vec![uuid]
    } else {
        vec![uuid, swapped]
    }
}

impl<S: MachineSource> Inventory<S> {
    /// Returns the index in a list of the machine that this Node's firmware names.
    pub(super) fn guess_in(&self, snapshot: &Snapshot<S::Machine>, node: &Node) -> Option<u32> {
        let source = self.source();
        let is_this_at = |at: &u32| source.confirms_guess(snapshot.at(*at), node);
        source
            .guesses(node)
            .iter()
            .find_map(|id| snapshot.place_of_id(id).filter(is_this_at))
    }

    /// Reads the machine that this Node's firmware names, if there is one and it is this Node's.
    pub(super) async fn read_guess(
        &self,
        node: &Node,
        priority: Priority,
    ) -> Result<Option<S::Machine>> {
        let source = self.source();
        for id in source.guesses(node) {
            let found = source.by_id(&id, priority).await?;
            if let Some(machine) = found.filter(|machine| source.confirms_guess(machine, node)) {
                return Ok(Some(machine));
            }
        }
        Ok(None)
    }
}
