//! The node affinity of a volume. The API server lets it be set only once; later changes may only replace deprecated
//! keys by stable ones.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, VolumeNodeAffinity,
};

use super::topology::{Fact, Topology};

/// Returns `true` if the volume has a node affinity, whatever its content.
pub(super) fn is_set(volume: &PersistentVolume) -> bool {
    volume
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_affinity.is_some())
}

/// Returns the affinity for a volume that has none.
pub(super) fn of(topology: &Topology) -> VolumeNodeAffinity {
    let requirements = topology.facts().iter().map(Fact::requirement).collect();
    let term = NodeSelectorTerm {
        match_expressions: Some(requirements),
        match_fields: None,
    };
    VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
    }
}

/// Returns the requirements that each term lacks. A term that has a requirement for a fact keeps it; an empty term,
/// which matches no Node, must stay empty.
pub(super) fn missing(
    volume: &PersistentVolume,
    topology: &Topology,
) -> Vec<(usize, Vec<NodeSelectorRequirement>)> {
    let lacks =
        |term: &NodeSelectorTerm, fact: &Fact| !expressions(term).any(|r| fact.has_key(&r.key));
    terms(volume)
        .iter()
        .enumerate()
        .filter(|(_, term)| !is_empty(term))
        .map(|(at, term)| {
            (
                at,
                topology
                    .facts()
                    .iter()
                    .filter(|fact| lacks(term, fact))
                    .map(Fact::requirement)
                    .collect(),
            )
        })
        .filter(|(_, missing): &(usize, Vec<_>)| !missing.is_empty())
        .collect()
}

/// Returns the key and the allowed values of the affinity if they exclude every Node in the location of the fact.
pub(super) fn contradiction<'a>(
    volume: &'a PersistentVolume,
    fact: &Fact,
) -> Option<(&'a str, String)> {
    let terms: Vec<_> = terms(volume)
        .iter()
        .filter(|term| !is_empty(term))
        .collect();
    let against: Vec<_> = terms
        .iter()
        .filter_map(|term| expressions(term).find(|r| excludes(r, fact)))
        .collect();
    let first = against.first().filter(|_| against.len() == terms.len())?;
    let values = first.values.as_deref().unwrap_or_default().join(", ");
    Some((&first.key, format!("{} [{values}]", first.operator)))
}

fn excludes(requirement: &NodeSelectorRequirement, fact: &Fact) -> bool {
    let values: BTreeSet<&str> = requirement
        .values
        .iter()
        .flatten()
        .map(String::as_str)
        .collect();
    fact.has_key(&requirement.key)
        && match requirement.operator.as_str() {
            "In" => !fact
                .values
                .iter()
                .any(|value| values.contains(value.as_str())),
            "NotIn" => fact
                .values
                .iter()
                .all(|value| values.contains(value.as_str())),
            "DoesNotExist" => true,
            _ => false,
        }
}

fn terms(volume: &PersistentVolume) -> &[NodeSelectorTerm] {
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    affinity
        .and_then(|affinity| affinity.required.as_ref())
        .map_or(&[], |required| &required.node_selector_terms)
}

fn expressions(term: &NodeSelectorTerm) -> impl Iterator<Item = &NodeSelectorRequirement> {
    term.match_expressions.iter().flatten()
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    expressions(term).next().is_none() && term.match_fields.as_ref().is_none_or(Vec::is_empty)
}
