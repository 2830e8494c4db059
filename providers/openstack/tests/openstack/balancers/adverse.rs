//! Ends at any moment, limits, faults and neighbours: nothing is left, doubled, stuck, or taken from others.

use std::time::Duration;

use openstack_fake::{Fault, FaultKind, Options};
use serde_json::{Value, json};

use super::scene::{CREATE, NAME, Scene, uid};
use super::shared::shared;

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const OTHER: &str = "kube_service_kubernetes_default_other";

fn internal() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene
}

/// Returns a harness with `web` on port 80, and `other` on the same load balancer on port 443.
async fn joined() -> Scene {
    let mut scene = shared().await;
    scene.ensure("other").await;
    scene.events();
    scene.changes();
    scene
}

fn pools(scene: &Scene) -> usize {
    scene.balancer()["pools"].as_array().unwrap().len()
}

fn ports(balancer: &Value) -> Vec<u64> {
    let listeners = balancer["listeners"].as_array().unwrap().iter();
    let mut ports: Vec<_> = listeners
        .map(|listeners| listeners["protocol_port"].as_u64().unwrap())
        .collect();
    ports.sort_unstable();
    ports
}

fn nothing_is_left(scene: &Scene) -> bool {
    let groups = scene.fake.security_groups();
    scene.fake.load_balancers().is_empty()
        && scene.fake.floating_ips().is_empty()
        && groups.iter().all(|group| group["name"] == "default")
}

/// A pool is created before its listener: after a crash in between the pool is collected, and there is never more than
/// one.
#[tokio::test(start_paused = true)]
async fn ends_between_a_pool_and_its_listener_leave_one_unused_pool_at_most() {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    for tick in 0..25 {
        scene.lifetime = Some(Duration::from_millis(150 * tick + 1));
        let _ = scene.try_ensure("web").await;
        scene.start().await;
        let balancer = scene.balancer();
        assert!(
            pools(&scene) <= 2,
            "after {tick} ends: {:#?}",
            balancer["pools"]
        );
    }
    scene.ensure("web").await;
    assert_eq!((pools(&scene), ports(&scene.balancer())), (1, vec![81]));
}

/// Leaves the pool of a change that is broken off.
async fn with_unused_pool() -> Scene {
    let mut scene = internal();
    scene.ensure("web").await;
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    scene.lifetime = Some(Duration::from_millis(1000));
    let _ = scene.try_ensure("web").await;
    assert_eq!(pools(&scene), 2, "the scene is made for this");
    scene.start().await;
    scene
}

#[tokio::test(start_paused = true)]
async fn an_unused_pool_goes_whatever_the_next_life_does() {
    // The change is taken back.
    let mut scene = with_unused_pool().await;
    scene.ports("web", json!([{"port": 80, "nodePort": 30080}]));
    scene.ensure("web").await;
    assert_eq!(pools(&scene), 1);
    // The Service goes.
    let mut scene = with_unused_pool().await;
    scene.delete("web").await;
    assert!(nothing_is_left(&scene));
    // The cluster is called otherwise from now on; and that life ends, too.
    for tick in 0..120 {
        let mut scene = with_unused_pool().await;
        scene.cluster.name = "later".to_owned();
        scene.lifetime = Some(Duration::from_millis(150 * tick + 1));
        let is_through = scene.try_ensure("web").await.is_ok();
        scene.start().await;
        scene.ensure("web").await;
        assert_eq!(
            pools(&scene),
            1,
            "tick {tick}: {:#?}",
            scene.balancer()["pools"]
        );
        scene.delete("web").await;
        assert!(nothing_is_left(&scene), "tick {tick}");
        if is_through {
            return;
        }
    }
    panic!("it never ends");
}

#[tokio::test(start_paused = true)]
async fn who_shares_keeps_the_unused_pools_of_others_and_their_names_do_not_deceive() {
    let mut scene = joined().await;
    scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
    scene.lifetime = Some(Duration::from_millis(1000));
    let _ = scene.try_ensure("web").await;
    assert_eq!(pools(&scene), 3);
    scene.start().await;
    scene.ports("other", json!([{"port": 444, "nodePort": 30443}]));
    scene.ensure("other").await;
    assert_eq!(pools(&scene), 3, "it may be the pool of a change under way");
    scene.ensure("web").await;
    assert_eq!(
        (pools(&scene), ports(&scene.balancer())),
        (2, vec![81, 444])
    );
}

