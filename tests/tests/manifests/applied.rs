//! A real API server takes the manifests as they are, every field of them.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::accounts;
use crate::cluster::connect;
use crate::cluster_objects::{apply, is_built_in, remove};
use crate::documents::read;
use crate::environment::Environment;
use crate::helm::Helm;
use crate::pods::{KINDS, values};

/// Applies the documents as a dry run, then for good, then once more, which changes nothing; and removes them.
async fn take(environment: &Environment, documents: &[Value]) -> Result<()> {
    let client = connect(environment).await?;
    // kube-controller-manager creates it, if it runs; the API server refuses Pods without it.
    apply(&client, &[accounts::document("kube-system/default")], false).await?;
    let documents: Vec<_> = documents
        .iter()
        .filter(|document| is_built_in(document))
        .cloned()
        .collect();
    let taken = async {
        apply(&client, &documents, true)
            .await
            .context("rehearsed")?;
        apply(&client, &documents, false).await?;
        apply(&client, &documents, false).await.context("once more")
    };
    let taken = taken.await;
    remove(&client, &documents).await?;
    taken
}

pub(crate) async fn the_plain_manifests_are_taken_by_a_real_cluster(
    environment: &Environment,
) -> Result<()> {
    for files in [
        &[
            "manifests/rbac.yaml",
            "manifests/rbac-volumes.yaml",
            "manifests/daemonset.yaml",
        ][..],
        &["manifests/rbac.yaml", "manifests/deployment.yaml"],
        &["manifests/simulated.yaml"],
        &["manifests/digitalocean.yaml"],
        &["manifests/gcp.yaml"],
        &["manifests/hcloud.yaml"],
        &["manifests/alibaba.yaml"],
        &["manifests/aws.yaml"],
        &["manifests/azure.yaml"],
        &["manifests/hcloud-networks.yaml"],
        &["manifests/mycloud.yaml"],
        &["manifests/baidu.yaml"],
        &["manifests/keepalived.yaml"],
        &["manifests/linode.yaml"],
        &["manifests/oci.yaml"],
        &["manifests/openstack.yaml"],
        &["manifests/rancher.yaml"],
        &["manifests/tencent.yaml"],
        &["manifests/static-pod.yaml"],
    ] {
        take(environment, &read(files)?)
            .await
            .with_context(|| files.join(", "))?;
    }
    Ok(())
}

pub(crate) async fn the_chart_is_taken_by_a_real_cluster(
    environment: &Environment,
    helm: &Helm,
) -> Result<()> {
    for (name, kind) in KINDS {
        take(environment, &helm.render(&values(kind))?)
            .await
            .with_context(|| name.to_owned())?;
    }
    Ok(())
}
