//! Floating IPs: creation, adoption, retention, release.

use openstack_fake::{Fault, Options};
use serde_json::{Value, json};

use crate::balancers::scene::{NAME, Scene};

const POST: &str = "POST /floatingips";
const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const OURS: &str =
    "Floating IP for Kubernetes external service default/web from cluster kubernetes";

fn spec(scene: &mut Scene, key: &str, value: Value) {
    let service = scene.service("web");
    let mut whole = serde_json::to_value(&*service).unwrap();
    whole["spec"][key] = value;
    *service = serde_json::from_value(whole).unwrap();
}

fn only(scene: &Scene) -> Value {
    let all = scene.fake.floating_ips();
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}

fn address(scene: &Scene, id: &str) -> String {
    let all = scene.fake.floating_ips();
    all.iter().find(|object| object["id"] == id).unwrap()["floating_ip_address"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_external_load_balancer_gets_a_floating_ip_of_the_first_external_network() {
    let mut scene = Scene::new();
    let shown = scene.ensure("web").await;
    let floating = only(&scene);
    assert_eq!(shown, [floating["floating_ip_address"].as_str().unwrap()]);
    assert_eq!(floating["floating_network_id"], scene.public.id);
    assert_eq!(
        (&floating["description"], &floating["port_id"]),
        (&json!(OURS), &scene.balancer()["vip_port_id"])
    );
    assert_eq!(
        scene.annotation("web", "load-balancer-address"),
        Some(&*shown[0])
    );
    scene.fake.forget_requests();
    assert_eq!(scene.ensure("web").await, shown);
    assert!(scene.changes().is_empty(), "it stays as it is");
    scene.delete("web").await;
    assert!(scene.fake.floating_ips().is_empty() && scene.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_external_network_counts_if_it_has_ipv4_or_subnets_that_nobody_shows() {
    for (range, is_hidden, counts) in [
        ("2001:db8::/64", false, false),
        ("172.25.0.0/24", false, true),
        ("172.25.0.0/24", true, true),
    ] {
        let mut scene = Scene::new();
        scene.fake.hide(&scene.public.id.clone());
        let other = scene.fake.add_external_network("other", range);
        scene.fake.add_router("other", &other.subnet);
        if is_hidden {
            scene.fake.hide(&other.subnet);
        }
        let service = scene.try_ensure("web").await;
        let asked = scene.fake.bodies(POST);
        assert_eq!(
            !asked.is_empty(),
            counts,
            "{range} {is_hidden}: {service:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_external_network_a_load_balancer_is_internal_and_keeps_what_it_has() {
    let mut scene = Scene::new();
    scene.fake.hide(&scene.public.id.clone());
    let shown = scene.ensure("web").await;
    assert_eq!(shown, [scene.balancer()["vip_address"].as_str().unwrap()]);
    let events = scene.events();
    for reason in [
        "LoadBalancerExternalNetworkSearchFailed",
        "LoadBalancerForcedInternal",
    ] {
        assert_eq!(
            events.iter().filter(|event| event.contains(reason)).count(),
            1,
            "{events:?}"
        );
    }
    // An existing floating IP is not removed because its network is unknown.
    let port = scene.balancer()["vip_port_id"].as_str().unwrap().to_owned();
    let id = scene.fake.add_floating_ip(&scene.public, OURS, Some(&port));
    scene.start().await;
    assert_eq!(scene.ensure("web").await, [address(&scene, &id)]);
    assert!(scene.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_that_the_service_names_is_taken_and_given_back() {
    let mut scene = Scene::new();
    let id = scene.fake.add_floating_ip(&scene.public, "mine", None);
    let named = address(&scene, &id);
    spec(&mut scene, "loadBalancerIP", json!(named));
    assert_eq!(scene.ensure("web").await, [&*named]);
    assert_eq!(
        (scene.fake.count(POST), only(&scene)["description"].as_str()),
        (0, Some("mine"))
    );
    scene.delete("web").await;
    assert_eq!(
        (&only(&scene)["id"], &only(&scene)["port_id"]),
        (&json!(id), &Value::Null),
        "it is not ours to delete"
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_floating_ip_that_is_in_use_is_left_where_it_is() {
    let mut scene = Scene::new();
    let port = scene.fake.add_port("other", &scene.network.subnet.clone());
    let id = scene
        .fake
        .add_floating_ip(&scene.public, "mine", Some(&port));
    let named = address(&scene, &id);
    spec(&mut scene, "loadBalancerIP", json!(named));
    let error = scene.refused("web").await;
    assert!(
        error.is_invalid() && error.to_string().contains("is not available"),
        "{error}"
    );
    assert_eq!(only(&scene)["port_id"], json!(port));
    assert!(
        scene.fake.load_balancers().is_empty(),
        "found before a load balancer is created"
    );
}

#[tokio::test(start_paused = true)]
async fn named_floating_ip_on_the_services_own_load_balancer_is_not_taken() {
    let mut scene = Scene::new();
    let id = scene.fake.add_floating_ip(&scene.public, "mine", None);
    let named = address(&scene, &id);
    spec(&mut scene, "loadBalancerIP", json!(named));
    scene.ensure("web").await;
    // As after a crash right after the last request: the Service has none of the annotations.
    for key in ["load-balancer-id", "load-balancer-address"] {
        scene.forget("web", key);
    }
    scene.service("web").status = None;
    scene.start().await;
    assert_eq!(scene.ensure("web").await, [named]);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_nobodys_is_asked_for() {
    let mut scene = Scene::new();
    spec(&mut scene, "loadBalancerIP", json!("172.24.9.9"));
    let error = scene.refused("web").await;
    assert!(
        error.is_unauthorized() && error.to_string().contains("disallowed by policy"),
        "{error}"
    );
    scene.fake.set_options(|options| options.admin = true);
    assert_eq!(scene.ensure("web").await, ["172.24.9.9"]);
    assert_eq!(only(&scene)["description"], OURS);
}

#[tokio::test(start_paused = true)]
async fn who_becomes_internal_loses_its_floating_ip_unless_it_is_kept_or_not_ours() {
    for (ours, keep, stays) in [
        (true, false, false),
        (true, true, true),
        (false, false, true),
    ] {
        let mut scene = Scene::new();
        let shown = scene.ensure("web").await;
        let id = only(&scene)["id"].as_str().unwrap().to_owned();
        if !ours {
            scene.fake.change_floating_ip(&id, |floating_ip| {
                drop(floating_ip.insert("description".into(), json!("mine")));
            });
        }
        if keep {
            scene.annotate("web", "keep-floatingip", "true");
        }
        scene.annotate("web", INTERNAL, "true");
        let vip = scene.ensure("web").await;
        assert_eq!(vip, [scene.balancer()["vip_address"].as_str().unwrap()]);
        let left: Vec<_> = scene
            .fake
            .floating_ips()
            .iter()
            .map(|floating_ip| floating_ip["port_id"].clone())
            .collect();
        assert_eq!(
            left,
            if stays { vec![Value::Null] } else { vec![] },
            "{ours} {keep}"
        );
        scene.fake.forget_requests();
        scene.ensure("web").await;
        assert!(scene.changes().is_empty());
        scene.forget("web", "keep-floatingip");
        scene
            .service("web")
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .remove(INTERNAL);
        assert_eq!(
            scene.ensure("web").await.len(),
            shown.len(),
            "and external again"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_floating_ip_outlives_its_service() {
    let mut scene = Scene::new();
    scene.annotate("web", "keep-floatingip", "true");
    scene.ensure("web").await;
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty());
    assert_eq!(only(&scene)["port_id"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn floating_ip_that_was_kept_for_another_service_or_cluster_is_given_back() {
    for owner in [
        "default/other from cluster kubernetes",
        "default/web from cluster elsewhere",
    ] {
        for becomes_internal in [false, true] {
            let mut scene = Scene::new();
            let text = format!("Floating IP for Kubernetes external service {owner}");
            let id = scene.fake.add_floating_ip(&scene.public, &text, None);
            let named = address(&scene, &id);
            spec(&mut scene, "loadBalancerIP", json!(named));
            assert_eq!(scene.ensure("web").await, [&*named]);
            if becomes_internal {
                scene.annotate("web", INTERNAL, "true");
                scene.service("web").spec.as_mut().unwrap().load_balancer_ip = None;
                scene.ensure("web").await;
            } else {
                scene.delete("web").await;
            }
            assert_eq!(
                (&only(&scene)["id"], &only(&scene)["port_id"]),
                (&json!(id), &Value::Null),
                "{owner}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn service_shows_its_vip_before_it_loses_its_floating_ip() {
    let mut scene = Scene::new();
    scene.ensure("web").await;
    scene.annotate("web", INTERNAL, "true");
    scene.refuses_status = true;
    scene.refused("web").await;
    assert_eq!(
        scene.fake.floating_ips().len(),
        1,
        "the address that the Service shows stays"
    );
    scene.refuses_status = false;
    let vip = scene.ensure("web").await;
    assert_eq!(vip, [scene.balancer()["vip_address"].as_str().unwrap()]);
    assert!(
        scene
            .warnings
            .iter()
            .any(|text| text.contains("becomes internal")),
        "{:?}",
        scene.warnings
    );
    assert!(scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn subnets_that_fit_are_tried_in_turn() {
    let mut scene = Scene::new();
    let public = scene.public.id.clone();
    let full = scene.fake.add_subnet(&public, "pool-a", "203.0.113.4/30");
    let free = scene.fake.add_subnet(&public, "pool-b", "198.51.100.0/24");
    scene.fake.set_tags(&full, &["gold"]);
    scene.fake.set_tags(&free, &["gold"]);
    let network = openstack_fake::Network {
        id: public,
        name: "public".into(),
        subnet: full.clone(),
    };
    while std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        scene.fake.add_floating_ip(&network, "x", None)
    }))
    .is_ok()
    {}
    scene.annotate("web", "floating-subnet", "pool-*");
    scene.annotate("web", "floating-subnet-tags", "gold");
    let shown = scene.ensure("web").await;
    assert!(shown[0].starts_with("198.51.100."), "{shown:?}");
    let asked: Vec<_> = scene
        .fake
        .bodies(POST)
        .iter()
        .map(|body| body["floatingip"]["subnet_id"].clone())
        .collect();
    assert_eq!(asked.last(), Some(&json!(free)));

    scene.add_service("other");
    scene.annotate("other", "floating-subnet", "nothing*");
    let error = scene.refused("other").await;
    assert!(
        error.is_invalid() && error.to_string().contains("\"nothing*\""),
        "{error}"
    );
    scene.annotate("other", "floating-subnet", "~(");
    let error = scene.refused("other").await;
    assert!(
        error.is_invalid() && error.to_string().contains("is no regular expression"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn negated_tags_exclude_subnets_with_any_or_with_all_of_them() {
    let table = [
        ("!gold,silver", &["plain"][..]),
        ("!&gold,silver", &["gold", "plain"]),
        ("!gold", &["plain"]),
        ("gold,silver", &["both", "gold"]),
        ("&gold,silver", &["both"]),
    ];
    for (expression, expected) in table {
        let mut scene = Scene::new();
        let public = scene.public.id.clone();
        let subnets = [
            ("both", "198.51.100.0/24", &["gold", "silver"][..]),
            ("gold", "203.0.113.0/24", &["gold"]),
        ];
        let mut names = std::collections::BTreeMap::new();
        for (name, range, tags) in subnets
            .into_iter()
            .chain([("plain", "192.0.2.0/24", &[][..])])
        {
            let subnet = scene.fake.add_subnet(&public, name, range);
            scene.fake.set_tags(&subnet, tags);
            names.insert(subnet, name);
        }
        scene.annotate("web", "floating-subnet", "~both|gold|plain");
        scene.annotate("web", "floating-subnet-tags", expression);
        // Each refusal leads to the next subnet that fits.
        scene.fake.fail(Fault::refused_as(
            POST,
            409,
            "IpAddressGenerationFailure",
            "No more IP addresses available.",
        ));
        scene.refused("web").await;
        let tried = scene.fake.bodies(POST);
        let tried: std::collections::BTreeSet<_> = tried
            .iter()
            .filter_map(|object| {
                names
                    .get(object["floatingip"]["subnet_id"].as_str()?)
                    .copied()
            })
            .collect();
        assert_eq!(
            tried.into_iter().collect::<Vec<_>>(),
            expected,
            "{expression}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_refusal_is_told_where_no_subnet_has_an_address_left() {
    let mut scene = Scene::new();
    scene.annotate("web", "floating-subnet", "*");
    scene.fake.fail(Fault::refused_as(
        POST,
        409,
        "IpAddressGenerationFailure",
        "No more IP addresses available.",
    ));
    let error = scene.refused("web").await;
    assert!(
        error.is_quota() && error.to_string().contains("No more IP addresses"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_subnet_must_be_in_the_network() {
    let mut scene = Scene::new();
    let subnet = scene.public.subnet.clone();
    scene.annotate("web", "floating-subnet-id", &subnet);
    scene.ensure("web").await;
    assert_eq!(
        scene.fake.bodies(POST)[0]["floatingip"]["subnet_id"],
        json!(subnet)
    );
    scene.add_service("other");
    let inside = scene.network.subnet.clone();
    for (id, text) in [
        (&*inside, "is in network"),
        ("none", "no subnet with ID \"none\"; available: "),
    ] {
        scene.annotate("other", "floating-subnet-id", id);
        let error = scene.refused("other").await;
        assert!(
            error.is_invalid() && error.to_string().contains(text),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_ipv6_load_balancer_is_published_by_its_vip() {
    let mut scene = Scene::new();
    let subnet = scene
        .fake
        .add_subnet(&scene.network.id.clone(), "six", "fd00:6::/64");
    scene.annotate("web", "subnet-id", &subnet);
    spec(&mut scene, "ipFamilies", json!(["IPv6"]));
    let shown = scene.ensure("web").await;
    assert_eq!(shown, [scene.balancer()["vip_address"].as_str().unwrap()]);
    assert!(scene.fake.floating_ips().is_empty());
    let events = scene.events();
    assert!(
        events
            .iter()
            .any(|event| event.contains("LoadBalancerFloatingIPSkipped")),
        "{events:?}"
    );
    let listener = &scene.fake.load_balancer(NAME).unwrap()["listeners"][0];
    assert_eq!(listener["allowed_cidrs"], json!(["::/0"]));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_changed_in_the_same_moment_is_looked_at_again() {
    let mut scene = Scene::with(Options::default());
    let id = scene.fake.add_floating_ip(&scene.public, "mine", None);
    let named = address(&scene, &id);
    spec(&mut scene, "loadBalancerIP", json!(named));
    scene.fake.fail(
        Fault::refused_as(
            "PUT /floatingips/{id}",
            412,
            "RevisionNumberConstraintFailed",
            "x",
        )
        .times(1),
    );
    assert_eq!(scene.ensure("web").await, [named]);
}
