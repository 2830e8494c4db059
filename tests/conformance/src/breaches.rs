//! Requests that must never be sent, judged at the moment at which they are.

use std::sync::Arc;

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use embedded_apiserver::ApiServer;
use http::Method;
use parking_lot::Mutex;

use crate::fault_injector::{Passed, Side};
use crate::profile::CloudProfile;

/// Violations that were found so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Breaches(Arc<Mutex<Vec<String>>>);

impl Breaches {
    /// Returns the violations in words.
    #[must_use]
    pub fn found(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn note(&self, breach: String) {
        self.0.lock().push(breach);
    }

    /// Judges a request that is about to be carried out.
    pub(crate) fn look_at(
        &self,
        api: &ApiServer,
        cloud: &dyn CloudProfile,
        request: &Passed,
        body: &[u8],
    ) {
        match request.side {
            Side::Kubernetes => self.node_deleted(api, cloud, request),
            Side::Cloud if request.is_mutation() && !body.is_empty() => {
                self.cloud_changed(api, request, body);
            }
            Side::Cloud => {}
        }
    }

    /// Checks INV-1: a Node whose machine exists is never deleted.
    fn node_deleted(&self, api: &ApiServer, cloud: &dyn CloudProfile, request: &Passed) {
        let path = request.target.split('?').next().unwrap_or_default();
        let Some(name) = path
            .strip_prefix("/api/v1/nodes/")
            .filter(|_| request.method == Method::DELETE)
        else {
            return;
        };
        let Some(node) = api.get("nodes", None, name) else {
            return;
        };
        let id = node["spec"]["providerID"].as_str().unwrap_or_default();
        let is_its_machine = |machine: &crate::profile::Machine| {
            if id.is_empty() {
                machine.name == name
            } else {
                machine.provider_id == id
            }
        };
        if cloud.machines().iter().any(is_its_machine) {
            self.note(format!(
                "Node {name} is deleted although its machine exists (INV-1)"
            ));
        }
    }

    /// Checks INV-2: the finalizer is durable before the first cloud write.
    fn cloud_changed(&self, api: &ApiServer, request: &Passed, body: &[u8]) {
        let body = String::from_utf8_lossy(body);
        for service in api.list("services") {
            let metadata = &service["metadata"];
            let uid = metadata["uid"].as_str().unwrap_or_default();
            let has_finalizer = metadata["finalizers"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER);
            if !has_finalizer && body.contains(uid) {
                self.note(format!(
                    "{request} for Service {} before its finalizer (INV-2)",
                    metadata["name"]
                ));
            }
        }
    }
}
