//! Tests of managed security groups.

use openstack_fake::Fault;
use serde_json::{Value, json};

use crate::balancers::scene::{NAME, Scene, uid};

fn managed() -> Scene {
    let mut scene = Scene::new();
    scene.conf("manage-security-groups = true");
    scene
}

fn name() -> String {
    format!("lb-sg-{}-default-web", uid("web"))
}

fn group(scene: &Scene) -> Option<Value> {
    scene
        .fake
        .security_groups()
        .into_iter()
        .find(|security_group| security_group["name"] == json!(name()))
}

/// Returns the rules as `protocol port from`, in order.
fn rules(scene: &Scene) -> Vec<String> {
    let group = group(scene).unwrap();
    let rules = group["security_group_rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            let text = |key: &str| rule[key].as_str().unwrap_or("any").to_owned();
            format!(
                "{} {} {} {}",
                text("direction"),
                text("protocol"),
                rule["port_range_min"],
                text("remote_ip_prefix")
            )
        });
    let mut rules: Vec<_> = rules.collect();
    rules.sort();
    rules
}

fn groups_of(scene: &Scene, server: &str) -> Vec<String> {
    let port = scene
        .fake
        .port(&scene.fake.server(server).unwrap().port)
        .unwrap();
    port["security_groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|security_group| security_group.as_str().unwrap().to_owned())
        .collect()
}

fn id(scene: &Scene) -> String {
    group(scene).unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_group_opens_the_node_ports_of_the_members_and_goes_with_its_service() {
    let mut scene = managed();
    let own = scene.fake.add_security_group("nodes");
    let port = scene.fake.server("worker-1").unwrap().port;
    scene.fake.change_port(&port, |port| {
        drop(port.insert("security_groups".into(), json!([own])));
    });
    scene.ensure("web").await;
    assert_eq!(
        rules(&scene),
        ["ingress tcp 30080 10.6.0.0/16"],
        "neither more nor what every new group has"
    );
    assert_eq!(
        group(&scene).unwrap()["description"],
        "Security Group for default/web Service LoadBalancer in cluster kubernetes"
    );
    assert_eq!(groups_of(&scene, "worker-1"), [own.clone(), id(&scene)]);
    assert_eq!(groups_of(&scene, "worker-2"), [id(&scene)]);
    scene.fake.forget_requests();
    scene.ensure("web").await;
    assert!(scene.changes().is_empty());
    scene.start().await;
    scene.ensure("web").await;
    assert!(scene.changes().is_empty(), "nor after a start");
    scene.delete("web").await;
    assert!(group(&scene).is_none());
    assert_eq!(
        (groups_of(&scene, "worker-1"), groups_of(&scene, "worker-2")),
        (vec![own], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_is_reached_and_one_that_goes_is_closed() {
    let mut scene = managed();
    scene.ensure("web").await;
    scene.add_node("worker-3");
    scene.fake.forget_requests();
    scene.update("web").await;
    assert_eq!(groups_of(&scene, "worker-3"), [id(&scene)]);
    let changes = scene.changes();
    assert_eq!(
        changes
            .iter()
            .filter(|change| change.starts_with("PUT /ports"))
            .count(),
        1,
        "{changes:?}"
    );
    scene.nodes.remove(0);
    scene.update("web").await;
    assert_eq!(groups_of(&scene, "worker-1"), [] as [String; 0]);
    assert_eq!(groups_of(&scene, "worker-2"), [id(&scene)]);
}

#[tokio::test(start_paused = true)]
async fn new_rules_are_made_before_old_ones_go() {
    let mut scene = managed();
    scene.ensure("web").await;
    scene.fake.forget_requests();
    scene.ports("web", json!([{"port": 80, "nodePort": 30081}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]));
    scene.ensure("web").await;
    assert_eq!(
        rules(&scene),
        [
            "ingress tcp 30081 10.6.0.0/16",
            "ingress udp 30053 10.6.0.0/16"
        ]
    );
    let changes: Vec<_> = scene
        .changes()
        .into_iter()
        .filter(|change| change.contains("security-group-rules"))
        .collect();
    assert_eq!(
        changes,
        [
            "POST /security-group-rules",
            "DELETE /security-group-rules/{id}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_is_gone_already_keeps_no_other_from_going() {
    let mut scene = managed();
    scene.ports(
        "web",
        json!([{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081}, {"port": 82, "nodePort": 30082}]),
    );
    scene.ensure("web").await;
    scene
        .fake
        .fail(Fault::refused("DELETE /security-group-rules/{id}", 404).times(1));
    scene.ports("web", json!([{"port": 80, "nodePort": 30080}]));
    scene.ensure("web").await;
    assert!(rules(&scene).len() <= 2, "{:?}", rules(&scene));
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(rules(&scene), ["ingress tcp 30080 10.6.0.0/16"]);
}

#[tokio::test(start_paused = true)]
async fn a_port_without_port_security_gets_none() {
    let mut scene = managed();
    let port = scene.fake.server("worker-1").unwrap().port;
    scene.fake.change_port(&port, |port| {
        drop(port.insert("port_security_enabled".into(), json!(false)));
    });
    scene.ensure("web").await;
    assert_eq!(
        (
            groups_of(&scene, "worker-1").len(),
            groups_of(&scene, "worker-2").len()
        ),
        (0, 1)
    );
    scene.fake.forget_requests();
    scene.ensure("web").await;
    assert!(scene.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_changes_in_the_same_moment_is_not_lost() {
    let mut scene = managed();
    scene.fake.fail(
        Fault::refused_as(
            "PUT /ports/{id}",
            412,
            "RevisionNumberConstraintFailed",
            "x",
        )
        .times(2),
    );
    scene.ensure("web").await;
    assert_eq!(groups_of(&scene, "worker-1"), [id(&scene)]);
    let sent = scene
        .fake
        .requests()
        .into_iter()
        .filter(|request| request.route == "PUT /ports/{id}")
        .count();
    assert_eq!(sent, 4, "two of them again");
}

#[tokio::test(start_paused = true)]
async fn where_groups_are_not_managed_any_more_what_is_left_goes() {
    let mut scene = managed();
    scene.ensure("web").await;
    scene.conf("manage-security-groups = false");
    scene.ensure("web").await;
    assert!(group(&scene).is_none());
    assert_eq!(groups_of(&scene, "worker-2"), [] as [String; 0]);
    assert!(scene.fake.load_balancer(NAME).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_group_goes_with_its_service_also_where_groups_are_not_managed() {
    let mut scene = managed();
    scene.ensure("web").await;
    scene.conf("manage-security-groups = false");
    scene.delete("web").await;
    assert!(group(&scene).is_none());
}

#[tokio::test(start_paused = true)]
async fn two_groups_of_one_name_are_told_not_changed() {
    let mut scene = managed();
    scene.fake.add_security_group(&name());
    scene.fake.add_security_group(&name());
    let error = scene.refused("web").await;
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("there are several security groups"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn with_ovn_source_ranges_are_enforced_at_the_nodes() {
    let mut scene = managed();
    scene.conf("lb-provider = ovn\nlb-method = SOURCE_IP_PORT");
    scene
        .service("web")
        .spec
        .as_mut()
        .unwrap()
        .load_balancer_source_ranges = Some(vec!["203.0.113.0/24".into()]);
    scene.ensure("web").await;
    assert_eq!(rules(&scene), ["ingress tcp 30080 203.0.113.0/24"]);
    assert!(
        !scene
            .events()
            .iter()
            .any(|event| event.contains("LoadBalancerSourceRangesIgnored"))
    );
}

#[tokio::test(start_paused = true)]
async fn the_group_of_another_clusters_service_of_the_same_name_is_not_taken_for_this_ones() {
    let mut scene = managed();
    scene.ensure("web").await;
    // The tags are those that the Go cloud-controller-manager leaves.
    scene.fake.change_load_balancer(NAME, |load_balancer| {
        drop(load_balancer.insert("tags".to_owned(), json!([NAME])));
    });
    scene
        .fake
        .add_security_group("lb-sg-00000000-2d1f-4b52-9d0c-000000000001-default-web");
    scene.start().await;
    for _ in 0..2 {
        scene.ensure("web").await;
        assert_eq!(scene.changes(), [] as [&str; 0]);
        assert_eq!(rules(&scene), ["ingress tcp 30080 10.6.0.0/16"]);
        assert_eq!(groups_of(&scene, "worker-1"), [id(&scene)]);
        scene.start().await;
    }
    scene.delete("web").await;
    assert!(group(&scene).is_none());
    assert!(scene.fake.security_groups().iter().any(|security_group| {
        security_group["name"]
            .as_str()
            .unwrap()
            .starts_with("lb-sg-0000")
    }));
}

// https://github.com/kubernetes/cloud-provider-openstack/issues/2699
#[tokio::test(start_paused = true)]
async fn rules_stay_where_it_cannot_be_told_from_where_members_are_reached() {
    let mut scene = managed();
    scene.conf("subnet-id = \"\"");
    scene.ensure("web").await;
    let before = rules(&scene);
    assert_eq!(before, ["ingress tcp 30080 10.6.0.0/16"]);
    scene.nodes.clear();
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(rules(&scene), before);
}
