//! Planned changes of PersistentVolumes: labels and node affinity.

use std::sync::Arc;

use cloud_provider::names::VOLUME_LABEL_CONTROLLER;
use cloud_provider::{CloudProvider, PersistentVolume, PlanAction, Result, Volumes};
use controllers::volume::plan::{Plan, is_open};
use controllers::volume::topology::Topology;
use futures::{StreamExt as _, stream};

use super::report::{Kind, ObjectPlan, Report};
use crate::commands::ask;
use crate::controller_set::Settings;

/// Maximum number of volumes that are looked up in the cloud at the same time.
const AT_A_TIME: usize = 16;

/// Plans for all volumes that lack a label or the node affinity.
pub(super) async fn plan(
    settings: &Settings,
    provider: &dyn CloudProvider,
    volumes: &[Arc<PersistentVolume>],
    report: &mut Report,
) {
    let Some(cloud) = provider
        .volumes()
        .filter(|_| settings.wants(VOLUME_LABEL_CONTROLLER))
    else {
        return;
    };
    report
        .looked_at
        .insert(Kind::PersistentVolume, volumes.len());
    let plans = stream::iter(volumes.iter().filter(|volume| is_open(volume)))
        .map(|volume| async move {
            let mut plan = ObjectPlan::default();
            if let Err(error) = of_one(provider.name(), cloud, volume, &mut plan).await {
                plan.errors.push(error.to_string());
            }
            (volume, plan)
        })
        .buffered(AT_A_TIME);
    for (volume, plan) in plans.collect::<Vec<_>>().await {
        report.add(
            Kind::PersistentVolume,
            "",
            volume.metadata.name.as_deref().unwrap_or_default(),
            plan,
        );
    }
}

async fn of_one(
    provider: &str,
    cloud: &dyn Volumes,
    volume: &PersistentVolume,
    plan: &mut ObjectPlan,
) -> Result<()> {
    let labels = match ask(provider, async { cloud.labels(volume).await }).await {
        // A provider that does not implement this call has no volumes.
        Err(error) if error.is_not_implemented() => None,
        answer => answer?,
    };
    let Some(labels) = labels else { return Ok(()) };
    match Plan::make(volume, &Topology::from_labels(&labels)?) {
        Ok(made) => {
            for (key, value) in &made.labels {
                plan.kubernetes(PlanAction::Create, format!("label {key}"), value);
            }
            if made.affinity.is_some() {
                plan.kubernetes(
                    PlanAction::Create,
                    "node affinity",
                    "of its zones and region",
                );
            }
            plan.notes.extend(made.note());
        }
        Err(conflicts) => plan.notes.extend(
            conflicts
                .iter()
                .map(|conflict| format!("left as it is: {conflict}")),
        ),
    }
    Ok(())
}
