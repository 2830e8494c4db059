//! Routes to the Nodes' Pods. kube-controller-manager gives each Node its range.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::CONDITION_NETWORK_UNAVAILABLE;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use provider_simulated::cloud::{CloudRoute, Machine, NewRoute};

use crate::environment::Environment;
use crate::scene::{SOON, Scene, play_counted};

/// With routes. The ranges are those of the test bed.
pub(crate) const ROUTES: [&str; 3] = [
    "--configure-cloud-routes=true",
    "--cluster-cidr=10.244.0.0/16",
    "--route-reconciliation-period=1s",
];

fn ranges(node: &Node) -> &[String] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.pod_cidrs.as_deref())
        .unwrap_or_default()
}

/// Checks that a Node has a Pod CIDR, a route to it, and the condition.
fn check(node: &Node, machine: &Machine, routes: &[CloudRoute]) -> Result<()> {
    let name = node.name_any();
    let ranges = ranges(node);
    ensure!(
        !ranges.is_empty(),
        "{name} has no Pod CIDR: does kube-controller-manager allocate them?"
    );
    let mut led: Vec<_> = routes
        .iter()
        .filter(|route| route.route.machine == machine.id)
        .collect();
    led.sort_by_key(|route| {
        ranges
            .iter()
            .position(|range| *range == route.route.destination)
    });
    let to: Vec<_> = led.iter().map(|route| &route.route.destination).collect();
    ensure!(
        to == ranges.iter().collect::<Vec<_>>(),
        "{name} has routes to {to:?} instead of {ranges:?}"
    );
    let internal: Vec<_> = machine
        .addresses
        .iter()
        .filter(|address| format!("{:?}", address.kind) == "InternalIP")
        .collect();
    for route in led {
        let hops = &route.route.next_hop;
        let same = hops.len() == internal.len()
            && internal.iter().zip(hops).all(|(a, b)| *a.address == **b);
        ensure!(same, "the next hop of {route:?} is not {internal:?}");
    }
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let said = conditions
        .iter()
        .find(|condition| condition.type_ == CONDITION_NETWORK_UNAVAILABLE);
    let said = said.map(|condition| {
        (
            &*condition.status,
            condition.reason.as_deref().unwrap_or_default(),
        )
    });
    ensure!(
        said == Some(("False", "RouteCreated")),
        "{name} is said to be {said:?}"
    );
    Ok(())
}

impl Scene {
    /// Waits until these Nodes, and no others, have their routes. `foreign` ones belong to other owners.
    pub(crate) async fn routed(&self, names: &[String], foreign: &[CloudRoute]) -> Result<()> {
        until("each Node has its route", SOON, async || {
            let nodes = self.list().await?;
            let mut routes = self.cloud().routes();
            routes.retain(|route| !foreign.contains(route));
            for name in names {
                let node = nodes.get(name).with_context(|| format!("no Node {name}"))?;
                check(
                    node,
                    &self.cloud().machine(name).context("no machine")?,
                    &routes,
                )?;
            }
            let wanted = names
                .iter()
                .filter_map(|name| nodes.get(name))
                .map(|node| ranges(node).len())
                .sum::<usize>();
            ensure!(
                routes.len() == wanted,
                "there are {} routes: {routes:?}",
                routes.len()
            );
            Ok(())
        })
        .await
    }
}

pub(crate) async fn each_node_has_its_route_and_foreign_routes_stay(
    environment: &Environment,
) -> Result<()> {
    play_counted(environment, "routes", &ROUTES, async |scene| {
        let mut names = scene.members(4).await?;
        scene.routed(&names, &[]).await?;
        let foreign = foreign_routes(scene, &names).await?;

        // The machine of one Node is terminated, and another Node joins.
        scene.cloud().terminate(&names[3]);
        scene.kubelets.report(&names[3], false).await?;
        scene.disappears(&names[3]).await?;
        names.truncate(3);
        let late = scene.names(5).split_off(4);
        scene.create_machines(&late);
        scene.kubelets.register(&late, true).await?;
        names.extend(late);
        scene.routed(&names, &foreign).await?;
        still_there(scene, &foreign)?;

        // Nothing happens, and nothing is done.
        scene.shut_down(&names[0]).await?;
        scene.goes_quiet().await?;
        let before = scene.cloud_changes();
        scene.proxy().requests().clear();
        scene.cloud_is_asked(15).await?;
        let after = scene.cloud_changes();
        ensure!(
            after == before,
            "the cloud was changed: {before:?} before, {after:?} after"
        );
        let writes = scene.writes();
        ensure!(writes.is_empty(), "it wrote: {writes:?}");
        still_there(scene, &foreign)
    })
    .await
}

/// Adds routes within the cluster's range that are not this cluster's: one without an owner, one of another cluster.
async fn foreign_routes(scene: &Scene, names: &[String]) -> Result<Vec<CloudRoute>> {
    let mut machine = scene.cloud().machine(&names[0]).context("no machine")?.id;
    let used: Vec<String> = scene
        .list()
        .await?
        .values()
        .flat_map(|node| ranges(node).to_vec())
        .collect();
    // Far from where the next ranges are given out.
    let third = |range: &String| {
        range
            .split('.')
            .nth(2)
            .and_then(|octet| octet.parse::<u8>().ok())
    };
    let far = used
        .iter()
        .filter_map(third)
        .max()
        .unwrap_or_default()
        .wrapping_add(100);
    let mut routes = Vec::new();
    for (number, owner) in [(far, None), (far.wrapping_add(1), Some("another-cluster"))] {
        let labels: BTreeMap<_, _> = owner
            .map(|owner| ("ccm-rs/cluster".to_owned(), owner.to_owned()))
            .into_iter()
            .collect();
        let route = NewRoute {
            destination: format!("10.244.{number}.0/24"),
            machine,
            labels,
            ..NewRoute::default()
        };
        routes.push(scene.cloud().add_route(route));
        // The other one leads nowhere at all.
        machine = "m-999999".to_owned();
    }
    Ok(routes)
}

fn still_there(scene: &Scene, foreign: &[CloudRoute]) -> Result<()> {
    let now = scene.cloud().routes();
    for route in foreign {
        ensure!(
            now.contains(route),
            "somebody else's {route:?} is gone or changed"
        );
    }
    Ok(())
}
