//! Planned changes of routes in the cloud, and of the Nodes' conditions.

use std::sync::Arc;

use cloud_provider::names::{CONDITION_NETWORK_UNAVAILABLE, ROUTE_CONTROLLER};
use cloud_provider::{CloudProvider, Cluster, Node, PlanAction, PlanStep, Route};
use controllers::options::RouteMode;
use controllers::route::Destination;
use controllers::route::plan::{NewRoute, plan as plan_routes, waits};
use controllers::route::pod_cidrs::RefusedCidrs;
use controllers::route::witness::list_is_believed;

use super::report::{Kind, ObjectPlan, Report};
use crate::commands::ask;
use crate::controller_set::Settings;

/// Plans for all routes, with one list of the cloud's routes.
pub(super) async fn plan(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    nodes: &[Arc<Node>],
    report: &mut Report,
) {
    let Some(cloud) = provider
        .routes()
        .filter(|_| settings.wants(ROUTE_CONTROLLER))
    else {
        return;
    };
    // The call is inside the future, so that a panic before the first await is caught too.
    let routes = match ask(provider.name(), async { cloud.list(cluster).await }).await {
        Ok(routes) => routes,
        Err(error) => {
            report
                .errors
                .push(format!("cannot list the cloud's routes: {error}"));
            return;
        }
    };
    let options = &settings.options.route;
    // Like the controller: in the modes of the Go program every list is believed, and no Node waits.
    let is_adaptive = options.mode == RouteMode::Adaptive;
    if is_adaptive && let Err(error) = list_is_believed(provider, &routes, nodes).await {
        report.errors.push(error.to_string());
        return;
    }
    report.looked_at.insert(Kind::Route, routes.len());
    let refused = RefusedCidrs::in_mode(options, nodes);
    let new_route = |node: &Node, destination: &Destination| {
        NewRoute::of(
            is_adaptive && waits(provider, node),
            refused.get(node, destination),
        )
    };
    let plan = plan_routes(nodes, &routes, &options.cluster_cidrs, new_route);
    for node in nodes
        .iter()
        .filter(|node| !(is_adaptive && waits(provider, node)))
    {
        for cidr in &node.pod_cidrs {
            if let Some(refusal) = refused.get(node, &Destination::new(cidr)) {
                let note = format!("Pod CIDR {cidr} gets no route: {refusal}");
                report.object(Kind::Node, "", &node.name).notes.push(note);
            }
        }
    }
    for deletion in &plan.deletes {
        let mut object = ObjectPlan::default();
        object.cloud(step(
            PlanAction::Delete,
            &deletion.route,
            deletion.cause.as_str(),
        ));
        report.add(Kind::Route, "", &deletion.route.destination_cidr, object);
    }
    for creation in &plan.creates {
        let mut object = ObjectPlan::default();
        object.cloud(step(PlanAction::Create, &creation.route, ""));
        report.add(Kind::Route, "", &creation.route.destination_cidr, object);
    }
    for (node, verdict) in plan.conditions(nodes) {
        let action = if node.network_unavailable.is_some() {
            PlanAction::Update
        } else {
            PlanAction::Create
        };
        let detail = format!("{:?}, {}", verdict.status(), verdict.reason());
        let condition = format!("condition {CONDITION_NETWORK_UNAVAILABLE}");
        report
            .object(Kind::Node, "", &node.name)
            .kubernetes(action, condition, detail);
    }
}

fn step(action: PlanAction, route: &Route, why: &str) -> PlanStep {
    let target = if route.target_node.is_empty() {
        "no known node"
    } else {
        &route.target_node
    };
    let what = if route.name.is_empty() {
        "route".to_owned()
    } else {
        format!("route {:?}", route.name)
    };
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    };
    PlanStep {
        action,
        what,
        detail: format!("{} → {target}{why}", route.destination_cidr),
    }
}
