//! Labels of Nodes: what initialisation sets and what reconciliation aligns.

use std::collections::BTreeMap;

use cloud_provider::names::{
    LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA,
};
use cloud_provider::{InstanceMetadata, StringMap};

/// Deprecated key and stable key of one fact. The deprecated one is the source of truth (NODE-50).
const PAIRS: [(&str, &str); 3] =
    [(LABEL_ZONE_BETA, LABEL_ZONE), (LABEL_REGION_BETA, LABEL_REGION), (LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE)];

/// Labels to set so that the stable keys agree with the deprecated ones; empty if they do (NODE-51, NODE-52).
pub fn alignment(labels: &StringMap) -> BTreeMap<String, String> {
    PAIRS
        .into_iter()
        .filter_map(|(primary, secondary)| {
            let value = labels.get(primary)?;
            (labels.get(secondary) != Some(value)).then(|| (secondary.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Labels that the metadata gives a Node, as far as the Node does not have them yet (NODE-20 … NODE-22).
pub fn from_metadata(metadata: &InstanceMetadata, current: &StringMap) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let facts = [
        (&metadata.instance_type, [LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE]),
        (&metadata.zone, [LABEL_ZONE_BETA, LABEL_ZONE]),
        (&metadata.region, [LABEL_REGION_BETA, LABEL_REGION]),
    ];
    for (value, keys) in facts {
        if !value.is_empty() {
            labels.extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }
    for (key, value) in &metadata.additional_labels {
        if is_reserved(key) {
            tracing::warn!(key, "discarding an additional label of the cloud: its key belongs to Kubernetes");
            continue;
        }
        match current.get(key) {
            Some(own) if own != value => {
                tracing::warn!(
                    key,
                    node = own,
                    cloud = value,
                    "discarding an additional label: the node has another value"
                );
            }
            Some(_) => {}
            None => {
                labels.insert(key.clone(), value.clone());
            }
        }
    }
    labels.retain(|key, value| current.get(key) != Some(value));
    labels
}

/// NODE-22, 1.: the key contains `kubernetes.io/` or `k8s.io/`, at its start or after a dot.
fn is_reserved(key: &str) -> bool {
    ["kubernetes.io/", "k8s.io/"]
        .into_iter()
        .any(|domain| key.match_indices(domain).any(|(at, _)| at == 0 || key.as_bytes()[at - 1] == b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_kubernetes_are_reserved_and_look_alikes_are_not() {
        for key in ["kubernetes.io/x", "k8s.io/x", "foo.k8s.io/x", "topology.kubernetes.io/region"] {
            assert!(is_reserved(key), "{key}");
        }
        for key in ["k8snio/x", "app.k8snio/x", "topology.k8s.cp/zone-id", "mykubernetes.io/x", "x"] {
            assert!(!is_reserved(key), "{key}");
        }
    }

    #[test]
    fn labels_that_the_node_has_already_are_not_sent_again() {
        let metadata = InstanceMetadata { zone: "z".into(), ..InstanceMetadata::default() };
        let current: StringMap = [(LABEL_ZONE, "z"), (LABEL_ZONE_BETA, "old")].into_iter().collect();
        assert_eq!(from_metadata(&metadata, &current), [(LABEL_ZONE_BETA.to_owned(), "z".to_owned())].into());
    }
}
