//! The changes of a volume, given its location in the cloud.

use std::collections::BTreeMap;
use std::fmt;

use cloud_provider::PersistentVolume;
use cloud_provider::names::{
    LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA, VOLUME_PLACEHOLDER,
};
use k8s_openapi::api::core::v1::VolumeNodeAffinity;
use serde_json::{Value, json};

use super::affinity;
use super::topology::{Fact, Topology};

/// Returns `true` if the volume may need changes: it lacks a label or an affinity, is not being deleted, and exists in
/// the cloud. No other volume is looked up.
#[must_use]
pub fn is_open(volume: &PersistentVolume) -> bool {
    volume.metadata.deletion_timestamp.is_none() && !is_complete(volume) && !is_placeholder(volume)
}

/// Returns `true` if the volume has both labels, deprecated or stable, and an affinity. Their author knew the location.
fn is_complete(volume: &PersistentVolume) -> bool {
    let has = |keys: [&str; 2]| keys.into_iter().any(|key| label(volume, key).is_some());
    has([LABEL_ZONE, LABEL_ZONE_BETA])
        && has([LABEL_REGION, LABEL_REGION_BETA])
        && affinity::is_set(volume)
}

/// Returns `true` if the volume is still being created (PROV-79), so that its ID is not one of the cloud yet.
fn is_placeholder(volume: &PersistentVolume) -> bool {
    let Some(spec) = &volume.spec else {
        return false;
    };
    let ids = [
        spec.csi.as_ref().map(|source| &source.volume_handle),
        spec.aws_elastic_block_store
            .as_ref()
            .map(|source| &source.volume_id),
        spec.gce_persistent_disk
            .as_ref()
            .map(|source| &source.pd_name),
        spec.azure_disk.as_ref().map(|source| &source.disk_name),
        spec.cinder.as_ref().map(|source| &source.volume_id),
        spec.vsphere_volume
            .as_ref()
            .map(|source| &source.volume_path),
    ];
    ids.into_iter().flatten().any(|id| id == VOLUME_PLACEHOLDER)
}

/// The labels and the affinity that a volume lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Labels to set, by key.
    pub labels: BTreeMap<String, String>,
    /// Node affinity to set; `None` if the volume has one.
    pub affinity: Option<VolumeNodeAffinity>,
    /// Facts that do not fit in a label; the affinity has them.
    pub too_long: Vec<Fact>,
}

impl Plan {
    /// Compares a volume with its location in the cloud.
    ///
    /// # Errors
    /// The labels and affinities of a user that contradict the cloud. Nothing may be changed then, because labels of
    /// which only some agree with the cloud match no Node.
    pub fn make(volume: &PersistentVolume, topology: &Topology) -> Result<Self, Vec<Conflict>> {
        let conflicts: Vec<_> = topology
            .facts()
            .iter()
            .flat_map(|fact| conflicts(volume, fact))
            .collect();
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        let mut plan = Self::default();
        for fact in topology.facts() {
            // The deprecated key alone is sufficient, because the scheduler knows both keys.
            if label(volume, fact.key)
                .or_else(|| label(volume, fact.beta_key))
                .is_some()
            {
                continue;
            }
            if fact.fits_label() {
                plan.labels.insert(fact.key.to_owned(), fact.label());
            } else {
                plan.too_long.push(fact.clone());
            }
        }
        let is_new = !topology.facts().is_empty() && !affinity::is_set(volume);
        plan.affinity = is_new.then(|| affinity::of(topology));
        Ok(plan)
    }

    /// Returns the strategic merge patch. It has the resourceVersion of the volume, so that it does not overwrite a
    /// label that a user sets at the same time.
    #[must_use]
    pub fn patch(&self, volume: &PersistentVolume) -> Value {
        let mut patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version}});
        if !self.labels.is_empty() {
            patch["metadata"]["labels"] = json!(self.labels);
        }
        if let Some(affinity) = &self.affinity {
            patch["spec"] = json!({"nodeAffinity": affinity});
        }
        patch
    }

    /// Returns a note about values that do not fit in a label.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let notes: Vec<_> = self
            .too_long
            .iter()
            .map(|fact| {
                format!(
                    "label {} cannot hold {:?}, which is too long",
                    fact.key,
                    fact.label()
                )
            })
            .collect();
        (!notes.is_empty())
            .then(|| format!("{}. The node affinity names all of it", notes.join("; ")))
    }
}

/// A label or affinity of a user that contradicts the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A label with another value.
    Label {
        /// Key of the label.
        key: String,
        /// Value of the label on the volume.
        is: String,
        /// Value according to the cloud.
        cloud: String,
    },
    /// A node affinity that excludes the location of the volume.
    Affinity {
        /// Key of the requirement.
        key: String,
        /// Requirement of the affinity, such as `In [a, b]`.
        is: String,
        /// Location of the volume according to the cloud.
        cloud: String,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label { key, is, cloud } => {
                write!(
                    f,
                    "label {key} is {is:?}, but the cloud says {cloud:?}: correct the label or remove it"
                )
            }
            Self::Affinity { key, is, cloud } => write!(
                f,
                "the node affinity demands {key} {is}, but the cloud says {cloud:?}: the affinity cannot be changed, \
                 so create the PersistentVolume again"
            ),
        }
    }
}

fn conflicts(volume: &PersistentVolume, fact: &Fact) -> Vec<Conflict> {
    let labels = [fact.key, fact.beta_key]
        .into_iter()
        .filter_map(|key| Some((key, label(volume, key)?)));
    let mut conflicts: Vec<_> = labels
        .filter(|(_, value)| !fact.is_shown_by(value))
        .map(|(key, is)| Conflict::Label {
            key: key.to_owned(),
            is: is.to_owned(),
            cloud: fact.label(),
        })
        .collect();
    if let Some((key, is)) = affinity::contradiction(volume, fact) {
        conflicts.push(Conflict::Affinity {
            key: key.to_owned(),
            is,
            cloud: fact.label(),
        });
    }
    conflicts
}

pub(super) fn label<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

#[cfg(test)]
mod tests;
