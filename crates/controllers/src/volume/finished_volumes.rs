//! Volumes without further work, so that neither a resync nor an unrelated change calls the cloud again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cloud_provider::PersistentVolume;
use cloud_provider::names::{LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA};
use parking_lot::{Mutex, MutexGuard};

use super::plan::label;

/// The volumes without further work, by name.
#[derive(Default)]
pub(super) struct FinishedVolumes(Mutex<HashMap<Box<str>, Entry>>);

struct Entry {
    uid: Box<str>,
    reason: FinishedReason,
}

#[derive(Clone, Copy, PartialEq)]
enum FinishedReason {
    /// The volume belongs to another cloud, which never changes because a volume's source is immutable.
    Foreign,
    /// No action is needed as long as labels and affinity have this fingerprint.
    Settled(u64),
}

impl FinishedVolumes {
    /// Returns `true` if nothing is to be done with the volume in its current state.
    pub(super) fn contains(&self, volume: &PersistentVolume) -> bool {
        match self.lock().get(name(volume)) {
            Some(entry) if *entry.uid != *uid(volume) => false,
            Some(Entry {
                reason: FinishedReason::Foreign,
                ..
            }) => true,
            Some(entry) => entry.reason == FinishedReason::Settled(fingerprint(volume)),
            None => false,
        }
    }

    /// Records that the volume belongs to another cloud.
    pub(super) fn foreign(&self, volume: &PersistentVolume) {
        self.note(volume, FinishedReason::Foreign);
    }

    /// Records that nothing is to be done with the volume in its current state.
    pub(super) fn settled(&self, volume: &PersistentVolume) {
        self.note(volume, FinishedReason::Settled(fingerprint(volume)));
    }

    /// Forgets a volume that was deleted.
    pub(super) fn forget(&self, volume: &PersistentVolume) {
        let mut all = self.lock();
        if all
            .get(name(volume))
            .is_some_and(|entry| *entry.uid == *uid(volume))
        {
            all.remove(name(volume));
        }
    }

    fn note(&self, volume: &PersistentVolume, reason: FinishedReason) {
        self.lock().insert(
            name(volume).into(),
            Entry {
                uid: uid(volume).into(),
                reason,
            },
        );
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Entry>> {
        self.0.lock()
    }
}

pub(super) fn name(volume: &PersistentVolume) -> &str {
    volume.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn uid(volume: &PersistentVolume) -> &str {
    volume.metadata.uid.as_deref().unwrap_or_default()
}

/// Returns a hash of the fields that determine the work, apart from the cloud.
fn fingerprint(volume: &PersistentVolume) -> u64 {
    let mut hasher = DefaultHasher::new();
    for key in [LABEL_ZONE, LABEL_ZONE_BETA, LABEL_REGION, LABEL_REGION_BETA] {
        label(volume, key).hash(&mut hasher);
    }
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    serde_json::to_string(&affinity)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(uid: &str, zone: Option<&str>) -> PersistentVolume {
        let mut volume = PersistentVolume::default();
        volume.metadata.name = Some("pv".into());
        volume.metadata.uid = Some(uid.into());
        volume.metadata.labels = zone.map(|zone| [(LABEL_ZONE.to_owned(), zone.to_owned())].into());
        volume
    }

    #[test]
    fn finished_volume_is_open_again_when_its_labels_change() {
        let finished = FinishedVolumes::default();
        finished.settled(&volume("1", None));
        let mut bound = volume("1", None);
        bound.metadata.resource_version = Some("9".into());
        bound.status.get_or_insert_default().phase = Some("Bound".into());
        assert!(finished.contains(&bound));
        assert!(
            !finished.contains(&volume("1", Some("a"))),
            "a user set a label"
        );
        assert!(
            !finished.contains(&volume("2", None)),
            "another volume of that name"
        );
        finished.foreign(&volume("1", None));
        assert!(
            finished.contains(&volume("1", Some("a"))) && !finished.contains(&volume("2", None))
        );
    }

    #[test]
    fn deleted_volume_is_forgotten_and_its_namesake_is_not() {
        let finished = FinishedVolumes::default();
        finished.settled(&volume("2", None));
        finished.forget(&volume("1", None));
        assert!(finished.contains(&volume("2", None)));
        finished.forget(&volume("2", None));
        assert!(!finished.contains(&volume("2", None)));
    }
}
