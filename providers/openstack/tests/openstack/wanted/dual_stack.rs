//! Services of two IP families: a second VIP where there can be one (D-204).

use openstack_fake::Options;
use serde_json::{Value, json};

use crate::balancers::scene::{CREATE, NAME, Scene};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const SKIPPED: &str = "LoadBalancerDualStackSkipped";

/// Gives the Service `web` these families, the first one first.
fn families(scene: &mut Scene, families: &[&str], policy: &str) {
    spec(
        scene,
        &json!({"ipFamilies": families, "ipFamilyPolicy": policy}),
    );
}

fn spec(scene: &mut Scene, more: &Value) {
    spec_of(scene, "web", more);
}

fn spec_of(scene: &mut Scene, name: &str, more: &Value) {
    let service = scene.service(name);
    let mut whole = serde_json::to_value(&*service).unwrap();
    whole["spec"]
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    *service = serde_json::from_value(whole).unwrap();
}

/// Creates a network with subnets of both families, and a Service that wants both.
fn scene() -> (Scene, String) {
    scene_with(Options::default())
}

fn scene_with(options: Options) -> (Scene, String) {
    let mut scene = Scene::with(options);
    let six = scene
        .fake
        .add_subnet(&scene.network.id.clone(), "six", "fd00:6::/64");
    families(&mut scene, &["IPv4", "IPv6"], "RequireDualStack");
    (scene, six)
}

fn second(scene: &Scene) -> Value {
    scene.balancer()["additional_vips"][0].clone()
}

fn cidrs(scene: &Scene) -> Value {
    scene.balancer()["listeners"][0]["allowed_cidrs"].clone()
}

/// Returns the events about address families, without their prefix.
fn told(scene: &Scene) -> Vec<String> {
    let mut events = scene.events();
    events.retain(|event| event.contains(SKIPPED));
    events
}

