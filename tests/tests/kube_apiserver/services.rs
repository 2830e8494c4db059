//! Services and their load balancers in good times.

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::{ANNOTATION_ABANDON_LOAD_BALANCER, LABEL_EXCLUDE_BALANCER};
use kube::api::{Patch, PatchParams};
use provider_simulated::cloud::LoadBalancer;
use serde_json::json;

use crate::balancing::{addresses, is_held};
use crate::environment::Environment;
use crate::scene::{SOON, Scene, play, play_counted};

/// Reasons of the events in a Service's lifetime, without failures.
const CREATED: [&str; 2] = ["EnsuringLoadBalancer", "EnsuredLoadBalancer"];
const DELETED: [&str; 2] = ["DeletingLoadBalancer", "DeletedLoadBalancer"];

/// Writes to each Service since the counting began, in the order of their answers, refused ones included.
fn writes(scene: &Scene, service: &str) -> Vec<String> {
    let writes = scene
        .writes()
        .into_iter()
        .filter(|request| request.resource.starts_with("services"));
    let ours = writes.filter(|request| request.name == service);
    ours.map(|request| format!("{} {}", request.verb, request.resource))
        .collect()
}

pub(crate) async fn a_service_gets_a_load_balancer_in_three_writes_and_takes_it_along_in_two(
    environment: &Environment,
) -> Result<()> {
    play_counted(environment, "life", &[], async |scene| {
        let nodes = scene.members(3).await?;
        let services = scene.create_services(5).await?;
        scene.balanced(&services, &nodes, SOON).await?;
        scene.cloud_has(5)?;
        for name in &services {
            scene.told_once(name, &CREATED).await?;
            let sent = writes(scene, name);
            ensure!(sent.len() <= 3, "{name} was written with {sent:?}");
            ensure!(
                sent.iter().all(|write| write == "PATCH services/status"),
                "{name} was written with {sent:?}"
            );
        }
        let created = scene.cloud_changes();
        ensure!(
            created.values().sum::<u64>() == 5,
            "the cloud was changed with {created:?}"
        );
        scene.proxy().requests().clear();
        scene.delete_services(&services).await?;
        scene.services_are_gone(&services, SOON).await?;
        scene.cloud_has(0)?;
        for name in &services {
            scene.told_once(name, &DELETED).await?;
            let sent = writes(scene, name);
            ensure!(sent.len() <= 2, "{name} was written with {sent:?}");
        }
        let deleted = scene.cloud_changes().values().sum::<u64>() - 5;
        ensure!(
            deleted == 5,
            "the cloud was asked for {deleted} changes to delete five load balancers"
        );
        Ok(())
    })
    .await
}

pub(crate) async fn ports_nodes_and_types_that_change_reach_the_load_balancer(
    environment: &Environment,
) -> Result<()> {
    play(environment, "changes", &[], async |scene| {
        let mut nodes = scene.members(3).await?;
        let services = scene.create_services(2).await?;
        scene.balanced(&services, &nodes, SOON).await?;
        let before = scene.balancer(&services[0]).await?;

        // A port is added: the same load balancer, the same address.
        let ports = ccm_tests::service_object::tcp(&[80, 443, 8443]);
        scene
            .change_service(&services[0], json!({"spec": {"ports": ports}}))
            .await?;
        scene.balanced(&services, &nodes, SOON).await?;
        let after = scene.balancer(&services[0]).await?;
        ensure!(
            after.spec.listeners.len() == 3,
            "it listens on {:?}",
            after.spec.listeners
        );
        ensure!(
            (&after.id, &after.ip) == (&before.id, &before.ip),
            "{before:?} became {after:?}"
        );

        // A Node joins, another one is kept out, and a third one's machine ends.
        let late = scene.names(4).split_off(3);
        scene.create_machines(&late);
        scene.kubelets.register(&late, true).await?;
        nodes.extend(late);
        scene.balanced(&services, &nodes, SOON).await?;
        exclude(scene, &nodes[0], true).await?;
        scene.balanced(&services, &nodes[1..], SOON).await?;
        exclude(scene, &nodes[0], false).await?;
        scene.balanced(&services, &nodes, SOON).await?;
        scene.cloud().terminate(&nodes[3]);
        scene.kubelets.report(&nodes[3], false).await?;
        scene.disappears(&nodes[3]).await?;
        scene.balanced(&services, &nodes[..3], SOON).await?;

        // A Service that is balanced no more loses its load balancer, and gets another one when it is again.
        scene
            .change_service(&services[1], json!({"spec": {"type": "ClusterIP"}}))
            .await?;
        let away = |service: &_| addresses(service).is_empty() && !is_held(service);
        let service = scene
            .service_becomes(&services[1], "without a load balancer", away)
            .await?;
        ensure!(
            scene.balancers_of(&service).is_empty(),
            "it still has one in the cloud"
        );
        scene
            .change_service(&services[1], json!({"spec": {"type": "LoadBalancer"}}))
            .await?;
        scene.balanced(&services, &nodes[..3], SOON).await?;
        scene.cloud_has(2)
    })
    .await
}

