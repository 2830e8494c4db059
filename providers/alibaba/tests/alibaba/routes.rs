//! Routes in VPC route tables, and in a CEN.

use cloud_provider::{Caches, CloudProvider, Node, Result, Route};
use provider_alibaba::Alibaba;
use serde_json::json;

use crate::harness::{Harness, cluster};

#[tokio::test(start_paused = true)]
async fn routes_are_created_in_one_request_and_the_check_is_switched_off() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    let route = |node: &str, range: &str| Route {
        target_node: node.into(),
        destination_cidr: range.into(),
        ..Route::default()
    };
    let [one, two] = [
        route("worker-1", "10.244.0.0/24"),
        route("worker-2", "10.244.1.0/24"),
    ];
    let (one, two) = tokio::join!(
        routes.create(&cluster, "", &one),
        routes.create(&cluster, "", &two)
    );
    one.and(two).unwrap();
    assert!(
        harness
            .fake
            .lock()
            .all("interface")
            .iter()
            .all(|object| object["SourceDestCheck"] == false)
    );
    let listed = routes.list(&cluster).await.unwrap();
    assert_eq!(listed.len(), 2);
    let changes = harness.changes();
    assert!(
        changes
            .iter()
            .filter(|change| *change == "CreateRouteEntries")
            .count()
            <= 2,
        "{changes:?}"
    );
    for route in &listed {
        routes.delete(&cluster, route).await.unwrap();
    }
    assert!(harness.fake.lock().all("route").is_empty());
}

#[tokio::test(start_paused = true)]
async fn vpc_with_two_route_tables_needs_the_setting() {
    let harness = Harness::new().with("routeTableIDs", "");
    let provider = harness.started().await;
    assert!(
        provider
            .routes()
            .unwrap()
            .list(&cluster())
            .await
            .unwrap()
            .is_empty()
    );
    let harness = Harness::new().with("routeTableIDs", "");
    harness.fake.lock().add(
        "table",
        json!({"RouteTableId": "vtb-2", "VpcId": alibaba_fake::VPC}),
    );
    let error = harness
        .started()
        .await
        .routes()
        .unwrap()
        .list(&cluster())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("vtb-main, vtb-2") && error.contains("Global.routeTableIDs"),
        "{error}"
    );
}

const RANGE: &str = "10.244.0.0/24";

/// Gives a Node its Pod CIDR.
fn assign(harness: &Harness, name: &str) {
    let node = harness.cluster.node(name).unwrap();
    harness.cluster.set_node(Node {
        pod_cidrs: [RANGE.into()].into(),
        ..(*node).clone()
    });
}

async fn create(provider: &Alibaba, name: &str) -> Result<()> {
    let route = Route {
        target_node: name.into(),
        destination_cidr: RANGE.into(),
        ..Route::default()
    };
    provider
        .routes()
        .unwrap()
        .create(&cluster(), "", &route)
        .await
}

/// Returns the names of the listed routes.
async fn listed(provider: &Alibaba) -> Vec<String> {
    let routes = provider.routes().unwrap().list(&cluster()).await.unwrap();
    routes
        .into_iter()
        .map(|route| route.name.split('/').next().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn route_that_one_of_two_tables_lacks_is_created_there() {
    let harness = Harness::new().with("routeTableIDs", "vtb-main,vtb-2");
    harness.fake.lock().add(
        "table",
        json!({"RouteTableId": "vtb-2", "VpcId": alibaba_fake::VPC}),
    );
    assign(&harness, "worker-1");
    let provider = harness.started().await;
    create(&provider, "worker-1").await.unwrap();
    assert_eq!(listed(&provider).await, ["vtb-main", "vtb-2"]);
    harness
        .fake
        .lock()
        .each("route")
        .retain(|route| route["RouteTableId"] == "vtb-main");
    assert!(
        listed(&provider).await.is_empty(),
        "a route that is not whole is created again"
    );
    create(&provider, "worker-1").await.unwrap();
    assert_eq!(listed(&provider).await, ["vtb-main", "vtb-2"]);
    harness
        .fake
        .lock()
        .each("route")
        .retain(|route| route["RouteTableId"] == "vtb-2");
    harness.cluster.remove_node("worker-1");
    assert_eq!(
        listed(&provider).await,
        ["vtb-2"],
        "one without a Node is listed, so that it is deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn routes_are_published_to_the_cen_and_withdrawn_before_they_are_deleted() {
    let harness = Harness::new();
    assign(&harness, "worker-1");
    create(&harness.started().await, "worker-1").await.unwrap();
    assert_eq!(harness.changes().last().unwrap(), "CreateRouteEntries");
    // The setting is added to a cluster that has routes.
    let harness = harness.with("cenID", "cen-1");
    let provider = harness.started().await;
    assert!(
        listed(&provider).await.is_empty(),
        "a route that is not published is created again"
    );
    create(&provider, "worker-1").await.unwrap();
    assert_eq!(
        harness.changes(),
        ["CreateRouteEntries", "PublishRouteEntries"]
    );
    let routes = provider.routes().unwrap();
    let found = routes.list(&cluster()).await.unwrap();
    assert_eq!(found.len(), 1);
    create(&provider, "worker-1").await.unwrap();
    assert_eq!(
        harness.changes(),
        ["CreateRouteEntries"],
        "it is published once"
    );
    routes.delete(&cluster(), &found[0]).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["WithdrawPublishedRouteEntries", "DeleteRouteEntries"]
    );
    assert!(harness.fake.lock().all("route").is_empty());
}