// P-27 and 409 OverQuota
#[tokio::test(start_paused = true)]
async fn a_port_changes_also_where_no_more_pools_or_listeners_may_be_made() {
    for kind in ["pool", "listener"] {
        let mut scene = internal();
        scene.ensure("web").await;
        scene.fake.set_quota(kind, 1);
        scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
        scene.ensure("web").await;
        assert_eq!(
            (pools(&scene), ports(&scene.balancer())),
            (1, vec![81]),
            "{kind}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_made_before_a_quota_is_met_is_found_again_and_goes_with_the_service() {
    for kind in [
        "loadbalancer",
        "floatingip",
        "security_group_rule",
        "listener",
        "pool",
        "healthmonitor",
    ] {
        let mut scene = Scene::new();
        scene.conf("manage-security-groups = true");
        scene.conf("create-monitor = true");
        scene.fake.set_quota(kind, 0);
        let refused = scene.refused("web").await;
        assert!(refused.is_quota(), "{kind}: {refused}");
        assert!(scene.refused("web").await.is_quota(), "{kind}");
        scene.delete("web").await;
        assert!(
            nothing_is_left(&scene),
            "{kind}: {:#?}",
            scene.fake.load_balancers()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_is_deleted_also_without_cascade() {
    let mut scene = internal();
    scene.conf("cascade-delete = false");
    scene.ensure("web").await;
    scene.fake.set_provisioning_status(NAME, "ERROR");
    scene.start().await;
    scene.delete("web").await;
    assert!(nothing_is_left(&scene));
}

#[tokio::test(start_paused = true)]
async fn nobody_leaves_a_shared_one_that_failed_before_it_is_mended_and_what_to_do_is_told() {
    for leaver in ["web", "other"] {
        let mut scene = joined().await;
        scene.fake.set_provisioning_status(NAME, "ERROR");
        scene.start().await;
        let stays = if leaver == "web" { OTHER } else { NAME };
        let refused = scene.try_delete(leaver).await.unwrap_err().to_string();
        assert!(
            refused.contains("openstack loadbalancer failover") && refused.contains(stays),
            "{refused}"
        );
        assert!(
            !refused.contains("a new one is made") && !refused.contains("  "),
            "{refused}"
        );
        assert_eq!(scene.changes(), [] as [&str; 0]);
        scene.fake.set_provisioning_status(NAME, "ACTIVE");
        scene.delete(leaver).await;
        assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 1);
        assert_eq!(scene.fake.floating_ips().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_share_one_that_failed_leave_it_together() {
    for (first, last) in [("web", "other"), ("other", "web")] {
        let mut scene = joined().await;
        scene.conf("manage-security-groups = true");
        scene.ensure("web").await;
        scene.ensure("other").await;
        scene.fake.set_provisioning_status(NAME, "ERROR");
        scene.start().await;
        assert!(scene.try_delete(first).await.is_err(), "{last} lives");
        // The Service's namespace is deleted.
        scene.try_delete(last).await.unwrap();
        scene.services.remove(last);
        scene.delete(first).await;
        assert!(
            nothing_is_left(&scene),
            "{first}: {:#?}",
            scene.fake.floating_ips()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_failed_stays_where_somebody_unknown_has_a_part_in_it() {
    type Take = fn(&mut Scene);
    let foreign: [(&str, Take); 3] = [
        ("a listener by hand", |scene| {
            let id = scene
                .annotation("web", "load-balancer-id")
                .unwrap()
                .to_owned();
            let by_hand = json!({"name": "by hand", "protocol": "TCP", "protocol_port": 9000, "tags": ["mine"]});
            scene.fake.add_listener(&id, &by_hand);
        }),
        ("another cluster's Service", |scene| {
            let mark = format!("ccm-rs:another:{}:{OTHER}", uid("other"));
            scene.fake.change_load_balancer(NAME, |load_balancer| {
                let tags = load_balancer["tags"].as_array_mut().unwrap();
                tags.retain(|tag| !tag.as_str().unwrap().ends_with(OTHER) || tag == OTHER);
                tags.push(mark.into());
            });
        }),
        ("a Service without a mark", |scene| {
            scene.fake.change_load_balancer(NAME, |load_balancer| {
                let tags = load_balancer["tags"].as_array_mut().unwrap();
                tags.retain(|tag| !tag.as_str().unwrap().ends_with(OTHER) || tag == OTHER);
            });
        }),
    ];
    for (text, take) in foreign {
        let mut scene = joined().await;
        take(&mut scene);
        scene.fake.set_provisioning_status(NAME, "ERROR");
        scene.start().await;
        let _ = scene.try_delete("other").await;
        assert!(scene.try_delete("web").await.is_err(), "{text}");
        assert_eq!(scene.changes(), [] as [&str; 0], "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_service_of_another_cluster_renames_nobodys_load_balancer() {
    let mut scene = Scene::new();
    let id = scene.fake.add_load_balancer(&json!({
        "name": NAME, "tags": [NAME], "vip_subnet_id": scene.network.subnet,
        "listeners": [{"name": format!("listener_0_{NAME}"), "protocol": "TCP", "protocol_port": 80, "tags": [NAME]}],
    }));
    let port = scene.balancer()["vip_port_id"].as_str().unwrap().to_owned();
    scene
        .fake
        .add_floating_ip(&scene.public, "mine", Some(&port));
    scene.cluster.name = "second".to_owned();
    scene.annotate("web", "load-balancer-id", &id);
    scene.ports("web", json!([{"port": 8080, "nodePort": 30080}]));
    scene.ensure("web").await;
    let balancer = scene.balancer();
    assert_eq!(
        (&balancer["name"], ports(&balancer)),
        (&json!(NAME), vec![80, 8080])
    );
    assert!(balancer["tags"].as_array().unwrap().contains(&json!(NAME)));
    scene.delete("web").await;
    assert_eq!(
        (ports(&scene.balancer()), scene.balancer()["tags"].clone()),
        (vec![80], json!([NAME]))
    );
}

#[tokio::test(start_paused = true)]
async fn clusters_with_underscores_are_renamed_and_taken_for_no_others() {
    for (before, after) in [("a_b", "c"), ("a", "a_b"), ("a_default", "a")] {
        let mut scene = internal();
        scene.cluster.name = before.to_owned();
        scene.ensure("web").await;
        scene.cluster.name = after.to_owned();
        scene.start().await;
        scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
        scene.ensure("web").await;
        let balancer = scene.balancer();
        assert_eq!(
            balancer["name"],
            format!("kube_service_{after}_default_web"),
            "{before} to {after}"
        );
        assert_eq!(balancer["tags"].as_array().unwrap().len(), 2);
        scene.delete("web").await;
        assert!(nothing_is_left(&scene));
    }
}

#[tokio::test(start_paused = true)]
async fn services_whose_names_are_cut_to_the_same_take_nothing_from_each_other() {
    let mut scene = Scene::new();
    scene.cluster.name = "x".repeat(240);
    scene.add_service("other");
    scene.ports("other", json!([{"port": 443, "nodePort": 30443}]));
    scene.ensure("web").await;
    let before = scene.balancer();
    let refused = scene.refused("other").await;
    assert!(
        refused.is_invalid()
            && refused
                .to_string()
                .contains("belongs to Service default/web"),
        "{refused}"
    );
    scene.delete("other").await;
    assert_eq!(scene.balancer(), before);
    scene.start().await;
    scene.changes();
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.delete("web").await;
    assert!(nothing_is_left(&scene));
}

/// Every route of creations, changes and deletions fails once in each way.
#[tokio::test(start_paused = true)]
async fn whatever_request_fails_once_it_ends_as_it_should() {
    let faults: [fn(&str) -> Fault; 4] = [
        |route| Fault::refused(route, 404),
        |route| Fault::refused(route, 409),
        |route| Fault::refused(route, 503),
        |route| Fault::new(route, FaultKind::LostAnswer),
    ];
    let mut routes = std::collections::BTreeSet::new();
    play(&mut Scene::new(), None, &mut routes).await;
    assert!(routes.len() > 12, "{routes:?}");
    for route in routes {
        for fault in faults {
            // An existing object cannot be missing.
            if route.starts_with("DELETE") && fault(&route) == Fault::refused(&route, 404) {
                continue;
            }
            let mut scene = Scene::new();
            play(&mut scene, Some(fault(&route)), &mut Default::default()).await;
        }
    }
}

/// Runs through the lifetime of a Service; each step is retried until it succeeds.
async fn play(
    scene: &mut Scene,
    fault: Option<Fault>,
    routes: &mut std::collections::BTreeSet<String>,
) {
    scene.conf("manage-security-groups = true");
    scene.conf("create-monitor = true");
    let text = format!("{fault:?}");
    if let Some(fault) = fault {
        scene.fake.fail(fault.times(1));
    }
    async fn through(scene: &mut Scene, text: &str) {
        for _ in 0..6 {
            if scene.try_ensure("web").await.is_ok() {
                return;
            }
        }
        panic!("{text}: {}", scene.refused("web").await);
    }
    through(scene, &text).await;
    assert_eq!(scene.fake.load_balancers().len(), 1, "{text}");
    scene.ports(
        "web",
        json!([{"port": 81, "nodePort": 30080}, {"port": 82, "nodePort": 30082}]),
    );
    scene.annotate("web", "enable-health-monitor", "false");
    through(scene, &text).await;
    scene.annotate("web", "connection-limit", "7");
    scene.annotate("web", "enable-health-monitor", "true");
    scene.add_node("worker-3");
    through(scene, &text).await;
    scene.annotate("web", INTERNAL, "true");
    through(scene, &text).await;
    scene.annotate("web", INTERNAL, "false");
    through(scene, &text).await;
    let balancer = scene.balancer();
    assert_eq!(ports(&balancer), [81, 82], "{text}");
    let of_pools = |key: &str| -> Vec<usize> {
        balancer["pools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pool| pool[key].as_array().map_or(0, Vec::len))
            .collect()
    };
    assert_eq!(of_pools("members"), [3, 3], "{text}");
    assert_eq!(scene.fake.floating_ips().len(), 1, "{text}");
    for _ in 0..6 {
        if scene.try_delete("web").await.is_ok() {
            break;
        }
    }
    routes.extend(scene.fake.changes().into_iter().map(|(route, _)| route));
    assert!(
        nothing_is_left(scene),
        "{text}: {:#?}",
        scene.fake.floating_ips()
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_while_it_is_made_goes() {
    for tick in [1, 2000, 9000, 12_000] {
        let mut scene = Scene::new();
        scene.conf("manage-security-groups = true");
        scene.lifetime = Some(Duration::from_millis(tick));
        let _ = scene.try_ensure("web").await;
        scene.start().await;
        // The Service has another type now.
        scene.service("web").spec.get_or_insert_default().type_ = Some("ClusterIP".to_owned());
        scene.try_remove("web").await.unwrap();
        assert!(nothing_is_left(&scene), "{tick}");
    }
    let mut scene = Scene::new();
    scene.fake.fail(Fault::ends_in_error(CREATE, "ERROR"));
    scene.lifetime = Some(Duration::from_millis(2000));
    let _ = scene.try_ensure("web").await;
    scene.start().await;
    scene.delete("web").await;
    assert!(nothing_is_left(&scene));
}

#[tokio::test(start_paused = true)]
async fn the_address_of_another_project_is_not_taken() {
    let mut scene = Scene::with(Options {
        admin: true,
        ..Options::default()
    });
    let id = scene.fake.add_floating_ip(&scene.public, "theirs", None);
    scene.fake.change_floating_ip(&id, |floating_ip| {
        drop(floating_ip.insert("project_id".to_owned(), json!("another")));
    });
    let address = scene.fake.floating_ips()[0]["floating_ip_address"]
        .as_str()
        .unwrap()
        .to_owned();
    scene
        .service("web")
        .spec
        .get_or_insert_default()
        .load_balancer_ip = Some(address);
    let _ = scene.try_ensure("web").await;
    let theirs = scene
        .fake
        .floating_ips()
        .into_iter()
        .find(|floating_ip| floating_ip["id"] == *id)
        .unwrap();
    assert!(theirs["port_id"].is_null());
}

#[tokio::test(start_paused = true)]
async fn who_is_left_alone_on_a_shared_one_has_all_the_rights() {
    let mut scene = joined().await;
    scene.delete("web").await;
    let id = scene.fake.floating_ips()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    scene.fake.change_floating_ip(&id, |floating_ip| {
        drop(floating_ip.insert("port_id".to_owned(), Value::Null));
    });
    scene.start().await;
    scene.ensure("other").await;
    let leads_there = |scene: &Scene| {
        let port = scene.balancer()["vip_port_id"].clone();
        scene
            .fake
            .floating_ips()
            .iter()
            .any(|floating_ip| floating_ip["port_id"] == port)
    };
    assert!(leads_there(&scene));
    scene.annotate("other", INTERNAL, "true");
    scene.ensure("other").await;
    assert!(!leads_there(&scene));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_asked_for_comes_before_what_a_dead_namesake_left() {
    let mut scene = joined().await;
    scene.delete("other").await;
    scene.ensure("web").await;
    let left = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    // The Service was deleted without a trace, and created again to share another load balancer.
    let by_hand = scene
        .fake
        .add_load_balancer(&json!({"name": "by hand", "vip_subnet_id": scene.network.subnet}));
    let port = scene.fake.load_balancer(&by_hand).unwrap()["vip_port_id"]
        .as_str()
        .unwrap()
        .to_owned();
    scene
        .fake
        .add_floating_ip(&scene.public, "mine", Some(&port));
    scene.services.remove("web");
    scene.add_service("web");
    scene.service("web").metadata.uid = Some("another-uid".to_owned());
    scene.annotate("web", "load-balancer-id", &by_hand);
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(ports(&scene.fake.load_balancer(&by_hand).unwrap()), [80]);
    assert_eq!(
        scene.fake.load_balancer(&left).unwrap()["tags"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "nobody's any more"
    );
}

#[tokio::test(start_paused = true)]
async fn two_who_change_places_at_the_same_time_lose_nothing() {
    let mut scene = Scene::new();
    scene.add_service("other");
    scene.ports("other", json!([{"port": 443, "nodePort": 30443}]));
    scene.ensure("other").await;
    scene.ensure("web").await;
    let ids = ["web", "other"].map(|name| {
        scene
            .annotation(name, "load-balancer-id")
            .unwrap()
            .to_owned()
    });
    scene.annotate("web", "load-balancer-id", &ids[1]);
    scene.annotate("other", "load-balancer-id", &ids[0]);
    let (web, other) = scene.ensure_both("web", "other").await;
    assert!(web.is_ok() && other.is_ok(), "{web:?} {other:?}");
    for _ in 0..3 {
        scene.ensure("web").await;
        scene.ensure("other").await;
        scene.start().await;
    }
    let all = scene.fake.load_balancers();
    let mut served: Vec<u64> = all.iter().flat_map(ports).collect();
    served.sort_unstable();
    assert_eq!(served, [80, 443], "{all:#?}");
    for name in ["web", "other"] {
        scene.delete(name).await;
    }
    assert!(nothing_is_left(&scene));
}

#[tokio::test(start_paused = true)]
async fn a_port_that_a_user_gives_outlives_everything() {
    for fails in [false, true] {
        let mut scene = Scene::new();
        let port = scene.fake.add_port("vip", &scene.network.subnet);
        scene.annotate("web", "port-id", &port);
        if fails {
            scene
                .fake
                .fail(Fault::ends_in_error(CREATE, "ERROR").times(1));
        }
        scene.ensure("web").await;
        assert_eq!(scene.balancer()["vip_port_id"], *port);
        scene.delete("web").await;
        assert!(scene.fake.port(&port).is_some() && nothing_is_left(&scene));
    }
}

#[tokio::test(start_paused = true)]
async fn without_tags_those_of_the_name_of_old_are_changed_and_deleted() {
    let of_old = format!("a{}", uid("web").replace('-', "").split_at(31).0);
    for name in [NAME, &of_old] {
        let mut scene = Scene::with(Options {
            octavia: 4,
            ..Options::default()
        });
        scene.annotate("web", INTERNAL, "true");
        scene.fake.add_load_balancer(&json!({
            "name": name, "vip_subnet_id": scene.network.subnet,
            "listeners": [{"name": format!("listener_0_{name}"), "protocol": "TCP", "protocol_port": 80}],
        }));
        scene.ensure("web").await;
        scene.ports("web", json!([{"port": 81, "nodePort": 30080}]));
        scene.fake.set_provisioning_status(name, "PENDING_UPDATE");
        let fake = scene.fake.clone();
        let named = name.to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            fake.set_provisioning_status(&named, "ACTIVE");
        });
        scene.ensure("web").await;
        assert_eq!(ports(&scene.balancer()), [81], "{name}");
        scene.delete("web").await;
        assert!(nothing_is_left(&scene), "{name}");
    }
}