async fn exclude(scene: &Scene, node: &str, is_excluded: bool) -> Result<()> {
    let label = is_excluded.then_some("true");
    let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL_EXCLUDE_BALANCER: label}}}));
    scene
        .nodes()
        .patch_metadata(node, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

pub(crate) async fn a_service_of_another_class_is_left_alone(
    environment: &Environment,
) -> Result<()> {
    const CLASS: &str = "example.com/other";
    play_counted(environment, "classes", &[], async |scene| {
        let nodes = scene.members(2).await?;
        let names = scene.names(2);
        scene
            .create_service(&names[0], &json!({"spec": {"loadBalancerClass": CLASS}}))
            .await?;
        scene.create_service(&names[1], &json!({})).await?;
        scene.balanced(&names[1..], &nodes, SOON).await?;
        let sent = writes(scene, &names[0]);
        ensure!(sent.is_empty(), "it was written with {sent:?}");
        scene.cloud_has(1)
    })
    .await?;
    let ours = [
        &*format!("--load-balancer-classes=example.com/unknown,{CLASS}"),
        "--default-load-balancer=false",
    ];
    play_counted(environment, "our-class", &ours, async |scene| {
        let nodes = scene.members(2).await?;
        let names = scene.names(2);
        scene.create_service(&names[0], &json!({})).await?;
        scene
            .create_service(&names[1], &json!({"spec": {"loadBalancerClass": CLASS}}))
            .await?;
        scene.balanced(&names[1..], &nodes, SOON).await?;
        let sent = writes(scene, &names[0]);
        ensure!(sent.is_empty(), "it was written with {sent:?}");
        scene.cloud_has(1)
    })
    .await
}

pub(crate) async fn the_health_check_follows_the_external_traffic_policy(
    environment: &Environment,
) -> Result<()> {
    play(environment, "health", &[], async |scene| {
        let nodes = scene.members(2).await?;
        let names = scene.names(1);
        let created = scene
            .create_service(
                &names[0],
                &json!({"spec": {"externalTrafficPolicy": "Local"}}),
            )
            .await?;
        scene.balanced(&names, &nodes, SOON).await?;
        let port = created
            .spec
            .and_then(|spec| spec.health_check_node_port)
            .context("no health check port")?;
        let local = scene.balancer(&names[0]).await?;
        let asks = |balancer: &LoadBalancer| {
            balancer
                .spec
                .health_check
                .as_ref()
                .is_some_and(|check| i32::from(check.port) == port)
        };
        ensure!(
            asks(&local),
            "the health check does not ask port {port}: {local:?}"
        );
        scene
            .change_service(
                &names[0],
                json!({"spec": {"externalTrafficPolicy": "Cluster"}}),
            )
            .await?;
        until("the health check is another one", SOON, async || {
            let balancer = scene.balancer(&names[0]).await?;
            ensure!(
                !asks(&balancer),
                "the health check still asks port {port}: {balancer:?}"
            );
            Ok(())
        })
        .await?;
        scene.balanced(&names, &nodes, SOON).await
    })
    .await
}

pub(crate) async fn an_abandoned_service_goes_and_its_load_balancer_stays(
    environment: &Environment,
) -> Result<()> {
    play(environment, "abandoned", &[], async |scene| {
        let nodes = scene.members(2).await?;
        let names = scene.create_services(1).await?;
        scene.balanced(&names, &nodes, SOON).await?;
        let before = scene.cloud().load_balancers();
        let abandoned =
            json!({"metadata": {"annotations": {ANNOTATION_ABANDON_LOAD_BALANCER: "true"}}});
        scene.change_service(&names[0], abandoned).await?;
        scene.delete_services(&names).await?;
        scene.services_are_gone(&names, SOON).await?;
        let said = scene
            .service_is_told(&names[0], "LoadBalancerAbandoned")
            .await?;
        ensure!(
            said[0].type_.as_deref() == Some("Warning"),
            "that was said as {:?}",
            said[0].type_
        );
        ensure!(
            scene.cloud().load_balancers() == before,
            "the cloud was changed"
        );
        Ok(())
    })
    .await
}

pub(crate) async fn a_flapping_node_and_a_restart_change_nothing(
    environment: &Environment,
) -> Result<()> {
    play_counted(environment, "calm", &[], async |scene| {
        let nodes = scene.members(4).await?;
        let services = scene.create_services(5).await?;
        scene.balanced(&services, &nodes, SOON).await?;
        for name in &services {
            scene.told_once(name, &CREATED).await?;
        }
        // A machine is off: each pass reads it, so that passes can be counted.
        scene.shut_down(&nodes[0]).await?;
        scene.goes_quiet().await?;
        let cloud = scene.cloud_changes();
        scene.proxy().requests().clear();

        scene.kubelets.report(&nodes[1], false).await?;
        scene.cloud_is_asked(6).await?;
        scene.kubelets.report(&nodes[1], true).await?;
        scene.cloud_is_asked(6).await?;
        is_calm(scene, &cloud).context("after a flapping Node")?;

        scene.end().await?;
        scene.start_again()?;
        // The initial list comes first, the passes that are counted later.
        scene.cloud_is_asked(20).await?;
        is_calm(scene, &cloud).context("after a restart")?;
        scene.balanced(&services, &nodes, SOON).await
    })
    .await
}

/// Checks that nothing was written, neither to the API nor to the cloud.
fn is_calm(scene: &Scene, cloud: &std::collections::BTreeMap<String, u64>) -> Result<()> {
    let writes = scene.writes();
    ensure!(writes.is_empty(), "it wrote: {writes:?}");
    let now = scene.cloud_changes();
    ensure!(
        now == *cloud,
        "the cloud was changed: {cloud:?} before, {now:?} after"
    );
    Ok(())
}
