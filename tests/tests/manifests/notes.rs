//! The text that `helm install` prints: what the cluster lacks, and commands for this very release.

use anyhow::{Result, ensure};
use manager::flags::{Flags, Parsed};
use serde_json::{Map, Value, json};

use crate::helm::Helm;

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Returns the part of the text about what is missing, for these values in a cluster with these objects.
fn missing(helm: &Helm, values: &Value, objects: &Value) -> Result<String> {
    let mut all = object(objects);
    all.insert(
        "Namespace//kube-system".to_owned(),
        json!({"kind": "Namespace"}),
    );
    let notes = helm.notes_as(("ccm", "kube-system"), &object(values), &all)?;
    let part = notes
        .split_once("WHAT IS MISSING")
        .map(|(_, rest)| rest.split("SEE THAT IT WORKS").next());
    Ok(part.flatten().unwrap_or_default().trim().to_owned())
}

pub(crate) fn the_notes_name_what_the_cluster_lacks(helm: &Helm) -> Result<()> {
    let token = json!({"data": {"token": "eA=="}});
    let tls = json!({"data": {"tls.crt": "eA==", "tls.key": "eA=="}});
    for (values, objects, wanted) in [
        (
            json!({"provider": "hcloud", "secret": "x"}),
            json!({}),
            "The Secret x does not exist in kube-system",
        ),
        (
            json!({"provider": "hcloud", "secret": "x"}),
            json!({"Secret/kube-system/x": token}),
            "",
        ),
        (
            json!({"provider": "hcloud", "secret": "x"}),
            json!({"Secret/kube-system/x": {"data": {"token": ""}}}),
            "The key token of the Secret x is empty",
        ),
        (
            json!({"provider": "hcloud", "secret": "x"}),
            json!({"Secret/kube-system/x": {"data": {"a": "eA=="}}}),
            "The Secret x lacks the key token",
        ),
        (
            json!({"provider": "hcloud", "secret": "x", "clusterCIDR": "10.0.0.0/8"}),
            json!({"Secret/kube-system/x": token}),
            "The Secret x lacks the key network: Name or ID of the private network",
        ),
        (
            json!({"provider": "hcloud", "secret": "x", "robot": {"enabled": true}}),
            json!({"Secret/kube-system/x": token}),
            "The Secret x lacks the key robot-user",
        ),
        (
            json!({"provider": "openstack", "secret": "x", "cloudConfig": {"key": "other.conf"}}),
            json!({"Secret/kube-system/x": {"data": {"other.conf": "eA=="}}}),
            "",
        ),
        (
            json!({"provider": "openstack", "cloudConfig": {"secretName": "y"}}),
            json!({}),
            "The Secret y does not exist",
        ),
        (
            json!({"provider": "openstack", "cloudConfig": {"configMapName": "y"}}),
            json!({"ConfigMap/kube-system/y": {"data": {"a": "b"}}}),
            "The ConfigMap y lacks the key cloud.conf",
        ),
        (
            json!({"provider": "aws", "tls": {"secretName": "y"}}),
            json!({}),
            "The Secret y does not exist",
        ),
        (
            json!({"provider": "aws", "tls": {"secretName": "y"}}),
            json!({"Secret/kube-system/y": tls}),
            "",
        ),
        (
            json!({"provider": "aws", "tls": {"secretName": "y"}, "serviceMonitor": {"enabled": true}}),
            json!({"Secret/kube-system/y": tls}),
            "The Secret y lacks the key ca.crt",
        ),
        (
            json!({"provider": "aws", "webhook": {"enabled": true, "secretName": "y", "caBundle": "z"}}),
            json!({"Secret/kube-system/y": {"data": {"tls.crt": "eA=="}}}),
            "The Secret y lacks the key tls.key",
        ),
        (
            json!({"provider": "aws"}),
            json!({"Node//": {"items": [{"metadata": {"labels": {"a": "b"}}}, {"metadata": {}}]}}),
            "No Node has the label node-role.kubernetes.io/control-plane",
        ),
        (
            json!({"provider": "aws"}),
            json!({"Node//": {"items": [{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}]}}),
            "",
        ),
        (
            json!({"provider": "aws", "controlPlaneOnly": false}),
            json!({"Node//": {"items": [{"metadata": {}}]}}),
            "",
        ),
        (
            json!({"provider": "aws", "serviceAccount": {"create": false, "name": "y"}}),
            json!({}),
            "The ServiceAccount y does not exist",
        ),
    ] {
        let got = missing(helm, &values, &objects)?;
        let is_right = if wanted.is_empty() {
            got.is_empty()
        } else {
            got.contains(wanted)
        };
        ensure!(
            is_right,
            "{values} in a cluster with {objects}: {got:?} lacks {wanted:?}"
        );
    }
    Ok(())
}

