//! Documents as objects of a real cluster: applied as an operator applies them, and removed again.

use anyhow::{Context, Result, bail};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::Value;

use crate::documents::title;

/// Kinds in the manifests: API group and version, kind, plural, `true` for namespaced kinds.
const KINDS: [(&str, &str, &str, &str, bool); 14] = [
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "Pod", "pods", true),
    ("apps", "v1", "DaemonSet", "daemonsets", true),
    ("apps", "v1", "Deployment", "deployments", true),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        true,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        true,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
];

/// Kinds of an operator that the test cluster does not have.
const FOREIGN: [&str; 2] = ["ServiceMonitor", "PrometheusRule"];

/// Returns `true` if a cluster without further operators knows this document's kind.
pub(crate) fn is_built_in(document: &Value) -> bool {
    !FOREIGN.iter().any(|kind| document["kind"] == *kind)
}

fn api(client: &Client, document: &Value) -> Result<(Api<DynamicObject>, String)> {
    let kind = document["kind"].as_str().unwrap_or_default();
    let Some((group, version, _, plural, namespaced)) = KINDS.iter().find(|row| row.2 == kind)
    else {
        bail!(
            "{} is of a kind that this test does not know",
            title(document)
        );
    };
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let name = document["metadata"]["name"]
        .as_str()
        .context("an object without a name")?
        .to_owned();
    let api = match namespaced {
        true => {
            let namespace = document["metadata"]["namespace"].as_str();
            Api::namespaced_with(
                client.clone(),
                namespace.with_context(|| title(document))?,
                &resource,
            )
        }
        false => Api::all_with(client.clone(), &resource),
    };
    Ok((api, name))
}

/// Applies documents, server-side, with every field checked; with `dry_run` nothing is kept.
pub(crate) async fn apply(client: &Client, documents: &[Value], dry_run: bool) -> Result<()> {
    let params = PatchParams {
        dry_run,
        force: true,
        field_manager: Some("ccm-manifests".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    for document in documents {
        let (api, name) = api(client, document)?;
        let applied = api.patch(&name, &params, &Patch::Apply(document)).await;
        applied.with_context(|| format!("applying {}", title(document)))?;
    }
    Ok(())
}

/// Removes what these documents describe, if it is there.
pub(crate) async fn remove(client: &Client, documents: &[Value]) -> Result<()> {
    for document in documents.iter().rev() {
        let (api, name) = api(client, document)?;
        match api
            .delete(&name, &DeleteParams::background().grace_period(0))
            .await
        {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                return Err(error).with_context(|| format!("removing {}", title(document)));
            }
        }
    }
    Ok(())
}
