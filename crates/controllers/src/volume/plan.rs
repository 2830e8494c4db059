//! What becomes of a volume, given what the cloud says of its place.

use std::collections::BTreeMap;
use std::fmt;

use cloud_provider::PersistentVolume;
use cloud_provider::names::{LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA, VOLUME_PLACEHOLDER};
use k8s_openapi::api::core::v1::VolumeNodeAffinity;
use serde_json::{Value, json};

use super::affinity;
use super::topology::{Fact, Topology};

/// Whether there may be something to do: it lacks a label or an affinity, is not being deleted, and exists in the cloud
/// already. The cloud is asked about no other.
#[must_use]
pub fn is_open(volume: &PersistentVolume) -> bool {
    volume.metadata.deletion_timestamp.is_none() && !is_complete(volume) && !is_placeholder(volume)
}

/// Both labels, of either generation, and an affinity: whoever wrote them knew where it is.
fn is_complete(volume: &PersistentVolume) -> bool {
    let has = |keys: [&str; 2]| keys.into_iter().any(|key| label(volume, key).is_some());
    has([LABEL_ZONE, LABEL_ZONE_BETA]) && has([LABEL_REGION, LABEL_REGION_BETA]) && affinity::is_set(volume)
}

/// Whether the volume is still being made (PROV-79): its id is not one of the cloud yet.
fn is_placeholder(volume: &PersistentVolume) -> bool {
    let Some(spec) = &volume.spec else { return false };
    let ids = [
        spec.csi.as_ref().map(|source| &source.volume_handle),
        spec.aws_elastic_block_store.as_ref().map(|source| &source.volume_id),
        spec.gce_persistent_disk.as_ref().map(|source| &source.pd_name),
        spec.azure_disk.as_ref().map(|source| &source.disk_name),
        spec.cinder.as_ref().map(|source| &source.volume_id),
        spec.vsphere_volume.as_ref().map(|source| &source.volume_path),
    ];
    ids.into_iter().flatten().any(|id| id == VOLUME_PLACEHOLDER)
}

/// What a volume lacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// The node affinity to set; none if there is one already.
    pub affinity: Option<VolumeNodeAffinity>,
    /// What the cloud says but a label cannot hold; the affinity does.
    pub too_long: Vec<Fact>,
}

impl Plan {
    /// Compares a volume with what the cloud says of it.
    ///
    /// # Errors
    /// What somebody else set otherwise; then nothing is to be changed at all: labels that half agree with the cloud
    /// would put Pods nowhere.
    pub fn make(volume: &PersistentVolume, topology: &Topology) -> Result<Self, Vec<Conflict>> {
        let conflicts: Vec<_> = topology.facts().iter().flat_map(|fact| conflicts(volume, fact)).collect();
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        let mut plan = Self::default();
        for fact in topology.facts() {
            // A volume with the deprecated key alone is well: the scheduler knows both.
            if label(volume, fact.key).or_else(|| label(volume, fact.beta_key)).is_some() {
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

    /// The strategic-merge patch, only for the version of the volume that it was made from: a label that somebody sets
    /// meanwhile must not be overwritten.
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

    /// What is to be said of labels that cannot hold their value.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let notes: Vec<_> = self
            .too_long
            .iter()
            .map(|fact| format!("label {} cannot hold {:?}, which is too long", fact.key, fact.label()))
            .collect();
        (!notes.is_empty()).then(|| format!("{}. The node affinity names all of it", notes.join("; ")))
    }
}

/// Something that a user set and of which the cloud says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A label.
    Label {
        /// Its key.
        key: String,
        /// Its value on the volume.
        is: String,
        /// Its value after the cloud.
        cloud: String,
    },
    /// A node affinity that keeps the volume from where it is.
    Affinity {
        /// Its key.
        key: String,
        /// What it demands, as `In [a, b]`.
        is: String,
        /// Where the volume is.
        cloud: String,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label { key, is, cloud } => {
                write!(f, "label {key} is {is:?}, but the cloud says {cloud:?}: correct the label or remove it")
            }
            Self::Affinity { key, is, cloud } => write!(
                f,
                "the node affinity demands {key} {is}, but the cloud says {cloud:?}: it cannot be changed, create the \
                 PersistentVolume anew"
            ),
        }
    }
}

fn conflicts(volume: &PersistentVolume, fact: &Fact) -> Vec<Conflict> {
    let labels = [fact.key, fact.beta_key].into_iter().filter_map(|key| Some((key, label(volume, key)?)));
    let mut conflicts: Vec<_> = labels
        .filter(|(_, value)| !fact.is_said_by(value))
        .map(|(key, is)| Conflict::Label { key: key.to_owned(), is: is.to_owned(), cloud: fact.label() })
        .collect();
    if let Some((key, is)) = affinity::contradiction(volume, fact) {
        conflicts.push(Conflict::Affinity { key: key.to_owned(), is, cloud: fact.label() });
    }
    conflicts
}

pub(super) fn label<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;
