//! The location of a volume, as reported by the cloud.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::names::{
    LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA, ZONE_DELIMITER,
};
use cloud_provider::{Error, Result};
use k8s_openapi::api::core::v1::NodeSelectorRequirement;

/// Maximum length of a label's value in bytes.
const MAX_LABEL: usize = 63;

/// A fact about a volume's location: its zones or its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Key of the label and of the node affinity.
    pub key: &'static str,
    /// Deprecated key, which older volumes have instead.
    pub beta_key: &'static str,
    /// Values, sorted; never empty.
    pub values: BTreeSet<String>,
}

impl Fact {
    /// Returns the label's value: all values, joined by [`ZONE_DELIMITER`].
    #[must_use]
    pub fn label(&self) -> String {
        self.values
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(ZONE_DELIMITER)
    }

    /// Returns `true` if the value fits in a label. Many zones may be too long.
    #[must_use]
    pub fn fits_label(&self) -> bool {
        self.label().len() <= MAX_LABEL
    }

    /// Returns `true` if a label's value has the same values, in any order.
    #[must_use]
    pub fn is_shown_by(&self, label: &str) -> bool {
        self.values == values(self.key, label)
    }

    /// Returns `true` if a key is one of the two keys of this fact.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        key == self.key || key == self.beta_key
    }

    /// Returns the requirement that a Node must meet.
    #[must_use]
    pub fn requirement(&self) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: self.key.to_owned(),
            operator: "In".to_owned(),
            values: Some(self.values.iter().cloned().collect()),
        }
    }
}

/// The location of a volume; empty if the cloud reports none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology(Vec<Fact>);

impl Topology {
    /// Parses a provider's answer, which may use the deprecated keys. Empty values and labels other than zone and
    /// region are ignored.
    ///
    /// ```
    /// use controllers::volume::topology::Topology;
    ///
    /// let labels = [("topology.kubernetes.io/zone".to_owned(), "eu-1b__eu-1a".to_owned())].into();
    /// let topology = Topology::from_labels(&labels)?;
    /// assert_eq!(topology.facts()[0].label(), "eu-1a__eu-1b");
    /// # Ok::<(), cloud_provider::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the answer contradicts itself, or has a value that neither a label nor a node affinity can have.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Result<Self> {
        let mut facts = Vec::new();
        for (key, beta_key) in [
            (LABEL_ZONE, LABEL_ZONE_BETA),
            (LABEL_REGION, LABEL_REGION_BETA),
        ] {
            let value_of = |key: &str| {
                labels
                    .get(key)
                    .map(String::as_str)
                    .filter(|value| !value.trim().is_empty())
            };
            let Some(value) = value_of(key).or_else(|| value_of(beta_key)) else {
                continue;
            };
            let fact = Fact {
                key,
                beta_key,
                values: values(key, value),
            };
            if let Some(bad) = fact.values.iter().find(|value| !is_label_value(value)) {
                return Err(Error::other(format!(
                    "the cloud's value {value:?} for {key} cannot be used: {bad:?} is no label value"
                )));
            }
            if let Some(other) = value_of(beta_key).filter(|other| !fact.is_shown_by(other)) {
                return Err(Error::other(format!(
                    "the cloud contradicts itself: {key} is {value:?}, {beta_key} is {other:?}"
                )));
            }
            facts.push(fact);
        }
        Ok(Self(facts))
    }

    /// Returns the facts: zones before region.
    #[must_use]
    pub fn facts(&self) -> &[Fact] {
        &self.0
    }
}

/// Returns the zones of a zone label, or the region of a region label.
fn values(key: &str, label: &str) -> BTreeSet<String> {
    match key {
        LABEL_ZONE => label
            .split(ZONE_DELIMITER)
            .map(|zone| zone.trim().to_owned())
            .collect(),
        _ => [label.trim().to_owned()].into(),
    }
}

fn is_label_value(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_LABEL
        && ends(text.bytes().next())
        && ends(text.bytes().last())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Ok(Topology::from_labels(&labels)?
            .facts()
            .iter()
            .map(|fact| (fact.key, fact.label()))
            .collect())
    }

    #[test]
    fn answers_of_clouds_are_read_in_every_usual_form() {
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);
        let table: [Row<'_>; 6] = [
            (&[], &[]),
            (
                &[(LABEL_ZONE, "a"), (LABEL_REGION, "r")],
                &[(LABEL_ZONE, "a"), (LABEL_REGION, "r")],
            ),
            (&[(LABEL_ZONE, "b__a")], &[(LABEL_ZONE, "a__b")]),
            (
                &[(LABEL_ZONE_BETA, "a"), (LABEL_REGION_BETA, "r")],
                &[(LABEL_ZONE, "a"), (LABEL_REGION, "r")],
            ),
            (
                &[(LABEL_ZONE, ""), (LABEL_REGION, "r__1")],
                &[(LABEL_REGION, "r__1")],
            ),
            (
                &[
                    (LABEL_ZONE, "b__a"),
                    (LABEL_ZONE_BETA, "a__b"),
                    ("disk", "ssd"),
                ],
                &[(LABEL_ZONE, "a__b")],
            ),
        ];
        for (labels, facts) in table {
            let expected: Vec<_> = facts
                .iter()
                .map(|(key, value)| (*key, (*value).to_owned()))
                .collect();
            let found: Vec<(&str, String)> = read(labels).unwrap();
            assert_eq!(found, expected, "{labels:?}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_written_is_an_error() {
        let long = "z".repeat(64);
        let table: [&[(&str, &str)]; 5] = [
            &[(LABEL_ZONE, "a__")],
            &[(LABEL_ZONE, "a b")],
            &[(LABEL_REGION, "-r")],
            &[(LABEL_REGION, &long)],
            &[(LABEL_ZONE, "a"), (LABEL_ZONE_BETA, "b")],
        ];
        for labels in table {
            assert!(read(labels).is_err(), "{labels:?}");
        }
    }
}