/// Returns the words of a command of the text, as a shell reads them. Quotes are around whole words only.
fn words(notes: &str, command: &str) -> Vec<String> {
    let line = notes
        .lines()
        .find_map(|line| line.split_once(command))
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let mut found = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => found.push(String::new()),
            other => found
                .last_mut()
                .into_iter()
                .for_each(|word| word.push(other)),
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

pub(crate) fn the_notes_give_doctor_the_flags_of_the_release(helm: &Helm) -> Result<()> {
    let values = json!({
        "provider": "hcloud", "secret": "x", "name": "second", "clusterName": "my cluster", "clusterCIDR": "10.0.0.0/8",
        "controllers": {"node": false}, "rbac": {"explain": true}, "extraArgs": {"concurrent-service-syncs": 3},
    });
    let notes = helm.notes_as(("two", "lb"), &object(&values), &Map::new())?;
    for command in [
        "/cloud-controller-manager doctor ",
        "/cloud-controller-manager explain node NAME ",
    ] {
        let got = words(&notes, command);
        for wanted in [
            "--cloud-provider=hcloud",
            "--cluster-name=my cluster",
            "--cluster-cidr=10.0.0.0/8",
            "--controllers=cloud-node-lifecycle-controller,service-lb-controller,node-route-controller",
            "--leader-elect-resource-name=second",
            "--leader-elect-resource-namespace=lb",
            "--concurrent-service-syncs=3",
        ] {
            ensure!(
                got.iter().any(|word| word == wanted),
                "{command}: {wanted} is not in {got:?}"
            );
        }
        let program = std::iter::once("cloud-controller-manager".into());
        let parsed = Flags::parse(program.chain(got.iter().map(Into::into)));
        ensure!(
            matches!(parsed, Parsed::Flags(_)),
            "{command}: the program refuses {got:?}"
        );
    }
    ensure!(
        notes.contains("a second manager needs ports of its own"),
        "{notes}"
    );

    let usual = helm.notes(&object(
        &json!({"provider": "hcloud", "secret": "x", "clusterCIDR": "10.0.0.0/8"}),
    ))?;
    let got = words(&usual, "/cloud-controller-manager doctor ");
    ensure!(
        got == ["--cloud-provider=hcloud", "--cluster-cidr=10.0.0.0/8"],
        "{got:?}"
    );
    ensure!(
        !usual.contains("explain") && !usual.contains("ports of its own"),
        "{usual}"
    );
    Ok(())
}

pub(crate) fn the_notes_warn_of_credentials_in_variables(helm: &Helm) -> Result<()> {
    let values = json!({"provider": "hcloud", "secret": "x", "env": {"HCLOUD_TOKEN": "plain"}});
    let notes = helm.notes(&object(&values))?;
    for part in [
        "HCLOUD_TOKEN takes precedence over the file",
        "HCLOUD_TOKEN is a credential as plain text",
    ] {
        ensure!(notes.contains(part), "the notes lack {part:?}:\n{notes}");
    }
    Ok(())
}
