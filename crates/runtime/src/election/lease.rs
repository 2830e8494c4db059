//! The Lease object and what an election reads of it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::events::ObjectRef;

/// The API has 32 bits for seconds and for transitions.
const MOST: i64 = i32::MAX as i64;
pub(super) const API_VERSION: &str = "coordination.k8s.io/v1";

/// A Lease as the API server has it. Whatever is in it and no rule names is kept when it is written (APP-62).
///
/// ```
/// use runtime::election::{Lease, Record};
///
/// let lease: Lease = serde_json::from_value(serde_json::json!({
///     "metadata": {"name": "x", "labels": {"team": "a"}},
///     "spec": {"holderIdentity": "host_1", "strategy": "OldestEmulationVersion"},
/// }))?;
/// let taken = lease.with(&Record { holder: "host_2".into(), ..lease.record() });
/// assert_eq!(taken.record().holder, "host_2");
/// assert!(serde_json::to_string(&taken)?.contains("OldestEmulationVersion"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lease(Value);

/// Holder and times of a Lease: the fields that decide an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Identity of the holder; empty if the Lease has none.
    pub holder: String,
    /// Lease duration in seconds, for which candidates wait for the holder; 0 if the Lease does not have it.
    pub duration_seconds: i64,
    /// Time at which the holder acquired the Lease, as written; empty if the Lease does not have it.
    pub acquired: String,
    /// Time of the last renewal, as written. The holder's clock set it, hence it is only compared for equality.
    pub renewed: String,
    /// Number of changes of the holder.
    pub transitions: i64,
}

impl Record {
    /// Returns the number of transitions after one more. A number beyond the API's range restarts at the beginning, or
    /// the Lease could never be acquired again.
    pub(super) fn next_transitions(&self) -> i64 {
        if (0..MOST).contains(&self.transitions) {
            self.transitions + 1
        } else {
            0
        }
    }

    /// Returns the lease duration, or `default` if the Lease does not have it, up to the largest value of the API.
    #[must_use]
    pub fn duration(&self, default: Duration) -> Duration {
        match u64::try_from(self.duration_seconds.min(MOST)) {
            Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => default,
        }
    }
}

impl Lease {
    /// Returns `true` if the object was stored by an API server, that is, if it has a resource version.
    pub(super) fn is_stored(&self) -> bool {
        self.0.is_object()
            && self.0["metadata"]["resourceVersion"]
                .as_str()
                .is_some_and(|version| !version.is_empty())
    }

    /// Creates a Lease with `record`.
    #[must_use]
    pub fn new(namespace: &str, name: &str, record: &Record) -> Self {
        let empty = json!({"apiVersion": API_VERSION, "kind": "Lease", "metadata": {"namespace": namespace, "name": name}});
        Self(empty).with(record)
    }

    /// Returns the fields of the Lease that decide an election.
    #[must_use]
    pub fn record(&self) -> Record {
        let spec = &self.0["spec"];
        let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| spec[key].as_i64().unwrap_or_default();
        Record {
            holder: text("holderIdentity"),
            duration_seconds: number("leaseDurationSeconds"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: number("leaseTransitions"),
        }
    }

    /// Returns the Lease with another record and otherwise unchanged. It still carries UID and resource version, so
    /// that the API server rejects the write after a concurrent one.
    #[must_use]
    pub fn with(&self, record: &Record) -> Self {
        let mut whole = if self.0.is_object() {
            self.0.clone()
        } else {
            json!({})
        };
        if !whole["spec"].is_object() {
            whole["spec"] = json!({});
        }
        let spec = &mut whole["spec"];
        spec["holderIdentity"] = json!(record.holder);
        spec["leaseDurationSeconds"] = json!(record.duration_seconds);
        spec["acquireTime"] = json!(record.acquired);
        spec["renewTime"] = json!(record.renewed);
        spec["leaseTransitions"] = json!(record.transitions);
        Self(whole)
    }

    /// Returns the object reference of events about the Lease.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        let text = |key: &str| {
            self.0["metadata"][key]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        ObjectRef {
            api_version: API_VERSION.to_owned(),
            kind: "Lease".to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        }
    }
}

/// Formats a time as in Leases, with microseconds.
pub(super) fn api_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_of_a_lease_are_kept() {
        let before = json!({
            "apiVersion": API_VERSION, "kind": "Lease", "future": [1],
            "metadata": {"name": "x", "resourceVersion": "7", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"holderIdentity": "old", "strategy": "s", "preferredHolder": "p", "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:01.000000Z", "leaseTransitions": 3},
        });
        let lease: Lease = serde_json::from_value(before.clone()).unwrap();
        let record = Record {
            holder: "new".into(),
            transitions: 4,
            ..lease.record()
        };
        let mut expected = before;
        expected["spec"]["holderIdentity"] = json!("new");
        expected["spec"]["leaseTransitions"] = json!(4);
        assert_eq!(serde_json::to_value(lease.with(&record)).unwrap(), expected);
    }

    #[test]
    fn a_lease_that_a_person_made_by_hand_is_free() {
        for spec in [
            json!(null),
            json!({}),
            json!({"holderIdentity": null}),
            json!({"leaseDurationSeconds": "x"}),
        ] {
            let lease: Lease =
                serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap();
            assert_eq!(lease.record(), Record::default());
            assert_eq!(
                lease.record().duration(Duration::from_secs(15)),
                Duration::from_secs(15)
            );
            assert_eq!(
                lease
                    .with(&Record {
                        holder: "me".into(),
                        ..Record::default()
                    })
                    .record()
                    .holder,
                "me"
            );
        }
    }

    #[test]
    fn invalid_lease_can_be_acquired() {
        for whole in [
            json!([]),
            json!("ok"),
            json!(7),
            json!(null),
            json!({"spec": []}),
            json!({"metadata": "x"}),
        ] {
            let lease = Lease(whole.clone());
            assert!(!lease.is_stored(), "{whole}");
            assert_eq!(
                lease
                    .with(&Record {
                        holder: "me".into(),
                        ..lease.record()
                    })
                    .record()
                    .holder,
                "me",
                "{whole}"
            );
        }
        for (before, after) in [
            (0, 1),
            (-3, 0),
            (2_147_483_646, 2_147_483_647),
            (2_147_483_647, 0),
            (i64::MAX, 0),
        ] {
            assert_eq!(
                Record {
                    transitions: before,
                    ..Record::default()
                }
                .next_transitions(),
                after,
                "{before}"
            );
        }
        let endless = Record {
            duration_seconds: i64::MAX,
            ..Record::default()
        }
        .duration(Duration::from_secs(15));
        assert!(
            tokio::time::Instant::now().checked_add(endless).is_some(),
            "{endless:?}"
        );
    }

    #[test]
    fn times_have_microseconds() {
        let time: Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
        assert_eq!(api_time(time), "2026-01-02T03:04:05.600000Z");
    }
}
