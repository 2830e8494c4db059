//! Events about a Service's settings, and validation of references.

use openstack_fake::Options;
use serde_json::{Value, json};

use crate::balancers::scene::{Scene, uid};

fn count(events: &[String], reason: &str) -> usize {
    events.iter().filter(|it| it.contains(reason)).count()
}

fn ranges(scene: &mut Scene, range: &str) {
    scene.service("web").spec.as_mut().unwrap().load_balancer_source_ranges = Some(vec![range.into()]);
}

#[tokio::test(start_paused = true)]
async fn source_ranges_that_have_no_effect_are_told_once() {
    for (conf, octavia, restricted, told) in [
        ("lb-provider = ovn\nlb-method = SOURCE_IP_PORT", 27, true, 1),
        ("lb-provider = ovn\nlb-method = SOURCE_IP_PORT", 27, false, 0),
        ("lb-provider = amphora", 11, true, 1),
        ("lb-provider = amphora", 27, true, 0),
    ] {
        let mut scene = Scene::with(Options { octavia, ..Options::default() });
        scene.conf(conf);
        if restricted {
            ranges(&mut scene, "203.0.113.0/24");
        }
        scene.ensure("web").await;
        scene.ensure("web").await;
        let events = scene.events();
        assert_eq!(count(&events, "LoadBalancerSourceRangesIgnored"), told, "{conf} {octavia}: {events:?}");
        // A restart reports nothing new.
        scene.start().await;
        scene.ensure("web").await;
        assert_eq!(count(&scene.events(), "LoadBalancerSourceRangesIgnored"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_availability_zone_that_octavia_does_not_know_is_told_and_not_sent() {
    for (octavia, told) in [(13, 1), (14, 0)] {
        let mut scene = Scene::with(Options { octavia, ..Options::default() });
        scene.conf("availability-zone = az1");
        let made = scene.try_ensure("web").await;
        assert_eq!(count(&scene.events(), "LoadBalancerAvailabilityZonesIgnored"), told, "{made:?}");
        let sent = scene.fake.bodies("POST /lbaas/loadbalancers")[0]["loadbalancer"].get("availability_zone").cloned();
        assert_eq!(sent, (told == 0).then(|| json!("az1")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_algorithm_that_octavia_does_not_have_is_told_and_the_configured_one_used() {
    let mut scene = Scene::new();
    scene.annotate("web", "lb-method", "BEST");
    scene.annotate("web", "x-forwarded-for", "yes");
    scene.ensure("web").await;
    let events = scene.events();
    assert_eq!(
        (count(&events, "LoadBalancerLbMethodUnknown"), count(&events, "QuestionableAnnotation")),
        (1, 1),
        "{events:?}"
    );
    assert_eq!(scene.balancer()["pools"][0]["lb_algorithm"], "ROUND_ROBIN");
}

#[tokio::test(start_paused = true)]
async fn a_tls_reference_must_exist_in_barbican() {
    let mut scene = Scene::new();
    for reference in [scene.fake.add_container(), scene.fake.add_secret()] {
        scene.annotate("web", "default-tls-container-ref", &reference);
        scene.ensure("web").await;
        let listener = scene.balancer()["listeners"][0].clone();
        assert_eq!(
            (&listener["protocol"], &listener["default_tls_container_ref"]),
            (&json!("TERMINATED_HTTPS"), &json!(reference))
        );
    }
    let table = [
        ("http://keys/v1/secrets/none", "Barbican has no \"http://keys/v1/secrets/none\""),
        ("http://keys/v1/orders/x", "does not end in /containers/<id> or /secrets/<id>"),
        ("x", "does not end in"),
    ];
    for (reference, text) in table {
        scene.annotate("web", "default-tls-container-ref", reference);
        let error = scene.refused("web").await;
        assert!(error.is_invalid() && error.to_string().contains(text), "{error}");
    }
    scene.conf("container-store = external");
    scene.annotate("web", "default-tls-container-ref", "http://vault/x");
    scene.start().await;
    // Octavia itself does not find it.
    let error = scene.refused("web").await;
    assert!(error.to_string().starts_with("PUT /lbaas/listeners/"), "{error}");
    assert_eq!(scene.fake.count("GET /secrets/{id}"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tls_reference_needs_a_key_manager() {
    let mut scene = Scene::with(Options { barbican: false, ..Options::default() });
    scene.annotate("web", "default-tls-container-ref", "http://keys/v1/secrets/x");
    let error = scene.refused("web").await;
    // The author of the annotation knows no catalogue.
    for part in ["key-manager", "default-tls-container-ref", "http://keys/v1/secrets/x", "container-store"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

// The traffic policy Local must not lose connections
#[tokio::test(start_paused = true)]
async fn with_traffic_policy_local_nodes_are_asked_for_their_pods() {
    let mut scene = Scene::new();
    let mut service = serde_json::to_value(&scene.services["web"]).unwrap();
    service["spec"]["externalTrafficPolicy"] = json!("Local");
    service["spec"]["healthCheckNodePort"] = json!(32000);
    *scene.service("web") = serde_json::from_value(service).unwrap();
    scene.ensure("web").await;
    let pool = scene.balancer()["pools"][0].clone();
    let monitor = &pool["healthmonitor"];
    assert_eq!((&monitor["type"], &monitor["url_path"]), (&json!("HTTP"), &json!("/healthz")), "{pool:#}");
    assert_eq!(pool["members"][0]["monitor_port"], 32000);
    scene.annotate("web", "enable-health-monitor", "false");
    scene.ensure("web").await;
    let pool = scene.balancer()["pools"][0].clone();
    assert_eq!((&pool["healthmonitor"], &pool["members"][0]["monitor_port"]), (&Value::Null, &Value::Null), "{pool:#}");
}

#[tokio::test(start_paused = true)]
async fn only_nodes_with_the_labels_are_members_and_each_once() {
    let mut scene = Scene::new();
    scene.conf("node-selector = pool=web");
    let mut node = serde_json::to_value(json!({
        "metadata": {"name": "worker-2", "uid": uid("worker-2"), "labels": {"pool": "web"}},
        "spec": {"providerID": &*scene.nodes[1].provider_id},
        "status": {"addresses": [{"type": "InternalIP", "address": &*scene.nodes[1].addresses[0].address}]},
    }))
    .unwrap();
    scene.nodes[1] = std::sync::Arc::new(serde_json::from_value(node.take()).unwrap());
    scene.ensure("web").await;
    let members = scene.balancer()["pools"][0]["members"].clone();
    assert_eq!((members.as_array().unwrap().len(), &members[0]["name"]), (1, &json!("worker-2")));
    scene.annotate("web", "node-selector", "");
    scene.ensure("web").await;
    assert_eq!(scene.balancer()["pools"][0]["members"].as_array().unwrap().len(), 2);
}
