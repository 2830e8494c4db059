//! The Lease as a person sees it.

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

/// No other test's.
pub(crate) const NAME: &str = "e2e-replicas";
const NAMESPACE: &str = "kube-system";

pub(crate) struct TheLease(Api<Lease>);

impl TheLease {
    pub(crate) fn of(client: &Client) -> Self {
        Self(Api::namespaced(client.clone(), NAMESPACE))
    }

    /// Who holds it; nobody if it is empty or not there.
    pub(crate) async fn holder(&self) -> Result<Option<String>> {
        let lease = self.0.get_opt(NAME).await.context("reading the lease")?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.filter(|holder| !holder.is_empty()))
    }

    /// How often it changed hands.
    pub(crate) async fn transitions(&self) -> Result<i32> {
        let lease = self.0.get(NAME).await?;
        Ok(lease.spec.and_then(|spec| spec.lease_transitions).unwrap_or_default())
    }

    pub(crate) async fn delete(&self) -> Result<()> {
        match self.0.delete(NAME, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).context("deleting the lease"),
        }
    }

    pub(crate) async fn write(&self, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(serde_json::json!({"spec": spec}));
        self.0.patch(NAME, &PatchParams::default(), &patch).await.map(drop).context("writing the lease")
    }
}
