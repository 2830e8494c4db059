//! The Lease as a person sees it.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

/// Name of the Lease, used by no other test.
pub(crate) const NAME: &str = "e2e-replicas";
const NAMESPACE: &str = "kube-system";

pub(crate) struct TheLease(Api<Lease>);

/// Holder of the Lease, and the times in it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) by: String,
    pub(crate) since: Timestamp,
    pub(crate) renewed: Timestamp,
}

impl TheLease {
    pub(crate) fn of(client: &Client) -> Self {
        Self(Api::namespaced(client.clone(), NAMESPACE))
    }

    /// Returns the holder; `None` if the Lease is released or does not exist.
    pub(crate) async fn held(&self) -> Result<Option<Held>> {
        let lease = self.0.get_opt(NAME).await.context("reading the lease")?;
        let read = |spec: LeaseSpec| {
            Some(Held {
                by: spec.holder_identity?,
                since: spec.acquire_time?.0,
                renewed: spec.renew_time?.0,
            })
        };
        Ok(lease
            .and_then(|lease| read(lease.spec?))
            .filter(|held| !held.by.is_empty()))
    }

    /// Returns the number of changes of the holder.
    pub(crate) async fn transitions(&self) -> Result<i32> {
        let lease = self.0.get(NAME).await?;
        Ok(lease
            .spec
            .and_then(|spec| spec.lease_transitions)
            .unwrap_or_default())
    }

    pub(crate) async fn delete(&self) -> Result<()> {
        match self.0.delete(NAME, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(drop).context("deleting the lease"),
        }
    }

    pub(crate) async fn write(&self, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(serde_json::json!({"spec": spec}));
        self.0
            .patch(NAME, &PatchParams::default(), &patch)
            .await
            .map(drop)
            .context("writing the lease")
    }
}
