//! Readiness gates of Pods: `service.readiness.alibabacloud.com/<Service>` is closed until the Pod is a backend.
//!
//! A Pod whose gate is closed is not ready, so that its EndpointSlice does not count it. It is a backend all the same as
//! soon as its containers are ready.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Result};
use provider_kit::cluster::ClusterView;
use serde_json::{Value, json};

/// Prefix of the condition; the name of the Service follows.
const CONDITION: &str = "service.readiness.alibabacloud.com/";

/// Pods that wait for their readiness gates.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Waiting {
    /// The Pods whose containers are ready, by their paths, with the state of their gates.
    pub(crate) pods: BTreeMap<String, Gate>,
    /// If set, containers of other Pods with such a gate are not ready yet.
    pub(crate) is_incomplete: bool,
}

/// A readiness gate: its Pod, and its state if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) path: String,
    is_open: Option<bool>,
}

impl Gate {
    /// Opens or closes the gate, unless it is in that state. Its Pod may not exist any more.
    ///
    /// # Errors
    /// The refusal of the API server.
    pub(crate) async fn set(
        &self,
        cluster: &ClusterView,
        service: &str,
        is_open: bool,
    ) -> Result<()> {
        if self.is_open == Some(is_open) {
            return Ok(());
        }
        let [status, reason, message] = match is_open {
            true => [
                "True",
                "ServerRegistered",
                "The backend has been added to the server group",
            ],
            false => [
                "False",
                "ServerInvalidServer",
                "The backend cannot be added to the server group yet",
            ],
        };
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let condition = json!({"type": format!("{CONDITION}{service}"), "status": status, "reason": reason,
            "message": message, "lastTransitionTime": now});
        cluster
            .patch_status(&self.path, &json!({"status": {"conditions": [condition]}}))
            .await
            .map(drop)
    }
}

/// Returns the path of the Pod of an endpoint in the Kubernetes API.
pub(crate) fn path(endpoint: &Value) -> Option<String> {
    let target = &endpoint["targetRef"];
    let name = target["name"]
        .as_str()
        .filter(|_| target["kind"] == "Pod")?;
    Some(format!(
        "/api/v1/namespaces/{}/pods/{name}",
        target["namespace"].as_str()?
    ))
}

/// Reads the Pods of endpoints that are not ready, and returns those that wait for the gate of the Service.
///
/// # Errors
/// Each failed read.
pub(crate) async fn waiting(
    cluster: &ClusterView,
    slices: &[Value],
    service: &str,
) -> Result<Waiting> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let endpoints = slices.iter().flat_map(|slice| list(&slice["endpoints"]));
    let is_closed = |object: &Value| {
        object["conditions"]["ready"] != true && object["conditions"]["terminating"] != true
    };
    let unready: BTreeSet<_> = endpoints
        .filter(is_closed)
        .filter_map(|endpoint| path(&endpoint))
        .collect();
    let mut found = Waiting::default();
    for path in unready {
        let (status, pod) = cluster.get(&path).await?;
        match status.as_u16() {
            200 => {}
            404 => continue,
            // Services of clusters whose role is older than the gates are synced all the same.
            403 => {
                tracing::warn!(
                    path,
                    "cannot read Pod for its readiness gate; allow get of pods"
                );
                continue;
            }
            _ => return Err(Error::other(format!("cannot read {path}: status {status}"))),
        }
        match gate_of(&pod, service) {
            Some((true, is_open)) => drop(found.pods.insert(path.clone(), Gate { path, is_open })),
            Some((false, _)) => found.is_incomplete = true,
            None => {}
        }
    }
    Ok(found)
}

/// Returns whether the containers of a Pod with the gate of the Service are ready, and the state of the gate.
fn gate_of(pod: &Value, service: &str) -> Option<(bool, Option<bool>)> {
    let find = |list: &Value, key: &str, value: &str| {
        list.as_array()
            .into_iter()
            .flatten()
            .find(|object| object[key] == value)
            .cloned()
    };
    let gate = format!("{CONDITION}{service}");
    find(&pod["spec"]["readinessGates"], "conditionType", &gate)?;
    let status = |condition: &str| {
        find(&pod["status"]["conditions"], "type", condition).map(|find| find["status"] == "True")
    };
    Some((status("ContainersReady") == Some(true), status(&gate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_waits_for_the_gate_of_its_service_when_its_containers_are_ready() {
        let pod = |gate: &str, status: &str| {
            json!({"spec": {"readinessGates": [{"conditionType": gate}]},
                "status": {"conditions": [{"type": "ContainersReady", "status": status}]}})
        };
        let gate = "service.readiness.alibabacloud.com/web";
        assert_eq!(gate_of(&pod(gate, "True"), "web"), Some((true, None)));
        assert_eq!(gate_of(&pod(gate, "False"), "web"), Some((false, None)));
        assert_eq!(gate_of(&pod(gate, "True"), "other"), None);
        assert_eq!(gate_of(&json!({}), "web"), None);
    }
}