#[tokio::test(start_paused = true)]
async fn a_service_of_both_families_is_reached_by_a_floating_ip_and_a_second_vip() {
    let (mut scene, six) = scene();
    let shown = scene.ensure("web").await;
    assert_eq!(
        scene.fake.bodies(CREATE)[0]["loadbalancer"]["additional_vips"],
        json!([{"subnet_id": six}])
    );
    let floating = scene.fake.floating_ips()[0]["floating_ip_address"].clone();
    assert_eq!(
        json!(shown),
        json!([floating, second(&scene)["ip_address"]])
    );
    assert_eq!(
        scene.annotation("web", "load-balancer-address"),
        Some(&*shown[0])
    );
    assert_eq!(cidrs(&scene), json!(["0.0.0.0/0", "::/0"]));
    let members = scene.balancer()["pools"][0]["members"].clone();
    assert!(
        members
            .as_array()
            .unwrap()
            .iter()
            .all(|member| member["address"].as_str().unwrap().starts_with("10.6."))
    );
    assert_eq!(told(&scene), [] as [&str; 0]);
    scene.changes();
    for _ in 0..2 {
        assert_eq!(scene.ensure("web").await, shown);
        scene.start().await;
    }
    assert_eq!(
        (scene.get("web").await.unwrap(), scene.changes()),
        (shown, Vec::new())
    );
    scene.delete("web").await;
    assert!(scene.fake.load_balancers().is_empty() && scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_second_vip_may_be_the_one_of_ipv4_and_internal_ones_have_both_too() {
    let (mut scene, six) = scene();
    scene.annotate("web", INTERNAL, "true");
    let shown = scene.ensure("web").await;
    assert!(
        shown[0].starts_with("10.6.") && shown[1].starts_with("fd00:6:"),
        "{shown:?}"
    );
    scene.delete("web").await;

    scene.add_service("web");
    families(&mut scene, &["IPv6", "IPv4"], "RequireDualStack");
    scene.annotate("web", "subnet-id", &six);
    let shown = scene.ensure("web").await;
    assert!(
        shown[0].starts_with("fd00:6:") && shown[1].starts_with("10.6."),
        "{shown:?}"
    );
    assert_eq!(cidrs(&scene), json!(["0.0.0.0/0", "::/0"]));
    assert!(scene.fake.floating_ips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn source_ranges_of_both_families_count_and_those_of_one_let_nobody_in_by_the_other() {
    let (mut scene, _) = scene();
    spec(
        &mut scene,
        &json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]}),
    );
    scene.ensure("web").await;
    assert_eq!(cidrs(&scene), json!(["192.0.2.0/24"]));
    spec(
        &mut scene,
        &json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"]}),
    );
    scene.ensure("web").await;
    assert_eq!(cidrs(&scene), json!(["192.0.2.0/24", "2001:db8::/32"]));
    families(&mut scene, &["IPv4"], "SingleStack");
    assert_eq!(
        scene.ensure("web").await.len(),
        1,
        "the other address is there, but not for this Service"
    );
    assert_eq!(cidrs(&scene), json!(["192.0.2.0/24"]));
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_was_added_a_moment_ago_is_used() {
    let mut scene = Scene::new();
    scene.ensure("web").await;
    scene.add_service("other");
    let six = scene
        .fake
        .add_subnet(&scene.network.id.clone(), "six", "fd00:6::/64");
    let both = json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"});
    spec_of(&mut scene, "other", &both);
    assert_eq!(scene.ensure("other").await.len(), 2);
    assert_eq!(
        scene.fake.bodies(CREATE)[1]["loadbalancer"]["additional_vips"],
        json!([{"subnet_id": six}])
    );
}

#[tokio::test(start_paused = true)]
async fn where_there_cannot_be_a_second_vip_the_first_family_is_served_and_who_needs_both_is_told_once()
 {
    type Setting = fn(&mut Scene, &str);
    let cases: [(&str, u32, Setting); 5] = [
        ("from version 2.26 on", 25, |_, _| {}),
        ("with provider amphora", 27, |scene, _| {
            scene.conf("lb-provider = ovn");
        }),
        ("has no subnet of that family", 27, |scene, six| {
            scene.fake.hide(six);
        }),
        ("annotation port-id", 27, |scene, _| {
            let port = scene.fake.add_port("vip", &scene.network.subnet.clone());
            scene.annotate("web", "port-id", &port);
        }),
        ("UDP and SCTP", 27, |scene, _| {
            scene.ports(
                "web",
                json!([{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]),
            );
        }),
    ];
    for (why, octavia, setting) in cases {
        for policy in ["RequireDualStack", "PreferDualStack"] {
            let (mut scene, six) = scene_with(Options {
                octavia,
                ..Options::default()
            });
            families(&mut scene, &["IPv4", "IPv6"], policy);
            setting(&mut scene, &six);
            let shown = scene.ensure("web").await;
            assert!(
                shown.len() == 1 && shown[0].starts_with("172.24."),
                "{why}: {shown:?}"
            );
            assert_eq!(
                scene.fake.bodies(CREATE)[0]["loadbalancer"].get("additional_vips"),
                None,
                "{why}"
            );
            assert!(
                cidrs(&scene)
                    .as_array()
                    .is_none_or(|all| *all == [json!("0.0.0.0/0")]),
                "{why}"
            );
            scene.changes();
            assert_eq!(scene.ensure("web").await, shown);
            assert_eq!(scene.changes(), [] as [&str; 0], "{why}");
            let told = told(&scene);
            assert_eq!(
                told.len(),
                usize::from(policy == "RequireDualStack"),
                "{why}: {told:?}"
            );
            assert!(
                told.iter()
                    .all(|text| text.contains(why) && text.contains("reachable by IPv6")),
                "{told:?}"
            );
        }
    }
}

// D-11
#[tokio::test(start_paused = true)]
async fn a_load_balancer_with_one_vip_is_accepted_as_it_is_and_shows_what_it_has() {
    let (mut scene, _) = scene();
    scene.annotate("web", INTERNAL, "true");
    let member = |node: &str| {
        let address = scene.fake.server(node).unwrap().ip;
        json!({"name": node, "address": address, "protocol_port": 30080, "subnet_id": scene.network.subnet})
    };
    scene.fake.add_load_balancer(&json!({
        "name": NAME, "provider": "amphora", "tags": [NAME], "vip_subnet_id": scene.network.subnet,
        "listeners": [{
            "name": format!("listener_0_{NAME}"), "protocol": "TCP", "protocol_port": 80, "connection_limit": -1,
            "allowed_cidrs": ["0.0.0.0/0"], "tags": [NAME],
            "default_pool": {
                "name": format!("pool_0_{NAME}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
                "members": [member("worker-1"), member("worker-2")],
            },
        }],
    }));
    let vip = scene.balancer()["vip_address"].clone();
    assert_eq!(json!(scene.ensure("web").await), json!([vip]));
    assert_eq!((scene.changes(), told(&scene)), (Vec::new(), Vec::new()));
    // The second sync reports that there will be no second VIP.
    scene.ensure("web").await;
    assert!(told(&scene)[0].contains("cannot get another"));
    spec(
        &mut scene,
        &json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"]}),
    );
    assert_eq!(json!(scene.ensure("web").await), json!([vip]));
    assert_eq!(
        cidrs(&scene),
        json!(["192.0.2.0/24"]),
        "Octavia refuses what no VIP can be reached by"
    );
}

#[tokio::test(start_paused = true)]
async fn a_port_of_udp_that_comes_later_is_told_not_to_be_reached_by_the_second_vip() {
    let (mut scene, _) = scene();
    families(&mut scene, &["IPv4", "IPv6"], "PreferDualStack");
    assert_eq!(scene.ensure("web").await.len(), 2);
    scene.ports("web", json!([{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]));
    assert_eq!(scene.ensure("web").await.len(), 2);
    assert!(told(&scene)[0].contains("UDP and SCTP"));
    assert_eq!(scene.balancer()["listeners"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_somebody_deleted_gets_both_vips_again() {
    let (mut scene, _) = scene();
    scene.ensure("web").await;
    assert!(scene.fake.remove_load_balancer(NAME));
    scene.start().await;
    assert_eq!(scene.ensure("web").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn services_of_one_family_ask_for_nothing_more() {
    let (mut scene, _) = scene();
    for family in [json!(["IPv4"]), Value::Null] {
        scene.add_service("web");
        spec(&mut scene, &json!({"ipFamilies": family}));
        scene.annotate("web", INTERNAL, "true");
        scene.start().await;
        assert_eq!(scene.ensure("web").await.len(), 1);
        assert_eq!(
            scene.fake.bodies(CREATE)[0]["loadbalancer"].get("additional_vips"),
            None
        );
        assert_eq!(scene.fake.count("GET /subnets"), 0);
        scene.delete("web").await;
    }
}
