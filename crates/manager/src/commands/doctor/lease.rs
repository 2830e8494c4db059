//! Reports the holder of the leader election lease.

use std::time::Duration;

use cloud_provider::Finding;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use runtime::api_error::{api_error, is_not_found};

use crate::commands::seconds;

/// The lease that the flags name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectedBy {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Duration of the lease (`--leader-elect-lease-duration`).
    pub duration: Duration,
}

pub(super) async fn check(client: &Client, lease: Option<&ElectedBy>, now: Timestamp) -> Finding {
    let Some(ElectedBy {
        namespace, name, ..
    }) = lease
    else {
        return Finding::ok(
            "lease",
            "not used (--leader-elect=false): make sure that only one replica runs",
        );
    };
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match api.get(name).await {
        Ok(lease) => judge(&format!("{namespace}/{name}"), &lease, now),
        Err(error) if is_not_found(&error) => Finding::warning(
            "lease",
            format!("{namespace}/{name} does not exist: no replica has led yet"),
            "start the manager; if it runs, read its log",
        ),
        Err(error) => Finding::warning(
            "lease",
            format!("{namespace}/{name} cannot be read: {}", api_error(&error)),
            "see the permissions above",
        ),
    }
}

/// Returns the holder, the time since its last renewal and the lease duration; `None` if no process holds the lease.
pub(crate) fn age(lease: &Lease, now: Timestamp) -> Option<(&str, Duration, Duration)> {
    let spec = lease.spec.as_ref()?;
    let holder = spec
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())?;
    let lasts = Duration::from_secs(
        u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or_default(),
    );
    let renewed = spec
        .renew_time
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Some((
        holder,
        Duration::try_from(now.duration_since(renewed)).unwrap_or_default(),
        lasts,
    ))
}

fn judge(name: &str, lease: &Lease, now: Timestamp) -> Finding {
    match age(lease, now) {
        None => Finding::warning(
            "lease",
            format!("{name} is held by nobody: the last holder has released it"),
            "start the manager; if it runs, read its log",
        ),
        Some((holder, age, lasts)) if age <= lasts => Finding::ok(
            "lease",
            format!("{name} is held by {holder}, renewed {} ago", seconds(age)),
        ),
        Some((holder, age, _)) => Finding::warning(
            "lease",
            format!(
                "{name} is held by {holder}, which has not renewed it for {}: no replica leads",
                seconds(age)
            ),
            "check that the manager runs and reaches the API server; the next replica that starts takes over",
        ),
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::Severity;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_that_is_renewed_is_well_and_any_other_is_said() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let judged = |holder: &str, renewed: &str| {
            let spec =
                json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
            judge(
                "kube-system/x",
                &serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap(),
                now,
            )
        };
        let fresh = judged("a_1", "2026-01-01T00:09:58.000000Z");
        assert_eq!(
            (fresh.severity, &*fresh.text),
            (
                Severity::Ok,
                "kube-system/x is held by a_1, renewed 2 s ago"
            )
        );
        let old = judged("a_1", "2026-01-01T00:00:00.000000Z");
        assert_eq!(old.severity, Severity::Warning);
        assert!(
            old.text
                .contains("not renewed it for 10 min: no replica leads"),
            "{}",
            old.text
        );
        assert!(
            judged("", "2026-01-01T00:09:58.000000Z")
                .text
                .contains("held by nobody")
        );
        let ahead = judged("a_1", "2026-01-01T00:10:05.000000Z");
        assert_eq!(ahead.severity, Severity::Ok, "its clock is ahead");
    }
}
