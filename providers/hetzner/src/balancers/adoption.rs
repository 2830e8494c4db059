//! Adoption by name of load balancers that were not created by a cloud controller manager. Users choose the name in an
//! annotation, so the name alone does not prove that a load balancer was created for the Service.

use std::collections::BTreeMap;
use std::fmt;

use cloud_provider::default_load_balancer_name;
use provider_kit::declared::{Kind, Value};
use provider_kit::load_balancers::{Identity, ObservedLoadBalancer, OwnerTags};

/// The label of a load balancer that was adopted by its name. It is written together with the owner labels, and removed
/// together with them, so that a process that is killed in between cannot mistake an adopted load balancer for one that
/// was created for its Service.
pub(super) const ADOPTED: &str = "ccm-rs/adopted";

/// A label that a load balancer must have to be adopted by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptionLabel {
    key: String,
    /// Required value; `None` accepts any value.
    value: Option<String>,
}

impl AdoptionLabel {
    /// Returns `true` if a load balancer carries the label, or was created for its Service and needs none.
    pub(super) fn allows(&self, actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> bool {
        self.is_on(&actual.labels) || !is_adoption(actual, identity)
    }

    /// Returns the end of an error that tells the user how to have the load balancer adopted.
    pub(super) fn hint(&self) -> String {
        format!("or give it the label {self}, which HCLOUD_LOAD_BALANCERS_ADOPTION_LABEL requires")
    }

    fn is_on(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(&self.key).is_some_and(|its| self.value.as_ref().is_none_or(|value| its == value))
    }
}

impl Value for AdoptionLabel {
    const KIND: Kind<Self> = Kind::of("a label KEY or KEY=VALUE, such as adoptable=true", |text| {
        let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        let is_label = !key.is_empty() && is_plain(key) && value.is_none_or(is_plain);
        is_label.then(|| Self { key: key.to_owned(), value: value.map(str::to_owned) })
    });
}

impl fmt::Display for AdoptionLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// Returns `true` if the Service would adopt the load balancer, because it was not created for the Service: it has no
/// owner labels of the Service, and its name does not contain the Service's UID, as the names that cloud controller
/// managers choose do.
pub(super) fn is_adoption(actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> bool {
    let is_unmarked = actual.owner_tags == OwnerTags::default()
        && (actual.legacy_owner.is_none() || actual.legacy_owner != identity.legacy_owner);
    actual.adopted || is_unmarked && actual.name != default_load_balancer_name(identity.service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_label_is_a_key_or_a_key_and_its_value() {
        let labels: BTreeMap<String, String> = [("team".to_owned(), "blue".to_owned())].into();
        for (text, expected) in
            [("team", true), ("team=blue", true), ("team=red", false), ("team=", false), ("other", false)]
        {
            let label = AdoptionLabel::KIND.parse(text).unwrap();
            assert_eq!((label.is_on(&labels), label.to_string().as_str()), (expected, text));
        }
        for text in ["", "=blue", "a b", "team=blue,red"] {
            assert_eq!(AdoptionLabel::KIND.parse(text), None, "{text}");
        }
    }
}
