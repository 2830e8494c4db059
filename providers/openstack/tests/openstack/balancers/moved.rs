//! A Service whose annotation names another load balancer than the one that it has.

use std::time::Duration;

use openstack_fake::Fault;
use serde_json::{Value, json};

use super::scene::{NAME, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const OTHER: &str = "kube_service_kubernetes_default_other";

/// Returns a harness with `web` on port 80 and `other` on port 443, each with a load balancer of its own.
async fn two(lines: &[&str]) -> Scene {
    let mut scene = Scene::new();
    for line in lines {
        scene.conf(line);
    }
    scene.add_service("other");
    scene.ports("other", json!([{"port": 443, "nodePort": 30443}]));
    scene.ensure("other").await;
    scene.ensure("web").await;
    scene.events();
    scene.changes();
    scene
}

fn id(scene: &Scene, name: &str) -> String {
    scene.fake.load_balancer(name).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Returns a harness in which `web` selects the load balancer of `other`.
async fn moving(lines: &[&str]) -> Scene {
    let mut scene = two(lines).await;
    let id = id(&scene, OTHER);
    scene.annotate("web", "load-balancer-id", &id);
    scene
}

fn legacy_owner_tags(balancer: &Value) -> Vec<&str> {
    let tags = balancer["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag.as_str().unwrap());
    tags.filter(|tag| tag.starts_with("kube_service_"))
        .collect()
}

fn ports(balancer: &Value) -> Vec<u64> {
    let mut ports: Vec<_> = balancer["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|listener| listener["protocol_port"].as_u64().unwrap())
        .collect();
    ports.sort_unstable();
    ports
}

fn groups(scene: &Scene) -> usize {
    scene
        .fake
        .security_groups()
        .iter()
        .filter(|security_group| {
            security_group["name"]
                .as_str()
                .unwrap()
                .starts_with("lb-sg-")
        })
        .count()
}

#[tokio::test(start_paused = true)]
async fn it_moves_there_and_what_it_had_goes() {
    for restarts in [false, true] {
        let mut scene = moving(&["manage-security-groups = true"]).await;
        if restarts {
            scene.start().await;
        }
        let addresses = scene.ensure("web").await;
        let changes = scene.changes();
        let balancer = scene.balancer();
        assert_eq!(
            (
                &balancer["name"],
                legacy_owner_tags(&balancer),
                ports(&balancer)
            ),
            (&json!(OTHER), vec![OTHER, NAME], vec![80, 443])
        );
        assert_eq!(scene.ensure("other").await, addresses);
        assert_eq!(
            (scene.fake.floating_ips().len(), groups(&scene)),
            (1, 2),
            "its address went, its group did not"
        );
        let first = changes
            .iter()
            .position(|change| change.starts_with("DELETE"))
            .unwrap();
        assert!(
            changes[..first].contains(&"POST /lbaas/listeners".to_owned()),
            "{changes:?}"
        );
        assert!(
            !changes.iter().any(|change| change.contains("security")),
            "{changes:?}"
        );
        let events = scene.events();
        assert!(
            events
                .iter()
                .any(|event| event.starts_with("web LoadBalancerMoved")
                    && event.contains(&addresses[0])),
            "{events:?}"
        );
        for _ in 0..2 {
            scene.ensure("web").await;
            scene.ensure("other").await;
            assert_eq!(scene.changes(), [] as [&str; 0]);
            scene.start().await;
        }
        scene.delete("web").await;
        assert_eq!((ports(&scene.balancer()), groups(&scene)), (vec![443], 1));
    }
}

#[tokio::test(start_paused = true)]
async fn it_moves_back() {
    let mut scene = two(&[]).await;
    let own = scene
        .fake
        .add_load_balancer(&json!({"name": "by-hand", "vip_subnet_id": scene.network.subnet}));
    let port = scene.fake.load_balancer(&own).unwrap()["vip_port_id"]
        .as_str()
        .unwrap()
        .to_owned();
    scene
        .fake
        .add_floating_ip(&scene.public, "mine", Some(&port));
    for (name, left) in [(&*own, 2), (OTHER, 2), (&*own, 2)] {
        let id = id(&scene, name);
        scene.annotate("web", "load-balancer-id", &id);
        scene.ensure("web").await;
        assert_eq!(
            (
                scene.fake.load_balancers().len(),
                scene.annotation("web", "load-balancer-id")
            ),
            (left, Some(&*id))
        );
        let others: Vec<_> = scene
            .fake
            .load_balancers()
            .into_iter()
            .filter(|load_balancer| load_balancer["id"] != *id)
            .collect();
        assert!(
            others
                .iter()
                .all(|object| !legacy_owner_tags(object).contains(&NAME)
                    && !ports(object).contains(&80)),
            "{others:#?}"
        );
    }
    scene.delete("web").await;
    assert_eq!(
        (
            scene.fake.load_balancers().len(),
            scene.fake.floating_ips().len()
        ),
        (2, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn what_it_shared_stays_with_those_who_share_it() {
    let mut scene = two(&[]).await;
    scene.add_service("sharer");
    let own = id(&scene, NAME);
    scene.annotate("sharer", "load-balancer-id", &own);
    scene.ports("sharer", json!([{"port": 8080, "nodePort": 30081}]));
    let address = scene.ensure("sharer").await;
    let there = id(&scene, OTHER);
    scene.annotate("web", "load-balancer-id", &there);
    scene.ensure("web").await;
    let left = scene.fake.load_balancer(&own).unwrap();
    assert_eq!(
        (legacy_owner_tags(&left), ports(&left)),
        (vec!["kube_service_kubernetes_default_sharer"], vec![8080])
    );
    assert_eq!(scene.ensure("sharer").await, address);
    scene.start().await;
    scene.changes();
    for name in ["web", "sharer", "other"] {
        scene.ensure(name).await;
    }
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.delete("sharer").await;
    assert_eq!(
        (ports(&scene.balancer()), scene.fake.floating_ips().len()),
        (vec![80, 443], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_that_is_kept_outlives_the_move() {
    let mut scene = two(&[]).await;
    scene.annotate("web", "keep-floatingip", "true");
    let before = scene.ensure("web").await;
    let there = id(&scene, OTHER);
    scene.annotate("web", "load-balancer-id", &there);
    scene.ensure("web").await;
    let kept: Vec<_> = scene
        .fake
        .floating_ips()
        .into_iter()
        .filter(|floating_ip| floating_ip["port_id"].is_null())
        .collect();
    assert_eq!(
        (kept.len(), &kept[0]["floating_ip_address"]),
        (1, &json!(before[0]))
    );
}

fn take_port(scene: &mut Scene) {
    let by_hand =
        json!({"name": "by hand", "protocol": "TCP", "protocol_port": 80, "tags": ["mine"]});
    scene.fake.add_listener(&id(scene, OTHER), &by_hand);
}

/// Detaches the floating IP of `other`, as an operator might.
fn lose_floating_ip(scene: &mut Scene) {
    let port = scene.fake.load_balancer(OTHER).unwrap()["vip_port_id"].clone();
    let all = scene.fake.floating_ips();
    let id = all.iter().find(|object| object["port_id"] == port).unwrap()["id"]
        .as_str()
        .unwrap();
    scene.fake.change_floating_ip(id, |floating_ip| {
        drop(floating_ip.insert("port_id".to_owned(), Value::Null));
    });
}

#[tokio::test(start_paused = true)]
async fn where_it_may_not_move_it_serves_on_where_it_is() {
    type Obstacle = fn(&mut Scene);
    let obstacles: [(&str, Obstacle); 5] = [
        ("max-shared-lb is 1", |scene| {
            scene.conf("max-shared-lb = 1");
        }),
        ("cannot be internal", |scene| {
            scene.annotate("web", INTERNAL, "true");
        }),
        ("choose another port", take_port),
        ("openstack loadbalancer failover", |scene| {
            assert!(scene.fake.set_provisioning_status(OTHER, "ERROR"));
        }),
        ("has no floating IP", lose_floating_ip),
    ];
    for (text, raise) in obstacles {
        let mut scene = moving(&[]).await;
        let own = id(&scene, NAME);
        let there = id(&scene, OTHER);
        raise(&mut scene);
        let before = ports(&scene.fake.load_balancer(OTHER).unwrap());
        scene.add_node("worker-3");
        let refused = scene.refused("web").await;
        assert!(refused.to_string().contains(text), "{text}: {refused}");
        assert_eq!(
            scene.annotation("web", "load-balancer-id"),
            Some(&*there),
            "{text}"
        );
        let members = |scene: &Scene| {
            scene.fake.load_balancer(&own).unwrap()["pools"][0]["members"]
                .as_array()
                .unwrap()
                .len()
        };
        assert_eq!(members(&scene), 3, "{text}");
        scene.add_node("worker-4");
        scene.update("web").await;
        assert_eq!(members(&scene), 4, "{text}");
        // A Service whose annotation is reset stays.
        scene.fake.set_provisioning_status(OTHER, "ACTIVE");
        scene.annotate("web", "load-balancer-id", &own);
        scene.ensure("web").await;
        assert_eq!(scene.fake.load_balancers().len(), 2, "{text}");
        let other = scene.fake.load_balancer(OTHER).unwrap();
        // What the Service has there by now may be in use: it stays, and goes with the Service.
        let (owners, listeners) = match text {
            "has no floating IP" => (vec![OTHER, NAME], vec![80, 443]),
            _ => (vec![OTHER], before.clone()),
        };
        assert_eq!(
            (legacy_owner_tags(&other), ports(&other)),
            (owners, listeners),
            "{text}"
        );
        scene.annotate("web", "load-balancer-id", &there);
        scene.delete("web").await;
        assert_eq!(
            (&scene.balancer()["name"], ports(&scene.balancer())),
            (&json!(OTHER), before),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_there_or_not_ours_to_see_is_told_and_changes_nothing() {
    for is_forbidden in [false, true] {
        let mut scene = two(&[]).await;
        let own = id(&scene, NAME);
        let addresses = scene.ensure("web").await;
        scene.annotate(
            "web",
            "load-balancer-id",
            "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        );
        if is_forbidden {
            scene
                .fake
                .fail(Fault::refused("GET /lbaas/loadbalancers/{id}", 403).times(1));
        }
        assert_eq!(scene.ensure("web").await, addresses);
        assert_eq!(
            (scene.annotation("web", "load-balancer-id"), scene.changes()),
            (Some(&*own), vec![])
        );
        let events = scene.events();
        assert!(
            events
                .iter()
                .any(|event| event.contains("QuestionableAnnotation")),
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_the_go_program_moves_too_and_what_that_left_behind_is_left() {
    // The Go program moved it, and left the old one tagged: it may be another cluster's of the same name.
    for is_shown in [false, true] {
        let mut scene = two(&[]).await;
        let own = id(&scene, NAME);
        let there = id(&scene, OTHER);
        scene.fake.change_load_balancer(&own, |load_balancer| {
            drop(load_balancer.insert("tags".to_owned(), json!([NAME])));
        });
        scene.annotate("web", "load-balancer-id", &there);
        if !is_shown {
            scene.service("web").status = None;
            scene.forget("web", "load-balancer-address");
        }
        scene.start().await;
        scene.ensure("web").await;
        assert_eq!(scene.fake.load_balancer(&own).is_some(), !is_shown);
        scene.delete("web").await;
        assert_eq!(scene.fake.load_balancer(&own).is_some(), !is_shown);
        assert_eq!(ports(&scene.fake.load_balancer(&there).unwrap()), [443]);
    }
}

#[tokio::test(start_paused = true)]
async fn it_moves_away_from_one_that_failed() {
    let mut scene = moving(&[]).await;
    scene.fake.set_provisioning_status(NAME, "ERROR");
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(ports(&scene.balancer()), [80, 443]);
    // Not without those who share it; but it is reached elsewhere already.
    let mut scene = two(&[]).await;
    let own = id(&scene, NAME);
    let there = id(&scene, OTHER);
    scene.add_service("sharer");
    scene.annotate("sharer", "load-balancer-id", &own);
    scene.ports("sharer", json!([{"port": 8080, "nodePort": 30081}]));
    scene.ensure("sharer").await;
    scene.annotate("web", "load-balancer-id", &there);
    scene.fake.set_provisioning_status(NAME, "ERROR");
    scene.start().await;
    let refused = scene.refused("web").await;
    assert!(
        refused.is_invalid()
            && refused
                .to_string()
                .contains("openstack loadbalancer failover"),
        "{refused}"
    );
    assert_eq!(
        scene.annotation("web", "load-balancer-address"),
        scene.annotation("other", "load-balancer-address")
    );
    scene.fake.set_provisioning_status(NAME, "ACTIVE");
    scene.ensure("web").await;
    assert_eq!(ports(&scene.fake.load_balancer(&own).unwrap()), [8080]);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_it_has_one_that_cannot_go_keeps_no_other() {
    let mut scene = moving(&[]).await;
    scene.lifetime = Some(Duration::from_secs(4));
    let _ = scene.try_ensure("web").await;
    scene.fake.set_provisioning_status(OTHER, "ERROR");
    scene.start().await;
    assert!(scene.try_delete("web").await.is_err());
    assert!(scene.fake.load_balancer(NAME).is_none());
    scene.fake.set_provisioning_status(OTHER, "ACTIVE");
    scene.delete("web").await;
    assert_eq!(
        (
            ports(&scene.balancer()),
            legacy_owner_tags(&scene.balancer())
        ),
        (vec![443], vec![OTHER])
    );
}

/// Services that the Go cloud-controller-manager publishes by a name have their address in the annotation, which
/// changes only after the move.
#[tokio::test(start_paused = true)]
async fn one_of_the_go_program_that_is_shown_by_a_name_alone_is_given_back_too() {
    for is_hindered in [false, true] {
        let mut scene = two(&[]).await;
        let own = id(&scene, NAME);
        let there = id(&scene, OTHER);
        scene.fake.change_load_balancer(&own, |load_balancer| {
            drop(load_balancer.insert("tags".to_owned(), json!([NAME])));
        });
        scene.annotate("web", "hostname", "web.example");
        scene.ensure("web").await;
        scene.annotate("web", "load-balancer-id", &there);
        scene.start().await;
        if is_hindered {
            scene
                .fake
                .fail(Fault::refused("POST /lbaas/listeners", 500).times(9));
            scene.refused("web").await;
            scene.fake.clear_faults();
            scene.start().await;
            scene.delete("web").await;
            assert_eq!(scene.balancer()["id"], *there, "what it had goes with it");
        } else {
            scene.ensure("web").await;
            assert_eq!(scene.balancer()["id"], *there);
        }
    }
}

/// Killed at every moment of the move, it ends as if it had not been; or nothing is left if the Service goes then.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_at_any_moment_of_the_move_leaves_nothing_behind() {
    for then_goes in [false, true] {
        for tick in 0..160 {
            let mut scene = moving(&["manage-security-groups = true"]).await;
            scene.lifetime = Some(Duration::from_millis(250 * tick + 1));
            let is_through = scene.try_ensure("web").await.is_ok();
            scene.start().await;
            if then_goes {
                scene.delete("web").await;
                let balancer = scene.balancer();
                assert_eq!(
                    (legacy_owner_tags(&balancer), ports(&balancer)),
                    (vec![OTHER], vec![443]),
                    "tick {tick}"
                );
                assert_eq!(
                    (scene.fake.floating_ips().len(), groups(&scene)),
                    (1, 1),
                    "tick {tick}"
                );
            } else {
                let addresses = scene.ensure("web").await;
                let balancer = scene.balancer();
                assert_eq!(
                    (legacy_owner_tags(&balancer), ports(&balancer)),
                    (vec![OTHER, NAME], vec![80, 443]),
                    "tick {tick}"
                );
                assert_eq!(
                    (scene.fake.floating_ips().len(), groups(&scene)),
                    (1, 2),
                    "tick {tick}"
                );
                assert_eq!(
                    balancer["pools"].as_array().unwrap().len(),
                    2,
                    "tick {tick}"
                );
                assert_eq!(scene.ensure("other").await, addresses);
            }
            if is_through {
                assert!(tick > 8, "it was killed at least some times");
                break;
            }
            assert!(tick < 159, "it never ends");
        }
    }
}
