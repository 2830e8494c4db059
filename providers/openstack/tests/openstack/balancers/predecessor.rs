//! Load balancers of the Go program (D-11), and of clusters that are called otherwise by now.

use serde_json::{Value, json};

use super::scene::{NAME, Scene, uid};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";

/// Creates a load balancer as the Go cloud-controller-manager does.
fn as_before(scene: &Scene, name: &str, tags: &Value) -> String {
    let member = |node: &str| {
        json!({
            "name": node, "address": scene.fake.server(node).unwrap().ip, "protocol_port": 30080, "subnet_id": scene.network.subnet,
        })
    };
    scene.fake.add_load_balancer(&json!({
        "name": name, "provider": "amphora", "tags": tags, "vip_subnet_id": scene.network.subnet,
        "description": "Kubernetes external service default/web from cluster kubernetes",
        "listeners": [{
            "name": format!("listener_0_{name}"), "protocol": "TCP", "protocol_port": 80, "connection_limit": -1,
            "allowed_cidrs": ["0.0.0.0/0"], "tags": tags, "timeout_client_data": 50000, "timeout_member_connect": 5000,
            "timeout_member_data": 50000, "timeout_tcp_inspect": 0,
            "default_pool": {
                "name": format!("pool_0_{name}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
                "members": [member("worker-1"), member("worker-2")],
                "healthmonitor": {
                    "name": format!("monitor_0_{name}"), "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1,
                    "max_retries_down": 3,
                },
            },
        }],
    }))
}

/// Sets the Service's annotations and status as the Go cloud-controller-manager does.
fn is_known_as(scene: &mut Scene, id: &str) {
    scene.annotate("web", "load-balancer-id", id);
    scene.annotate("web", "load-balancer-address", "10.6.0.99");
    let status = json!({"loadBalancer": {"ingress": [{"ip": "10.6.0.99"}]}});
    scene.service("web").status = Some(serde_json::from_value(status).unwrap());
}

#[tokio::test(start_paused = true)]
async fn annotations_alone_take_no_load_balancer_of_a_cluster_with_another_name() {
    let mut scene = scene();
    let tag = "kube_service_old_default_web";
    let id = as_before(&scene, tag, &json!([tag]));
    is_known_as(&mut scene, &id);
    scene.service("web").status = None;
    scene.refused("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.annotate("web", "enable-health-monitor", "true");
    scene
}

#[tokio::test(start_paused = true)]
async fn one_of_the_go_program_is_taken_over_without_a_change_and_marked_with_the_first_one() {
    for is_named in [true, false] {
        let mut scene = scene();
        let id = as_before(&scene, NAME, &json!([NAME]));
        if is_named {
            scene.annotate("web", "load-balancer-id", &id);
        }
        scene.ensure("web").await;
        assert_eq!(scene.changes(), [] as [&str; 0]);
        scene.add_node("worker-3");
        scene.ensure("web").await;
        assert_eq!(
            scene.changes(),
            [
                "PUT /lbaas/loadbalancers/{id}",
                "PUT /lbaas/pools/{id}/members"
            ]
        );
        assert_eq!(scene.balancer()["tags"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn one_without_tags_is_known_by_its_name_or_by_the_name_of_old() {
    let of_old = format!("a{}", uid("web").replace('-', "").split_at(31).0);
    for name in [NAME, &of_old] {
        let mut scene = scene();
        as_before(&scene, name, &json!([]));
        scene.ensure("web").await;
        assert_eq!(scene.fake.load_balancers().len(), 1, "{name}");
        scene.start().await;
        scene.changes();
        scene.ensure("web").await;
        assert_eq!(scene.changes(), [] as [&str; 0], "{name}");
        scene.delete("web").await;
        assert!(scene.fake.load_balancers().is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_of_one_name_are_refused() {
    let mut scene = scene();
    as_before(&scene, NAME, &json!([NAME]));
    as_before(&scene, NAME, &json!([NAME]));
    let refused = scene.refused("web").await;
    assert!(
        refused.is_invalid()
            && refused
                .to_string()
                .contains("both carry the legacy owner tag"),
        "{refused}"
    );
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn all_names_follow_the_cluster_when_that_is_called_otherwise() {
    let old = "kube_service_old_default_web";
    let mut scene = scene();
    let id = as_before(&scene, old, &json!([old]));
    is_known_as(&mut scene, &id);
    scene.ensure("web").await;
    assert!(scene.waits >= 4, "{} waits", scene.waits);
    let balancer = scene.balancer();
    let [listener, pool] = [&balancer["listeners"][0], &balancer["pools"][0]];
    assert_eq!(
        (&balancer["name"], &listener["name"]),
        (&json!(NAME), &json!(format!("listener_0_{NAME}")))
    );
    assert_eq!(pool["name"], format!("pool_0_{NAME}"));
    assert_eq!(
        pool["healthmonitor"]["name"],
        format!("monitor_0_{NAME}"),
        "{pool:#}"
    );
    assert_eq!(listener["tags"], json!([NAME]));
    assert!(balancer["tags"].as_array().unwrap().contains(&json!(NAME)));
    assert!(!balancer["tags"].as_array().unwrap().contains(&json!(old)));
    assert!(
        scene
            .events()
            .iter()
            .any(|event| event.contains("LoadBalancerRename"))
    );
    scene.start().await;
    scene.changes();
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_was_left_without_listener_is_renamed_too_and_goes() {
    let old = "kube_service_old_default_web";
    let mut scene = scene();
    let id = as_before(&scene, old, &json!([old]));
    let pool =
        json!({"name": format!("pool_1_{old}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"});
    let listener =
        json!({"name": "by hand", "protocol": "TCP", "protocol_port": 9000, "default_pool": pool});
    scene.fake.add_listener(&id, &listener);
    scene.fake.change_listener("by hand", |listener| {
        drop(listener.insert("default_pool_id".into(), json!(null)));
    });
    scene.fake.remove_listener("by hand");
    is_known_as(&mut scene, &id);
    scene
        .fake
        .fail(openstack_fake::Fault::refused("DELETE /lbaas/pools/{id}", 500).times(10));
    scene.refused("web").await;
    scene.fake.clear_faults();
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["pools"].as_array().unwrap().len(), 1);
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rename_that_is_broken_off_is_finished_later() {
    let old = "kube_service_old_default_web";
    for broken in 1..=4 {
        let mut scene = scene();
        let id = as_before(&scene, old, &json!([old]));
        is_known_as(&mut scene, &id);
        let routes = ["healthmonitors", "pools", "listeners", "loadbalancers"];
        let route = format!("PUT /lbaas/{}/{{id}}", routes[broken - 1]);
        scene
            .fake
            .fail(openstack_fake::Fault::refused(&route, 500).times(10));
        scene.refused("web").await;
        scene.fake.clear_faults();
        scene.start().await;
        scene.ensure("web").await;
        let balancer = scene.balancer();
        let names = [
            &balancer["name"],
            &balancer["listeners"][0]["name"],
            &balancer["pools"][0]["name"],
        ];
        assert!(
            names
                .iter()
                .all(|name| name.as_str().unwrap().ends_with(NAME)),
            "{broken}: {names:?}"
        );
        assert_eq!(balancer["listeners"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_marked_for_another_cluster_is_not_touched() {
    for tag in ["kube_service_old_default_web", NAME] {
        let mut scene = scene();
        let id = as_before(
            &scene,
            tag,
            &json!([tag, format!("ccm-rs:other:some-uid:{tag}")]),
        );
        for is_named in [true, false] {
            if is_named {
                is_known_as(&mut scene, &id);
            } else {
                scene.forget("web", "load-balancer-id");
            }
            if is_named || tag == NAME {
                let refused = scene.refused("web").await;
                assert!(
                    refused.is_invalid() && refused.to_string().contains("another cluster"),
                    "{refused}"
                );
            }
            scene.try_delete("web").await.unwrap();
            scene.service("web").metadata.deletion_timestamp = None;
            assert_eq!(scene.changes(), [] as [&str; 0]);
        }
    }
}
