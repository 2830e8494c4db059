//! Load balancers that several Services share, and those of other names.

use serde_json::{Value, json};

use super::scene::{CREATE, NAME, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const OTHER: &str = "kube_service_kubernetes_default_other";

/// Returns a harness with `web` on port 80, and `other`, which selects the same load balancer for its port 443.
pub(super) async fn shared() -> Scene {
    let mut scene = Scene::new();
    scene.ensure("web").await;
    let id = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    scene.add_service("other");
    scene.annotate("other", "load-balancer-id", &id);
    scene.ports("other", json!([{"port": 443, "nodePort": 30443}]));
    scene.fake.forget_requests();
    scene
}

fn tags(object: &Value) -> Vec<&str> {
    let mut tags: Vec<_> = object["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag.as_str().unwrap())
        .collect();
    tags.retain(|tag| !tag.starts_with("ccm-rs:"));
    tags.sort_unstable();
    tags
}

#[tokio::test(start_paused = true)]
async fn a_second_service_shares_the_load_balancer_of_the_first_and_leaves_it() {
    let mut scene = shared().await;
    let addresses = scene.ensure("web").await;
    assert_eq!(scene.ensure("other").await, addresses);
    assert_eq!(
        scene.changes()[0],
        "PUT /lbaas/loadbalancers/{id}",
        "marked before anything else"
    );
    let balancer = scene.balancer();
    assert_eq!(tags(&balancer), [OTHER, NAME]);
    assert_eq!(balancer["tags"].as_array().unwrap().len(), 4);
    let listeners = balancer["listeners"].as_array().unwrap();
    let of = |port: u16| {
        listeners
            .iter()
            .find(|listener| listener["protocol_port"] == port)
            .unwrap()
    };
    assert_eq!((tags(of(80)), tags(of(443))), (vec![NAME], vec![OTHER]));
    for _ in 0..2 {
        scene.ensure("web").await;
        scene.ensure("other").await;
        assert_eq!(scene.changes(), [] as [&str; 0]);
        scene.start().await;
    }
    scene.delete("other").await;
    let balancer = scene.balancer();
    assert_eq!(
        (tags(&balancer), balancer["tags"].as_array().unwrap().len()),
        (vec![NAME], 2)
    );
    assert_eq!(balancer["listeners"].as_array().unwrap().len(), 1);
    assert_eq!(
        (scene.fake.floating_ips().len(), scene.ensure("web").await),
        (1, addresses)
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_one_to_leave_takes_it_along() {
    let mut scene = shared().await;
    let addresses = scene.ensure("other").await;
    scene.delete("web").await;
    let balancer = scene.balancer();
    assert_eq!(
        (tags(&balancer), &balancer["name"]),
        (vec![OTHER], &json!(NAME))
    );
    scene.start().await;
    assert_eq!(scene.ensure("other").await, addresses);
    scene.delete("other").await;
    assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_finds_its_load_balancer_with_others_on_it() {
    let mut scene = shared().await;
    scene.ensure("other").await;
    scene.delete("web").await;
    scene.add_service("web");
    scene.ensure("web").await;
    assert_eq!(scene.fake.bodies(CREATE).len(), 0);
    assert_eq!(tags(&scene.balancer()), [OTHER, NAME]);
    assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_another_service_has_is_refused_whatever_its_listener_speaks() {
    let mut scene = shared().await;
    scene.annotate("web", "x-forwarded-for", "true");
    scene.ensure("web").await;
    scene.ports("other", json!([{"port": 80, "nodePort": 30443}]));
    let refused = scene.refused("other").await;
    let expected = format!(
        "listener 80/TCP of load balancer {NAME:?} ({})",
        scene.balancer()["id"].as_str().unwrap()
    );
    assert!(
        refused.is_invalid() && refused.to_string().contains(&expected),
        "{refused}"
    );
    assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 1);
    scene.ports(
        "other",
        json!([{"port": 80, "protocol": "UDP", "nodePort": 30443}]),
    );
    scene.ensure("other").await;
    assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn not_more_than_max_shared_lb_may_share() {
    let mut scene = shared().await;
    scene.ensure("other").await;
    scene.add_service("one-too-many");
    let id = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    scene.annotate("one-too-many", "load-balancer-id", &id);
    scene.ports("one-too-many", json!([{"port": 8080, "nodePort": 30444}]));
    scene.changes();
    let refused = scene.refused("one-too-many").await;
    assert!(
        refused.is_invalid() && refused.to_string().contains("max-shared-lb is 2"),
        "{refused}"
    );
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.try_delete("one-too-many").await.unwrap();
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.service("one-too-many").metadata.deletion_timestamp = None;
    scene.conf("max-shared-lb = 3");
    scene.ensure("one-too-many").await;
}

#[tokio::test(start_paused = true)]
async fn an_internal_service_does_not_share_and_a_shared_one_gets_no_floating_ip_from_others() {
    let mut scene = shared().await;
    scene.annotate("other", INTERNAL, "true");
    let refused = scene.refused("other").await;
    assert!(
        refused.is_invalid() && refused.to_string().contains("cannot be internal"),
        "{refused}"
    );
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.ensure("web").await;
    let id = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    scene.add_service("other");
    scene.annotate("other", "load-balancer-id", &id);
    scene.ports("other", json!([{"port": 443, "nodePort": 30443}]));
    let refused = scene.refused("other").await;
    assert!(
        refused.is_invalid() && refused.to_string().contains("has no floating IP"),
        "{refused}"
    );
    assert!(scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_was_made_by_hand_is_shared_and_never_deleted() {
    let mut scene = Scene::new();
    let subnet = scene.network.subnet.clone();
    let public = scene.public.clone();
    let id = scene.fake.add_load_balancer(&json!({
        "name": "by-hand", "vip_subnet_id": subnet,
        "listeners": [{"name": "l", "protocol": "TCP", "protocol_port": 22, "tags": ["mine"]}],
    }));
    let port = scene.balancer()["vip_port_id"].as_str().unwrap().to_owned();
    scene.fake.add_floating_ip(&public, "mine", Some(&port));
    let before = scene.balancer();
    scene.annotate("web", "load-balancer-id", &id);
    scene.ensure("web").await;
    assert_eq!(tags(&scene.balancer()), [NAME]);
    scene.start().await;
    scene.changes();
    scene.ensure("web").await;
    assert_eq!(scene.changes(), [] as [&str; 0]);
    scene.delete("web").await;
    let after = scene.balancer();
    assert_eq!(
        (&after["name"], &after["tags"]),
        (&before["name"], &before["tags"])
    );
    assert_eq!(
        (
            after["listeners"].as_array().unwrap().len(),
            scene.fake.floating_ips().len()
        ),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn two_services_that_come_at_the_same_time_both_get_their_tags() {
    let mut scene = shared().await;
    scene.conf("max-shared-lb = 3");
    scene.add_service("third");
    let id = scene
        .annotation("web", "load-balancer-id")
        .unwrap()
        .to_owned();
    scene.annotate("third", "load-balancer-id", &id);
    scene.ports("third", json!([{"port": 8443, "nodePort": 30444}]));
    scene.ensure("web").await;
    let (one, two) = scene.ensure_both("other", "third").await;
    assert_eq!((one.is_ok(), two.is_ok()), (true, true), "{one:?} {two:?}");
    assert_eq!(tags(&scene.balancer()).len(), 3);
    assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn each_has_a_security_group_of_its_own_that_goes_with_it() {
    for first in ["web", "other"] {
        let mut scene = shared().await;
        scene.conf("manage-security-groups = true");
        scene.ensure("web").await;
        scene.ensure("other").await;
        let groups = |scene: &Scene| {
            let all = scene.fake.security_groups();
            all.iter()
                .filter(|object| object["name"].as_str().unwrap().starts_with("lb-sg-"))
                .count()
        };
        assert_eq!(groups(&scene), 2);
        scene.start().await;
        scene.delete(first).await;
        assert_eq!(
            (
                groups(&scene),
                scene.balancer()["listeners"].as_array().unwrap().len()
            ),
            (1, 1)
        );
        let last = if first == "web" { "other" } else { "web" };
        scene.ensure(last).await;
        assert_eq!(groups(&scene), 1);
        scene.delete(last).await;
        assert_eq!(
            (
                groups(&scene),
                scene.fake.load_balancers().len(),
                scene.fake.floating_ips().len()
            ),
            (0, 0, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_many_pages_show_all() {
    let mut scene = Scene::with(openstack_fake::Options {
        page_size: 2,
        ..Default::default()
    });
    let names: Vec<String> = (0..5).map(|number| format!("web-{number}")).collect();
    for name in &names {
        scene.add_service(name);
        scene.ports(name, json!([{"port": 53, "nodePort": 30053}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]));
        scene.ensure(name).await;
    }
    scene.start().await;
    for name in &names {
        scene.ensure(name).await;
    }
    assert_eq!(scene.changes(), [] as [&str; 0]);
    for name in &names {
        scene.delete(name).await;
    }
    assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_required_tag_is_not_shared() {
    for (tag, is_shared) in [("ccm-rs-adoptable", true), ("theirs", false)] {
        let mut scene = Scene::new();
        scene.adoptable_tag = Some("ccm-rs-adoptable".parse().unwrap());
        let object =
            json!({"name": "by hand", "vip_subnet_id": scene.network.subnet, "tags": [tag]});
        let id = scene.fake.add_load_balancer(&object);
        scene.annotate("web", "load-balancer-id", &id);
        let port = scene.balancer()["vip_port_id"].as_str().unwrap().to_owned();
        scene
            .fake
            .add_floating_ip(&scene.public, "mine", Some(&port));
        let outcome = scene.try_ensure("web").await;
        assert_eq!(outcome.is_ok(), is_shared, "{tag}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error.is_invalid()
                    && error
                        .to_string()
                        .contains("give it the tag ccm-rs-adoptable"),
                "{error}"
            );
            assert_eq!(tags(&scene.balancer()), ["theirs"]);
        }
    }
}
