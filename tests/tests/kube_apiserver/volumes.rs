//! Topology labels of volumes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::{LABEL_REGION, LABEL_ZONE};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::ResourceExt;
use kube::api::PostParams;
use provider_simulated::cloud::{DEFAULT_PROJECT, Volume};
use serde_json::{Value, json};

use crate::cluster::events;
use crate::environment::Environment;
use crate::kubelets::OURS;
use crate::scene::{SOON, Scene, play_counted};

const DRIVER: &str = "simulated.csi";
const WITH_VOLUMES: [&str; 1] = ["--controllers=*,persistent-volume-label-controller"];

async fn create_volume(
    scene: &Scene,
    name: &str,
    driver: &str,
    handle: &str,
    labels: &Value,
) -> Result<()> {
    let mut object = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {OURS: "true"}},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "e2e",
            "csi": {"driver": driver, "volumeHandle": handle},
        },
    });
    for (key, value) in labels.as_object().into_iter().flatten() {
        object["metadata"]["labels"][key] = value.clone();
    }
    let created = scene
        .volumes()
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await;
    created.with_context(|| format!("creating volume {name}"))?;
    Ok(())
}

/// Returns every term of a volume's node affinity, as (key, values).
fn affinity(volume: &PersistentVolume) -> Vec<BTreeSet<(String, Vec<String>)>> {
    let spec = volume.spec.as_ref();
    let required = spec.and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let terms = required
        .map(|required| &*required.node_selector_terms)
        .unwrap_or_default();
    let expressions = terms
        .iter()
        .map(|term| term.match_expressions.as_deref().unwrap_or_default());
    let read = |expressions: &[k8s_openapi::api::core::v1::NodeSelectorRequirement]| {
        expressions
            .iter()
            .map(|expression| {
                (
                    expression.key.clone(),
                    expression.values.clone().unwrap_or_default(),
                )
            })
            .collect()
    };
    expressions.map(read).collect()
}

fn check(volume: &PersistentVolume, zones: &[&str], region: &str) -> Result<()> {
    let name = volume.name_any();
    let label = |key: &str| volume.labels().get(key).map(String::as_str);
    let joined = zones.join("__");
    ensure!(
        label(LABEL_ZONE) == Some(&joined),
        "{name} has zone {:?}",
        label(LABEL_ZONE)
    );
    ensure!(
        label(LABEL_REGION) == Some(region),
        "{name} has region {:?}",
        label(LABEL_REGION)
    );
    let wanted = BTreeSet::from([
        (
            LABEL_ZONE.to_owned(),
            zones.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ),
        (LABEL_REGION.to_owned(), vec![region.to_owned()]),
    ]);
    ensure!(
        affinity(volume) == [wanted],
        "{name} has the affinity {:?}",
        affinity(volume)
    );
    Ok(())
}

pub(crate) async fn volumes_of_this_cloud_get_their_topology_and_others_are_left_alone(
    environment: &Environment,
) -> Result<()> {
    play_counted(environment, "volumes", &WITH_VOLUMES, async |scene| {
        let names = scene.names(4);
        for (handle, zones) in [
            ("v-1", vec!["sim-1a"]),
            ("v-2", vec!["sim-1a", "sim-1b"]),
            ("v-3", vec!["sim-1c"]),
        ] {
            scene.cloud().add_volume(Volume {
                id: handle.to_owned(),
                zones: zones.into_iter().map(str::to_owned).collect(),
                region: "sim-1".to_owned(),
                project: DEFAULT_PROJECT.to_owned(),
            });
        }
        // The volume of another driver is the first: when the others are done, the controller has processed it.
        create_volume(scene, &names[3], "other.example.com", "v-1", &json!({})).await?;
        create_volume(
            scene,
            &names[2],
            DRIVER,
            "v-3",
            &json!({LABEL_ZONE: "by-hand"}),
        )
        .await?;
        create_volume(scene, &names[0], DRIVER, "v-1", &json!({})).await?;
        create_volume(scene, &names[1], DRIVER, "v-2", &json!({})).await?;
        for (name, zones) in [
            (&names[0], &["sim-1a"][..]),
            (&names[1], &["sim-1a", "sim-1b"]),
        ] {
            until(&format!("{name} has its topology"), SOON, async || {
                check(&scene.volumes().get(name).await?, zones, "sim-1")
            })
            .await?;
        }
        // A user's label stays; an event reports that the cloud differs.
        until("the contradiction is told", SOON, async || {
            let said = all_events(scene, &names[2]).await?;
            ensure!(!said.is_empty(), "there is no event about {}", names[2]);
            Ok(())
        })
        .await?;
        let by_hand = scene.volumes().get(&names[2]).await?;
        ensure!(
            by_hand.labels()[LABEL_ZONE] == "by-hand",
            "the label is now {:?}",
            by_hand.labels()
        );
        let other = scene.volumes().get(&names[3]).await?;
        ensure!(
            !other.labels().contains_key(LABEL_ZONE),
            "somebody else's volume got labels: {:?}",
            other.labels()
        );
        let mut writes = scene.writes();
        writes.retain(|request| request.resource.starts_with("persistentvolumes"));
        for name in &names[..2] {
            let ours: Vec<_> = writes
                .iter()
                .filter(|request| request.name == *name)
                .collect();
            // kube-controller-manager also writes to a new volume, and may have been faster: then the patch was
            // refused, and sent again.
            let (written, refused): (Vec<_>, Vec<_>) =
                ours.into_iter().partition(|request| request.succeeded());
            ensure!(
                written.len() == 1,
                "{name} was written {} times",
                written.len()
            );
            ensure!(
                refused.iter().all(|request| request.status == 409),
                "{name} was refused with {refused:?}"
            );
        }
        ensure!(
            !writes.iter().any(|request| request.name == names[3]),
            "somebody else's volume was written"
        );
        Ok(())
    })
    .await
}

/// Returns the messages of the binary's events about a volume.
async fn all_events(scene: &Scene, name: &str) -> Result<Vec<String>> {
    let said = events(
        &scene.client,
        "PersistentVolume",
        name,
        "VolumeTopologyConflict",
    )
    .await?;
    Ok(said.into_iter().filter_map(|event| event.message).collect())
}
