//! Operations of users: they create, change and delete Services and volumes.

use std::fmt::Debug;

use anyhow::{Context, Result};
use ccm_tests::service_object::load_balancer;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{PersistentVolume, Service};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kubelets::OURS;
use crate::scene::Scene;

/// Default ports of a Service.
pub(crate) const PORTS: [u16; 2] = [80, 443];

impl Scene {
    pub(crate) fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Creates a Service with [`PORTS`], changed by a merge patch before it is created.
    pub(crate) async fn create_service(&self, name: &str, change: &Value) -> Result<Service> {
        let mut object = load_balancer(name, &PORTS);
        object["metadata"]["labels"][OURS] = json!("true");
        merge(&mut object, change);
        let service = serde_json::from_value(object)?;
        self.services()
            .create(&PostParams::default(), &service)
            .await
            .with_context(|| format!("creating {name}"))
    }

    /// Creates `count` Services with [`PORTS`].
    pub(crate) async fn create_services(&self, count: usize) -> Result<Vec<String>> {
        let names = self.names(count);
        for name in &names {
            self.create_service(name, &json!({})).await?;
        }
        Ok(names)
    }

    /// Changes a Service by a merge patch.
    pub(crate) async fn change_service(&self, name: &str, change: Value) -> Result<Service> {
        let changed = self
            .services()
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await;
        changed.with_context(|| format!("changing {name}"))
    }

    /// Deletes Services; they go once nothing holds them.
    pub(crate) async fn delete_services(&self, names: &[String]) -> Result<()> {
        for name in names {
            self.services()
                .delete(name, &DeleteParams::background())
                .await
                .with_context(|| format!("deleting {name}"))?;
        }
        Ok(())
    }
}

/// Merges JSON by RFC 7386.
fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                match value {
                    Value::Null => _ = target.remove(key),
                    value => merge(target.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (target, change) => *target = change.clone(),
    }
}

/// Removes every webhook, policy, Service and volume of these tests, with its finalizers.
pub(crate) async fn clean_up(client: &Client) -> Result<()> {
    let_go(Api::<ValidatingWebhookConfiguration>::all(client.clone()))
        .await
        .context("webhooks")?;
    let_go(Api::<ValidatingAdmissionPolicyBinding>::all(client.clone()))
        .await
        .context("bindings of policies")?;
    let_go(Api::<ValidatingAdmissionPolicy>::all(client.clone()))
        .await
        .context("policies")?;
    let_go(Api::<RoleBinding>::default_namespaced(client.clone()))
        .await
        .context("role bindings")?;
    let_go(Api::<Service>::default_namespaced(client.clone()))
        .await
        .context("Services")?;
    let_go(Api::<PersistentVolume>::all(client.clone()))
        .await
        .context("volumes")
}

async fn let_go<K>(api: Api<K>) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    for object in api
        .list_metadata(&ListParams::default().labels(OURS))
        .await?
    {
        let name = object.name_any();
        let gone = |result: kube::Result<()>| match result {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other,
        };
        gone(
            api.delete(&name, &DeleteParams::background())
                .await
                .map(drop),
        )?;
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        gone(
            api.patch_metadata(&name, &PatchParams::default(), &free)
                .await
                .map(drop),
        )?;
    }
    Ok(())
}
