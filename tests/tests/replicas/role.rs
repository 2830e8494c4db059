//! An identity with all permissions except to watch Leases, like the role of the Go cloud-controller-manager.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::json;

const NAME: &str = "e2e-replicas-no-watch-of-leases";
const USER: &str = "e2e-replicas";
const MANAGER: &str = "e2e";

/// Makes the role, and a kubeconfig in `directory` that acts with it alone.
pub(crate) async fn without_watch(
    client: &Client,
    kubeconfig: &Path,
    directory: &Path,
) -> Result<PathBuf> {
    let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    let verbs = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME},
        "rules": [
            {"apiGroups": ["", "authorization.k8s.io"], "resources": ["*"], "verbs": verbs},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    let apply = PatchParams::apply(MANAGER).force();
    roles
        .patch(NAME, &apply, &Patch::Apply(role))
        .await
        .context("the role")?;
    bindings
        .patch(NAME, &apply, &Patch::Apply(binding))
        .await
        .context("its binding")?;

    let mut file = Kubeconfig::read_from(kubeconfig)?;
    for user in &mut file.auth_infos {
        if let Some(user) = &mut user.auth_info {
            user.impersonate = Some(USER.to_owned());
        }
    }
    let path = directory.join("kubeconfig-no-watch");
    std::fs::write(&path, serde_json::to_string(&file)?)?;
    Ok(path)
}
