//! Events about a Service's settings, and validation of references.

use openstack_fake::{Fault, Options};
use serde_json::{Value, json};

use crate::balancers::scene::{Scene, uid};

fn count(events: &[String], reason: &str) -> usize {
    events.iter().filter(|event| event.contains(reason)).count()
}

fn ranges(scene: &mut Scene, range: &str) {
    scene
        .service("web")
        .spec
        .as_mut()
        .unwrap()
        .load_balancer_source_ranges = Some(vec![range.into()]);
}

#[tokio::test(start_paused = true)]
async fn source_ranges_that_have_no_effect_are_told_once() {
    for (conf, octavia, restricted, told) in [
        ("lb-provider = ovn\nlb-method = SOURCE_IP_PORT", 27, true, 1),
        (
            "lb-provider = ovn\nlb-method = SOURCE_IP_PORT",
            27,
            false,
            0,
        ),
        ("lb-provider = amphora", 11, true, 1),
        ("lb-provider = amphora", 27, true, 0),
    ] {
        let mut scene = Scene::with(Options {
            octavia,
            ..Options::default()
        });
        scene.conf(conf);
        if restricted {
            ranges(&mut scene, "203.0.113.0/24");
        }
        scene.ensure("web").await;
        scene.ensure("web").await;
        let events = scene.events();
        assert_eq!(
            count(&events, "LoadBalancerSourceRangesIgnored"),
            told,
            "{conf} {octavia}: {events:?}"
        );
        // A restart reports nothing new.
        scene.start().await;
        scene.ensure("web").await;
        assert_eq!(count(&scene.events(), "LoadBalancerSourceRangesIgnored"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_availability_zone_that_octavia_does_not_know_is_told_and_not_sent() {
    for (octavia, told) in [(13, 1), (14, 0)] {
        let mut scene = Scene::with(Options {
            octavia,
            ..Options::default()
        });
        scene.conf("availability-zone = az1");
        let made = scene.try_ensure("web").await;
        assert_eq!(
            count(&scene.events(), "LoadBalancerAvailabilityZonesIgnored"),
            told,
            "{made:?}"
        );
        let sent = scene.fake.bodies("POST /lbaas/loadbalancers")[0]["loadbalancer"]
            .get("availability_zone")
            .cloned();
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
        (
            count(&events, "LoadBalancerLbMethodUnknown"),
            count(&events, "QuestionableAnnotation")
        ),
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
            (
                &listener["protocol"],
                &listener["default_tls_container_ref"]
            ),
            (&json!("TERMINATED_HTTPS"), &json!(reference))
        );
    }
    let table = [
        (
            "http://keys/v1/secrets/none",
            "Barbican has no \"http://keys/v1/secrets/none\"",
        ),
        (
            "http://keys/v1/orders/x",
            "does not end in /containers/<id> or /secrets/<id>",
        ),
        ("x", "does not end in"),
    ];
    for (reference, text) in table {
        scene.annotate("web", "default-tls-container-ref", reference);
        let error = scene.refused("web").await;
        assert!(
            error.is_invalid() && error.to_string().contains(text),
            "{error}"
        );
    }
    scene.conf("container-store = external");
    scene.annotate("web", "default-tls-container-ref", "http://vault/x");
    scene.start().await;
    // Octavia itself does not find it.
    let error = scene.refused("web").await;
    assert!(
        error.to_string().starts_with("PUT /lbaas/listeners/"),
        "{error}"
    );
    assert_eq!(scene.fake.count("GET /secrets/{id}"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tls_reference_needs_a_key_manager() {
    let mut scene = Scene::with(Options {
        barbican: false,
        ..Options::default()
    });
    scene.annotate(
        "web",
        "default-tls-container-ref",
        "http://keys/v1/secrets/x",
    );
    let error = scene.refused("web").await;
    // The author of the annotation knows no catalogue.
    for part in [
        "key-manager",
        "default-tls-container-ref",
        "http://keys/v1/secrets/x",
        "container-store",
    ] {
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
    assert_eq!(
        (&monitor["type"], &monitor["url_path"]),
        (&json!("HTTP"), &json!("/healthz")),
        "{pool:#}"
    );
    assert_eq!(pool["members"][0]["monitor_port"], 32000);
    scene.annotate("web", "enable-health-monitor", "false");
    scene.ensure("web").await;
    let pool = scene.balancer()["pools"][0].clone();
    assert_eq!(
        (&pool["healthmonitor"], &pool["members"][0]["monitor_port"]),
        (&Value::Null, &Value::Null),
        "{pool:#}"
    );
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
    assert_eq!(
        (members.as_array().unwrap().len(), &members[0]["name"]),
        (1, &json!("worker-2"))
    );
    scene.annotate("web", "node-selector", "");
    scene.ensure("web").await;
    assert_eq!(
        scene.balancer()["pools"][0]["members"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

/// Replaces the ports of the Service by one of TCP and one of UDP.
fn two_protocols(scene: &mut Scene) {
    scene.ports(
        "web",
        json!([
            {"name": "tcp", "port": 53, "nodePort": 30053, "protocol": "TCP"},
            {"name": "udp", "port": 53, "nodePort": 30054, "protocol": "UDP"},
        ]),
    );
}

#[tokio::test(start_paused = true)]
async fn only_tcp_ports_of_a_service_get_the_proxy_protocol() {
    for serial in [false, true] {
        let mut scene = Scene::new();
        scene.conf(&format!("provider-requires-serial-api-calls = {serial}"));
        scene.annotate("web", "proxy-protocol", "v2");
        two_protocols(&mut scene);
        scene.ensure("web").await;
        let balancer = scene.balancer();
        let mut protocols: Vec<_> = balancer["pools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pool| pool["protocol"].clone())
            .collect();
        protocols.sort_by_key(Value::to_string);
        assert_eq!(protocols, [json!("PROXYV2"), json!("UDP")]);
        let events = scene.events();
        let told = "proxy-protocol has no effect on port 53/UDP: it needs TCP";
        assert!(
            events
                .iter()
                .any(|event| event.contains("QuestionableAnnotation") && event.contains(told)),
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_of_octavia_that_stays_is_no_conflict() {
    let mut scene = Scene::new();
    let text = "The pool protocol 'PROXY' is invalid while the listener protocol is 'UDP'.";
    scene
        .fake
        .fail(Fault::refused_as("POST /lbaas/loadbalancers", 409, "", text).times(99));
    let error = scene.refused("web").await;
    assert!(
        error.is_invalid() && error.to_string().contains(text),
        "{error}"
    );
    assert_eq!(
        scene.fake.count("POST /lbaas/loadbalancers"),
        1,
        "it is not tried again at once"
    );
}

#[tokio::test(start_paused = true)]
async fn internal_annotation_that_is_neither_true_nor_false_creates_no_public_load_balancer() {
    const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
    for value in ["True", "yes", "1", "internal"] {
        let mut scene = Scene::new();
        scene.annotate("web", INTERNAL, value);
        let error = scene.refused("web").await;
        assert!(
            error.is_invalid()
                && error
                    .to_string()
                    .contains(&format!("{INTERNAL}: {value:?}")),
            "{error}"
        );
        assert!(
            scene.changes().is_empty() && scene.fake.load_balancers().is_empty(),
            "{value}"
        );
    }
    // One that the Go program created keeps its members.
    let mut scene = Scene::new();
    scene.ensure("web").await;
    scene.annotate("web", INTERNAL, "yes");
    scene.add_node("worker-3");
    scene.update("web").await;
    assert_eq!(
        scene.balancer()["pools"][0]["members"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn settings_that_have_no_effect_beside_others_are_told() {
    const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
    let mut scene = Scene::new();
    scene.annotate("web", INTERNAL, "true");
    scene.annotate("web", "floating-subnet", "public-*");
    scene.annotate("web", "health-monitor-delay", "9");
    scene.ensure("web").await;
    let events = scene.events();
    for told in [
        "floating-subnet has no effect: an internal load balancer has no floating IP",
        "health-monitor-delay has no effect: health monitors are off",
    ] {
        assert_eq!(count(&events, told), 1, "{events:?}");
    }
    scene.annotate("web", "enable-health-monitor", "true");
    scene.start().await;
    scene.ensure("web").await;
    assert_eq!(count(&scene.events(), "health monitors are off"), 0);
}

#[tokio::test(start_paused = true)]
async fn settings_of_the_creation_that_change_later_are_told() {
    let mut scene = Scene::new();
    let address = scene.ensure("web").await.remove(0);
    assert_eq!(count(&scene.events(), "has no effect"), 0);
    scene.service("web").spec.as_mut().unwrap().load_balancer_ip = Some("172.24.9.9".into());
    let other = scene.fake.add_network("other", "10.7.0.0/16").subnet;
    scene.annotate("web", "subnet-id", &other);
    assert_eq!(scene.ensure("web").await, std::slice::from_ref(&address));
    let events = scene.events();
    for told in [
        "spec.loadBalancerIP: \"172.24.9.9\" has no effect".to_owned(),
        format!("subnet-id: {other:?} has no effect"),
    ] {
        assert_eq!(count(&events, &told), 1, "{events:?}");
    }
    assert!(
        events
            .iter()
            .any(|event| event.contains(&format!("has {address:?}"))),
        "{events:?}"
    );
    scene.ensure("web").await;
    assert!(scene.events().is_empty(), "once");
}
