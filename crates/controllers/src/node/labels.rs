//! Labels of Nodes that initialization sets and reconciliation aligns.

use std::collections::BTreeMap;

use cloud_provider::names::{
    LABEL_INSTANCE_TYPE, LABEL_INSTANCE_TYPE_BETA, LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE,
    LABEL_ZONE_BETA,
};
use cloud_provider::{InstanceMetadata, StringMap};

/// Deprecated and stable keys of the same label. The deprecated label is the source of truth (NODE-50).
const PAIRS: [(&str, &str); 3] = [
    (LABEL_ZONE_BETA, LABEL_ZONE),
    (LABEL_REGION_BETA, LABEL_REGION),
    (LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE),
];

/// Returns the labels to set so that the stable keys agree with the deprecated ones (NODE-51, NODE-52).
pub fn alignment(labels: &StringMap) -> BTreeMap<String, String> {
    PAIRS
        .into_iter()
        .filter_map(|(primary, secondary)| {
            let value = labels.get(primary)?;
            (labels.get(secondary) != Some(value)).then(|| (secondary.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Returns the labels of the metadata that the Node does not have yet (NODE-20 … NODE-22).
pub fn from_metadata(metadata: &InstanceMetadata, current: &StringMap) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let facts = [
        (
            &metadata.instance_type,
            [LABEL_INSTANCE_TYPE_BETA, LABEL_INSTANCE_TYPE],
        ),
        (&metadata.zone, [LABEL_ZONE_BETA, LABEL_ZONE]),
        (&metadata.region, [LABEL_REGION_BETA, LABEL_REGION]),
    ];
    for (value, keys) in facts {
        if !value.is_empty() && is_value(value) {
            labels.extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }
    for (key, value) in &metadata.additional_labels {
        if is_reserved(key) {
            tracing::warn!(
                key,
                "ignoring a label from the cloud: its key is reserved for Kubernetes"
            );
            continue;
        }
        if !is_key(key) || !is_value(value) {
            continue;
        }
        match current.get(key) {
            Some(current_value) if current_value != value => {
                tracing::warn!(
                    key,
                    node = current_value,
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

/// Maximum number of labels named in a message.
const MOST_NAMED: usize = 3;
const MOST_SHOWN: usize = 80;

/// Returns a message about labels of the metadata that the API would refuse together with the whole patch: the labels,
/// their values, and the accepted form. Returns `None` if all labels are valid.
pub fn left_out(node: &str, metadata: &InstanceMetadata) -> Option<String> {
    let facts = [
        (LABEL_INSTANCE_TYPE, &metadata.instance_type),
        (LABEL_ZONE, &metadata.zone),
        (LABEL_REGION, &metadata.region),
    ];
    let additional = metadata
        .additional_labels
        .iter()
        .map(|(key, value)| (&**key, value));
    let all = facts
        .into_iter()
        .chain(additional.filter(|(key, _)| !is_reserved(key)));
    let refused: Vec<_> = all
        .filter(|(key, value)| !is_key(key) || !is_value(value))
        .collect();
    let shown = |text: &str| text[..text.floor_char_boundary(MOST_SHOWN)].to_owned();
    let named = refused
        .iter()
        .take(MOST_NAMED)
        .map(|(key, value)| format!("{}={:?}", shown(key), shown(value)));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = refused.len().saturating_sub(MOST_NAMED);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    (!refused.is_empty()).then(|| {
        format!(
            "labels of Node {node} are left out because the API does not accept what the cloud says: {named}{more}; a value is \
             empty or up to {LONGEST} letters, digits, '-', '_' and '.' with a letter or digit at both ends, and so is a key, \
             after an optional DNS name and '/'"
        )
    })
}

/// Maximum length of a label's value, and of its key after the slash, in bytes.
const LONGEST: usize = 63;
/// Maximum length of a label's key before the slash, in bytes.
const LONGEST_PREFIX: usize = 253;

fn is_name(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LONGEST
        && is_edge(text.bytes().next())
        && is_edge(text.bytes().next_back())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_key(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('-')
            && !word.ends_with('-')
            && word.bytes().all(is_inner)
    };
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => {
            prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(is_word) && is_name(name)
        }
    }
}

/// Returns `true` if the key contains `kubernetes.io/` or `k8s.io/`, at its start or after a dot (NODE-22, 1.).
fn is_reserved(key: &str) -> bool {
    ["kubernetes.io/", "k8s.io/"].into_iter().any(|domain| {
        key.match_indices(domain)
            .any(|(at, _)| at == 0 || key.as_bytes()[at - 1] == b'.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_kubernetes_are_reserved_and_look_alikes_are_not() {
        for key in [
            "kubernetes.io/x",
            "k8s.io/x",
            "foo.k8s.io/x",
            "topology.kubernetes.io/region",
        ] {
            assert!(is_reserved(key), "{key}");
        }
        for key in [
            "k8snio/x",
            "app.k8snio/x",
            "topology.k8s.cp/zone-id",
            "mykubernetes.io/x",
            "x",
        ] {
            assert!(!is_reserved(key), "{key}");
        }
    }

    #[test]
    fn a_label_that_the_api_would_refuse_is_left_out_and_named() {
        let long = "x".repeat(64);
        let zone = "z".repeat(1_000_000);
        let additional_labels = [
            ("pool", "blue"),
            ("rack", "row 7"),
            ("Team/x", "a"),
            ("a.b/c", "-"),
            ("d", &long),
            ("empty", ""),
            ("foo.k8s.io/x", "-"),
        ];
        let additional_labels = additional_labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let region = "eu west".to_owned();
        let metadata = InstanceMetadata {
            zone,
            region,
            additional_labels,
            ..InstanceMetadata::default()
        };
        let labels = from_metadata(&metadata, &StringMap::default());
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["empty", "pool"]);
        let text = left_out("worker-1", &metadata).unwrap();
        assert!(
            text.starts_with("labels of Node worker-1 are left out") && text.len() < 1024,
            "{text}"
        );
        for expected in [
            r#"topology.kubernetes.io/region="eu west""#,
            " and 3 more;",
            "up to 63 letters",
        ] {
            assert!(text.contains(expected), "{text} does not say {expected:?}");
        }
        let fine = InstanceMetadata {
            zone: "eu-west_1.a".into(),
            ..InstanceMetadata::default()
        };
        assert_eq!(
            (
                left_out("worker-1", &fine),
                from_metadata(&fine, &StringMap::default()).len()
            ),
            (None, 2)
        );
    }

    #[test]
    fn labels_that_the_node_has_already_are_not_sent_again() {
        let metadata = InstanceMetadata {
            zone: "z".into(),
            ..InstanceMetadata::default()
        };
        let current: StringMap = [(LABEL_ZONE, "z"), (LABEL_ZONE_BETA, "old")]
            .into_iter()
            .collect();
        assert_eq!(
            from_metadata(&metadata, &current),
            [(LABEL_ZONE_BETA.to_owned(), "z".to_owned())].into()
        );
    }
}
