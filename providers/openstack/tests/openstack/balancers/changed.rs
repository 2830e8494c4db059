//! Changes of load balancers, and the number of their requests.

use serde_json::json;

use super::scene::{NAME, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const MEMBERS: &str = "PUT /lbaas/pools/{id}/members";

async fn internal(ports: serde_json::Value) -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.ports("web", ports);
    scene.ensure("web").await;
    scene.changes();
    scene
}

#[tokio::test(start_paused = true)]
async fn a_joined_node_is_one_request_for_each_pool() {
    let mut scene =
        internal(json!([{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}])).await;
    scene.add_node("worker-3");
    scene.update("web").await;
    assert_eq!(scene.changes(), [MEMBERS, MEMBERS]);
    scene.ensure("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    let gone = scene.nodes.remove(0);
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [MEMBERS, MEMBERS]);
    let members = scene.balancer()["pools"][0]["members"].clone();
    assert!(
        members
            .as_array()
            .unwrap()
            .iter()
            .all(|member| member["name"] != *gone.name)
    );
}

#[tokio::test(start_paused = true)]
async fn a_port_that_goes_and_one_whose_node_port_changes() {
    let mut scene =
        internal(json!([{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}])).await;
    scene.ports("web", json!([{"port": 443, "nodePort": 31443}]));
    scene.ensure("web").await;
    assert_eq!(
        scene.changes(),
        [
            MEMBERS,
            "DELETE /lbaas/listeners/{id}",
            "DELETE /lbaas/pools/{id}"
        ]
    );
    let balancer = scene.balancer();
    assert_eq!(balancer["listeners"].as_array().unwrap().len(), 1);
    let members = balancer["pools"][0]["members"].as_array().unwrap();
    assert!(
        members.len() == 2
            && members
                .iter()
                .all(|member| member["protocol_port"] == 31443)
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_port_has_its_pool_first_with_monitor_and_members() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene.annotate("web", "enable-health-monitor", "true");
    scene.ports(
        "web",
        json!([{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}]),
    );
    scene.ensure("web").await;
    let monitor = "POST /lbaas/healthmonitors";
    let expected = [
        "POST /lbaas/pools",
        monitor,
        MEMBERS,
        monitor,
        "POST /lbaas/listeners",
    ];
    assert_eq!(scene.changes(), expected);
    let balancer = scene.balancer();
    let new = balancer["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .find(|listener| listener["protocol_port"] == 443)
        .unwrap()
        .clone();
    assert_eq!(new["name"], format!("listener_1_{NAME}"));
    let pool = balancer["pools"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pool| pool["id"] == new["default_pool_id"])
        .unwrap();
    assert_eq!(
        (pool["members"].as_array().unwrap().len(), &pool["name"]),
        (2, &json!(format!("pool_1_{NAME}")))
    );
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn affinity_and_method_are_changed_in_place() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene
        .service("web")
        .spec
        .get_or_insert_default()
        .session_affinity = Some("ClientIP".to_owned());
    scene.annotate("web", "lb-method", "LEAST_CONNECTIONS");
    scene.ensure("web").await;
    let body = scene.fake.bodies("PUT /lbaas/pools/{id}").remove(0);
    let expected = json!({"pool": {"lb_algorithm": "LEAST_CONNECTIONS", "session_persistence": {"type": "SOURCE_IP"}}});
    assert_eq!(body, expected);
    assert_eq!(scene.changes(), ["PUT /lbaas/pools/{id}"]);
    scene
        .service("web")
        .spec
        .get_or_insert_default()
        .session_affinity = None;
    scene.ensure("web").await;
    assert_eq!(
        scene.fake.bodies("PUT /lbaas/pools/{id}"),
        [json!({"pool": {"session_persistence": null}})]
    );
}

#[tokio::test(start_paused = true)]
async fn a_monitor_comes_changes_becomes_another_and_goes() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene.annotate("web", "enable-health-monitor", "true");
    scene.ensure("web").await;
    assert_eq!(scene.changes(), ["POST /lbaas/healthmonitors"]);
    scene.annotate("web", "health-monitor-delay", "7");
    scene.ensure("web").await;
    let changes = scene.fake.bodies("PUT /lbaas/healthmonitors/{id}");
    assert_eq!(
        (scene.changes().len(), changes),
        (1, vec![json!({"healthmonitor": {"delay": 7}})])
    );
    let spec = scene.service("web").spec.get_or_insert_default();
    (spec.external_traffic_policy, spec.health_check_node_port) =
        (Some("Local".to_owned()), Some(32000));
    scene.ensure("web").await;
    let expected = [
        "DELETE /lbaas/healthmonitors/{id}",
        "POST /lbaas/healthmonitors",
        MEMBERS,
    ];
    assert_eq!(scene.changes(), expected);
    let pool = scene.balancer()["pools"][0].clone();
    assert!(
        pool["members"]
            .as_array()
            .unwrap()
            .iter()
            .all(|member| member["monitor_port"] == 32000),
        "{pool:#}"
    );
    let spec = scene.service("web").spec.get_or_insert_default();
    (spec.external_traffic_policy, spec.health_check_node_port) = (None, None);
    scene.annotate("web", "enable-health-monitor", "false");
    scene.ensure("web").await;
    assert_eq!(
        scene.changes(),
        ["DELETE /lbaas/healthmonitors/{id}", MEMBERS]
    );
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_protocol_is_another_listener_and_never_two_on_one_port() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene.annotate("web", "x-forwarded-for", "true");
    scene.ensure("web").await;
    let expected = [
        "POST /lbaas/pools",
        MEMBERS,
        "DELETE /lbaas/listeners/{id}",
        "POST /lbaas/listeners",
        "DELETE /lbaas/pools/{id}",
    ];
    assert_eq!(scene.changes(), expected);
    let balancer = scene.balancer();
    assert_eq!(
        (
            &balancer["listeners"][0]["protocol"],
            &balancer["pools"][0]["protocol"]
        ),
        (&json!("HTTP"), &json!("HTTP"))
    );
    assert_eq!(
        balancer["listeners"][0]["insert_headers"],
        json!({"X-Forwarded-For": "true"})
    );
    assert_eq!(balancer["pools"].as_array().unwrap().len(), 1);
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn settings_of_a_listener_are_changed_together_and_only_those_that_differ() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene.annotate("web", "connection-limit", "100");
    scene.annotate("web", "timeout-client-data", "40000");
    scene
        .service("web")
        .spec
        .get_or_insert_default()
        .load_balancer_source_ranges = Some(vec!["10.0.0.0/8".to_owned()]);
    scene.ensure("web").await;
    let expected = json!({"listener": {
        "connection_limit": 100, "timeout_client_data": 40000, "allowed_cidrs": ["10.0.0.0/8"],
    }});
    assert_eq!(scene.fake.bodies("PUT /lbaas/listeners/{id}"), [expected]);
    assert_eq!(scene.changes(), ["PUT /lbaas/listeners/{id}"]);
}

#[tokio::test(start_paused = true)]
async fn all_members_go_and_come_back() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    let nodes = std::mem::take(&mut scene.nodes);
    scene.update("web").await;
    assert_eq!(scene.balancer()["pools"][0]["members"], json!([]));
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [MEMBERS]);
    scene.nodes = nodes;
    scene.update("web").await;
    let members = scene.balancer()["pools"][0]["members"].clone();
    assert!(
        members
            .as_array()
            .unwrap()
            .iter()
            .all(|member| member["protocol_port"] == 30080),
        "{members}"
    );
    assert_eq!(members.as_array().unwrap().len(), 2);
    scene.ensure("web").await;
    scene.start().await;
    scene.ensure("web").await;
    assert!(scene.changes().len() <= 2);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_changes_is_changed_back() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene
        .fake
        .change_members(&format!("pool_0_{NAME}"), |members| drop(members.pop()));
    scene.fake.remove_listener(&format!("listener_0_{NAME}"));
    scene.start().await;
    scene.ensure("web").await;
    let balancer = scene.balancer();
    assert_eq!(balancer["listeners"].as_array().unwrap().len(), 1);
    assert_eq!(
        balancer["pools"].as_array().unwrap().len(),
        1,
        "{balancer:#}"
    );
    assert_eq!(balancer["pools"][0]["members"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn members_that_come_back_are_asked_for_their_pods_where_they_were() {
    let mut scene = Scene::new();
    let spec = scene.service("web").spec.get_or_insert_default();
    (spec.external_traffic_policy, spec.health_check_node_port) =
        (Some("Local".to_owned()), Some(31000));
    scene.ensure("web").await;
    let before = scene.balancer()["pools"][0]["members"].clone();
    let nodes = std::mem::take(&mut scene.nodes);
    scene.update("web").await;
    scene.start().await;
    scene.nodes = nodes;
    scene.update("web").await;
    let after = scene.balancer()["pools"][0]["members"].clone();
    assert_eq!(after.as_array().unwrap().len(), 2);
    for (before, after) in before
        .as_array()
        .unwrap()
        .iter()
        .zip(after.as_array().unwrap())
    {
        for key in ["protocol_port", "monitor_port", "subnet_id"] {
            assert_eq!(before[key], after[key], "{key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn members_in_several_subnets_stay_where_they_are() {
    let mut scene = internal(json!([{"port": 80, "nodePort": 30080}])).await;
    scene
        .fake
        .change_members(&format!("pool_0_{NAME}"), |members| {
            drop(members[0].remove("subnet_id"));
        });
    scene.start().await;
    scene.add_node("worker-3");
    scene.ensure("web").await;
    let body = scene.fake.bodies(MEMBERS).remove(0);
    assert!(
        body["members"]
            .as_array()
            .unwrap()
            .iter()
            .all(|member| member.get("subnet_id").is_none()),
        "{body:#}"
    );
    assert_eq!(scene.changes(), [MEMBERS]);
    let members = scene.balancer()["pools"][0]["members"].clone();
    assert_eq!(
        (members.as_array().unwrap().len(), &members[1]["subnet_id"]),
        (3, &json!(scene.network.subnet))
    );
}
